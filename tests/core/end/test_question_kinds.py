"""The kind of a question decides how much is kept, and never drops more."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import Passage
from denoise_core.end import ENDDenoiser
from denoise_core.end.question_kinds import DOCUMENT_RULES
from denoise_core.end.selection import (
    DOCUMENT_FACTOR,
    DOCUMENT_PENALTY,
    ScoreCalibration,
    score_distances,
)
from denoise_core.testing import FunctionScorer, check_denoiser
from denoise_core.types import Span

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
    denoiser = ENDDenoiser(KindScorer(), keep="auto", **settings)
    result = check_denoiser(lambda: denoiser, kind, passages)
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


@pytest.mark.parametrize("kind", ["summary", "list"])
def test_the_best_document_is_kept_whole_and_the_note_says_so(kind):
    passages = make_passages({"a": [5, 4, 4, -9, -9], "b": [3, -9, -9]})
    assert "a3" not in keep_passages("lookup", passages)[0]
    kept_ids, note = keep_passages(kind, passages)
    assert {"a0", "a1", "a2", "a3", "a4"} <= kept_ids
    assert "b1" not in kept_ids
    assert "the documents that fit best are kept (1)" in note


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
    scores = [5, 5, 5, *range(2, -95, -1)]
    passages = make_passages({"a": scores}, padding="x" * 200)
    kept_ids, note = keep_passages(kind, passages)
    assert kept_ids == {f"a{i}" for i in range(len(kept_ids))}
    kept_length = sum(len(p.text) for p in passages if p.id in kept_ids)
    assert max_characters - 210 < kept_length <= max_characters
    assert f"up to {max_characters:,} characters" in note


def test_two_steps_keep_the_best_piece_of_every_document_with_several():
    passages = make_passages({"a": [5, 4, 4], "b": [-9, -3], "c": [-8]})
    kept_ids, note = keep_passages("two_step", passages)
    assert "b1" in kept_ids
    assert not {"b0", "c0"} & kept_ids
    assert "the best piece of every document" in note
    alone = make_passages({"a": [5], "b": [-9], "c": [-8]})
    assert keep_passages("two_step", alone) == keep_passages("lookup", alone)


FILE_SCALE = ScoreCalibration({0.06: 1.0, 0.1: 1.0}, None, 99.0, 300)


class FileScorer(KindScorer):
    """`KindScorer` with a calibration for pieces of files."""

    scale = replace(KindScorer.scale, piece_calibration=FILE_SCALE)


def split_lines(passage):
    lines = re.finditer(r".*\n|.+", passage.text)
    return [Span(passage.id, *line.span()) for line in lines]


def test_one_fact_is_looked_for_in_the_documents_that_fit_best():
    """Files of the same form have a like piece each, and one of them is asked about."""
    texts = {"a": "5\n4.2\n-9", "b": "4.5\n4.3\n-9", "c": "3.8\n-9"}
    passages = []
    for name, text in texts.items():
        passages.append(Passage(text, name, metadata={"source": f"{name}.md"}))
    kept = {}
    for kind in ("lookup", "compare"):
        denoiser = ENDDenoiser(FileScorer(), keep="auto", chunker=split_lines)
        result = denoiser.denoise(kind, passages)
        kept[kind] = [passage.text.split() for passage in result.passages]
    assert kept["compare"] == [["5", "4.2"], ["4.5", "4.3"], ["3.8"]]
    assert kept["lookup"] == [["5", "4.2"], ["4.5"], ["3.8"]]


@given(st.lists(st.tuples(st.floats(-9, 9, width=16), st.integers(0, 3)), min_size=1))
def test_a_document_changes_distances_and_not_their_order_within_it(scored):
    scores = np.array([score for score, _ in scored], dtype=np.float32)
    documents = [document for _, document in scored]
    plain = score_distances(scores)
    assert plain.min() == 0
    by_document = score_distances(scores, documents)
    for_one_fact = score_distances(scores, documents, has_one_answer=True)
    for number in set(documents):
        rows = [i for i, document in enumerate(documents) if document == number]
        best = min(rows, key=plain.__getitem__)
        assert for_one_fact[best] == by_document[best] == plain[best] / DOCUMENT_FACTOR
        others = [i for i in rows if i != best]
        np.testing.assert_array_equal(by_document[others], plain[others])
        added = for_one_fact[others] - plain[others]
        np.testing.assert_allclose(added, DOCUMENT_PENALTY * plain[best])


def test_a_lookup_and_a_limit_change_nothing():
    passages = make_passages({"a": [5, 4.5, 4.5, -9, -9], "b": [-3, -4]})
    kept_ids, note = keep_passages("lookup", passages)
    assert kept_ids == {"a0", "a1", "a2"}
    assert not note
    assert keep_passages("summary", passages, max_keep=3)[0] == kept_ids
    share_only = ENDDenoiser(KindScorer(), keep=0.4).denoise("summary", passages)
    assert len(share_only.passages) == 3


class LogScorer(FunctionScorer):
    """Only a stop is like the question; every question is a lookup."""

    pieces = ScoreCalibration({0.06: 0.1}, floor=None, top_score=99.0, questions=300)
    scale = replace(KindScorer.scale, piece_calibration=pieces)

    def __init__(self):
        super().__init__(lambda query, text: float("stop" in text))

    def question_kind(self, query):
        return "lookup"


@pytest.mark.parametrize(
    ("question", "kept_numbers", "is_noted"),
    [
        ("How often did we see e-207?", {0, 3, 4, 7, 9}, True),
        ("How often did we see E-2071?", {0, 4}, False),
        ("How often did we see GATE-01?", {0, 4}, False),  # in every line
    ],
)
def test_pieces_that_name_an_identifier_of_the_question_are_kept(
    question, kept_numbers, is_noted
):
    lines = []
    for number in range(40):
        event = {0: "stop", 4: "stop"}.get(number, "was polled")
        code = "E-207" if number in (3, 7, 9) else f"E-3{number:02}"
        lines.append(
            f"2025-02-11T01:{number:02}:46Z INFO gate-01 {code} pump {event}, "
            "the answer came within the time that was set for it\n"
        )
    denoiser = ENDDenoiser(LogScorer(), keep="auto", chunker="auto")
    log = Passage("".join(lines), "log")
    result = check_denoiser(lambda: denoiser, question, [log])
    kept_lines = result.passages[0].text.splitlines()
    assert {int(line[14:16]) for line in kept_lines} == kept_numbers
    assert ("what names e-207 is kept" in str(result.note)) == is_noted
