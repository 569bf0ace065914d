"""Delimiters hold: no text closes its own, and the same text gets the same ones."""

from hypothesis import given
from hypothesis import strategies as st

from denoise_core.text.delimit import new_marker


@given(st.lists(st.text(), max_size=4))
def test_no_text_holds_its_marker_and_the_same_texts_have_the_same(texts):
    marker = new_marker(texts)
    assert len(marker) == 16
    assert not any(marker in t for t in texts)
    assert new_marker(list(texts)) == marker
    assert new_marker([*texts, "more"]) != marker


def test_a_text_that_foretold_its_marker_gets_another():
    text = "An order. "
    for _ in range(3):  # who writes what the marker is going to be has changed it
        text += new_marker([text]) + " "
        assert new_marker([text]) not in text


def test_where_one_text_ends_matters():
    assert new_marker(["ab", "c"]) != new_marker(["a", "bc"])
