"""Tool results are restored in their shape: only text is dropped, and dropped text can be recalled."""

import functools
import json
import operator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kept_texts import (
    FAULTS,
    TEXTS,
    VALUES,
    Keeping,
    broken,
    check_kept,
    ranges_in,
)

from denoise_core import DenoiseResult, Drop, Guard, Passage, Span
from denoise_core.end import ENDDenoiser
from denoise_core.end.tool_results import for_tool_results
from denoise_core.testing import FunctionScorer
from denoise_core.text.omissions import cut_text
from denoise_core.tool_results import build_query, count_characters, read_result

ROWS = [
    {"title": f"Report {n}", "content": f"Sentence {n} of many about the harbour. " * 3}
    for n in range(10)
]
SENTENCES = "\n\n".join(row["content"] for row in ROWS)
SEARCH = {
    "query": "harbour",
    "results": ROWS,
    "response_time": 0.4,
    "next": "abc",
}
IMAGE = {"type": "image", "source": {"data": "iVBOR", "media_type": "image/png"}}
RESULTS = {
    "text": f"Found 3 results\n\n{SENTENCES}\n\nPage 1 of 4",
    "search": SEARCH,
    "json text": json.dumps(SEARCH),
    "json in json": json.dumps({"body": json.dumps(SEARCH)}),
    "blocks": [{"type": "text", "text": SENTENCES}, IMAGE],
    "mcp": {
        "content": [{"type": "text", "text": json.dumps(ROWS)}],
        "structuredContent": {"rows": ROWS},
        "isError": False,
    },
    "command": {
        "update": {"messages": [{"content": SENTENCES, "tool_call_id": "c1"}]},
        "goto": "writer",
    },
}
MARKERS = (
    "response_time",
    "next",
    "iVBOR",
    "isError",
    "goto",
    "tool_call_id",
    "Found 3 results",
    "Page 1 of 4",
)


def reduced(value, wanted_word):
    """The result of which what has the word is kept."""
    scorer = FunctionScorer(lambda query, text: float(wanted_word in text))
    denoiser = ENDDenoiser(scorer, threshold=0.5, chunker="auto")
    tool_result = read_result(value)
    return tool_result.reduce(denoiser.denoise("q", tool_result.passages))


@pytest.mark.parametrize("name", RESULTS)
def test_dropped_text_is_removed_and_the_shape_stays(name):
    value = RESULTS[name]
    result = reduced(value, "Sentence 7 ")
    restored_json, source_json = json.dumps(result.value), json.dumps(value)
    assert type(result.value) is type(value)
    assert "Sentence 7 " in restored_json
    assert "Sentence 3 " not in restored_json
    assert len(restored_json) < 0.7 * len(source_json)
    for marker in MARKERS:
        assert (marker in restored_json) == (marker in source_json)
    omitted_texts = result.omitted_texts
    assert any("Sentence 3 " in omitted.text for omitted in omitted_texts)
    assert len({omitted.id for omitted in omitted_texts}) == len(omitted_texts)
    assert omitted_texts == reduced(value, "Sentence 7 ").omitted_texts


def test_equal_ids_of_what_was_dropped_mean_equal_texts():
    """A conversation holds many results, of which any may be cut twice."""
    [first], [second], [third] = (
        reduced(SENTENCES, f"Sentence {n} ").omitted_texts for n in (7, 3, 7)
    )
    assert first == third
    assert first.id != second.id


def test_a_rewritten_text_replaces_its_source():
    image = {"type": "image", "url": "x"}
    tool_result = read_result([{"type": "text", "text": "A. B. C."}, image])
    (source,) = tool_result.passages
    rewritten_passage = Passage(
        "B, in short.", "w", spans=(Span(source.id, 3, 5),), is_rewritten=True
    )
    result = DenoiseResult(
        "q", (rewritten_passage,), (Drop(Span(source.id, 0, 3), "noise"),)
    )
    block = {"type": "text", "text": "B, in short."}
    assert tool_result.reduce(result).value == [block, image]


EVENTS = [
    {
        "type": f"{kind}Event",
        "repo": f"harbour-{n}",
        "note": f"Sentence {n} . " * 9,
    }
    for n, kind in enumerate(["Push", "Fork", "Watch", "Issues"] * 3)
]


@pytest.mark.parametrize("key", ["", "content", "events"])
def test_records_with_a_type_are_records_and_not_content_blocks(key):
    value = {key: EVENTS} if key else EVENTS
    restored_value = reduced(value, "Sentence 7 ").value
    restored_events = restored_value[key] if key else restored_value
    assert EVENTS[7] in restored_events
    assert len(restored_events) == 2  # and the note


