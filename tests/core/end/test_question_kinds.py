"""The kind of a question decides how much is kept, and never drops more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import Passage
from denoise_core.end import ENDDenoiser
from denoise_core.end.question_kinds import DOCUMENT_RULES
from denoise_core.end.selection import ScoreCalibration
from denoise_core.testing import FunctionScorer, check_denoiser

KINDS = ("lookup", "list", "compare", "summary", "two_step")


class KindScorer(FunctionScorer):
    """Scores are the numbers that the texts begin with; the query is its own kind."""

    scale = ScoreCalibration({0.1: 1.0}, floor=None, top_score=99.0, questions=300)

    def __init__(self):
        super().__init__(lambda query, text: float(text.split()[0]))

    def question_kind(self, query):
        return query


def make_passages(scores_by_document, padding=""):
    passages = []
    for name, scores in scores_by_document.items():
        source = {"source": f"{name}.md"}
        for number, score in enumerate(scores):
            text = f"{score} {padding}"
            passages.append(Passage(text, f"{name}{number}", metadata=source))
    return passages


def keep_passages(kind, passages, **settings):
    result = ENDDenoiser(KindScorer(), keep="auto", **settings).denoise(kind, passages)
    return {passage.id for passage in result.passages}, result.note or ""


@pytest.mark.parametrize("kind", KINDS)
@given(
    st.lists(
        st.lists(st.floats(-9, 9, width=16), min_size=1, max_size=6),
        min_size=1,
        max_size=5,
    )
)
def test_no_kind_drops_what_a_lookup_keeps(kind, scores):
    passages = make_passages({f"d{i}-": column for i, column in enumerate(scores)})
    lookup_ids, _ = keep_passages("lookup", passages)
    kept_ids, _ = keep_passages(kind, passages)
    assert lookup_ids <= kept_ids


@pytest.mark.parametrize("kind", KINDS)
def test_the_laws_of_denoisers_hold_for_each_kind(kind):
    passages = make_passages({"a": [3, 1, -5], "b": [2, 0], "c": [-7]})
    check_denoiser(lambda: ENDDenoiser(KindScorer(), keep="auto"), kind, passages)


@pytest.mark.parametrize("kind", ["summary", "list"])
def test_the_best_document_is_kept_whole_and_the_note_says_so(kind):
    passages = make_passages({"a": [5, 4, 4, -9, -9], "b": [3, -9, -9]})
    assert "a3" not in keep_passages("lookup", passages)[0]
    kept_ids, note = keep_passages(kind, passages)
    assert {"a0", "a1", "a2", "a3", "a4"} <= kept_ids
    assert "b1" not in kept_ids
    assert "1 kept whole" in note


def test_a_document_almost_as_good_is_kept_too():
    passages = make_passages({"a": [5, 4, 4, -9], "b": [4.9, 4, 3.8, -9]})
    assert {"a3", "b3"} <= keep_passages("summary", passages)[0]


@pytest.mark.parametrize(
    ("scores", "padding"),
    [([9, 5, 4, 3, -9], ""), ([5, 4, 4, -9, -9], "x" * 600)],
    ids=["pieces far apart", "prose in paragraphs"],
)
def test_what_is_no_list_needs_no_more_than_the_margin(scores, padding):
    passages = make_passages({"a": scores}, padding)
    lookup_ids, _ = keep_passages("lookup", passages)
    assert keep_passages("list", passages) == (lookup_ids, "")
    assert keep_passages("summary", passages)[0] > lookup_ids


@pytest.mark.parametrize("kind", ["summary", "list"])
def test_of_a_long_document_the_best_pieces_are_kept(kind):
    max_characters = DOCUMENT_RULES[kind].max_characters
    scores = [float(score) for score in range(5, -95, -1)]
    scores[1:3] = [5.0, 5.0]
    passages = make_passages({"a": scores}, padding="x" * 200)
    kept_ids, note = keep_passages(kind, passages)
    assert kept_ids == {f"a{i}" for i in range(len(kept_ids))}
    kept_length = sum(len(p.text) for p in passages if p.id in kept_ids)
    assert max_characters - 210 < kept_length <= max_characters
    assert f"1 up to {max_characters:,} characters" in note


@pytest.mark.parametrize("kind", ["compare", "two_step"])
def test_the_best_piece_of_every_document_with_several_is_kept(kind):
    passages = make_passages({"a": [5, 4, 4], "b": [-9, -3], "c": [-8]})
    kept_ids, note = keep_passages(kind, passages)
    assert "b1" in kept_ids
    assert not {"b0", "c0"} & kept_ids
    assert "the best piece of every document" in note


def test_a_lookup_and_a_limit_change_nothing():
    passages = make_passages({"a": [5, 4.5, 4.5, -9, -9], "b": [-3, -4]})
    kept_ids, note = keep_passages("lookup", passages)
    assert kept_ids == {"a0", "a1", "a2"}
    assert not note
    assert keep_passages("summary", passages, max_keep=3)[0] == kept_ids
    share_only = ENDDenoiser(KindScorer(), keep=0.4).denoise("summary", passages)
    assert len(share_only.passages) == 3


@pytest.mark.parametrize("kind", ["compare", "two_step"])
@pytest.mark.parametrize(
    "passages",
    [
        make_passages({"a": [5], "b": [-9], "c": [-8]}),
        # A source that is no file makes each passage a document by itself.
        [
            Passage(str(score), str(number), metadata={"source": "wiki"})
            for number, score in enumerate([5, 4, 4, -9, -8])
        ],
    ],
    ids=["documents of one piece", "no documents"],
)
def test_no_note_claims_what_was_not_done(kind, passages):
    assert keep_passages(kind, passages) == keep_passages("lookup", passages)
