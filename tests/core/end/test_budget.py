"""A budget trims and never skips: parts of the best before worse pieces; headings are paid for."""

from dataclasses import replace

import numpy as np
import pytest
from growing_texts import passages_of
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import Passage, Span
from denoise_core.end import ENDDenoiser
from denoise_core.end.budget import FilledBudget
from denoise_core.end.denoiser import ScoringRecord, _build_result
from denoise_core.end.selection import (
    ScoreCalibration,
    ScoredChunks,
    Selection,
    TokenLimit,
)
from denoise_core.testing import FunctionScorer, check_denoiser

LONG = (
    "The market has many stalls. Fruit is sold there daily. "
    "The hall was built by Emil Brandt in 1903. Visitors come in summer."
)
NOISE = [
    Passage("Bananas are rich in potassium.", "b"),
    Passage("Paris has many bakeries.", "c"),
]
PASSAGES = [Passage(LONG, "a"), *NOISE]
QUESTION = "who built the hall in 1903"


def words(input_text):
    return len(input_text.split())


def overlap(asked_query, input_text):
    reference = set(asked_query.lower().split())
    return float(len(reference & set(input_text.lower().replace(".", "").split())))


class Scaled(FunctionScorer):
    """Overlap with a known margin."""

    scale = ScoreCalibration({0.1: 0.5}, None, 99.0, 10)


def denoised(token_limit, passages, scorer=None, **settings):
    rule = TokenLimit(token_limit, words)
    denoiser = ENDDenoiser(
        scorer or FunctionScorer(overlap), keep=rule, chunker="auto", **settings
    )
    return denoiser.denoise(QUESTION, passages)


def test_the_best_is_cut_at_its_sentences_and_no_rubbish_fills_the_rest():
    result = denoised(12, PASSAGES)
    (kept,) = result.passages
    assert kept.text.strip() == "The hall was built by Emil Brandt in 1903."
    assert result.note is None
    assert all(drop.score is not None for drop in result.dropped)


def test_what_lies_within_the_margin_may_fill_the_rest_and_no_other():
    best = LONG.replace("The hall was", "Who built the hall in 1903: it was")
    near = Passage("Who built the hall in 1903 nobody knows.", "n")
    result = denoised(22, [Passage(best, "a"), near, *NOISE], Scaled(overlap))
    assert [passage.id for passage in result.passages] == ["a", "n"]


def test_what_cannot_be_cut_is_named():
    rows = [f"hall {n} built in 1903,{'word ' * 30},{n}" for n in range(4)]
    table = [Passage("\n".join(["name,what,year", *rows]), "t")]
    result = denoised(12, table, min_keep=0)
    assert result.passages == ()
    assert "too long for 12 tokens and not to be cut, left out: t [15:" in result.note
    assert "kept over the budget" in denoised(12, table).note


def test_a_heading_gives_way_to_a_piece_and_the_note_says_so():
    pieces = "The hall was built in 1903.\n\nWho built it in 1903?"
    passages = [Passage(f"Welcome.\n\n# A heading of many words\n\n{pieces}", "a")]
    result = denoised(11, passages)
    kept_text = "".join(passage.text for passage in result.passages)
    assert kept_text.split() == pieces.split()
    assert "1 headings or header rows gave way" in result.note
    roomy_result = denoised(100, passages)
    assert "# A heading" in roomy_result.passages[0].text
    assert roomy_result.note is None


@pytest.mark.parametrize(
    ("keep", "scores", "kept"),
    [
        (TokenLimit(115), [1, 2, 3], [1, 2]),
        # The best, for min_keep; not two worse ones.
        (TokenLimit(20), [1, 3, 2], [1]),
        (TokenLimit(2, count=lambda text: int(text != "")), [1, 3, 2], [1, 2]),
        # min_keep goes before the budget.
        (TokenLimit(1), [1, 3, 2], [1]),
    ],
)
def test_a_budget_never_takes_worse_ones_for_what_does_not_fit(keep, scores, kept):
    texts = ["a" * 40, "b" * 400, "c" * 40]
    score_of_text = dict(zip(texts, scores, strict=True))
    scorer = FunctionScorer(lambda query, text: score_of_text[text])
    result = ENDDenoiser(scorer, keep=keep).denoise("q", passages_of(texts))
    assert [int(passage.id) for passage in result.passages] == kept