@pytest.mark.parametrize(
    "block",
    [
        *(
            {"type": kind, "data": "aGFyYm91cg==" * 99}
            for kind in ("image", "image_url", "resource_link")
        ),
        {"type": "search_result", "content": [{"type": "text", "text": "It is red."}]},
    ],
)
def test_content_blocks_without_a_text_of_their_own_are_unchanged(block):
    blocks = [block] * 8
    for value in (blocks, {"content": blocks}, ["", *blocks]):
        tool_result = read_result(value)
        assert tool_result.passages == ()
        empty_result = DenoiseResult("q", tool_result.passages)
        assert tool_result.reduce(empty_result).value == value


WITHOUT_TEXT = (None, True, "", [], {}, [1, 2], {"type": "image"})


@given(VALUES | TEXTS | st.text() | st.sampled_from([*RESULTS.values(), *WITHOUT_TEXT]))
def test_any_value_is_unchanged_if_everything_is_kept(value):
    tool_result = read_result(value)
    reduced_result = tool_result.reduce(DenoiseResult("q", tool_result.passages))
    assert reduced_result.value == value
    assert type(reduced_result.value) is type(value)
    assert reduced_result.omitted_texts == ()
    reduced(value, "no such word")


TABLE = "id,place\n" + "".join(f'{n},"town {n}"\n' for n in range(80))


@given(VALUES, st.sampled_from(sorted(FAULTS)), st.booleans())
@example({"report": TABLE}, "raises a lost connection", False)
@example({"report": TABLE}, "gives NaN", True)
def test_a_broken_scorer_loses_nothing_of_any_result(value, fault, as_json_text):
    value = json.dumps(value) if as_json_text else value
    tool_result = read_result(value)
    guard = Guard(for_tool_results(broken(fault), tool_result.passages))
    result = guard.denoise("Paris?", tool_result.passages)
    assert result.fallback or not tool_result.passages
    assert tool_result.reduce(result).value == value
    assert tool_result.reduce(result).omitted_texts == ()


@given(VALUES | TEXTS, st.booleans(), st.data())
def test_text_kept_of_any_result_is_verbatim(value, as_json_text, hypothesis_data):
    if as_json_text:
        value = json.dumps(value, ensure_ascii=hypothesis_data.draw(st.booleans()))
    tool_result = read_result(value)
    denoiser = Keeping(lambda text: hypothesis_data.draw(ranges_in(text)))
    result = denoiser.denoise("Paris?", tool_result.passages)
    reduced_result = tool_result.reduce(result)
    for chunked_text, (text, kept_spans), path in zip(
        tool_result.chunked_texts, denoiser.kept, tool_result.paths, strict=True
    ):
        shown = functools.reduce(operator.getitem, path, reduced_result.value)
        if not isinstance(shown, str):
            shown = json.dumps(shown, ensure_ascii=False)
        check_kept(text, chunked_text.text_format, kept_spans, shown)
    assert reduced_result.omitted_texts or reduced_result.value == value


@given(st.binary())
def test_bytes_pass_unchanged(given_bytes):
    tool_result = read_result(given_bytes)
    assert not tool_result.passages
    assert tool_result.reduce(DenoiseResult("q", ())).value == given_bytes
    assert tool_result.cap(1).value == given_bytes


TALL = "the tower of the town is red and tall"


@pytest.mark.parametrize("length", [8, 60, 400])
def test_a_cap_bounds_a_result_of_many_blocks(length):
    """Each block got a share too small to cut, or a note longer than what it replaced."""
    blocks = []
    for number in range(1000):
        text = f"Hit {number}: {TALL}. {'x ' * 200}"
        blocks.append({"type": "text", "text": text[:length]})
    image = {"type": "image", "url": "a.png"}
    blocks.insert(500, image)
    reduced = read_result(blocks).cap(5000, has_recall=True)
    capped = reduced.value
    texts = [block["text"] for block in capped if block["type"] == "text"]
    assert sum(map(len, texts)) <= 5000
    assert all(texts)
    assert image in capped
    (omitted,) = reduced.omitted_texts
    *shown, note = texts
    assert f"recall({omitted.id})" in note
    all_texts = [block["text"] for block in blocks if block is not image]
    assert sorted(shown + omitted.text.split("\n\n")) == sorted(all_texts)


def test_a_cap_of_many_blocks_never_drops_a_pinned_one():
    blocks = [{"type": "text", "text": f"Hit {n}: {TALL}."} for n in range(1000)]
    blocks[500] = {"type": "text", "text": "Hit 500 FAILED."}
    capped = read_result(blocks, must_keep="FAILED").cap(2000).value
    assert blocks[500] in capped
    assert len(capped) < 60


