"""Chunk logs by entry and transcripts by turn."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import groupby
from string import ascii_letters, digits
from typing import NamedTuple

from denoise_core.spans import Range, RangeTuple
from denoise_core.text.line_groups import group_lines, split_long
from denoise_core.text.prose import line_kind
from denoise_core.text.text_chunk import TextChunk, line_at

_DETECTION_CHARACTERS = 8_000
_MAX_TURN_CHARACTERS = 240  # a longer turn is no context of its answer
_MAX_TURNS_BEFORE = 3
_LONGEST_TIME = 12  # characters of a time of day without a date
_MIN_SHARE = 0.6  # of the lines must begin alike in a log or transcript
_MIN_STARTS = 4
_TIME_MARKS = frozenset(":-/.")  # a time holds one of these after its first digit
_TURN = re.compile(
    r"(?:[\[(]?(?P<time>\d[\d:.,/-]{0,20}(?:,?[ ]\d[\d:.]{0,11})?(?:[ ]?[AaPp][Mm])?)"
    r"[\])]?[ ]+(?:[-\u2013][ ]+)?)?"
    # After a time a name may hold more, such as an emoji, a comma or a phone number.
    r"(?P<name>(?(time)[+\w][^:\n\[\]{}=/]{0,40}|[^\W\d_][\w .'-]{0,40})):[ \t]"
)
_PREAMBLE = "preamble"  # in place of a section's mark
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
_CLOSING_MARKS = "\"'\u201d)*_"
_SHAPES = str.maketrans(
    digits + ascii_letters, "0" * len(digits) + "a" * len(ascii_letters)
)


def head_lines(text: str) -> list[str]:
    """Return the lines at the beginning of a text, which decide its format.

    A blank one is empty.
    """
    head = text[:_DETECTION_CHARACTERS]
    # Half of a record would look like no record.
    last_break = head.rfind("\n\n", _DETECTION_CHARACTERS // 2)
    if last_break > 0 and len(text) > _DETECTION_CHARACTERS:
        head = head[:last_break]
    lines = head.split("\n")
    return [line if line.strip() else "" for line in lines]


def entry_starts(lines: Sequence[str]) -> frozenset[str]:
    """Return how entries begin: shapes of a time, or speakers who speak twice.

    Empty if too few lines begin so.
    """
    filled_count = sum(map(bool, lines))
    min_starts = max(_MIN_STARTS, _MIN_SHARE * filled_count)
    shapes = _count_repeated(map(_time_shape, lines))
    if shapes.total() >= min_starts:
        return frozenset(shapes)
    speakers = _count_repeated(map(_speaker, lines))
    if len(speakers) < 2 or speakers.total() < min_starts:
        return frozenset()
    if _are_field_names(lines, speakers):
        return frozenset()
    # Rules separate records of fields, whose names look like speakers.
    rules = sum(line_kind(line) == "rule" for line in lines)
    if rules > 1:
        return frozenset()
    return frozenset(speakers)


def _are_field_names(lines: Sequence[str], names: Container[str]) -> bool:
    """Whether the names are fields, as in the heads of mails, and nobody who speaks.

    Fields come in blocks of three or more that all begin with the same one, and have
    other text or a blank line between them.
    """
    first_names = []
    for has_field, names_in_a_row in groupby(map(_speaker, lines), names.__contains__):
        if not has_field:
            continue
        block = list(names_in_a_row)
        has_repeats = len(set(block)) < len(block)
        if has_repeats or len(block) < 3:
            return False
        first_names.append(block[0])
    return len(first_names) > 1 and len(set(first_names)) == 1


class _Entry(NamedTuple):
    """An entry, who speaks in it (or ``""``), and the lines of the sections above it."""

    span: Range
    speaker: str
    section_spans: RangeTuple


def entry_chunks(text: str) -> list[TextChunk]:
    """Chunk a log or transcript, with the sections above each entry as context.

    A turn also has the question before it as context.
    """
    entries, chunks = _read_entries(text)
    turn_count = sum(bool(entry.speaker) for entry in entries)
    is_talk = turn_count > 0.5 * len(entries)
    for index, entry in enumerate(entries):
        context_spans = set(entry.section_spans)
        if is_talk and entry.speaker:
            for turn in _turns_before(entries, index):
                context_spans.update((turn.span, *turn.section_spans))
        start, end = entry.span
        entry_text = text[start:end].strip()
        chunks += split_long(
            text,
            entry.span,
            tuple(sorted(context_spans)),
            # The lines of a stack trace are no sentences.
            by_lines="\n" in entry_text,
        )
    return sorted(chunks)


def _read_entries(text: str) -> tuple[list[_Entry], list[TextChunk]]:
    """Return the entries of a text, and the chunks of the names of its sections."""
    known_starts = entry_starts(head_lines(text))

    def starts_entry(start: int, end: int) -> bool:
        line = text[start:end]
        if _speaker(line) in known_starts:
            return True
        return _time_shape(line) in known_starts

    def starts_group(start: int, end: int) -> bool:
        has_mark = _section_mark(text, (start, end), starts_entry) != ""
        return has_mark or starts_entry(start, end)

    entries = []
    sections = []
    open_sections: dict[str, Range] = {}  # by mark, from the outermost to the innermost
    for start, end in group_lines(text, starts_group):
        group = start, end
        first_line = line_at(text, start)
        mark = _section_mark(text, first_line, starts_entry)
        # A section ends the one with the same mark, and those in it.
        while mark in open_sections:
            open_sections.popitem()
        outer_spans = tuple(open_sections.values())
        if mark and not text[first_line[1] : end].strip():
            open_sections[mark] = group
            sections.append(TextChunk(*group, outer_spans, is_structural=True))
            continue
        speaker = ""
        if mark:
            open_sections[mark] = first_line
        elif starts_entry(*first_line):
            speaker = _speaker(text[start:end])
        elif end - start <= _MAX_TURN_CHARACTERS:
            open_sections[_PREAMBLE] = group  # only the first group begins no entry
        entries.append(_Entry(group, speaker, outer_spans))
    return entries, sections


def _section_mark(
    text: str, line: Range, starts_entry: Callable[[int, int], bool]
) -> str:
    """Return the mark before the name of a day or topic; ``""`` in other lines.

    A line that an entry goes on after, such as one of a stack trace, names nothing.
    """
    mark = _leading_mark(text, line)
    if not mark or starts_entry(*line):
        return ""
    _, end = line
    _, next_end = line_at(text, end)
    next_line = end, next_end
    is_blank = not text[end:next_end].strip()
    if is_blank or _leading_mark(text, next_line) or starts_entry(*next_line):
        return mark
    return ""


def _leading_mark(text: str, line: Range) -> str:
    """Return ``##`` of a heading or ``---`` of a divider with words, else ``""``."""
    raw_line = text[slice(*line)].strip(" ")
    name = raw_line.lstrip("#=-_")
    if line_kind(raw_line) in ("heading", "divider") and name.strip():
        return raw_line.removesuffix(name)
    return ""


