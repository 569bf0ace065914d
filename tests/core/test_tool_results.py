"""What tools return is written back in its shape: nothing but text goes, and what goes can be had back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import DenoiseResult, Drop, Passage, Span
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from denoise_core.tool_results import read_result

ROWS = [{"title": f"Report {n}", "content": f"Sentence {n} of many about the harbour. " * 3} for n in range(10)]
RESULTS = {
    "text": "Found 3 results\n\n" + "\n\n".join(r["content"] for r in ROWS) + "\n\nPage 1 of 4",
    "search": {"query": "harbour", "results": ROWS, "response_time": 0.4, "next": "abc"},
    "json text": json.dumps({"query": "harbour", "results": ROWS}),
    "blocks": [
        {"type": "text", "text": "\n\n".join(r["content"] for r in ROWS)},
        {"type": "image", "source": {"data": "iVBOR", "media_type": "image/png"}},
    ],
    "mcp": {
        "content": [{"type": "text", "text": json.dumps(ROWS)}],
        "structuredContent": {"rows": ROWS},
        "isError": False,
    },
    "sql": "[" + ", ".join(f"({n}, 'town {n}', Decimal('{n}.50'))" for n in range(12)) + "]",
    "csv": "town,sales\n" + "".join(f"town {n},{n}\n" for n in range(12)),
    "command": {"update": {"messages": [{"content": RESULT, "tool_call_id": "c1"}]}, "goto": "writer"}
    if (RESULT := "\n\n".join(r["content"] for r in ROWS))
    else None,
}


def only(word):
    return ENDDenoiser(FunctionScorer(lambda query, text: float(word in text)), threshold=0.5, chunker="auto")


@pytest.mark.parametrize("name", list(RESULTS))
def test_all_that_is_kept_is_the_result_as_it_was(name):
    value = RESULTS[name]
    read = read_result(value)
    back = read.back(DenoiseResult("q", read.passages))
    assert back == value
    assert type(back) is type(value)
    assert read.left_out(DenoiseResult("q", read.passages)) == ()


@pytest.mark.parametrize("name", [n for n in RESULTS if n not in ("sql", "csv")])
def test_what_is_dropped_goes_and_the_shape_stays(name):
    value = RESULTS[name]
    read = read_result(value)
    found = only("Sentence 7 ").denoise("q", read.passages)
    back = read.back(found)
    said, before = json.dumps(back), json.dumps(value)
    assert type(back) is type(value)
    assert "Sentence 7 " in said
    assert "Sentence 3 " not in said
    assert len(said) < 0.7 * len(before)
    for stays in (
        "response_time",
        "next",
        "iVBOR",
        "isError",
        "goto",
        "tool_call_id",
        "Found 3 results",
        "Page 1 of 4",
    ):
        assert (stays in said) == (stays in before)
    gone = read.left_out(found)
    assert any("Sentence 3 " in g.text for g in gone)
    assert len({g.id for g in gone}) == len(gone)
    assert gone == read_result(value).left_out(found)


def test_rows_of_a_database_stay_rows():
    value = RESULTS["sql"]
    read = read_result(value)
    back = read.back(only("town 7").denoise("q", read.passages))
    assert back == "[(7, 'town 7', Decimal('7.50'))]"


def test_a_table_keeps_its_header():
    read = read_result(RESULTS["csv"])
    assert read.back(only("town 7").denoise("q", read.passages)) == "town,sales\ntown 7,7\n"


def test_what_a_model_wrote_takes_the_place_of_its_source():
    read = read_result([{"type": "text", "text": "A. B. C."}, {"type": "image", "url": "x"}])
    (source,) = read.passages
    written = Passage("B, in short.", "w", spans=(Span(source.id, 3, 5),), rewritten=True)
    found = DenoiseResult("q", (written,), (Drop(Span(source.id, 0, 3), "noise"),))
    assert read.back(found) == [{"type": "text", "text": "B, in short."}, {"type": "image", "url": "x"}]


@pytest.mark.parametrize("value", [None, 3, 2.5, True, "", [], {}, [1, 2], {"type": "image"}])
def test_what_holds_no_text_to_speak_of_comes_back(value):
    read = read_result(value)
    assert read.back(DenoiseResult("q", read.passages)) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
)


@given(st.text() | JSON)
def test_any_value_comes_back_whole_when_all_is_kept(value):
    read = read_result(value)
    assert read.back(DenoiseResult("q", read.passages)) == value
    only("no such word").denoise("q", read.passages)
