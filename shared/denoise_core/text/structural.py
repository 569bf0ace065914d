"""Chunk any text by its own structure.

Comes in: a string, bytes, or a JSON-like value. Goes out: a `ChunkedText`, whose
`TextChunk` list tiles the text. Markdown and plain text are cut at headings,
paragraphs, list items, table rows and code blocks; mail by message and quoted reply;
HTML by block; CSV by row; JSON by the records of its lists; logs by entry;
transcripts by turn; source code by indentation.

The text alone decides the format, so the library, the command, the adapters and the
service cut alike. A text that is not what it looks like is cut as plain text.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from denoise_core.errors import InputError
from denoise_core.spans import (
    Range,
    Ranges,
    RangeTuple,
    clip_spans,
    complement_spans,
    join_spans,
    merge_spans,
    passage_spans,
)
from denoise_core.text import lines, markup, records
from denoise_core.text.chunk import sentence_ranges
from denoise_core.text.json_spans import field_ranges, value_without
from denoise_core.text.references import later_references
from denoise_core.text.text_chunk import TextChunk, line_spans
from denoise_core.types import Passage, Span, replace_surrogates

_LINE_FORMATS = (lines.PLAIN_TEXT, lines.SOURCE_CODE, lines.LOG_ENTRIES)


@dataclass(frozen=True, slots=True)
class ChunkedText:
    """A text and the chunks that tile it.

    Attributes:
        text: The whole text.
        text_format: ``"text"``, ``"code"``, ``"entries"`` (log or transcript),
            ``"html"``, ``"csv"``, ``"json"``, ``"jsonl"`` or ``"rows"`` (a list of
            tuples as Python prints it).
        chunks: The chunks in order.
        references: By index of a chunk those of later ones that name the same
            identifier (`later_references`); for text and entries.
        source_value: The argument of `chunk_text` if it was not a string; `restore`
            returns this type.
    """

    text: str
    text_format: str
    chunks: tuple[TextChunk, ...]
    source_value: Any = None
    references: Mapping[int, Sequence[int]] = field(default_factory=dict, compare=False)

    def chunk_index(self, position: int) -> int:
        """Return the index of the chunk that holds this character."""
        index = bisect_right(self.chunks, position, key=lambda chunk: chunk.start)
        return max(0, index - 1)

    def chunk_context_and_text(self, chunk: TextChunk) -> tuple[str, str]:
        """Return the chunk's context (headings, header row, question) and own text."""
        context_texts = [chunk.header]
        for start, end in chunk.context_spans:
            context_texts.append(self.readable_text(start, end).strip())
        chunk_text = chunk.display_text or chunk.text_of(self.text)
        return "\n".join(filter(None, context_texts)), chunk_text

    def context_ranges(self, start: int, end: int) -> Ranges:
        """Return the ranges that keeping ``text[start:end]`` must also keep.

        These are the context spans of every chunk it touches, the sentence that a
        pronoun at a chunk's start refers to, and later chunks that refer to it.
        """
        last_index = self.chunk_index(max(start, end - 1))
        ranges: Ranges = []
        for index in range(self.chunk_index(start), last_index + 1):
            chunk = self.chunks[index]
            ranges += chunk.context_spans
            for later_index in self.references.get(index, ()):
                later_chunk = self.chunks[later_index]
                ranges += later_chunk.context_spans
                ranges.append(later_chunk.span)
            if self.text_format in _LINE_FORMATS:
                ranges += lines.antecedent_sentence(self.text, chunk)
        return ranges

    def split_chunk(self, chunk: TextChunk) -> RangeTuple:
        """Split a chunk into sentences, lines or members, to fit a token budget.

        Returns:
            Half-open ranges that tile the chunk; one if it cannot be split.
        """
        ranges: Iterable[Range] | None = None
        if self.text_format == "json" and chunk.string_span is None:
            ranges = field_ranges(self.text, *chunk.span)
        elif self.text_format in (lines.SOURCE_CODE, lines.LOG_ENTRIES):
            ranges = line_spans(self.text, *chunk.span)
        elif not chunk.is_atomic and not self._has_inner_tags(chunk):
            ranges = sentence_ranges(self.text, *chunk.span)
        return tuple(ranges or ()) or (chunk.span,)

    def readable_text(self, start: int, end: int) -> str:
        """Return ``text[start:end]`` for a person to read: HTML without its tags."""
        raw_text = self.text[start:end]
        if self.text_format == "html":
            return markup.strip_tags(raw_text)
        return raw_text

    def retained_spans(self, kept_spans: Iterable[Range | Span]) -> Ranges:
        """Return what is left of the text if these spans are kept.

        JSON stays JSON: records without a kept character leave their list, long
        strings keep their kept sentences, and all else (counts, cursors, ids) stays.
        CSV keeps its header row. In any other text each kept span keeps its context.

        Args:
            kept_spans: Half-open ranges of the text, in any order.

        Returns:
            Merged ranges in order, which cover at least ``kept_spans``.
        """
        valid_ranges = []
        for kept_span in kept_spans:
            start, end = _to_range(kept_span)
            if start < end:
                valid_ranges.append((start, end))
        ranges = clip_spans(merge_spans(valid_ranges), 0, len(self.text))
        touched_chunks = []
        for chunk in self.chunks:
            if clip_spans(ranges, *chunk.span):
                touched_chunks.append(chunk)
        context_spans = _context_spans(touched_chunks)
        removed_spans = []
        if self.text_format == "json":
            all_spans = merge_spans([*ranges, *context_spans])
            removed_spans = records.removed_json_spans(
                self.text, self.chunks, all_spans
            )
        elif self.text_format == "rows":
            removed_spans = records.removed_row_spans(self.text, self.chunks, ranges)
        elif not self._is_container:
            # A chunk kept only as context brings no further context.
            main_chunks = []
            for chunk in touched_chunks:
                if chunk.span not in context_spans:
                    main_chunks.append(chunk)
            return merge_spans([*_context_spans(main_chunks), *ranges])
        # A container that could not be read as JSON keeps everything.
        return complement_spans(removed_spans, 0, len(self.text))

    def restore(self, kept_spans: Iterable[Range | Span]) -> Any:
        """Return the source value reduced to its `retained_spans`.

        The result has the type of the value that `chunk_text` received, and every
        kept character is unchanged.
        """
        retained_spans = self.retained_spans(kept_spans)
        if retained_spans == [(0, len(self.text))]:
            if self.source_value is None:
                return self.text
            return self.source_value
        if self._is_container:
            removed_spans = complement_spans(retained_spans, 0, len(self.text))
            return value_without(self.source_value, self.text, removed_spans)
        if isinstance(self.source_value, bytes):
            source_text = self.source_value.decode("utf-8", "surrogateescape")
            joined_text = join_spans(source_text, retained_spans)
            return joined_text.encode("utf-8", "surrogateescape")
        return join_spans(self.text, retained_spans)

    def _has_inner_tags(self, chunk: TextChunk) -> bool:
        is_html = self.text_format == "html"
        return is_html and "<" in chunk.text_of(self.text).strip()[1:-1]

    @property
    def _is_container(self) -> bool:
        return not isinstance(self.source_value, str | bytes | None)


