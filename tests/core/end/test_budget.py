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


def words(input_text):
    return len(input_text.split())


def overlap(asked_query, input_text):
    reference = set(asked_query.lower().split())
    return float(len(reference & set(input_text.lower().replace(".", "").split())))


class Scaled(FunctionScorer):
    """Overlap with a known margin."""

    scale = ScoreCalibration({0.1: 0.5}, None, 99.0, 10)


def denoised(token_limit, input_passages, text_scorer=None, **reader_settings):
    budget_scorer = text_scorer or FunctionScorer(overlap)
    end_denoiser = ENDDenoiser(
        budget_scorer,
        keep=TokenLimit(token_limit, words),
        chunker="auto",
        **reader_settings,
    )
    return end_denoiser.denoise("who built the hall in 1903", input_passages)


def test_the_best_is_cut_at_its_sentences_and_no_rubbish_fills_the_rest():
    denoise_result = denoised(12, [Passage(LONG, "a"), *NOISE])
    assert [passage.text.strip() for passage in denoise_result.passages] == [
        "The hall was built by Emil Brandt in 1903."
    ]
    assert denoise_result.note is None
    assert all(
        dropped_span.score is not None for dropped_span in denoise_result.dropped
    )


def test_what_lies_within_the_margin_may_fill_the_rest_and_no_other():
    near = Passage("Who built the hall in 1903 nobody knows.", "n")
    input_passages = [
        Passage(
            LONG.replace(
                "The hall was built", "Who built the hall in 1903: it was built"
            ),
            "a",
        ),
        near,
    ]
    denoise_result = denoised(22, [*input_passages, *NOISE], Scaled(overlap))
    assert [passage.id for passage in denoise_result.passages] == ["a", "n"]
    assert not {"b", "c"} & {passage.id for passage in denoise_result.passages}


def test_what_cannot_be_cut_is_named():
    table = "\n".join(
        [
            "name,what,year",
            *(
                f"hall {number} built in 1903,{'word ' * 30},{number}"
                for number in range(4)
            ),
        ]
    )
    denoise_result = denoised(12, [Passage(table, "t")], min_keep=0)
    assert denoise_result.passages == ()
    assert (
        "too long for 12 tokens and not to be cut, left out: t [15:"
        in denoise_result.note
    )
    over = denoised(12, [Passage(table, "t")])
    assert "kept over the budget" in over.note


def test_headings_that_come_along_are_paid_for():
    heading = "Welcome.\n\n# A heading of six words here\n\n"
    input_text = heading + "The hall was built in 1903.\n\nWho built it in 1903?"
    for token_limit in (8, 14, 20):
        denoise_result = denoised(token_limit, [Passage(input_text, "a")], min_keep=0)
        assert (
            sum(words(passage.text) for passage in denoise_result.passages)
            <= token_limit
        )


def test_a_heading_gives_way_to_a_piece_and_the_note_says_so():
    input_text = "Welcome.\n\n# A heading of many words\n\nThe hall was built in 1903.\n\nWho built it in 1903?"
    denoise_result = denoised(11, [Passage(input_text, "a")])
    assert (
        "".join(passage.text for passage in denoise_result.passages).split()
        == input_text.split("\n\n", 2)[2].split()
    )
    assert "1 headings or header rows gave way" in denoise_result.note
    roomy_result = denoised(100, [Passage(input_text, "a")])
    assert "# A heading" in roomy_result.passages[0].text
    assert roomy_result.note is None


@given(
    st.lists(st.text(alphabet="ab. \n#", max_size=60), max_size=4), st.integers(1, 40)
)
def test_a_budget_holds_whatever_the_text_and_its_laws_too(input_texts, token_limit):
    input_passages = [Passage(t, str(number)) for number, t in enumerate(input_texts)]
    text_scorer = FunctionScorer(lambda q, t: float(len(t) % 5))
    denoise_result = ENDDenoiser(
        text_scorer, keep=TokenLimit(token_limit, len), chunker="auto", min_keep=0
    ).denoise("q", input_passages)
    assert (
        sum(len(passage.text.strip()) for passage in denoise_result.passages)
        <= token_limit
    )
    check_denoiser(
        lambda: ENDDenoiser(
            text_scorer, keep=TokenLimit(token_limit, len), chunker="auto"
        ),
        "q",
        input_passages,
    )


class Awaited(FunctionScorer):
    """The same scores from afar."""

    async def ascore(self, asked_query, input_texts):
        return np.asarray(self.score(asked_query, input_texts))


def test_sync_and_async_trim_alike():
    input_passages = [Passage(LONG, "a"), *NOISE]
    here = ENDDenoiser(
        FunctionScorer(overlap), keep=TokenLimit(12, words), chunker="auto"
    )
    afar = ENDDenoiser(Awaited(overlap), keep=TokenLimit(12, words), chunker="auto")
    one = here.denoise("who built the hall in 1903", input_passages)
    two = asyncio.run(afar.adenoise("who built the hall in 1903", input_passages))
    assert one.passages == two.passages
    assert one.dropped == two.dropped


@pytest.mark.parametrize("most", [1, 2])
def test_max_keep_holds_with_a_budget(most):
    denoise_result = denoised(500, [Passage(LONG, "a"), *NOISE], max_keep=most)
    assert len(denoise_result.passages) == most
    assert denoise_result.passages[0].id == "a"


@pytest.mark.parametrize("token_limit", [4, 8, 12, 20, 40])
def test_the_header_of_a_passage_counts_once(token_limit):
    header = "file_name: halls.md author: Ada"  # four words
    input_passages = [Passage(LONG, "a", header=header)]
    input_passages += [Passage(p.text, p.id, header=header) for p in NOISE]
    denoise_result = denoised(token_limit, input_passages, min_keep=0)
    shown_words = [words(p.text_with_header) for p in denoise_result.passages]
    assert sum(shown_words) <= token_limit
    kept_text = "".join(p.text for p in denoise_result.passages)
    assert ("1903" in kept_text) is (token_limit > 12)
    if token_limit == 40:
        assert LONG in kept_text


def test_a_header_longer_than_the_budget_is_said():
    passage = Passage("The hall was built in 1903.", "a", header="word " * 20)
    denoise_result = denoised(10, [passage, *NOISE])
    assert "1 too long for 10 tokens" in denoise_result.note
