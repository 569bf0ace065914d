"""Long texts cut by themselves: at headings, paragraphs, rows and sentences, into pieces that are read alone.

A text of at most `WHOLE` characters stays one piece. A piece of a longer one is read, and kept, with the heading
it stands under (in a table: the head row), and kept with the sentence before it when it begins with a pronoun,
which says whom "he" and "this" mean.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

from denoise_core.text.chunk import chunks, sentences
from denoise_core.types import Passage, Span

WHOLE = 1200  # characters up to which a text is not cut
PIECE = 800  # characters of a piece, at most
HEADING = 100  # characters of a heading without a mark, at most

_MARKED = re.compile(r"\s{0,3}(#{1,6}\s{1,9}\S|={2,}+\s*+[^=\s][^=\n]+={2,}\s{0,9}$)")
_UNDERLINE = re.compile(r"\s{0,3}(={3,}|-{3,})\s{0,9}$")
_ROW = re.compile(r"\s{0,9}\|.*\|\s{0,9}$|[^\t\n]+\t[^\n]+$")
_PRONOUN = re.compile(
    r"\W*(he|she|it|its|they|them|their|his|her|this|these|those|that|such|the (?:former|latter))\b", re.IGNORECASE
)


def pieces(passage: Passage) -> tuple[Span, ...]:
    """Spans that tile the passage: the whole of it, or pieces of at most `PIECE` characters.

    A piece never runs across a heading, and a heading stands at the beginning of the piece after it.
    """
    if len(passage.text) <= WHOLE:
        return (Span(passage.id, 0, len(passage.text)),)
    return tuple(Span(passage.id, start, end) for start, end in _plan(passage.text)[0])


def heading(passage: Passage, span: Span) -> tuple[int, int] | None:
    """Characters of the heading that ``span`` stands under and does not hold itself; None where there is none."""
    if len(passage.text) <= WHOLE:
        return None
    headings = _plan(passage.text)[1]
    at = bisect_right([start for start, _ in headings], span.start) - 1
    if at < 0 or headings[at][1] > span.start:
        return None
    return headings[at]


def brought(passage: Passage, span: Span) -> tuple[Span, ...]:
    """The ranges of the passage that a kept piece brings along: its heading, the sentence a pronoun points to."""
    out = []
    if (found := heading(passage, span)) is not None:
        out.append(Span(passage.id, *found))
    if span.start > 0 and len(passage.text) > WHOLE and _PRONOUN.match(passage.text[span.start : span.end]):
        ends = _sentences(passage.text)
        at = bisect_right(ends, span.start) - 1
        if at >= 0:
            out.append(Span(passage.id, ends[at - 1] if at > 0 else 0, span.start))
    return tuple(out)


@lru_cache(maxsize=64)
def _sentences(text: str) -> tuple[int, ...]:
    """Where sentences end."""
    return tuple(s.end for s in sentences(Passage(text, "")))


@lru_cache(maxsize=64)
def _plan(text: str) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    """Ranges of the pieces, and of the headings, in order."""
    blocks, headings = _blocks(text)
    known, starts = set(headings), {start for start, _ in headings}
    packed: list[tuple[int, int]] = []
    for start, end in blocks:
        for a, b in _cut(text, start, end):
            # A heading alone is no piece: what follows joins it, whatever the length.
            alone = bool(packed) and packed[-1] in known
            fits = bool(packed) and b - packed[-1][0] <= PIECE
            if a not in starts and (alone or fits):
                packed[-1] = packed[-1][0], b
            else:
                packed.append((a, b))
    return tuple(packed), tuple(headings)


def _blocks(text: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Paragraphs, rows and headings with the white space after them, which tile the text; and the headings."""
    lines: list[tuple[int, int]] = []
    at = 0
    for line in text.splitlines(keepends=True):
        lines.append((at, at + len(line)))
        at += len(line)
    blocks: list[list[int]] = []
    headings: list[tuple[int, int]] = []
    open_, in_table = False, False
    for n, (start, end) in enumerate(lines):
        line = text[start:end]
        after = text[slice(*lines[n + 1])] if n + 1 < len(lines) else ""
        row = bool(_ROW.match(line))
        if not line.strip():
            if blocks:
                blocks[-1][1] = end
                if headings and headings[-1][1] == start:
                    headings[-1] = headings[-1][0], end
            else:
                blocks.append([start, end])
            open_, in_table = False, False
        elif row or _is_heading(line, after, text, lines, n):
            first = not row or not in_table
            blocks.append([start, end])
            if first and (not row or _ROW.match(after)):
                headings.append((start, end))
            open_, in_table = False, row
        elif _UNDERLINE.match(line) and headings and headings[-1][1] == start:
            blocks[-1][1] = end
            headings[-1] = headings[-1][0], end
        elif open_:
            blocks[-1][1] = end
        else:
            blocks.append([start, end])
            open_, in_table = True, False
    return [(a, b) for a, b in blocks], headings


def _is_heading(line: str, after: str, text: str, lines: Sequence[tuple[int, int]], n: int) -> bool:
    if _MARKED.match(line):
        return True
    said = line.strip()
    if len(said) > HEADING or said[-1] in ".,;:!?。！？" or not after:
        return False
    if _UNDERLINE.match(after):
        return True
    alone = n == 0 or not text[slice(*lines[n - 1])].strip()
    return alone and not after.strip() and said[:1].isupper() and len(said.split()) <= 12


def _cut(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The range itself, or parts of it at sentences when it is longer than a piece."""
    if end - start <= PIECE:
        return [(start, end)]
    spans = chunks(PIECE)(Passage(text[start:end], ""))
    return [(start + s.start, start + s.end) for s in spans]