def chunk_text(source_value: Any) -> ChunkedText:
    """Chunk a text, UTF-8 bytes, or a list or dict such as a tool's result.

    Example::

        chunked = chunk_text(tool_result)  # str, bytes, list or dict
        passage = Passage(chunked.text, "result", provenance="tool")
        result = denoiser.denoise(query, [passage])
        kept_spans = [span for p in result.passages for span in p.covered]
        tool_result = chunked.restore(kept_spans)  # the type it had

    The denoiser must chunk the same way: ``ENDDenoiser(..., chunker="auto")``, as
    `default_denoiser` does.

    Raises:
        InputError: For any other value, and for a value that JSON cannot hold.
    """
    if isinstance(source_value, str):
        return _chunk_string(source_value)
    if isinstance(source_value, bytes):
        # An invalid byte becomes one character, so text offsets are byte positions
        # of the decoded source.
        decoded_text = source_value.decode("utf-8", "surrogateescape")
        chunked = _chunk_string(replace_surrogates(decoded_text))
        return replace(chunked, source_value=source_value)
    try:
        if not isinstance(source_value, dict | list | tuple):
            raise TypeError("not a list or an object")
        json_text = json.dumps(source_value, ensure_ascii=False)
        return replace(_chunk_string(json_text), source_value=source_value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            "chunk_text: expected a text, bytes, or a list or dict that JSON holds, "
            f"got {type(source_value).__name__}: {error}"
        ) from error


def structural_chunker(passage: Passage) -> tuple[Span, ...]:
    """Chunk a passage into spans that tile it; an empty passage is one empty span."""
    chunks = chunk_text(passage.text).chunks
    return passage_spans(passage.id, [chunk.span for chunk in chunks])


def _to_range(span: Range | Span) -> Range:
    if isinstance(span, Span):
        return (span.start, span.end)
    return span


def _context_spans(chunks: Iterable[TextChunk]) -> set[Range]:
    context_spans: set[Range] = set()
    for chunk in chunks:
        context_spans.update(chunk.context_spans)
    return context_spans


@lru_cache(maxsize=256)
def _chunk_string(text: str) -> ChunkedText:
    text_format = (
        records.detect_record_format(text)
        or markup.detect_markup(text)
        or lines.detect_line_format(text)
    )
    chunks = None
    if text_format in _FORMAT_CHUNKERS:
        chunks = _FORMAT_CHUNKERS[text_format](text)
        if not chunks:
            text_format = lines.PLAIN_TEXT
    if not chunks:
        chunks = lines.line_chunks(text, text_format)
    if not any(chunk.is_scored_in(text) for chunk in chunks):
        chunks = [TextChunk(0, len(text))]  # nothing but structure: keep it scorable
    references: Mapping[int, Sequence[int]] = {}
    if text_format in (lines.PLAIN_TEXT, lines.LOG_ENTRIES):
        references = later_references(text, chunks)
    return ChunkedText(text, text_format, tuple(chunks), references=references)


def _chunk_embedded(text: str) -> list[TextChunk]:
    """Chunk a string inside JSON, with context in the header and text to display."""
    chunked = _chunk_string(text)
    if len(chunked.chunks) < 2:
        return [TextChunk(0, len(text), display_text=text)]
    chunks = []
    for chunk in chunked.chunks:
        context, chunk_text = chunked.chunk_context_and_text(chunk)
        chunks.append(chunk._replace(header=context, display_text=chunk_text))
    return chunks


# A new format needs a detector (see `_chunk_string`) and a function here that returns
# chunks that tile the text, or None if the text is not in that format after all.
_FORMAT_CHUNKERS: dict[str, Callable[[str], list[TextChunk] | None]] = {
    "json": lambda text: records.json_chunks(text, _chunk_embedded),
    "jsonl": records.json_line_chunks,
    "csv": records.csv_chunks,
    "rows": records.parse_python_rows,
    "html": markup.html_chunks,
}
