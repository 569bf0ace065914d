"""Leave parts out of a text so that its reader sees how many, in the text's own format.

A cut is a list of edits of the raw text: what leaves, and the notes that say so. JSON
stays JSON, with a note as an element of the list that became shorter; YAML and XML get
a comment, tables a line, prose a mark at each gap and a line at the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from denoise_core.spans import (
    Range,
    Ranges,
    clip_spans,
    complement_spans,
    join_spans,
    merge_spans,
)
from denoise_core.text import lines, markup
from denoise_core.text.json_spans import (
    ListCut,
    TextEdit,
    apply_edits,
    load_json,
    map_string_offsets,
)
from denoise_core.text.line_groups import INNER_LINE_STARTS
from denoise_core.text.prose import line_kind
from denoise_core.text.structural import ChunkedText, chunk_text
from denoise_core.text.text_chunk import line_at
from denoise_core.text.tree_records import (
    MAX_PARSED_CHARACTERS,
    count_empty_values,
    load_yaml_nodes,
    parse_xml,
)

GAP_MARK = "[...]"
"""Replaces a part of a string, of prose or of code."""

LEFT_OUT_KEY = "left_out"
"""Name of the note in an object of JSON."""

_MAX_LINE_CHARACTERS = 240  # a longer line is a paragraph and may be cut inside
_UNITS = {"csv": "rows", "rows": "rows", "jsonl": "records", "yaml": "records"}
_NOTE_FORMS = {
    "csv": "# {}",
    "yaml": "# {}",
    "xml": "<!-- {} -->",
    "html": "<!-- {} -->",
}


def omission_note(
    item_count: int, dropped_count: int, unit: str, recall_id: str
) -> str:
    """Return the note about items that were left out.

    >>> omission_note(60, 37, "rows", "a1")
    '23 of 60 rows shown; 37 left out; recall(a1) returns them'
    """
    shown_count = item_count - dropped_count
    note = f"{shown_count} of {item_count} {unit} shown; {dropped_count} left out"
    if recall_id:
        note += f"; recall({recall_id}) returns them"
    return note


def cut_text(
    chunked: ChunkedText, kept_spans: Iterable[Range], recall_id: str = ""
) -> list[TextEdit]:
    """Return the edits that leave out what is not kept, with the notes about it.

    Empty if nothing is left out, if the result would not be shorter, or if a parser
    of the format could not read it.

    Args:
        chunked: The text.
        kept_spans: Half-open ranges of the text. Whole records, rows and lines that
            they touch are kept.
        recall_id: What a reader passes to ``recall`` for the parts left out; ``""`` if
            they cannot be recalled.
    """
    if chunked.text_format in lines.LINE_FORMATS and _is_broken_json(chunked.text):
        return []
    kept_spans = merge_spans(kept_spans)
    if chunked.text_format in ("json", "rows"):
        edits = _list_edits(chunked, kept_spans, recall_id)
    else:
        edits = _text_edits(chunked, kept_spans, recall_id)
    if not edits:
        return []
    new_text = apply_edits(chunked.text, edits)
    is_shorter = len(new_text) < len(chunked.text)
    if is_shorter and _is_readable(new_text, chunked):
        return edits
    return []


def _is_broken_json(text: str) -> bool:
    """Whether an unreadable text begins as JSON does: cut, values would change records."""
    inner_text = text.lstrip("[{ \t\r\n")
    return text.lstrip()[:1] in ("[", "{") and inner_text.startswith('"')


def left_out_text(chunked: ChunkedText, edits: Sequence[TextEdit]) -> str:
    """Return what the edits remove, readable, one part after the other."""
    parts = []
    for edit in edits:
        removed_text = chunked.readable_text(edit.start, edit.end)
        parts.append(removed_text.strip(" \t\r\n,"))
    return "\n".join(filter(None, parts))


def _is_readable(new_text: str, chunked: ChunkedText) -> bool:
    """Whether a parser of the format reads the text as it read the one before."""
    if chunked.text_format == "json":
        return load_json(new_text) is not None
    if chunked.text_format == "yaml":
        # A list of YAML without items would be read as null.
        return count_empty_values(new_text) == count_empty_values(chunked.text)
    if chunked.text_format == "xml":
        return parse_xml(new_text) is not None
    return True


# --- JSON, and lists that Python printed


def _list_edits(
    chunked: ChunkedText, kept_spans: Ranges, recall_id: str
) -> list[TextEdit]:
    """Return the edits of the lists whose cut is longer than its note."""
    list_cuts, string_spans = chunked.list_cuts(kept_spans)
    edits = []
    removed_spans = []
    noted_id = recall_id
    for list_cut in sorted(list_cuts, key=lambda cut: cut.start):
        if not list_cut.dropped_count:
            continue
        new_edits = _edits_of_list(chunked, list_cut, noted_id)
        if _saved_characters(new_edits) > 0:
            edits += new_edits
            removed_spans += list_cut.removed_spans
            noted_id = ""
    edits += _string_edits(chunked, kept_spans, noted_id)
    removed_spans = merge_spans(removed_spans)
    mark = GAP_MARK
    if noted_id:
        # Inside a string of JSON: without the quotes around it.
        quoted_id = json.dumps(noted_id)[1:-1]
        mark = f"[...; recall({quoted_id}) returns what is left out]"
    for start, end in string_spans:
        gap_edit = TextEdit(start, end, mark)
        is_inner = bool(clip_spans(removed_spans, start, end))
        if not is_inner and _saved_characters([gap_edit]) > 0:
            edits.append(gap_edit)
            mark = GAP_MARK
    return sorted(edits)


def _string_edits(
    chunked: ChunkedText, kept_spans: Ranges, recall_id: str
) -> Iterator[TextEdit]:
    """Yield the edits of strings that hold records, each cut as a text by itself."""
    for span, chunks in groupby(chunked.chunks, attrgetter("string_span")):
        parts = list(chunks)
        # The whole string leaves if nothing of it is kept.
        if len(parts) < 2 or not span or not clip_spans(kept_spans, *span):
            continue
        embedded = chunk_text(load_json(f'"{chunked.text[slice(*span)]}"'))
        embedded_spans = []
        for chunk, part in zip(embedded.chunks, parts, strict=True):
            if clip_spans(kept_spans, *part.span):
                embedded_spans.append(chunk.span)
        raw_offset = map_string_offsets(chunked.text, *span)
        for start, end, replacement in cut_text(embedded, embedded_spans, recall_id):
            escaped_text = json.dumps(replacement)[1:-1]
            yield TextEdit(raw_offset(start), raw_offset(end), escaped_text)


def _saved_characters(edits: Iterable[TextEdit]) -> int:
    """Return by how many characters the edits make a text shorter."""
    return sum(edit.end - edit.start - len(edit.replacement) for edit in edits)


def _edits_of_list(
    chunked: ChunkedText, list_cut: ListCut, recall_id: str
) -> list[TextEdit]:
    unit = "rows" if list_cut.is_table else "items"
    note = omission_note(list_cut.item_count, list_cut.dropped_count, unit, recall_id)
    edits = [TextEdit(start, end) for start, end in list_cut.removed_spans]
    if list_cut.is_table:
        quoted_note = json.dumps(note)
        member = f'"{LEFT_OUT_KEY}": {quoted_note}'
        is_emptied = list_cut.dropped_count == list_cut.item_count
        # Names stay between the lists of a table; rows that are members leave none.
        if not is_emptied or len(list_cut.removed_spans) > 1:
            member += ", "
        after_bracket = list_cut.start + 1
        note_edit = TextEdit(after_bracket, after_bracket, member)
        return [note_edit, *edits]
    start, end = list_cut.removed_spans[0]
    removed_text = chunked.text[start:end]
    first_item = removed_text.lstrip(", \t\r\n")
    element = _note_element(first_item[:1], note)
    if removed_text.lstrip().startswith(","):
        element = f", {element}"
    elif removed_text.rstrip().endswith(","):
        last_item_end = len(removed_text.rstrip(", \t\r\n"))
        element += removed_text[last_item_end:]
    edits[0] = TextEdit(start, end, element)
    return edits


def _note_element(bracket: str, note: str) -> str:
    """Return the note as an element like the one that begins with this character."""
    if bracket == "{":
        return json.dumps({LEFT_OUT_KEY: note})
    if bracket == "[":
        return json.dumps([note])
    if bracket == "(":
        return f"({note!r},)"
    return json.dumps(note)


# --- Every other format


def _text_edits(
    chunked: ChunkedText, kept_spans: Ranges, recall_id: str
) -> list[TextEdit]:
    text = chunked.text
    is_in_lines = chunked.text_format in lines.LINE_FORMATS
    if is_in_lines:
        kept_spans = _whole_lines(text, kept_spans)
    retained_spans = chunked.retained_spans(kept_spans)
    if is_in_lines:
        retained_lines = _whole_lines(text, retained_spans)
        retained_spans = merge_spans(retained_lines)
    edits = []
    for start, end in complement_spans(retained_spans, 0, len(text)):
        replacement = ""
        if is_in_lines:
            replacement = _gap_text(chunked, start, end)
        edit = TextEdit(start, end, replacement)
        if _saved_characters([edit]) > 0:
            edits.append(edit)
    if not edits:
        return []
    note = _text_note(chunked, edits, recall_id)
    return _with_last_line(text, edits, note)


def _text_note(chunked: ChunkedText, edits: Sequence[TextEdit], recall_id: str) -> str:
    """Return the line about what the edits remove, in the text's format."""
    removed_spans = [(edit.start, edit.end) for edit in edits]
    item_count, dropped_count = _count_chunks(chunked, removed_spans)
    unit = _UNITS.get(chunked.text_format, "parts")
    if not dropped_count:  # parts of a paragraph leave
        unit = "characters"
        item_count = len(chunked.text)
        dropped_count = sum(end - start for start, end in removed_spans)
    note = omission_note(item_count, dropped_count, unit, recall_id)
    if chunked.text_format == "jsonl":
        return json.dumps({LEFT_OUT_KEY: note})
    # A recall id may hold anything: the note stays one line, and one comment.
    note = " ".join(note.split())
    if chunked.text_format in ("xml", "html"):
        note = re.sub("-(?=-)", "- ", note)
    note_form = _NOTE_FORMS.get(chunked.text_format)
    if note_form is None:
        # A page of a browser, say, may be YAML too, and has to stay so.
        is_short = len(chunked.text) <= MAX_PARSED_CHARACTERS
        is_yaml = is_short and load_yaml_nodes(chunked.text) is not None
        note_form = _NOTE_FORMS["yaml"] if is_yaml else "[{}]"
    return note_form.replace("{}", note)


