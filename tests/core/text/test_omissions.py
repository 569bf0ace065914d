"""What is left out of a result is counted in it, in its format, and no value moves to another record."""

import json
import re
import zlib
from collections import Counter

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from kept_texts import TEXTS, VALUES, Keeping, ranges_in
from tool_payloads import SHAPES, tables

from denoise_core import DenoiseResult, InputError, Passage
from denoise_core.runtime.fallbacks import fallback_counts
from denoise_core.tool_results import read_result

FEW = settings(max_examples=8, phases=[Phase.explicit, Phase.generate])
COUNTS = re.compile(
    r"(\d+) of (\d+) (?:rows|items|records|parts) shown; (\d+) left out"
)


def reduced(value, ranges, **settings):
    """The result of which these ranges of each text are kept."""
    tool_result = read_result(value, **settings)
    result = Keeping(ranges).denoise("q", tool_result.passages)
    return tool_result.reduce(result, has_recall=True)


@pytest.mark.parametrize("shape", SHAPES)
@FEW
@given(rows=tables(), data=st.data())
def test_a_table_in_any_shape_keeps_whole_rows_and_counts_the_rest(shape, rows, data):
    write, read = SHAPES[shape]
    text = write(rows)
    assert read(text) == rows
    after = reduced(text, lambda text: data.draw(ranges_in(text))).value
    kept_rows = read(after)
    assert [row for row in rows if row in kept_rows] == kept_rows
    assert len(after) <= len(text)
    if after != text:
        shown, total, left_out = map(int, COUNTS.search(after).groups())
        assert (shown, total, left_out) == (
            len(kept_rows),
            len(rows),
            len(rows) - len(kept_rows),
        )


@pytest.mark.parametrize("shape", [name for name in SHAPES if "yaml" not in name])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_table_without_a_kept_row_has_no_row_and_says_so(shape, indent):
    write, read = SHAPES[shape]
    rows = [(f"k{n}", f"place {n}", n * 31, f"{n} wet {n}") for n in range(20)]
    text = write(rows)
    if indent and shape.startswith("json") and shape != "json lines":
        text = json.dumps(json.loads(text), indent=indent)
    after = reduced(text, lambda text: []).value
    assert read(after) == []
    assert "0 of 20" in after


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ['a"b', "a--b", "a---", "a\nb", "a\\"])
def test_any_recall_id_leaves_the_format_readable(shape, name):
    write, read = SHAPES[shape]
    rows = [(f"k{n}", f"place {n}", n * 31, f"{n} wet {n}") for n in range(20)]
    text = write(rows)
    start = text.index("place 7")
    after = reduced(text, lambda text: [(start, start + 7)], name=name).value
    assert read(after) == [rows[7]]
    assert "recall(" in after


@given(VALUES | TEXTS, st.booleans(), st.integers(0, 99))
@example(["", ""], False, 0)
def test_no_result_becomes_longer_or_loses_text_in_silence(value, as_text, seed):
    value = json.dumps(value) if as_text else value

    def half_of_the_lines(text):
        ranges, start = [], 0
        for line in text.splitlines(keepends=True):
            if zlib.crc32(f"{seed}{line}".encode("utf-8", "replace")) % 2:
                ranges.append((start, start + len(line)))
            start += len(line)
        return ranges

    after = reduced(value, half_of_the_lines)
    before_text, after_text = (
        item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
        for item in (value, after.value)
    )
    assert type(after.value) is type(value)
    assert len(after_text) <= len(before_text)
    if after_text != before_text:
        assert after.omitted_texts
        assert "left out" in after_text or "[...]" in after_text
    else:
        assert after.omitted_texts == ()


@pytest.mark.parametrize("shape", SHAPES)
@FEW
@given(rows=tables(), data=st.data())
def test_a_pinned_row_is_shown_whatever_a_denoiser_says(shape, rows, data):
    write, read = SHAPES[shape]
    pinned = data.draw(st.sampled_from(rows))
    after = reduced(write(rows), lambda text: [], must_keep=rf"\b{pinned[0]}\b").value
    assert pinned in read(after)


@FEW
@given(rows=tables(), data=st.data())
def test_a_pin_may_be_a_field_or_a_function(rows, data):
    write, read = SHAPES["json records"]
    pinned = data.draw(st.sampled_from(rows))
    for must_keep in (
        {"place": rf"^{pinned[1]}$"},
        lambda text: f"{pinned[1]}\n" in text,
    ):
        kept_rows = read(reduced(write(rows), lambda t: [], must_keep=must_keep).value)
        assert kept_rows == [pinned]


@pytest.mark.parametrize("must_keep", ["(", {"place": "("}, 3, {"place": 3}])
def test_a_pin_that_cannot_be_read_is_refused(must_keep):
    with pytest.raises(InputError, match="must_keep"):
        read_result("text", must_keep=must_keep)


@pytest.mark.parametrize("shape", SHAPES)
@FEW
@given(rows=tables(), limit=st.integers(300, 2000))
def test_a_cap_keeps_head_and_tail(shape, rows, limit):
    write, read = SHAPES[shape]
    text = write(rows)
    after = read_result(text).cap(limit).value
    assert len(after) <= max(limit, 0) + 200 or after == text
    if len(text) <= limit:
        assert after == text
    elif "characters left out here" not in after and after != text:
        kept_rows = read(after)
        assert [row for row in rows if row in kept_rows] == kept_rows


