"""A budget trims and never skips: parts of the best before worse pieces; headings are paid for."""

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import Passage
from denoise_core.end import ENDDenoiser
from denoise_core.end.selection import ScoreCalibration, TokenLimit
from denoise_core.testing import FunctionScorer, check_denoiser

LONG = (
    "The market has many stalls. Fruit is sold there daily. "
    "The hall was built by Emil Brandt in 1903. Visitors come in summer."
)
NOISE = [
    Passage("Bananas are rich in potassium.", "b"),
    Passage("Paris has many bakeries.", "c"),
]


def words(text):
    return len(text.split())


def overlap(query, text):
    wanted = set(query.lower().split())
    return float(len(wanted & set(text.lower().replace(".", "").split())))


class Scaled(FunctionScorer):
    """Overlap with a known margin."""

    scale = ScoreCalibration({0.1: 0.5}, None, 99.0, 10)


def denoised(limit, passages, scorer=None, **settings):
    made = scorer or FunctionScorer(overlap)
    denoiser = ENDDenoiser(
        made, keep=TokenLimit(limit, words), chunker="auto", **settings
    )
    return denoiser.denoise("who built the hall in 1903", passages)


def test_the_best_is_cut_at_its_sentences_and_no_rubbish_fills_the_rest():
    result = denoised(12, [Passage(LONG, "a"), *NOISE])
    assert [p.text.strip() for p in result.passages] == [
        "The hall was built by Emil Brandt in 1903."
    ]
    assert result.note is None
    assert all(d.score is not None for d in result.dropped)


def test_what_lies_within_the_margin_may_fill_the_rest_and_no_other():
    near = Passage("Who built the hall in 1903 nobody knows.", "n")
    passages = [
        Passage(
            LONG.replace(
                "The hall was built", "Who built the hall in 1903: it was built"
            ),
            "a",
        ),
        near,
    ]
    result = denoised(22, [*passages, *NOISE], Scaled(overlap))
    assert [p.id for p in result.passages] == ["a", "n"]
    assert not {"b", "c"} & {p.id for p in result.passages}


def test_what_cannot_be_cut_is_named():
    table = "\n".join(
        [
            "name,what,year",
            *(f"hall {n} built in 1903,{'word ' * 30},{n}" for n in range(4)),
        ]
    )
    result = denoised(12, [Passage(table, "t")], min_keep=0)
    assert result.passages == ()
    assert "too long for 12 tokens and not to be cut, left out: t [15:" in result.note
    over = denoised(12, [Passage(table, "t")])
    assert "kept over the budget" in over.note


def test_headings_that_come_along_are_paid_for():
    text = "Welcome.\n\n# A heading of six words here\n\nThe hall was built in 1903.\n\nWho built it in 1903?"
    for limit in (8, 14, 20):
        result = denoised(limit, [Passage(text, "a")], min_keep=0)
        assert sum(words(p.text) for p in result.passages) <= limit


def test_a_heading_gives_way_to_a_piece_and_the_note_says_so():
    text = "Welcome.\n\n# A heading of many words\n\nThe hall was built in 1903.\n\nWho built it in 1903?"
    result = denoised(11, [Passage(text, "a")])
    assert (
        "".join(p.text for p in result.passages).split()
        == text.split("\n\n", 2)[2].split()
    )
    assert "1 headings or header rows gave way" in result.note
    whole = denoised(100, [Passage(text, "a")])
    assert "# A heading" in whole.passages[0].text
    assert whole.note is None


@given(
    st.lists(st.text(alphabet="ab. \n#", max_size=60), max_size=4), st.integers(1, 40)
)
def test_a_budget_holds_whatever_the_text_and_its_laws_too(texts, limit):
    passages = [Passage(t, str(n)) for n, t in enumerate(texts)]
    scorer = FunctionScorer(lambda q, t: float(len(t) % 5))
    result = ENDDenoiser(
        scorer, keep=TokenLimit(limit, len), chunker="auto", min_keep=0
    ).denoise("q", passages)
    assert sum(len(p.text.strip()) for p in result.passages) <= limit
    check_denoiser(
        lambda: ENDDenoiser(scorer, keep=TokenLimit(limit, len), chunker="auto"),
        "q",
        passages,
    )


class Awaited(FunctionScorer):
    """The same scores from afar."""

    async def ascore(self, query, texts):
        return np.asarray(self.score(query, texts))


def test_sync_and_async_trim_alike():
    passages = [Passage(LONG, "a"), *NOISE]
    here = ENDDenoiser(
        FunctionScorer(overlap), keep=TokenLimit(12, words), chunker="auto"
    )
    afar = ENDDenoiser(Awaited(overlap), keep=TokenLimit(12, words), chunker="auto")
    one = here.denoise("who built the hall in 1903", passages)
    two = asyncio.run(afar.adenoise("who built the hall in 1903", passages))
    assert one.passages == two.passages
    assert one.dropped == two.dropped


@pytest.mark.parametrize("most", [1, 2])
def test_max_keep_holds_with_a_budget(most):
    result = denoised(500, [Passage(LONG, "a"), *NOISE], max_keep=most)
    assert len(result.passages) == most
    assert result.passages[0].id == "a"
