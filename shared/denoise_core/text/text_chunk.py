"""One chunk of a text: the unit that is read, scored, and kept or dropped."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from denoise_core.spans import Range, RangeTuple

FREE_CHUNKS = 64
"""Chunks of a text of any length."""

MIN_MEAN_CHARACTERS = 80
"""Characters, without white space, for each further chunk of a text."""

MAX_CHUNK_CHARACTERS = 800
"""A longer paragraph is split at its sentences."""

_SEPARATORS = " \t\r\n,"


class TextChunk(NamedTuple):
    """The characters ``[start, end)`` of a text.

    Attributes:
        start: First character.
        end: Character after the last one.
        context_spans: Ranges of the text without which the chunk makes no sense:
            headings, the header row of its table, the sentence that introduces its
            list, the question before an answer. Keeping the chunk keeps them too.
        header: Context that is not in the text, such as the path of a JSON record.
        display_text: What the scorer reads instead of the raw characters; ``""``
            for the raw characters.
        is_structural: True for a heading with text under it, a header row, markup.
            Such a chunk is not scored and stays only as context of a kept chunk, unless
            it has a ``display_text``: values outside the records of a YAML or XML file.
        is_atomic: True if the chunk cannot be split further. Half a record is
            useless.
        path: Keys and element numbers that lead to a JSON value.
        string_span: For a part of a long JSON string: the range in the raw text that
            leaves if nothing of it is kept, the part or a whole string of records.
        is_row_part: True for a part of a row that is spread over several lists or
            objects.
        part_count: How many scored rows, records or paragraphs it was merged from.
    """

    start: int
    end: int
    context_spans: RangeTuple = ()
    header: str = ""
    display_text: str = ""
    is_structural: bool = False
    is_atomic: bool = False
    path: tuple[str | int, ...] = ()
    string_span: Range | None = None
    is_row_part: bool = False
    part_count: int = 1

    @property
    def span(self) -> Range:
        """The range ``[start, end)``."""
        return self.start, self.end

    @property
    def length(self) -> int:
        """Number of characters."""
        return self.end - self.start

    def is_scored_in(self, text: str) -> bool:
        """Whether the chunk is scored: neither structure nor white space."""
        return not self.is_structural and bool(self.text_of(text).strip())

    def text_of(self, text: str) -> str:
        """Return the chunk's raw characters of the text."""
        return text[self.start : self.end]


def fill_gaps(text: str, chunks: Iterable[TextChunk]) -> list[TextChunk]:
    """Make ordered chunks tile the text.

    White space and commas join the chunk before them; any other gap becomes a
    structural chunk.
    """
    tiled_chunks: list[TextChunk] = []
    position = 0
    for chunk in [*chunks, TextChunk(len(text), len(text))]:
        gap_text = text[position : chunk.start]
        if gap_text and tiled_chunks and not gap_text.strip(_SEPARATORS):
            tiled_chunks[-1] = tiled_chunks[-1]._replace(end=chunk.start)
        elif gap_text:
            tiled_chunks.append(TextChunk(position, chunk.start, is_structural=True))
        if chunk.end > chunk.start:
            tiled_chunks.append(chunk)
        position = chunk.end
    return tiled_chunks


def merge_small_chunks(
    text: str, chunks: list[TextChunk], max_chunks: int, *, shows_structure: bool
) -> list[TextChunk]:
    """Merge neighbours to at most ``max_chunks``: cost and results follow the size.

    A merged chunk has the context that its parts have outside it.

    Args:
        text: The whole text.
        chunks: Chunks that tile the text.
        max_chunks: Most chunks to return.
        shows_structure: Whether a merged chunk shows its structural parts, such as
            headings; markup is not shown.
    """
    if len(chunks) <= max_chunks:
        return chunks
    groups = _group_under_headings(chunks, max_chunks)
    if len(groups) > max_chunks:  # a text of little but headings
        groups = []
        for number in range(max_chunks):
            first_index = number * len(chunks) // max_chunks
            next_index = (number + 1) * len(chunks) // max_chunks
            groups.append(chunks[first_index:next_index])
    return [_merge_group(text, group, shows_structure) for group in groups]


def _group_under_headings(
    chunks: list[TextChunk], max_chunks: int
) -> list[list[TextChunk]]:
    """Group neighbours of one context; what is structural stays alone."""
    structural_count = sum(chunk.is_structural for chunk in chunks)
    free_count = max(1, max_chunks - structural_count)
    group_size = -(-(len(chunks) - structural_count) // free_count)
    groups: list[list[TextChunk]] = []
    for chunk in chunks:
        joins_last = False
        if groups and not chunk.is_structural:
            last_chunk = groups[-1][-1]
            is_same_context = last_chunk.context_spans == chunk.context_spans
            has_room = len(groups[-1]) < group_size
            joins_last = is_same_context and has_room and not last_chunk.is_structural
        if joins_last:
            groups[-1].append(chunk)
        else:
            groups.append([chunk])
    return groups


def _merge_group(text: str, group: list[TextChunk], shows_structure: bool) -> TextChunk:
    if len(group) == 1:
        return group[0]
    start = group[0].start
    end = group[-1].end
    context_spans: dict[Range, None] = {}
    shown_texts = []
    for chunk in group:
        for span in chunk.context_spans:
            if span[1] <= start or span[0] >= end:
                context_spans[span] = None
        if shows_structure or not chunk.is_structural:
            shown_texts.append(chunk.display_text or chunk.text_of(text).rstrip())
    display_text = ""
    if any(chunk.display_text for chunk in group):
        display_text = "\n".join(shown_texts)
    return TextChunk(
        start,
        end,
        tuple(context_spans),
        group[0].header,
        display_text=display_text,
        is_structural=all(chunk.is_structural for chunk in group),
        is_atomic=all(chunk.is_atomic for chunk in group),
        part_count=sum(chunk.is_scored_in(text) for chunk in group) or 1,
    )


def line_at(text: str, position: int) -> Range:
    """Return the range of the line that holds this character, with its line break."""
    line_end = text.find("\n", position) + 1 or len(text)
    return text.rfind("\n", 0, position) + 1, line_end


def line_spans(text: str, start: int = 0, end: int = sys.maxsize) -> Iterator[Range]:
    """Yield the lines of ``text[start:end]``, line breaks included, as ranges."""
    text_end = min(end, len(text))
    while start < text_end:
        line_end = text.find("\n", start, text_end) + 1 or text_end
        yield start, line_end
        start = line_end
