"""Chunk any text by its own structure.

Comes in: a string or a JSON-like value. Goes out: a `ChunkedText`, whose
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
from datetime import date, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from denoise_core.errors import InputError
from denoise_core.spans import (
    Range,
    Ranges,
    RangeTuple,
    clip_spans,
    complement_spans,
    merge_spans,
    passage_spans,
)
from denoise_core.text import lines, markup, records, tree_records
from denoise_core.text.chunk import sentence_ranges
from denoise_core.text.entries import answering_turns
from denoise_core.text.json_spans import (
    BYTE_ORDER_MARK,
    ListCut,
    TextEdit,
    apply_edits,
    edit_value,
    field_ranges,
    object_fields,
)
from denoise_core.text.references import later_references
from denoise_core.text.text_chunk import (
    FREE_CHUNKS,
    MIN_MEAN_CHARACTERS,
    TextChunk,
    line_spans,
    merge_small_chunks,
)
from denoise_core.types import Passage, Span
from denoise_core.weighted_cache import cache_by_bytes

MAX_CONTEXT_SPANS = 6
"""Ranges of context (headings, list items) that are read with a chunk."""

MAX_CONTEXT_CHARACTERS = 1000
"""Characters of them."""

_WHOLE_STRUCTURE_FORMATS = ("csv", "xml", "yaml")
_WHOLE_CHUNK_FORMATS = (*_WHOLE_STRUCTURE_FORMATS, "jsonl", "html")


@dataclass(frozen=True, slots=True)
class ChunkedText:
    """A text and the chunks that tile it.

    Attributes:
        text: The whole text.
        text_format: ``"text"``, ``"code"``, ``"entries"`` (log or transcript),
            ``"html"``, ``"xml"``, ``"yaml"``, ``"csv"``, ``"json"``, ``"jsonl"`` or
            ``"rows"`` (a list of tuples as Python prints it).
        chunks: The chunks in order.
        references: By index of a chunk those of later ones that name the same
            identifier (`later_references`) or answer it (`answering_turns`); for text
            and entries.
        source_value: The argument of `chunk_text` if it was not a string; `apply`
            returns this type.
    """

    text: str
    text_format: str
    chunks: tuple[TextChunk, ...]
    source_value: Any = None
    references: Mapping[int, Sequence[int]] = field(default_factory=dict, compare=False)

    @property
    def scored_chunks(self) -> list[TextChunk]:
        """The chunks that are neither structure nor white space."""
        return [chunk for chunk in self.chunks if chunk.is_scored_in(self.text)]

    def chunk_index(self, position: int) -> int:
        """Return the index of the chunk that holds this character."""
        index = bisect_right(self.chunks, position, key=lambda chunk: chunk.start)
        return max(0, index - 1)

    def chunk_context_and_text(self, chunk: TextChunk) -> tuple[str, str]:
        """Return the chunk's context (headings, header row, question) and own text."""
        context_texts = [chunk.header]
        for start, end in nearest_spans(chunk.context_spans):
            context_texts.append(self.readable_text(start, end).strip())
        context_text = "\n".join(filter(None, context_texts))
        chunk_text = chunk.display_text or chunk.text_of(self.text)
        return context_text, chunk_text

    def context_ranges(self, start: int, end: int) -> Ranges:
        """Return the ranges that keeping ``text[start:end]`` must also keep.

        These are the context spans of every chunk it touches, the sentence that a
        pronoun at a chunk's start refers to, and later chunks that refer to it or
        answer it.
        """
        first_index = self.chunk_index(start)
        last_index = self.chunk_index(max(start, end - 1))
        ranges: Ranges = []
        for index in range(first_index, last_index + 1):
            chunk = self.chunks[index]
            ranges += chunk.context_spans
            for later_index in self.references.get(index, ()):
                later_chunk = self.chunks[later_index]
                ranges += later_chunk.context_spans
                ranges.append(later_chunk.span)
            if self.text_format in lines.LINE_FORMATS:
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
        parts = tuple(ranges or ())
        if not parts:
            return (chunk.span,)
        return parts

    def readable_text(self, start: int, end: int) -> str:
        """Return ``text[start:end]`` for a person to read: HTML without its tags."""
        raw_text = self.text[start:end]
        if self.text_format == "html":
            return markup.strip_tags(raw_text)
        return raw_text

    def retained_spans(self, kept_spans: Iterable[Range]) -> Ranges:
        """Return what is left of a text without lists if these spans are kept.

        YAML and XML can be parsed as before: records without a kept character leave,
        and all else (counts, cursors, ids) stays. Rows of CSV, JSON lines and blocks of
        HTML stay whole; CSV keeps its header row, and HTML the tags around what is
        kept. In any other text each kept span keeps its context. For lists see
        `list_cuts`.

        Args:
            kept_spans: Half-open ranges of the text, in any order.

        Returns:
            Merged ranges in order, which cover at least ``kept_spans``.
        """
        ranges, context_spans = self._kept_and_context(kept_spans)
        if self.source_value is not None:
            return [(0, len(self.text))]  # it could not be read as JSON
        touched_chunks = self._touched_chunks(ranges)
        if self.text_format in _WHOLE_CHUNK_FORMATS:
            ranges += [chunk.span for chunk in touched_chunks]
        if self.text_format in _WHOLE_STRUCTURE_FORMATS:
            ranges += [chunk.span for chunk in self.chunks if chunk.is_structural]
        # A chunk kept only as context brings no further context.
        for chunk in touched_chunks:
            if chunk.span not in context_spans:
                ranges += chunk.context_spans
        retained_spans = merge_spans(ranges)
        if self.text_format != "html":
            return retained_spans
        tag_spans = []
        for start, end in complement_spans(retained_spans, 0, len(self.text)):
            tag_spans += markup.unmatched_tags(self.text, start, end)
        return merge_spans([*retained_spans, *tag_spans])

    def list_cuts(self, kept_spans: Iterable[Range]) -> tuple[list[ListCut], Ranges]:
        """Return what leaves JSON, or a list that Python printed.

        What is left is valid, and every kept character is unchanged.

        Returns:
            The cuts of lists and tables, and the merged parts of strings that leave.
        """
        ranges, context_spans = self._kept_and_context(kept_spans)
        all_spans = merge_spans([*ranges, *context_spans])
        list_cuts = []
        for item_list in records.find_item_lists(self.text):
            outer_span = item_list.outer_span
            if outer_span is None or clip_spans(all_spans, *outer_span):
                list_cuts.append(item_list.cut(all_spans))
        string_spans = []
        # Once each: the chunks of a string of records share its span.
        for string_span in {chunk.string_span for chunk in self.chunks}:
            if string_span is not None and not clip_spans(all_spans, *string_span):
                string_spans.append(string_span)
        return list_cuts, merge_spans(string_spans)

    def apply(self, edits: Sequence[TextEdit]) -> Any:
        """Return the source value with edits of its text, in the type it had."""
        if self.source_value is None:
            return apply_edits(self.text, edits)
        return edit_value(self.source_value, self.text, edits)

    def _kept_and_context(
        self, kept_spans: Iterable[Range]
    ) -> tuple[Ranges, set[Range]]:
        """Return the kept ranges, merged, and the context of the chunks they touch."""
        ranges = clip_spans(merge_spans(kept_spans), 0, len(self.text))
        return ranges, _context_spans(self._touched_chunks(ranges))

    def _touched_chunks(self, ranges: Ranges) -> list[TextChunk]:
        """Return the chunks that merged ranges touch."""
        return [chunk for chunk in self.chunks if clip_spans(ranges, *chunk.span)]

    def _has_inner_tags(self, chunk: TextChunk) -> bool:
        if self.text_format != "html":
            return False
        raw_text = chunk.text_of(self.text)
        inner_text = raw_text.strip()[1:-1]
        return "<" in inner_text


