"""One way to cut a text, by the structure that it has, for library, command, adapters, tool results and service.

A text becomes `Piece`\\ s that tile it: Markdown and plain text by headings, paragraphs, list items, table rows
and code blocks, mail by message and quoted reply, HTML by its blocks, CSV by rows, JSON by the records of its
lists, logs by entries and transcripts by turns, code by the units of its indentation. Nothing is told about the
kind: what the text looks like decides, so every door cuts alike. A text that turns out not to be what it looked
like is cut as text.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from denoise_core.errors import InputError
from denoise_core.spans import Range, clip_spans, complement_spans, join_spans, merge_spans
from denoise_core.text import lines, markup, records
from denoise_core.text.chunk import sentences
from denoise_core.text.json_spans import field_ranges, value_without
from denoise_core.text.piece import Piece, lines_of
from denoise_core.types import Passage, Span, well_formed

_TEXT = (lines.TEXT, lines.CODE, lines.ENTRIES)


@dataclass(frozen=True, slots=True)
class Cut:
    """A text and the pieces that tile it. ``kind`` is ``"text"``, ``"code"``, ``"entries"`` (a log or transcript),
    ``"html"``, ``"csv"``, ``"json"``, ``"jsonl"`` or ``"rows"`` (a list of tuples as Python prints it).

    ``given`` is what `cut` was given, when that was no text; `back` gives the same type.
    """

    text: str
    kind: str
    pieces: tuple[Piece, ...]
    given: Any = None

    def at(self, start: int) -> int:
        """The number of the piece that holds the character ``start``."""
        return max(0, bisect_right(self.pieces, start, key=lambda p: p.start) - 1)

    def read(self, piece: Piece) -> tuple[str, str]:
        """What is read above a piece (headings, header row, the question that was answered), and its own text."""
        own = piece.said or self.text[piece.start : piece.end]
        above = [self.plain(a, b).strip() for a, b in piece.above]
        return "\n".join(s for s in (piece.header, *above) if s), own

    def smaller(self, piece: Piece) -> tuple[Range, ...]:
        """The sentences, lines or members that a piece may be cut at, to fit a budget; one range where it
        cannot be cut."""
        own = self.text[piece.start : piece.end]
        if self.kind == "json" and piece.inside is None:
            return tuple(field_ranges(self.text, piece.start, piece.end) or ((piece.start, piece.end),))
        if piece.whole or (self.kind == "html" and "<" in own.strip()[1:-1]):
            return ((piece.start, piece.end),)
        if self.kind in (lines.CODE, lines.ENTRIES):
            return tuple(lines_of(self.text, piece.start, piece.end))
        found = sentences(Passage(own, ""))
        return tuple((piece.start + s.start, piece.start + s.end) for s in found) or ((piece.start, piece.end),)

    def plain(self, start: int, end: int) -> str:
        """The characters ``[start, end)`` for a person to read: HTML without its tags."""
        own = self.text[start:end]
        return markup.stripped(own) if self.kind == "html" else own

    def remaining(self, kept: Iterable[Range | Span]) -> list[Range]:
        """What is left of `text` where these ranges are kept, in order and apart: never less than they are.

        JSON stays JSON: records of which nothing is kept leave their list, long texts keep the sentences that
        stay, and all else (counts, cursors, ids) stands as it was. CSV keeps its header row. Of any other text the
        kept ranges are left, each with what it cannot be read without.
        """
        as_pairs = ((s.start, s.end) if isinstance(s, Span) else (int(s[0]), int(s[1])) for s in kept)
        ranges = clip_spans(merge_spans((a, b) for a, b in as_pairs if a < b), 0, len(self.text))
        touched = [p for p in self.pieces if clip_spans(ranges, p.start, p.end)]
        above = {r for p in touched for r in p.above}
        if self.kind == "json":
            removed = records.removed_json(self.text, self.pieces, merge_spans([*ranges, *above]))
        elif self.kind == "rows":
            removed = records.removed_rows(self.text, self.pieces, ranges)
        elif self._is_container:
            removed = []  # it could not be read as JSON: all of it stays
        else:
            # What stands above brings no more.
            above = {r for p in touched if (p.start, p.end) not in above for r in p.above}
            return merge_spans([*above, *ranges])
        return complement_spans(removed, 0, len(self.text))

    def back(self, kept: Iterable[Range | Span]) -> Any:
        """What was given with what is `remaining` of it, in the same shape, every kept character as it stood."""
        left = self.remaining(kept)
        if left == [(0, len(self.text))]:
            return self.text if self.given is None else self.given
        if self._is_container:
            removed = complement_spans(left, 0, len(self.text))
            return value_without(self.given, self.text, removed)
        if isinstance(self.given, bytes):
            source = self.given.decode("utf-8", "surrogateescape")
            return join_spans(source, left).encode("utf-8", "surrogateescape")
        return join_spans(self.text, left)

    @property
    def _is_container(self) -> bool:
        return self.given is not None and not isinstance(self.given, str | bytes)


def cut(given: Any) -> Cut:
    """Cut a text, the bytes of one (UTF-8), or a list or dict such as a tool's result, into pieces that tile it.

    For a tool's result, or any text, in every door alike::

        shape = cut(result)  # str, bytes, list or dict
        found = denoiser.denoise(query, [Passage(shape.text, "result", provenance="tool")])
        result = shape.back(span for p in found.passages for span in p.covered)  # of the type it was

    The denoiser must cut as this does: ``ENDDenoiser(..., chunker="auto")``, as `default_denoiser` is. Raises
    `InputError` for any other value, and for what JSON does not hold.
    """
    if isinstance(given, str):
        return _cut(given)
    if isinstance(given, bytes):
        # A byte that is no UTF-8 is one character, so that places in the text are places in the bytes.
        return replace(_cut(well_formed(given.decode("utf-8", "surrogateescape"))), given=given)
    try:
        if not isinstance(given, dict | list | tuple):
            raise TypeError("not a list or an object")
        return replace(_cut(json.dumps(given, ensure_ascii=False)), given=given)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"cut: expected a text, bytes, or a list or dict that JSON holds, got {type(given).__name__}: {error}"
        ) from error


def pieces(passage: Passage) -> tuple[Span, ...]:
    """The pieces of a passage as spans that tile it; an empty passage is one empty piece."""
    if not passage.text:
        return (Span(passage.id, 0, 0),)
    return tuple(Span(passage.id, p.start, p.end) for p in cut(passage.text).pieces)


def brought(passage: Passage, span: Span) -> tuple[Span, ...]:
    """The ranges of the passage that a kept piece brings along: what stands above it, the sentence a pronoun
    points to. For any other span, those of the pieces it lies in."""
    own = cut(passage.text)
    out: list[Span] = []
    for piece in own.pieces[own.at(span.start) : own.at(max(span.start, span.end - 1)) + 1]:
        out += [Span(passage.id, *r) for r in (*piece.above, *lines.pointed(own.text, piece, own.kind in _TEXT))]
    return tuple(out)


@lru_cache(maxsize=256)
def _cut(text: str) -> Cut:
    kind = records.kind_of(text) or markup.kind_of(text) or lines.kind_of(text)
    made = _CUTTERS[kind](text) if kind in _CUTTERS else None
    if made is None:
        kind = kind if kind in _TEXT else lines.TEXT
        made = lines.pieces(text, kind)
    if all(p.frame or not text[p.start : p.end].strip() for p in made):
        made = [Piece(0, len(text))]  # structure with nothing in it: all there is
    return Cut(text, kind, tuple(made))


def _inside(text: str) -> list[tuple[Piece, str, str]] | None:
    """The pieces of a text that stands in JSON, with what is read of each; None where it is one."""
    own = _cut(text)
    return None if len(own.pieces) < 2 else [(p, *own.read(p)) for p in own.pieces]


_CUTTERS: dict[str, Callable[[str], list[Piece] | None]] = {
    "json": lambda text: records.json_pieces(text, _inside),
    "jsonl": records.json_lines,
    "csv": records.csv_rows,
    "rows": records.literal_rows,
    "html": markup.pieces,
}
