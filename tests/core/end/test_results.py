"""What is kept of a tool's result: its fraction, complete records, nothing twice, unchanged lines and pages."""

import json

import pytest
from growing_texts import numbered_texts

from denoise_core import Passage
from denoise_core.end import ENDDenoiser
from denoise_core.end.selection import ScoreCalibration
from denoise_core.end.tool_results import (
    KEPT_FRACTION,
    LexicalBoostScorer,
    for_tool_results,
    group_chunks,
)
from denoise_core.spans import join_spans
from denoise_core.testing import FunctionScorer
from denoise_core.text.omissions import GAP_MARK
from denoise_core.text.structural import chunk_text
from denoise_core.tool_results import read_result


class WordScorer(FunctionScorer):
    """Scores 1 for texts with a word, and has a calibration."""

    scale = ScoreCalibration({0.1: 1.0}, None, 9.0, 100)

    def __init__(self, word):
        super().__init__(lambda query, text: float(word in text))


def denoise_value(value, word):
    tool_result = read_result(value)
    denoiser = for_tool_results(
        ENDDenoiser(WordScorer(word), keep="auto"), tool_result.passages
    )
    result = denoiser.denoise(word, tool_result.passages)
    return tool_result.reduce(result).value


TRACE = "\n".join(
    [
        "2026-10-02 06:14:55 ERROR c.e.Handler : Unhandled, traceId=5be1",
        "com.ember.api.StatementException: could not render",
        *numbered_texts(
            "\tat org.mesh.aop.Framework.call{n}(Framework.java:{n}) ~[core-6.2.jar:6.2]",
            12,
        ),
        "Caused by: java.lang.ArithmeticException: Non-terminating decimal expansion.",
        *numbered_texts(
            "\tat com.ember.fees.Fee.day{n}(Fee.java:{n}) ~[app.jar:2.31]", 12
        ),
    ]
)
ROWS = {
    "data": {
        "values": [
            [str(n), f"level=info order={n} total={n}.20 currency=EUR"]
            for n in range(60)
        ]
    }
}
FILLER_TEXT = "More of it is said here. " * 20
PAGES = "\n\n".join(
    f"[Page {n} of 6]\nBudget report   {n}\n\n{name} costs {n} million. {FILLER_TEXT}"
    for n, name in enumerate(
        ("School", "Road", "Harbour", "Culture", "Debt", "Staff"), 1
    )
)
SECTION = """## Part {n}

{n}a is first.

1. Do {n}b.

2. Then do {n}c.

3. At last {n}d.
"""
SECTIONS = "\n".join(numbered_texts(SECTION, 20))


@pytest.mark.parametrize(
    "value",
    [TRACE, json.dumps(ROWS), PAGES, SECTIONS],
    ids=("trace", "rows", "pages", "sections"),
)
def test_what_is_kept_is_within_the_fraction_with_its_context(value):
    kept_text = denoise_value(value, "31")
    assert 0 < len(kept_text) <= KEPT_FRACTION * len(value) + 200, (
        "fields around JSON records and the edge lines are kept too"
    )


def test_a_list_of_rows_is_cut_row_by_row():
    kept_text = denoise_value(ROWS, "order=31")["data"]["values"]
    assert ["31", "level=info order=31 total=31.20 currency=EUR"] in kept_text
    assert len(kept_text) < 30


def test_a_long_entry_or_stack_trace_is_cut_at_lines_alone():
    trace_lines = set(TRACE.split("\n"))
    *kept_lines, note = denoise_value(TRACE, "ArithmeticException").split("\n")
    assert set(kept_lines) <= trace_lines | {GAP_MARK, ""}
    assert note == "[2 of 3 parts shown; 1 left out]"
    assert any("Caused by" in line for line in kept_lines)
    chunked_text = chunk_text(TRACE)
    for chunk in chunked_text.chunks:
        for start, end in chunked_text.split_chunk(chunk):
            assert TRACE[start:end].rstrip("\n") in trace_lines


def test_the_head_of_a_page_stays_above_what_is_kept_of_it_and_prices_are_no_heads():
    kept_text = denoise_value(PAGES, "Harbour")
    assert -1 < kept_text.find("[Page 3 of 6]") < kept_text.index("Harbour costs")
    price_lines = "\n\n".join(
        f"€{price} with tax, {price} in stock" for price in (289, 179, 290, 180)
    )
    assert not any(chunk.is_structural for chunk in chunk_text(price_lines).chunks)


def test_the_text_under_one_heading_is_kept_together():
    kept_text = denoise_value(SECTIONS, "7b")
    parts = ("## Part 7\n", "7a is first", "Do 7b", "Then do 7c", "At last 7d")
    assert all(part in kept_text for part in parts)
    assert len(set(group_chunks([Passage(SECTIONS, "s")]))) == 20


def test_of_texts_that_say_the_same_the_second_ranks_below_another():
    common = "The dome was painted and the road was closed"
    texts = [f"{common} by snow.", f"{common}.", "Costs are borne by the supplier."]
    scorer = LexicalBoostScorer(WordScorer("dome"))
    first, second, other = scorer.score("who pays", texts)
    assert first > other > second


def test_a_turn_kept_as_context_adds_no_further_context():
    turns = []
    for n in range(9):
        speaker = "Ann" if n % 2 else "Bob"
        turns.append(
            f"[00:0{n}:00] {speaker}: This is what turn {n} says, and no more."
        )
    text = "\n".join(turns)
    chunked_text = chunk_text(text)
    _, _, _, _, first, second, *_ = chunked_text.chunks
    for kept_span in (second.span, (first.start, second.end)):
        retained_spans = chunked_text.retained_spans([kept_span])
        assert join_spans(text, retained_spans) == "\n".join(turns[4:6]) + "\n"