@given(
    st.lists(st.text(alphabet="ab. \n#", max_size=60), max_size=4), st.integers(1, 40)
)
def test_a_budget_holds_whatever_the_text_and_its_laws_too(texts, token_limit):
    passages = passages_of(texts)
    scorer = FunctionScorer(lambda query, text: float(len(text) % 5))

    def make(**settings):
        keep = TokenLimit(token_limit, len)
        return ENDDenoiser(scorer, keep=keep, chunker="auto", **settings)

    kept = make(min_keep=0).denoise("q", passages).passages
    assert sum(len(passage.text.strip()) for passage in kept) <= token_limit
    check_denoiser(make, "q", passages)


def test_sync_and_async_trim_alike():
    class Awaited(FunctionScorer):
        async def ascore(self, query, texts):
            return self.score(query, texts)

    afar = ENDDenoiser(Awaited(overlap), keep=TokenLimit(12, words), chunker="auto")
    check_denoiser(lambda: afar, QUESTION, PASSAGES)


@pytest.mark.parametrize("most", [1, 2])
def test_max_keep_holds_with_a_budget(most):
    denoise_result = denoised(500, PASSAGES, max_keep=most)
    assert len(denoise_result.passages) == most
    assert denoise_result.passages[0].id == "a"


@pytest.mark.parametrize("token_limit", [4, 8, 12, 20, 40])
def test_the_header_of_a_passage_counts_once(token_limit):
    header = "file_name: halls.md author: Ada"  # four words
    input_passages = [replace(passage, header=header) for passage in PASSAGES]
    denoise_result = denoised(token_limit, input_passages, min_keep=0)
    shown_words = [words(p.text_with_header) for p in denoise_result.passages]
    assert sum(shown_words) <= token_limit
    kept_text = "".join(p.text for p in denoise_result.passages)
    assert ("1903" in kept_text) is (token_limit > 12)
    if token_limit == 40:
        assert LONG in kept_text


def test_a_header_longer_than_the_budget_is_said():
    passage = Passage("The hall was built in 1903.", "a", header="word " * 20)
    assert "1 too long for 10 tokens" in denoised(10, [passage, *NOISE]).note


def test_a_kept_chunk_stays_though_it_is_another_ones_evicted_header():
    passage = Passage("Who built it? Brandt.", "a")
    chunks = ScoredChunks(None, {"a": passage})
    question, answer = Span("a", 0, 14), Span("a", 14, 21)
    for span in (question, answer):
        chunks.add(span, "", chunks.raw_text(span))
    selection = Selection(
        chunks.spans,
        np.float32([1, 2]),
        np.array([True, True]),
        ["", ""],
        evicted_headers=frozenset({question}),
    )
    record = ScoringRecord("q", tuple(chunks.spans))
    (kept,) = _build_result(chunks, selection, record, None, 0.0).passages
    assert kept.text == passage.text


def test_headers_are_counted_anew_only_for_a_new_header(monkeypatch):
    """Counted for each row, 24,000 rows took half a minute."""
    header_counts = []
    count_headers = FilledBudget._context_tokens

    def count_noted(budget, headers, passage_ids):
        header_counts.append(len(headers))
        return count_headers(budget, headers, passage_ids)

    monkeypatch.setattr(FilledBudget, "_context_tokens", count_noted)
    rows = "".join(f"{number},Bergen\n" for number in range(200))
    rule = TokenLimit(150, words, drop_headers_first=False)
    denoiser = ENDDenoiser(FunctionScorer(overlap), keep=rule, chunker="auto")
    kept = denoiser.denoise(QUESTION, passages_of([f"id,place\n{rows}"])).passages
    assert len(kept[0].text.splitlines()) > 100
    assert len(header_counts) < 10
