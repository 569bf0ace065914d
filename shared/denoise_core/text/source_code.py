"""Chunk source code by the units of its indentation."""

from __future__ import annotations

from denoise_core.spans import RangeTuple
from denoise_core.text.line_groups import (
    INNER_LINE_STARTS,
    MAX_CODE_CHARACTERS,
    group_lines,
    pack_lines,
)
from denoise_core.text.text_chunk import (
    MAX_CHUNK_CHARACTERS,
    TextChunk,
    line_spans,
)


def code_chunks(text: str) -> list[TextChunk]:
    """Chunk source code into units that begin at the margin after a blank line.

    A long unit is split at blank lines; its first lines are context of the parts.
    """

    def starts_unit(start: int, end: int) -> bool:
        is_margin_line = text[start] not in INNER_LINE_STARTS
        previous_start = text.rfind("\n", 0, max(0, start - 1)) + 1
        after_blank = not text[previous_start:start].strip()
        if not is_margin_line or not after_blank:
            return False
        return bool(text[start:end].strip())

    chunks = []
    for start, end in group_lines(text, starts_unit):
        if end - start <= MAX_CODE_CHARACTERS:
            chunks.append(TextChunk(start, end))
            continue
        signature_end = _signature_end(text, start, end)
        for part in pack_lines(text, start, end):
            is_below = part[0] >= signature_end > start
            context_spans: RangeTuple = ()
            if is_below:
                context_spans = ((start, signature_end),)
            chunks.append(TextChunk(*part, context_spans))
    return chunks


def _signature_end(text: str, start: int, end: int) -> int:
    """Return where the lines that introduce a unit end; ``start`` if none do.

    That is the first indented line, or the second line if the first indented one is
    far away.
    """
    for line_start, _ in line_spans(text, start, end):
        if text[line_start] not in INNER_LINE_STARTS:
            continue
        if line_start - start <= MAX_CHUNK_CHARACTERS // 2:
            return line_start
        return text.index("\n", start, end) + 1
    return start