def answering_turns(
    text: str, chunks: Sequence[TextChunk]
) -> Iterator[tuple[int, int]]:
    """Yield which chunk asks and which of the next few answers it, as indices.

    A question shares its words with what is asked, its answer often none: "four, all
    from the rear third". An answer has the turn that asks as context.
    """
    for index, chunk in enumerate(chunks):
        answerer = _speaker(chunk.text_of(text))
        for start, end in chunk.context_spans:
            turn = text[start:end]
            asking = bisect_right(chunks, start, key=lambda chunk: chunk.start) - 1
            is_near = index - asking <= _MAX_TURNS_BEFORE
            if is_near and _speaker(turn) not in ("", answerer) and _asks(turn):
                yield asking, index


def _asks(turn: str) -> bool:
    """Whether a word ends with a question mark; one in an address does not count."""
    bare_words = [word.rstrip(_CLOSING_MARKS) for word in turn.split()]
    return any(word.endswith(_QUESTION_MARKS) for word in bare_words)


def _turns_before(entries: Sequence[_Entry], index: int) -> list[_Entry]:
    """Return what a turn answers: the last turn of another, and the turns since then.

    Empty if one of them is long, or if nobody else spoke within a few turns.
    """
    turns: list[_Entry] = []
    first = max(0, index - _MAX_TURNS_BEFORE)
    for turn in reversed(entries[first:index]):
        start, end = turn.span
        is_short = end - start <= _MAX_TURN_CHARACTERS
        if not turn.speaker or not is_short:
            return []
        turns.insert(0, turn)
        if turn.speaker != entries[index].speaker:
            break
    return turns


def _count_repeated(line_starts: Iterable[str]) -> Counter[str]:
    """Count the non-empty starts that occur more than once."""
    counts = Counter(filter(None, line_starts))
    return Counter({start: count for start, count in counts.items() if count > 1})


def _speaker(line: str) -> str:
    """Return who speaks in this line; ``""`` if it is no turn.

    A capital word after a date is a log's level: ``2031-08-19 22:00:01 ERROR: ...``.
    """
    turn = _TURN.match(line)
    if turn is None:
        return ""
    name = turn["name"]
    stamp = turn["time"] or ""
    has_date = len(stamp) > _LONGEST_TIME
    if has_date and name.isupper():
        return ""
    return name


def _time_shape(line: str) -> str:
    """Return a line's first characters, each digit as 0; ``""`` if they hold no time."""
    shape = line[:10].translate(_SHAPES)
    digit_count = shape.count("0")
    has_marks = not _TIME_MARKS.isdisjoint(shape[1:])
    if digit_count < 4 or not has_marks:
        return ""
    return shape[:8]
