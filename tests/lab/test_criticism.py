"""How one usually declines to answer, as LLM-Augmenter's self-criticism reads it before it asks."""

import pytest

from denoise_lab.criticism import abstains


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I do not have any information about that.", True),
        ("The passages do not mention his age.", True),
        ("There is not enough information to answer.", True),
        ("It cannot be determined from the evidence [1].", True),
        ("n/a", True),
        ("He does not know Paris.", False),
        ("He is unknown abroad.", False),
        ("1928", False),
        ("", False),
        (
            "The club was founded in 1928. The record does not state who founded it.",
            False,
        ),
    ],
)
def test_how_one_usually_declines_is_a_hint(text, expected):
    assert abstains(text) is expected
