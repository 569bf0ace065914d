"""A record is plain JSON, says which characters a text stands for, and in its usual form stays small."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import DenoiseResult, Drop, Keep, Passage, Span
from denoise_core.runtime.record import (
    RECORD_BYTES,
    passage_record,
    result_summary,
    source_coverage,
)
from denoise_core.spans import merge_spans

text = st.text(max_size=600)
scores = st.none() | st.floats()


@st.composite
def spans_of(draw, passage):
    """Ranges of a passage that touch."""
    size = len(passage.text)
    cuts = draw(st.lists(st.integers(0, size), max_size=300))
    return [Span(passage.id, *ends) for ends in pairwise(sorted(cuts))]


@st.composite
def results(draw):
    """Passages by id and a result with one kept in pieces, whatever ids, query and fallback look like."""
    passages, spans = {}, []
    for passage_id in draw(st.lists(text, min_size=1, max_size=5, unique=True)):
        size = draw(st.integers(0, 5000))
        passage = Passage("x" * size, passage_id, draw(scores))
        passages[passage_id] = passage
        spans += draw(spans_of(passage))
    kept = Passage(
        "y",
        next(iter(passages)),
        draw(scores),
        spans=tuple(spans),
        is_rewritten=draw(st.booleans()),
    )
    drops = [Drop(span, draw(text), None) for span in spans[:3]]
    result = DenoiseResult(
        draw(text),
        (kept,),
        tuple(drops),
        fallback=draw(st.none() | text),
        kept=tuple(Keep(span, 1.0) for span in spans),
        question_note=draw(st.none() | text),
    )
    return passages, result


@given(results())
def test_a_record_is_plain_json_within_its_bound_and_lists_or_counts_all_ranges(made):
    passages, result = made
    (kept,) = result.passages
    record = passage_record(kept, passages, result)
    line = json.dumps(record, ensure_ascii=False, allow_nan=False)
    assert len(line.encode("utf-8", "surrogatepass")) <= RECORD_BYTES
    assert json.loads(line) == record
    expected = {}
    for passage_id, ranges in source_coverage(kept, passages)[0].items():
        if ranges:
            expected[passage_id] = list(map(list, merge_spans(ranges)))
    listed = record["spans"]
    left_out = record.get("spans_left_out", 0)
    expected_count = sum(map(len, expected.values()))
    assert sum(map(len, listed.values())) + left_out == expected_count
    if not left_out:
        assert list(listed.values()) == list(expected.values())


@pytest.mark.parametrize(("id_length", "range_count"), [(1, 90), (60, 2), (30, 1)])
def test_a_record_lists_all_the_ranges_that_fit_and_no_more(id_length, range_count):
    passages, spans = {}, []
    for number in range(60):
        passage_id = f"{number}".rjust(id_length, "i")
        passages[passage_id] = Passage("x" * 2000, passage_id)
        starts = range(100, 100 + 10 * range_count, 10)  # all ranges of one size
        spans += [Span(passage_id, start, start + 5) for start in starts]
    kept = Passage("y", passage_id, spans=tuple(spans))
    entry_size = len(f'"{passage_id}": [[100, 105]], ')
    for query_length in range(40):  # so that each size of what is left comes up
        result = DenoiseResult("q" * query_length, (kept,))
        record = passage_record(kept, passages, result)
        listed_count = sum(map(len, record["spans"].values()))
        assert listed_count + record["spans_left_out"] == len(spans)
        size = len(json.dumps({**record, "spans_left_out": 10**9}))
        # Of each passage 2 bytes more are counted than it takes.
        room = RECORD_BYTES - size - 2 * len(record["spans"])
        assert size <= RECORD_BYTES
        assert room < entry_size


def test_a_record_says_what_was_kept_and_the_scores():
    passage = Passage("abcdef", "p")
    kept = Passage("abc", "p", 2.0, spans=(Span("p", 0, 3),))
    chunk = Keep(Span("p", 0, 3), 2.0)
    drop = Drop(Span("p", 3, 6), "below", -1.0)
    result = DenoiseResult("q", (kept,), (drop,), kept=(chunk,))
    expected = {
        "v": 1, "origin": "p", "spans": {"p": [[0, 3]]}, "extractive": True, "coverage": 0.5, "score": 2.0,
        "score_before": None, "query": "q", "fallback": None,
    }  # fmt: skip
    assert passage_record(kept, {"p": passage}, result) == expected


def test_a_question_that_was_not_cleared_is_said_in_every_record():
    passage = Passage("The tower is 330 m tall.", "a")
    result = DenoiseResult("q", (passage,), question_note="kept: it asks nothing")
    for record in (
        passage_record(passage, {"a": passage}, result),
        result_summary([passage], result),
    ):
        assert record["question_note"] == result.question_note
    cleared = replace(result, question_note=None)
    assert "question_note" not in passage_record(passage, {"a": passage}, cleared)


def test_a_score_that_is_not_finite_is_null_in_every_json():
    """The service answered 500: such a number is no JSON."""
    passage = Passage("abc", "a")
    kept = (Keep(Span("a", 0, 3), math.inf),)
    dropped = (Drop(Span("a", 0, 0), "low", math.nan),)
    result = DenoiseResult("q", (passage,), dropped, kept=kept)
    for rows in (result.as_json(), result_summary([passage], result)):
        assert [rows[name][0]["score"] for name in ("kept", "dropped")] == [None, None]
        json.dumps(rows, allow_nan=False)