def test_a_text_over_the_cap_does_not_take_the_short_ones_with_it():
    short_texts = [f"t{n}" for n in range(20)]
    tool_result = read_result(["a", "big " * 2000, *short_texts])
    capped = tool_result.cap(2000)
    assert [text for text in short_texts if text in capped.value] == short_texts


@pytest.mark.parametrize("columns", [range(2012, 2024), [f"c{n}" for n in range(12)]])
def test_rows_of_a_square_split_table_stay_under_their_label(columns):
    index = [f"country {n}" for n in range(12)]
    data = [[f"{label} column {n}" for n in range(12)] for label in index]
    data[7][0] = "country 7 wanted"
    table = {"columns": list(columns), "index": index, "data": data}
    value = json.loads(reduced(json.dumps(table), "wanted").value)
    assert value["columns"][:12] == list(columns)
    for label, row in zip(value["index"], value["data"], strict=False):
        assert str(row[0]).startswith(label) or "left out" in str(label)


def test_rows_that_were_merged_for_scoring_are_counted_one_by_one():
    rows = [f"{number},item {number},{number * 3}" for number in range(400)]
    result = read_result("\n".join(["id,name,price", *rows]) + "\n")
    [chunked] = result.chunked_texts
    assert len(chunked.scored_chunks) < 400
    edits = cut_text(chunked, [chunked.scored_chunks[3].span])
    shown_rows = chunked.scored_chunks[3].text_of(chunked.text).strip().splitlines()
    note = f"{len(shown_rows)} of 400 rows shown; {400 - len(shown_rows)} left out"
    assert note in edits[-1].replacement


def test_json_that_was_cut_off_is_not_cut_again():
    """Its values would stand in another record."""
    rows = [{"id": number, "price": number * 3} for number in range(400)]
    result = read_result(json.dumps(rows)[:-30])
    [chunked] = result.chunked_texts
    assert cut_text(chunked, [chunked.scored_chunks[0].span]) == []


def test_lines_of_names_and_values_in_a_string_can_leave_one_by_one():
    """They are YAML without a record: cut as such, all of them would stay."""
    lines = "\n".join(f"Part {n}: {TALL}" for n in range(40))
    after = reduced({"body": lines, "id": 1}, "Part 7:").value
    assert f"Part 7: {TALL}" in after["body"]
    assert len(after["body"]) < len(lines) / 4


def test_a_cap_shows_a_part_of_a_long_text_between_short_ones():
    page = "\n".join(f"Line {n} of the page says something." for n in range(600))
    blocks = [{"type": "text", "text": t} for t in ("Found 1.", page, "Page 1 of 1.")]
    capped = read_result(blocks).cap(2000).value
    shown = sum(len(block["text"]) for block in capped)
    assert 1500 < shown <= 2000
    assert "Line 0 of the page" in str(capped)


HITS = [{"type": "search_result", "source": "a", "title": TALL * 9}] * 40


@pytest.mark.parametrize("kind", ["media", "document", "resource_link"])
def test_a_cap_never_cuts_a_block_that_it_does_not_know(kind):
    picture = {"type": kind, "data": "iVBOR" * 900}
    capped = read_result([{"type": "text", "text": TALL}, picture]).cap(200).value
    assert picture in capped
    assert count_characters([{"type": "json", "json": {(1, 2): TALL}}]) == 0


@pytest.mark.parametrize("cap", [200, 500])
@pytest.mark.parametrize("blocks", [[f"{TALL}. " * 200] * 3, HITS])
def test_a_small_cap_shows_a_part_of_one_block_at_least(blocks, cap):
    capped = read_result(blocks).cap(cap).value
    assert cap / 2 < count_characters(capped) <= cap


def test_a_pinned_search_result_that_fits_stays_one():
    pinned = {**HITS[0], "source": "pinned"}
    capped = read_result([*HITS, pinned, *HITS], must_keep="pinned").cap(900).value
    assert pinned in capped


def test_a_cap_of_one_long_string_shows_its_ends():
    page = json.dumps({"url": "http://x", "page": f"{TALL}. " * 200})
    assert 400 < len(read_result(page).cap(500).value) <= 500


def test_keys_and_paths_of_a_call_are_no_part_of_the_query():
    arguments = {"path": "/home/bob", "token": "sk-1"}
    assert build_query("who?", arguments) == "who?"
    assert build_query("", arguments) == "/home/bob sk-1"
    assert build_query("who?", {"a": "x", "text": "tall towers"}) == "who?\ntall towers"
    assert build_query("who?", {"text": "tall towers", "q": "oak"}) == "who?\noak"
