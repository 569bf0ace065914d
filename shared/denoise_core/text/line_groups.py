"""Groups of lines, and how a group that is too long is split."""

from __future__ import annotations

from collections.abc import Callable

from denoise_core.spans import Range, Ranges, RangeTuple
from denoise_core.text.chunk import pack_sentences
from denoise_core.text.text_chunk import (
    MAX_CHUNK_CHARACTERS,
    TextChunk,
    line_spans,
)

MAX_CODE_CHARACTERS = 1600
"""A longer code block is split at its lines."""

INNER_LINE_STARTS = " \t})]\n"
"""First characters of a line that continues the unit of the line before it."""


def group_lines(text: str, starts_group: Callable[[int, int], bool]) -> Ranges:
    """Group lines: each group reaches from a line that starts one to the next."""
    groups: Ranges = []
    for start, end in line_spans(text):
        if groups and not starts_group(start, end):
            groups[-1] = groups[-1][0], end
        else:
            groups.append((start, end))
    return groups


def split_long(
    text: str,
    span: Range,
    context_spans: RangeTuple,
    *,
    by_lines: bool = False,
    max_characters: int = MAX_CHUNK_CHARACTERS,
) -> list[TextChunk]:
    """Return the range as one chunk, or as several if it is too long.

    Args:
        text: The whole text.
        span: The range to chunk.
        context_spans: Context of every chunk.
        by_lines: Split code, or a stack trace, at lines and not at sentences.
        max_characters: Longest range that stays one chunk.
    """
    start, end = span
    ranges = [span]
    if end - start > max_characters and by_lines:
        ranges = pack_lines(text, start, end)
    short_ranges: Ranges = []
    for part_start, part_end in ranges:
        if part_end - part_start <= max_characters:
            short_ranges.append((part_start, part_end))
        else:
            half = MAX_CHUNK_CHARACTERS // 2
            short_ranges += pack_sentences(text, half, part_start, part_end)
    return [TextChunk(*part, context_spans) for part in short_ranges]


def pack_lines(text: str, start: int, end: int) -> Ranges:
    """Pack lines into ranges of at most `MAX_CHUNK_CHARACTERS`.

    Ranges end at a blank line if there is one in their second half.
    """
    packed_ranges: Ranges = []
    is_inner = False
    for line_start, line_end in line_spans(text, start, end):
        was_inner = is_inner
        is_inner = text[line_start] in INNER_LINE_STARTS
        if not packed_ranges:
            packed_ranges.append((line_start, line_end))
            continue
        range_start, range_end = packed_ranges[-1]
        packed_size = range_end - range_start
        is_full = line_end - range_start > MAX_CHUNK_CHARACTERS
        is_half_full = packed_size > MAX_CHUNK_CHARACTERS // 2
        after_blank = is_half_full and text.endswith("\n\n", 0, line_start)
        # "Caused by:" begins another part of a stack trace.
        if is_full or after_blank or (was_inner and not is_inner):
            packed_ranges.append((line_start, line_end))
        else:
            packed_ranges[-1] = range_start, line_end
    return packed_ranges
