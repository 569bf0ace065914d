"""What is left out of a result is counted in it, in its format, and no value moves to another record."""

import json
import re
import zlib

import pytest
import yaml
from growing_texts import numbered_texts
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from kept_texts import TEXTS, VALUES, Keeping, ranges_in
from tool_payloads import SHAPES, tables

from denoise_core import InputError
from denoise_core.runtime import fallbacks
from denoise_core.tool_results import read_result

FEW = settings(max_examples=8, phases=[Phase.explicit, Phase.generate])
COUNTS = re.compile(
    r"(\d+) of (\d+) (?:rows|items|records|parts) shown; (\d+) left out"
)
ROWS = [(f"k{n}", f"place {n}", n * 31, f"{n} wet {n}") for n in range(20)]
every_shape = pytest.mark.parametrize(("write", "read"), SHAPES.values(), ids=SHAPES)


def reduced(value, ranges, **settings):
    """The result of which these ranges of each text are kept, or of a text the range of this phrase."""

    def choose(text):
        if isinstance(ranges, str):
            start = text.index(ranges)
            return [(start, start + len(ranges))]
        return ranges(text)

    tool_result = read_result(value, **settings)
    result = Keeping(choose).denoise("q", tool_result.passages)
    shown = tool_result.reduce(result, has_recall=True)
    assert bool(shown.omitted_texts) == (shown.value != value)
    return shown.value


def keep_nothing(text):
    return []


def read_whole_rows(read, text, rows):
    """The rows of a result, which are rows of its source in order."""
    kept_rows = read(text)
    assert [row for row in rows if row in kept_rows] == kept_rows
    return kept_rows


@every_shape
@FEW
@given(rows=tables(), data=st.data())
def test_a_table_in_any_shape_keeps_whole_rows_and_counts_the_rest(
    write, read, rows, data
):
    text = write(rows)
    assert read(text) == rows
    after = reduced(text, lambda text: data.draw(ranges_in(text)))
    kept_count = len(read_whole_rows(read, after, rows))
    assert len(after) <= len(text)
    if after != text:
        counts = list(map(int, COUNTS.search(after).groups()))
        assert counts == [kept_count, len(rows), len(rows) - kept_count]


@pytest.mark.parametrize("shape", [name for name in SHAPES if "yaml" not in name])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_table_without_a_kept_row_has_no_row_and_says_so(shape, indent):
    write, read = SHAPES[shape]
    text = write(ROWS)
    if indent and shape.startswith("json") and shape != "json lines":
        text = json.dumps(json.loads(text), indent=indent)
    after = reduced(text, keep_nothing)
    assert read(after) == []
    assert "0 of 20" in after


def test_a_paragraph_is_not_read_as_a_part_of_another_hit():
    hits = "[1] Ada\n\nIs red.\n\n[2] Bo\n\nIs tall.\n\n[3] Cy\n\nIs old.\n\n" * 9
    after = reduced(hits, lambda text: [(0, 18), (27, 35)])
    assert after.startswith("[1] Ada\n\nIs red.\n\n[...]\n\nIs tall.\n")


@every_shape
@pytest.mark.parametrize("name", ['a"b', "a--b", "a---", "a\nb", "a\\"])
def test_any_recall_id_leaves_the_format_readable(write, read, name):
    after = reduced(write(ROWS), "place 7", name=name)
    assert read(after) == [ROWS[7]]
    assert "recall(" in after


def as_text(value):
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@given(VALUES | TEXTS, st.booleans(), st.integers(0, 99))
@example(["", ""], False, 0)
def test_no_result_becomes_longer_or_loses_text_in_silence(value, is_json_text, seed):
    if is_json_text:
        value = json.dumps(value)

    def half_of_the_lines(text):
        ranges = []
        for line in re.finditer(r".*\n|.+", text):
            if zlib.crc32(f"{seed}{line[0]}".encode("utf-8", "replace")) % 2:
                ranges.append(line.span())
        return ranges

    after = reduced(value, half_of_the_lines)
    before_text, after_text = as_text(value), as_text(after)
    assert type(after) is type(value)
    assert len(after_text) <= len(before_text)
    if after_text != before_text:
        assert "left out" in after_text or "[...]" in after_text


@pytest.mark.parametrize("shape", SHAPES)
@FEW
@given(rows=tables(), data=st.data())
def test_a_pinned_row_is_shown_whatever_a_denoiser_says(shape, rows, data):
    write, read = SHAPES[shape]
    pinned = data.draw(st.sampled_from(rows))
    pins = [rf"\b{pinned[0]}\b"]
    if shape == "json records":
        pins.append(rf"(?m)^place: {pinned[1]}$")
        pins.append(lambda text: f"{pinned[1]}\n" in text)
    for must_keep in pins:
        assert pinned in read(reduced(write(rows), keep_nothing, must_keep=must_keep))


@pytest.mark.parametrize("must_keep", ["(", 3, {"place": "wet"}])
def test_a_pin_that_cannot_be_read_is_refused(must_keep):
    with pytest.raises(InputError, match="must_keep"):
        read_result("text", must_keep=must_keep)


@every_shape
@FEW
@given(rows=tables(), limit=st.integers(300, 2000))
def test_a_cap_keeps_head_and_tail(write, read, rows, limit):
    text = write(rows)
    after = read_result(text).cap(limit).value
    if len(text) <= limit:
        assert after == text
    elif after != text:
        assert len(after) <= limit
        if "no longer" not in after:
            read_whole_rows(read, after, rows)