def test_a_cap_where_no_record_can_leave_says_what_is_cut():
    value = json.dumps({"numbers": list(range(2000))})
    after = read_result(value).cap(1000, has_recall=True)
    assert "characters left out here; recall(result1)" in after.value
    assert "no complete JSON" in after.value
    assert after.omitted_texts[0].text == value


def test_a_cap_never_drops_a_pinned_part():
    rows = [f"Run number {n} ended well. " * 9 for n in range(40)]
    rows[20] = "One run FAILED. " * 90
    text = "\n\n".join(rows)
    value = json.dumps({"numbers": list(range(2000)), "state": "FAILED"})
    for source in (text, value):
        after = read_result(source, must_keep="FAILED").cap(1000).value
        assert "FAILED" in after
        assert "characters left out here" not in after
    after = read_result(text, must_keep="FAILED").cap(1000).value
    assert rows[20] in after
    assert len(after) < len(text) / 2
    assert "left out" in after


def test_bytes_stay_bytes_in_a_cap_and_where_a_model_rewrote_them():
    numbers = json.dumps(list(range(2000)))
    source = b'{"name": "\xff\xfe", "numbers": ' + numbers.encode() + b"}"
    after = read_result(source).cap(1000)
    assert isinstance(after.value, bytes)
    assert after.value.startswith(source[:400])
    assert after.value.endswith(source[-400:])
    assert b"characters left out here" in after.value
    tool_result = read_result(source)
    (passage,) = tool_result.passages
    rewritten = Passage("Short. \ud83d", passage.id, is_rewritten=True)
    after = tool_result.reduce(DenoiseResult("q", (rewritten,)))
    assert after.value == "Short. \ufffd".encode()


def test_an_object_without_a_list_stays_longer_than_its_cap_and_it_is_logged():
    value = {f"field {n}": n for n in range(500)}
    kinds_before = fallback_counts()
    assert read_result(value).cap(1000).value == value
    assert read_result([value] * 50).cap(10_000).value != [value] * 50
    new_counts = Counter(fallback_counts())
    new_counts.subtract(kinds_before)
    assert [count for _, count in new_counts.items() if count] == [1]


def test_a_count_that_the_text_states_is_marked():
    rows = [{"town": f"town {n}", "rain": n} for n in range(60)]
    value = {"count": 60, "rows": rows}
    tool_result = read_result(value)
    text = tool_result.passages[0].text
    start = text.index('{"town": "town 7"')
    result = Keeping(lambda text: [(start, start + 9)]).denoise(
        "q", tool_result.passages
    )
    after = tool_result.reduce(result).value
    note = {"left_out": "1 of 60 items shown; 59 left out"}
    assert after == {"count": 60, "rows": [note, rows[7]]}


def test_lists_of_one_length_are_cut_together_or_not_at_all():
    rows = [{"text": f"Text number {n}. " * 9} for n in range(5)]
    value = {"ids": [1, 2, 3, 4, 5], "rows": rows}
    assert reduced(value, lambda text: []).value == value


@pytest.mark.parametrize(
    "text",
    [
        "<!DOCTYPE r [<!ENTITY a 'b'>]>" + "<r>" + "<i><a>1</a></i>" * 60 + "</r>",
        "<r>" + "<i><a>1</a></j>" * 60 + "</r>",
    ],
)
def test_xml_that_is_not_read_is_never_half_of_a_document(text):
    after = reduced(text, lambda text: [(0, 3)]).value
    assert (
        after.count("<i>") == after.count("</i>")
        or after == text
        or "left out" in after
    )


def test_a_page_stays_balanced():
    rows = "".join(f"<li><p>Row {n} of the list</p></li>" for n in range(60))
    page = f"<html><body><div><h1>Rows</h1><ul>{rows}</ul></div></body></html>"
    start = page.index("Row 31")
    after = reduced(page, lambda text: [(start, start + 6)]).value
    assert "Row 31 of the list" in after
    assert "Row 30 of the list" not in after
    for name in ("html", "body", "div", "ul", "li", "p"):
        assert after.count(f"<{name}>") == after.count(f"</{name}>")


@pytest.mark.parametrize("kept_number", [3, 5])
def test_printed_json_keeps_its_lines_and_the_note_has_one_like_them(kept_number):
    rooms = [{"room": f"Room {n} looks at the sea.", "beds": n} for n in range(6)]
    text = json.dumps({"rooms": rooms, "page": 1}, indent=4)
    start = text.index(f"Room {kept_number}")
    after = reduced(text, lambda text: [(start, start + 6)]).value
    lines = text.splitlines()
    new_lines = [line for line in after.splitlines() if line not in lines]
    assert [line.strip("\n ,")[:15] for line in new_lines] == ['{"left_out": "1']
    assert new_lines[0].startswith(" " * 8 + "{")
    assert after.count("\n") == text.count("\n") - 5 * 4 + 1
