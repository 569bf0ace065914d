"""Chunk logs by entry and transcripts by turn."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from string import ascii_letters, digits

from denoise_core.spans import Ranges
from denoise_core.text.line_groups import group_lines, split_long
from denoise_core.text.prose import line_kind
from denoise_core.text.text_chunk import TextChunk

_DETECTION_CHARACTERS = 8_000
_MAX_TURN_CHARACTERS = 240  # a longer turn is no context of its answer
_MAX_TURNS_BEFORE = 3
_LONGEST_TIME = 12  # characters of a time of day without a date
_MIN_SHARE = 0.6  # of the lines must begin alike in a log or transcript
_MIN_STARTS = 4
_TIME_MARKS = frozenset(":-/.")  # a time holds one of these after its first digit
_TURN = re.compile(
    r"(?:[\[(]?(?P<time>\d[\d:.,/-]{0,20}(?:,?[ ]\d[\d:.]{0,11})?(?:[ ]?[AaPp][Mm])?)"
    r"[\])]?[ ]+(?:[-\u2013][ ]+)?)?(?P<name>[^\W\d_][\w .'-]{0,40}):[ \t]"
)
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
_CLOSING_MARKS = "\"'\u201d)*_"
_SHAPES = str.maketrans(
    digits + ascii_letters, "0" * len(digits) + "a" * len(ascii_letters)
)


def head_lines(text: str) -> list[str]:
    """Return the filled lines at the beginning of a text, which decide its format."""
    lines = text[:_DETECTION_CHARACTERS].split("\n")
    return list(filter(str.strip, lines))


def entry_starts(lines: Sequence[str]) -> frozenset[str]:
    """Return how entries begin: shapes of a time, or speakers who speak twice.

    Empty if too few lines begin so.
    """
    min_starts = max(_MIN_STARTS, _MIN_SHARE * len(lines))
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
    other text between them.
    """
    blocks: list[list[str]] = [[]]
    for line in lines:
        name = _speaker(line)
        if name in names:
            blocks[-1].append(name)
        elif blocks[-1]:
            blocks.append([])
    filled_blocks = list(filter(None, blocks))
    if len(filled_blocks) < 2:
        return False
    for block in filled_blocks:
        has_repeats = len(set(block)) < len(block)
        if has_repeats or len(block) < 3 or block[0] != filled_blocks[0][0]:
            return False
    return True


def entry_chunks(text: str) -> list[TextChunk]:
    """Chunk a log or transcript; a turn has the question before it as context."""
    known_starts = entry_starts(head_lines(text))

    def starts_entry(start: int, end: int) -> bool:
        line = text[start:end]
        if _speaker(line) in known_starts:
            return True
        return _time_shape(line) in known_starts

    entries = group_lines(text, starts_entry)
    speakers = [_speaker(text[start:end]) for start, end in entries]
    preamble: Ranges = []
    # Only the first group may not begin an entry.
    first_start, first_end = entries[0]
    if not starts_entry(first_start, first_end):
        speakers[0] = ""
        if first_end - first_start <= _MAX_TURN_CHARACTERS:
            preamble = [entries[0]]
    turn_count = sum(map(bool, speakers))
    is_talk = turn_count > 0.5 * len(entries)
    chunks = []
    for index, span in enumerate(entries):
        context_spans = list(preamble)
        if is_talk and speakers[index]:
            context_spans += _turns_before(entries, speakers, index)
        # The lines of a stack trace are no sentences.
        start, end = span
        entry_text = text[start:end].strip()
        by_lines = "\n" in entry_text
        if span in context_spans:
            context_spans.remove(span)
        chunks += split_long(text, span, tuple(context_spans), by_lines=by_lines)
    return chunks


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


def _turns_before(entries: Ranges, speakers: Sequence[str], index: int) -> Ranges:
    """Return what a turn answers: the last turn of another, and the turns since then.

    Empty if one of them is long, or if nobody else spoke within a few turns.
    """
    turns: Ranges = []
    first = max(0, index - _MAX_TURNS_BEFORE)
    for previous in reversed(range(first, index)):
        start, end = entries[previous]
        speaker = speakers[previous]
        is_short = end - start <= _MAX_TURN_CHARACTERS
        if not speaker or not is_short:
            return []
        turns.insert(0, (start, end))
        if speaker != speakers[index]:
            break
    return turns


def _count_repeated(line_starts: Iterable[str]) -> Counter[str]:
    """Count the non-empty starts that occur more than once."""
    counts = Counter(filter(None, line_starts))
    repeated: Counter[str] = Counter()
    for start, count in counts.items():
        if count > 1:
            repeated[start] = count
    return repeated


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