NUMBERS = list(range(2000))


def test_a_cap_where_no_record_can_leave_says_what_is_cut():
    value = json.dumps({"numbers": NUMBERS})
    after = read_result(value).cap(1000, has_recall=True)
    [omitted] = after.omitted_texts
    assert f"left out; recall({omitted.id}) returns them" in after.value
    head, tail = after.value.split("\n")[::2]
    whole_text = f"{head}{omitted.text}{tail}"
    assert re.findall(r"\d", whole_text) == re.findall(r"\d", value)


def test_a_cap_never_drops_a_pinned_part():
    rows = numbered_texts("Run number {n} ended well. " * 9, 40)
    rows[20] = "One run FAILED. " * 90
    text = "\n\n".join(rows)
    for source, pinned in (
        (json.dumps({"numbers": NUMBERS, "state": "FAILED"}), "FAILED"),
        (text, rows[20]),
    ):
        after = read_result(source, must_keep="FAILED").cap(1000).value
        assert pinned in after
        assert "characters shown" not in after
    assert len(after) < len(text) / 2
    assert "left out" in after


def test_an_object_without_a_list_stays_longer_than_its_cap_and_it_is_logged():
    value = {f"field {n}": n for n in range(500)}
    fallbacks._counts.clear()
    assert read_result(value).cap(1000).value == value
    assert list(fallbacks.fallback_counts().values()) == [1]
    assert read_result([value] * 50).cap(10_000).value != [value] * 50
    assert list(fallbacks.fallback_counts().values()) == [1]


def test_printed_objects_are_whole_or_left_out():
    rows = [f"Row(id={n}, note='Wet. Very wet, {n}.')" for n in range(60)]
    after = reduced(f"[{', '.join(rows)}]", "Very wet, 31.")
    assert after.endswith(f'returns them", {rows[31]}]')


def test_a_part_of_a_long_string_can_be_recalled():
    page = "\n\n".join(numbered_texts("Line {n} is about the rain. " * 9, 60))
    after = reduced(json.dumps({"page": page}), "Line 31")
    assert json.loads(after)["page"].count("recall(") == 1


def test_records_of_attributes_are_counted():
    cases = "".join(numbered_texts("<case name='t{n}' time='0.1'/>\n", 60))
    after = reduced(f"<suite>\n{cases}</suite>", "'t31'")
    assert "<!-- 1 of 60 parts shown; 59 left out" in after


def test_a_count_that_the_text_states_is_marked():
    rows = [{"town": f"town {n}", "rain": n} for n in range(60)]
    after = reduced({"count": 60, "rows": rows}, '{"town": "town 7"')
    note = after["rows"][0]["left_out"]
    assert note.startswith("1 of 60 items shown; 59 left out; recall(")
    assert after == {"count": 60, "rows": [{"left_out": note}, rows[7]]}


def test_lists_of_one_length_are_cut_together_or_not_at_all():
    rows = [{"text": f"Text number {n}. " * 9} for n in range(5)]
    value = {"ids": [1, 2, 3, 4, 5], "rows": rows}
    assert reduced(value, keep_nothing) == value


@pytest.mark.parametrize(
    "text",
    [
        "<!DOCTYPE r [<!ENTITY a 'b'>]>" + "<r>" + "<i><a>1</a></i>" * 60 + "</r>",
        "<r>" + "<i><a>1</a></j>" * 60 + "</r>",
    ],
)
def test_xml_that_is_not_read_is_never_half_of_a_document(text):
    after = reduced(text, lambda text: [(0, 3)])
    is_balanced = after.count("<i>") == after.count("</i>")
    assert is_balanced or after == text or "left out" in after


def test_a_page_that_is_yaml_too_stays_so():
    """A browser's snapshot of a page, which agents read; the line about the rest broke it."""
    rows = [
        f'    - row "Invoice {n}" [ref=e{n}]:\n      - cell "{n}"\n' for n in range(9)
    ]
    page = "### Snapshot\n- main:\n  - table [ref=e0]:\n" + "".join(rows)
    after = reduced(page, 'row "Invoice 5"')
    assert "left out" in after
    assert type(yaml.safe_load(after)) is type(yaml.safe_load(page))


def test_a_page_stays_balanced():
    rows = "".join(numbered_texts("<li><p>Row {n} of the list</p></li>", 60))
    page = f"<html><body><div><h1>Rows</h1><ul>{rows}</ul></div></body></html>"
    after = reduced(page, "Row 31")
    assert "Row 31 of the list" in after
    assert "Row 30 of the list" not in after
    for name in ("html", "body", "div", "ul", "li", "p"):
        assert after.count(f"<{name}>") == after.count(f"</{name}>")


@pytest.mark.parametrize("kept_number", [3, 5])
def test_printed_json_keeps_its_lines_and_the_note_has_one_like_them(kept_number):
    rooms = [{"room": f"Room {n} looks at the sea.", "beds": n} for n in range(6)]
    text = json.dumps({"rooms": rooms, "page": 1}, indent=4)
    after = reduced(text, f"Room {kept_number}")
    (note,) = set(after.splitlines()) - set(text.splitlines())
    assert note.startswith(" " * 8 + '{"left_out": "1')
    assert after.count("\n") == text.count("\n") - 5 * 4 + 1
