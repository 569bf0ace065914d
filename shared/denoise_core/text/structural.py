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
from denoise_core.spans import (
    Range,
    clip_spans,
    complement_spans,
    join_spans,
    merge_spans,
)
from denoise_core.text import lines, markup, records
from denoise_core.text.chunk import sentence_spans
from denoise_core.text.json_spans import field_ranges, value_without
from denoise_core.text.text_chunk import TextChunk, line_spans
from denoise_core.types import Passage, Span, replace_surrogates

_TEXT = (lines.PLAIN_TEXT, lines.SOURCE_CODE, lines.LOG_ENTRIES)


@dataclass(frozen=True, slots=True)
class ChunkedText:
    """A text and the pieces that tile it. ``kind`` is ``"text"``, ``"code"``, ``"entries"`` (a log or transcript),
    ``"html"``, ``"csv"``, ``"json"``, ``"jsonl"`` or ``"rows"`` (a list of tuples as Python prints it).

    ``given`` is what `cut` was given, when that was no text; `back` gives the same type.
    """

    text: str
    text_format: str
    chunks: tuple[TextChunk, ...]
    source_value: Any = None

    def chunk_index(self, start: int) -> int:
        """The number of the piece that holds the character ``start``."""
        return max(0, bisect_right(self.chunks, start, key=lambda p: p.start) - 1)

    def chunk_context_and_text(self, piece: TextChunk) -> tuple[str, str]:
        """What is read above a piece (headings, header row, the question that was answered), and its own text."""
        own = piece.display_text or self.text[piece.start : piece.end]
        above = [self.readable_text(a, b).strip() for a, b in piece.context_spans]
        return "\n".join(s for s in (piece.header, *above) if s), own

    def split_chunk(self, piece: TextChunk) -> tuple[Range, ...]:
        """The sentences, lines or members that a piece may be cut at, to fit a budget; one range where it
        cannot be cut."""
        own = self.text[piece.start : piece.end]
        if self.text_format == "json" and piece.string_span is None:
            return tuple(
                field_ranges(self.text, piece.start, piece.end)
                or ((piece.start, piece.end),)
            )
        if piece.is_atomic or (self.text_format == "html" and "<" in own.strip()[1:-1]):
            return ((piece.start, piece.end),)
        if self.text_format in (lines.SOURCE_CODE, lines.LOG_ENTRIES):
            return tuple(line_spans(self.text, piece.start, piece.end))
        found = sentence_spans(Passage(own, ""))
        return tuple((piece.start + s.start, piece.start + s.end) for s in found) or (
            (piece.start, piece.end),
        )

    def readable_text(self, start: int, end: int) -> str:
        """The characters ``[start, end)`` for a person to read: HTML without its tags."""
        own = self.text[start:end]
        return markup.strip_tags(own) if self.text_format == "html" else own

    def retained_spans(self, kept: Iterable[Range | Span]) -> list[Range]:
        """What is left of `text` where these ranges are kept, in order and apart: never less than they are.

        JSON stays JSON: records of which nothing is kept leave their list, long texts keep the sentences that
        stay, and all else (counts, cursors, ids) stands as it was. CSV keeps its header row. Of any other text the
        kept ranges are left, each with what it cannot be read without.
        """
        as_pairs = (
            (s.start, s.end) if isinstance(s, Span) else (int(s[0]), int(s[1]))
            for s in kept
        )
        ranges = clip_spans(
            merge_spans((a, b) for a, b in as_pairs if a < b), 0, len(self.text)
        )
        touched = [p for p in self.chunks if clip_spans(ranges, p.start, p.end)]
        above = {r for p in touched for r in p.context_spans}
        if self.text_format == "json":
            removed = records.removed_json_spans(
                self.text, self.chunks, merge_spans([*ranges, *above])
            )
        elif self.text_format == "rows":
            removed = records.removed_row_spans(self.text, self.chunks, ranges)
        elif self._is_container:
            removed = []  # it could not be read as JSON: all of it stays
        else:
            # What stands above brings no more.
            above = {
                r
                for p in touched
                if (p.start, p.end) not in above
                for r in p.context_spans
            }
            return merge_spans([*above, *ranges])
        return complement_spans(removed, 0, len(self.text))

    def restore(self, kept: Iterable[Range | Span]) -> Any:
        """What was given with what is `remaining` of it, in the same shape, every kept character as it stood."""
        left = self.retained_spans(kept)
        if left == [(0, len(self.text))]:
            return self.text if self.source_value is None else self.source_value
        if self._is_container:
            removed = complement_spans(left, 0, len(self.text))
            return value_without(self.source_value, self.text, removed)
        if isinstance(self.source_value, bytes):
            source = self.source_value.decode("utf-8", "surrogateescape")
            return join_spans(source, left).encode("utf-8", "surrogateescape")
        return join_spans(self.text, left)

    @property
    def _is_container(self) -> bool:
        return self.source_value is not None and not isinstance(
            self.source_value, str | bytes
        )