def _with_last_line(text: str, edits: list[TextEdit], note: str) -> list[TextEdit]:
    """Return the edits with the note as the last line of what they leave."""
    text_end = len(text)
    last_edit = TextEdit(text_end, text_end)
    if edits[-1].end == text_end:
        *edits, last_edit = edits
    text_before = apply_edits(text[: last_edit.start], edits)
    note_line = note
    if text_before and not text_before.endswith("\n"):
        note_line = f"\n{note_line}"
    if text.endswith("\n"):
        note_line = f"{note_line}\n"
    note_edit = last_edit._replace(replacement=note_line)
    return [*edits, note_edit]


def _whole_lines(text: str, spans: Iterable[Range]) -> Ranges:
    """Extend ranges to the lines they touch; a long line is a paragraph and may be cut."""
    extended_spans = []
    for start, end in spans:
        first_start, first_end = line_at(text, start)
        last_start, last_end = line_at(text, max(end - 1, start))
        if first_end - first_start <= _MAX_LINE_CHARACTERS:
            start = first_start
        if last_end - last_start <= _MAX_LINE_CHARACTERS:
            end = last_end
        extended_spans.append((start, end))
    return extended_spans


def _gap_text(chunked: ChunkedText, start: int, end: int) -> str:
    """Return what replaces a part of a text: a mark, unless whole units leave."""
    text = chunked.text
    if _is_unit_start(chunked, start) and _is_unit_start(chunked, end):
        return ""
    if not start and text.endswith("\n\n", 0, end):
        return ""  # nothing is above the first paragraph
    lead = ""
    if text[max(0, start - 1) : start].strip():
        lead = " "
    gap = text[start:end]
    inner_text = gap.rstrip()
    trail = gap[len(inner_text) :]
    if end < len(text) and not trail:
        trail = " "
    return f"{lead}{GAP_MARK}{trail}"


