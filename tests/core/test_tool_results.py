"""What tools return is written back in its shape: nothing but text goes, and what goes can be had back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kept_texts import (
    FAULTS,
    TEXTS,
    VALUES,
    Keeping,
    broken,
    chance,
    check_kept,
    ranges_in,
)

from denoise_core import DenoiseResult, Drop, Guard, Passage, Span
from denoise_core.end import ENDDenoiser
from denoise_core.end.results import for_tool_results
from denoise_core.testing import FunctionScorer
from denoise_core.text.structural import chunk_text
from denoise_core.tool_results import read_result

ROWS = [
    {"title": f"Report {n}", "content": f"Sentence {n} of many about the harbour. " * 3}
    for n in range(10)
]
RESULTS = {
    "text": "Found 3 results\n\n"
    + "\n\n".join(r["content"] for r in ROWS)
    + "\n\nPage 1 of 4",
    "search": {
        "query": "harbour",
        "results": ROWS,
        "response_time": 0.4,
        "next": "abc",
    },
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
    "sql": "["
    + ", ".join(f"({n}, 'town {n}', Decimal('{n}.50'))" for n in range(12))
    + "]",
    "csv": "town,sales\n" + "".join(f"town {n},{n}\n" for n in range(12)),
    "command": {
        "update": {"messages": [{"content": RESULT, "tool_call_id": "c1"}]},
        "goto": "writer",
    }
    if (RESULT := "\n\n".join(r["content"] for r in ROWS))
    else None,
}


def only(word):
    return ENDDenoiser(
        FunctionScorer(lambda query, text: float(word in text)),
        threshold=0.5,
        chunker="auto",
    )


@pytest.mark.parametrize("name", list(RESULTS))
def test_all_that_is_kept_is_the_result_as_it_was(name):
    value = RESULTS[name]
    read = read_result(value)
    back = read.restore(DenoiseResult("q", read.passages))
    assert back == value
    assert type(back) is type(value)
    assert read.omitted_texts(DenoiseResult("q", read.passages)) == ()


@pytest.mark.parametrize("name", [n for n in RESULTS if n not in ("sql", "csv")])
def test_what_is_dropped_goes_and_the_shape_stays(name):
    value = RESULTS[name]
    read = read_result(value)
    found = only("Sentence 7 ").denoise("q", read.passages)
    back = read.restore(found)
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
    gone = read.omitted_texts(found)
    assert any("Sentence 3 " in g.text for g in gone)
    assert len({g.id for g in gone}) == len(gone)
    assert gone == read_result(value).omitted_texts(found)


def test_rows_of_a_database_stay_rows():
    value = RESULTS["sql"]
    read = read_result(value)
    back = read.restore(only("town 7").denoise("q", read.passages))
    assert back == "[(7, 'town 7', Decimal('7.50'))]"


def test_a_table_keeps_its_header():
    read = read_result(RESULTS["csv"])
    assert (
        read.restore(only("town 7").denoise("q", read.passages))
        == "town,sales\ntown 7,7\n"
    )


def test_what_a_model_wrote_takes_the_place_of_its_source():
    read = read_result(
        [{"type": "text", "text": "A. B. C."}, {"type": "image", "url": "x"}]
    )
    (source,) = read.passages
    written = Passage(
        "B, in short.", "w", spans=(Span(source.id, 3, 5),), is_rewritten=True
    )
    found = DenoiseResult("q", (written,), (Drop(Span(source.id, 0, 3), "noise"),))
    assert read.restore(found) == [
        {"type": "text", "text": "B, in short."},
        {"type": "image", "url": "x"},
    ]


@pytest.mark.parametrize(
    "value", [None, 3, 2.5, True, "", [], {}, [1, 2], {"type": "image"}]
)
def test_what_holds_no_text_to_speak_of_comes_back(value):
    read = read_result(value)
    assert read.restore(DenoiseResult("q", read.passages)) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda x: st.lists(x) | st.dictionaries(st.text(), x),
)


@given(st.text() | JSON)
def test_any_value_comes_back_whole_when_all_is_kept(value):
    read = read_result(value)
    assert read.restore(DenoiseResult("q", read.passages)) == value
    only("no such word").denoise("q", read.passages)


TABLE = "id,place\n" + "".join(f'{n},"town {n}"\n' for n in range(80))


def as_text(value):
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize(
    "value", [{"report": TABLE}, json.dumps({"report": TABLE})], ids=["dict", "text"]
)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_scorer_loses_no_row_of_a_table_in_json(value, fault):
    read = read_result(value)
    found = Guard(
        for_tool_results(broken(fault), read.passages), on_error="keep"
    ).denoise("town", read.passages)
    assert found.fallback
    assert read.restore(found) == value
    assert read.omitted_texts(found) == ()


@given(VALUES, st.sampled_from(sorted(FAULTS)), st.booleans())
def test_a_broken_scorer_loses_nothing_of_any_result(value, fault, dumped):
    value = json.dumps(value) if dumped else value
    read = read_result(value)
    found = Guard(
        for_tool_results(broken(fault), read.passages), on_error="keep"
    ).denoise("Paris?", read.passages)
    assert read.restore(found) == value
    assert read.omitted_texts(found) == ()


def texts_of(value, read):
    """The texts at the places where they were read, as a model is shown them."""
    out = []
    for path in read.paths:
        part = value
        for step in path:
            part = part[step]
        out.append(as_text(part))
    return out


@given(VALUES | TEXTS, st.booleans(), st.data())
def test_what_is_kept_of_any_result_stands_in_it_to_the_letter(value, dumped, data):
    value = (
        json.dumps(value, ensure_ascii=data.draw(st.booleans())) if dumped else value
    )
    read = read_result(value)
    denoiser = Keeping(lambda text: data.draw(ranges_in(text)))
    found = denoiser.denoise("Paris?", read.passages)
    lost = 0
    for shape, (text, kept), shown in zip(
        read.chunked_texts,
        denoiser.kept,
        texts_of(read.restore(found), read),
        strict=True,
    ):
        check_kept(text, shape.text_format, kept, shown)
        check_kept(text, shape.text_format, kept, as_text(shape.restore(kept)))
        assert as_text(shape.restore(kept)) == "".join(
            text[a:b] for a, b in shape.retained_spans(kept)
        )
        scraps = 2 * (len(shape.retained_spans(kept)) + 1)  # too short to be named
        lost += (
            shape.text_format != "html"
            and sum(map(str.isalnum, text)) - sum(map(str.isalnum, shown)) > scraps
        )
    assert read.omitted_texts(found) or not lost


@given(VALUES, st.integers(0, 99))
def test_what_end_keeps_of_any_result_stands_in_it_to_the_letter(value, seed):
    read = read_result(value)
    found = for_tool_results(chance(seed), read.passages).denoise(
        "Paris?", read.passages
    )
    kept = {p.id: [(s.start, s.end) for s in p.source_spans] for p in found.passages}
    for passage, shape, shown in zip(
        read.passages,
        read.chunked_texts,
        texts_of(read.restore(found), read),
        strict=True,
    ):
        check_kept(passage.text, shape.text_format, kept.get(passage.id, []), shown)


@given(st.binary(), st.data())
def test_bytes_that_are_no_text_stay_those_bytes(given_bytes, data):
    shape = chunk_text(given_bytes)
    assert shape.restore([(0, len(shape.text))]) == given_bytes
    start = data.draw(st.integers(0, len(given_bytes)))
    assert chunk_text(given_bytes[start:]).restore([(0, 10**9)]) == given_bytes[start:]