def chunk_text(given: Any) -> ChunkedText:
    """Cut a text, the bytes of one (UTF-8), or a list or dict such as a tool's result, into pieces that tile it.

    For a tool's result, or any text, in every door alike::

        shape = cut(result)  # str, bytes, list or dict
        found = denoiser.denoise(query, [Passage(shape.text, "result", provenance="tool")])
        result = shape.back(span for p in found.passages for span in p.source_spans)  # of the type it was

    The denoiser must cut as this does: ``ENDDenoiser(..., chunker="auto")``, as `default_denoiser` is. Raises
    `InputError` for any other value, and for what JSON does not hold.
    """
    if isinstance(given, str):
        return _chunk_string(given)
    if isinstance(given, bytes):
        # A byte that is no UTF-8 is one character, so that places in the text are places in the bytes.
        return replace(
            _chunk_string(replace_surrogates(given.decode("utf-8", "surrogateescape"))),
            source_value=given,
        )
    try:
        if not isinstance(given, dict | list | tuple):
            raise TypeError("not a list or an object")
        return replace(
            _chunk_string(json.dumps(given, ensure_ascii=False)), source_value=given
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"cut: expected a text, bytes, or a list or dict that JSON holds, got {type(given).__name__}: {error}"
        ) from error


def structural_chunker(passage: Passage) -> tuple[Span, ...]:
    """The pieces of a passage as spans that tile it; an empty passage is one empty piece."""
    if not passage.text:
        return (Span(passage.id, 0, 0),)
    return tuple(
        Span(passage.id, p.start, p.end) for p in chunk_text(passage.text).chunks
    )


def context_spans_of(passage: Passage, span: Span) -> tuple[Span, ...]:
    """The ranges of the passage that a kept piece brings along: what stands above it, the sentence a pronoun
    points to. For any other span, those of the pieces it lies in."""
    own = chunk_text(passage.text)
    out: list[Span] = []
    for piece in own.chunks[
        own.chunk_index(span.start) : own.chunk_index(max(span.start, span.end - 1)) + 1
    ]:
        out += [
            Span(passage.id, *r)
            for r in (
                *piece.context_spans,
                *lines.antecedent_sentence(own.text, piece, own.text_format in _TEXT),
            )
        ]
    return tuple(out)


@lru_cache(maxsize=256)
def _chunk_string(text: str) -> ChunkedText:
    kind = (
        records.detect_record_format(text)
        or markup.detect_markup(text)
        or lines.detect_line_format(text)
    )
    made = _CUTTERS[kind](text) if kind in _CUTTERS else None
    if made is None:
        kind = kind if kind in _TEXT else lines.PLAIN_TEXT
        made = lines.line_chunks(text, kind)
    if all(p.is_structural or not text[p.start : p.end].strip() for p in made):
        made = [TextChunk(0, len(text))]  # structure with nothing in it: all there is
    return ChunkedText(text, kind, tuple(made))


def _inside(text: str) -> list[tuple[TextChunk, str, str]] | None:
    """The pieces of a text that stands in JSON, with what is read of each; None where it is one."""
    own = _chunk_string(text)
    return (
        None
        if len(own.chunks) < 2
        else [(p, *own.chunk_context_and_text(p)) for p in own.chunks]
    )


_CUTTERS: dict[str, Callable[[str], list[TextChunk] | None]] = {
    "json": lambda text: records.json_chunks(text, _inside),
    "jsonl": records.json_line_chunks,
    "csv": records.csv_chunks,
    "rows": records.parse_python_rows,
    "html": markup.html_chunks,
}