def _is_unit_start(chunked: ChunkedText, position: int) -> bool:
    """Whether a heading, a list item, a row or an entry begins here, or the text ends.

    Between such units nobody expects that one continues the other. A paragraph may
    continue the one before it: the commit, or the search hit, that it is about.
    """
    text = chunked.text
    if position in (0, len(text)):
        return True
    if text[position - 1] != "\n":
        return False
    if chunked.text_format == lines.LOG_ENTRIES:
        return text[position] not in INNER_LINE_STARTS
    line_start, line_end = line_at(text, position)
    line = text[line_start:line_end]
    return line_kind(line) in ("heading", "item", "row", "rule")


def _count_chunks(chunked: ChunkedText, removed_spans: Ranges) -> tuple[int, int]:
    """Return how many scored parts there are, and how many are wholly removed."""
    scored_chunks = chunked.scored_chunks
    dropped_count = 0
    for chunk in scored_chunks:
        remaining_spans = complement_spans(removed_spans, *chunk.span)
        remaining_text = join_spans(chunked.text, remaining_spans)
        if chunked.text_format == "html":
            remaining_text = markup.strip_tags(remaining_text)
        has_words = any(map(str.isalnum, remaining_text))
        if not has_words:
            dropped_count += chunk.part_count
    item_count = sum(chunk.part_count for chunk in scored_chunks)
    return item_count, dropped_count
