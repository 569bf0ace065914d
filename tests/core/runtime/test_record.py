"""A record is plain JSON, says which characters a text stands for, and in its usual form stays small."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from denoise_core import DenoiseResult, Drop, Keep, Passage, Span
from denoise_core.runtime.record import (
    RECORD_BYTES,
    SUMMARY_ROWS,
    bounded_result_summary,
    passage_record,
    result_summary,
    source_coverage,
)

text = st.text(max_size=600)


@st.composite
def results(draw):
    """A result with some passages kept in pieces, whatever their ids, query and fallback look like."""
    ids = draw(st.lists(text, min_size=1, max_size=5, unique=True))
    passages = [
        Passage("x" * draw(st.integers(0, 5000)), i, draw(st.none() | st.floats()))
        for i in ids
    ]
    spans = []
    for p in passages:
        cuts = sorted(draw(st.lists(st.integers(0, len(p.text)), max_size=300)))
        spans += [Span(p.id, a, b) for a, b in pairwise(cuts)]
    kept = Passage(
        "y",
        ids[0],
        draw(st.none() | st.floats()),
        spans=tuple(spans),
        is_rewritten=draw(st.booleans()),
    )
    chunks = tuple(Keep(s, 1.0) for s in spans)
    drops = tuple(Drop(s, draw(text), None) for s in spans[:3])
    return (
        passages,
        kept,
        DenoiseResult(
            draw(text),
            (kept,),
            drops,
            fallback=draw(st.none() | text),
            kept=chunks,
            question_note=draw(st.none() | text),
        ),
    )


@given(results())
def test_a_record_of_spans_keeps_to_its_bound_and_is_plain_json(made):
    passages, kept, result = made
    record = passage_record(kept, {p.id: p for p in passages}, result)
    weight = len(
        json.dumps(record, ensure_ascii=False, allow_nan=False).encode(
            "utf-8", "surrogatepass"
        )
    )
    assert weight <= RECORD_BYTES
    assert json.loads(json.dumps(record)) == record


@given(results())
def test_ranges_that_are_listed_and_left_out_are_all_the_ranges(made):
    passages, kept, result = made
    given = {p.id: p for p in passages}
    all_ranges, _ = source_coverage(kept, given)
    small = passage_record(kept, given, result)
    joined = sum(
        1
        for ranges in all_ranges.values()
        for i, r in enumerate(ranges)
        if not i or ranges[i - 1][1] != r[0]
    )
    listed = sum(map(len, small["spans"].values()))
    assert listed + small.get("spans_left_out", 0) == joined
    if "spans_left_out" not in small:
        covered = [
            [c for a, b in ranges for c in range(a, b)]
            for ranges in all_ranges.values()
        ]
        assert [
            [c for a, b in ranges for c in range(a, b)]
            for ranges in small["spans"].values()
        ] == covered


def test_a_record_says_what_was_kept_and_the_scores():
    passage = Passage("abcdef", "p")
    kept = Passage("abc", "p", 2.0, spans=(Span("p", 0, 3),))
    chunk, drop = Keep(Span("p", 0, 3), 2.0), Drop(Span("p", 3, 6), "below", -1.0)
    result = DenoiseResult("q", (kept,), (drop,), kept=(chunk,))
    spans = {
        "v": 1, "origin": "p", "spans": {"p": [[0, 3]]}, "extractive": True, "coverage": 0.5, "score": 2.0,
        "score_before": None, "query": "q", "fallback": None,
    }  # fmt: skip
    assert passage_record(kept, {"p": passage}, result) == spans


def test_a_summary_for_a_trace_lists_a_bounded_number_and_says_what_it_left_out():
    passages = [Passage("abc", f"p{i}") for i in range(SUMMARY_ROWS + 7)]
    result = DenoiseResult(
        "q",
        tuple(passages),
        tuple(Drop(Span(p.id, 0, 3), "low", 0.0) for p in passages),
    )
    short, whole = (
        bounded_result_summary(passages, result),
        result_summary(passages, result),
    )
    assert (len(short["passages"]), len(short["dropped"])) == (
        SUMMARY_ROWS,
        SUMMARY_ROWS,
    )
    assert short["left_out"] == {"passages": 7, "dropped": 7}
    assert short["dropped"] == whole["dropped"][:SUMMARY_ROWS]
    assert short["given"] == len(whole["given"])


def test_a_question_that_was_not_cleared_is_said_in_every_record():
    passage = Passage("The tower is 330 m tall.", "a")
    result = DenoiseResult(
        "q", (passage,), question_note="the question was kept as it is: it asks nothing"
    )
    by_id = {"a": passage}
    shown = [
        passage_record(passage, by_id, result),
        result_summary([passage], result),
        bounded_result_summary([passage], result),
    ]
    assert all(record["question_note"] == result.question_note for record in shown)
    assert "question_note" not in passage_record(
        passage, by_id, DenoiseResult("q", (passage,))
    )