def chunk_text(source_value: Any) -> ChunkedText:
    """Chunk a text, or a list or dict such as a tool's result.

    `denoise_core.tool_results.read_result` cuts such a result and says what is missing.

    Raises:
        InputError: For any other value, and for a value that JSON cannot hold.
    """
    if isinstance(source_value, str):
        return _chunk_string(source_value)
    try:
        is_object = object_fields(source_value) is not None
        if not is_object and not isinstance(source_value, dict | list | tuple):
            raise TypeError("not a list or an object")
        json_text = json.dumps(source_value, ensure_ascii=False, default=_to_json)
        chunked = _chunk_string(json_text)
        return replace(chunked, source_value=source_value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            "chunk_text: expected a text, or a list or dict that JSON holds, "
            f"got {type(source_value).__name__}: {error}"
        ) from error


def _to_json(value: Any) -> Any:
    """Return the fields of an object, or the text of a value such as a date."""
    value_fields = object_fields(value)
    if value_fields is not None:
        return value_fields
    if isinstance(value, Decimal | date | time | UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def structural_chunker(passage: Passage) -> tuple[Span, ...]:
    """Chunk a passage into spans that tile it; an empty passage is one empty span."""
    chunked = chunk_text(passage.text)
    ranges = [chunk.span for chunk in chunked.chunks]
    return passage_spans(passage.id, ranges)


def nearest_spans(context_spans: RangeTuple) -> Ranges:
    """Return the context that is read with a chunk: the first span and the nearest.

    So reading costs what the chunks cost, however deep a text is nested. A span that
    is too long is read up to a number of characters.
    """
    chosen_spans = sorted(context_spans)
    if len(chosen_spans) > MAX_CONTEXT_SPANS:
        chosen_spans[1 : 1 - MAX_CONTEXT_SPANS] = []
    remaining_characters = MAX_CONTEXT_CHARACTERS
    read_spans = []
    for start, end in reversed(chosen_spans):
        read_end = min(end, start + remaining_characters)
        if start < read_end:
            read_spans.append((start, read_end))
        remaining_characters -= read_end - start
    return read_spans[::-1]


def _context_spans(chunks: Iterable[TextChunk]) -> set[Range]:
    context_spans: set[Range] = set()
    for chunk in chunks:
        context_spans.update(chunk.context_spans)
        if chunk.is_row_part:
            # A range may touch the comma after one part alone; rows stay whole.
            context_spans.add(chunk.span)
    return context_spans


@cache_by_bytes("chunked texts", 32 * 2**20, bytes_per_character=20)
def _chunk_string(text: str) -> ChunkedText:
    text_format = (
        records.detect_record_format(text)
        or tree_records.detect_tree_format(text)
        or markup.detect_markup(text)
        or lines.detect_line_format(text)
    )
    if text.startswith(BYTE_ORDER_MARK) and text_format != "json":
        return _chunk_after_marks(text)
    chunks = None
    if text_format in _FORMAT_CHUNKERS:
        chunk_format = _FORMAT_CHUNKERS[text_format]
        chunks = chunk_format(text)
        if not chunks:
            text_format = lines.PLAIN_TEXT
    if not chunks:
        chunks = lines.line_chunks(text, text_format)
    if text_format not in ("json", "rows"):  # whose lists lose single elements
        filled_characters = sum(map(len, text.split()))
        paid_chunks = filled_characters // MIN_MEAN_CHARACTERS
        chunks = merge_small_chunks(
            text,
            chunks,
            FREE_CHUNKS + paid_chunks,
            shows_structure=text_format != "html",
        )
    if not any(chunk.is_scored_in(text) or chunk.display_text for chunk in chunks):
        # Nothing but structure: keep it scorable, by its beginning.
        text_start = text[:MAX_CONTEXT_CHARACTERS]
        whole_chunk = TextChunk(0, len(text), display_text=text_start)
        chunks = [whole_chunk]
    references = {}
    if text_format in (lines.PLAIN_TEXT, lines.LOG_ENTRIES):
        references = later_references(text, chunks)
    if text_format == lines.LOG_ENTRIES:
        for asking, answering in answering_turns(text, chunks):
            references.setdefault(asking, []).append(answering)
    return ChunkedText(text, text_format, tuple(chunks), references=references)


def _chunk_after_marks(text: str) -> ChunkedText:
    """Chunk the text after byte order marks, which become part of the first chunk."""
    bare_text = text.lstrip(BYTE_ORDER_MARK)
    mark_count = len(text) - len(bare_text)

    def shift_span(span: Range) -> Range:
        start, end = span
        return start and start + mark_count, end + mark_count

    chunked = _chunk_string(bare_text)
    chunks = []
    for chunk in chunked.chunks:
        start, end = shift_span(chunk.span)
        shifted_chunk = chunk._replace(
            start=start,
            end=end,
            context_spans=tuple(map(shift_span, chunk.context_spans)),
        )
        chunks.append(shifted_chunk)
    return replace(chunked, text=text, chunks=tuple(chunks))


def _chunk_embedded(text: str) -> list[TextChunk]:
    """Chunk a string inside JSON, with context in the header and text to display.

    Parts of prose may leave one by one; records are cut as a text by itself. Of YAML
    without a record all would stay, so its keys leave as the lines of prose do.
    """
    chunked = _chunk_string(text)
    is_prose = chunked.text_format in lines.LINE_FORMATS
    leaves_by_parts = is_prose or not chunked.scored_chunks
    chunks = []
    for chunk in chunked.chunks:
        string_span = 0, len(text)
        if leaves_by_parts:
            string_span = chunk.span
        context_text, own_text = chunked.chunk_context_and_text(chunk)
        readable_chunk = chunk._replace(
            header=context_text, display_text=own_text, string_span=string_span
        )
        chunks.append(readable_chunk)
    return chunks


# A new format needs a detector (see `_chunk_string`) and a function here that returns
# chunks that tile the text, or None if the text is not in that format after all.
_FORMAT_CHUNKERS: dict[str, Callable[[str], list[TextChunk] | None]] = {
    "json": lambda text: records.json_chunks(text, _chunk_embedded),
    "jsonl": records.json_line_chunks,
    "csv": records.csv_chunks,
    "rows": records.python_row_chunks,
    "html": markup.html_chunks,
    "xml": tree_records.xml_chunks,
    "yaml": tree_records.yaml_chunks,
}
