"""One chunk of a text: the unit that is read, scored, and kept or dropped."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from denoise_core.spans import Range, RangeTuple

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
            Such a chunk is not scored; it stays only as context of a kept chunk.
        is_atomic: True if the chunk cannot be split further. Half a record is
            useless.
        path: Keys and element numbers that lead to a JSON value.
        string_span: For a part of a long JSON string: its range in the raw text.
        table_path: For a part of a row that is spread over several lists or objects:
            the path of the table.
        list_path: For such a part: the path of the list or object it is in.
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
    table_path: tuple[str | int, ...] | None = None
    list_path: tuple[str | int, ...] = ()

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


def with_title(
    title: str,
    title_span: Range,
    chunks: Iterable[TextChunk],
) -> list[TextChunk]:
    """Move the text's title from the context spans to the header of each chunk.

    The scorer then reads every chunk under the title, but keeping a chunk does not
    keep the title.
    """
    titled_chunks = []
    for chunk in chunks:
        other_spans = tuple(span for span in chunk.context_spans if span != title_span)
        if other_spans != chunk.context_spans:
            chunk = chunk._replace(context_spans=other_spans, header=title)
        titled_chunks.append(chunk)
    return titled_chunks


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


def line_spans(text: str, start: int = 0, end: int = sys.maxsize) -> Iterator[Range]:
    """Yield the lines of ``text[start:end]``, line breaks included, as ranges."""
    text_end = min(end, len(text))
    while start < text_end:
        line_end = text.find("\n", start, text_end) + 1 or text_end
        yield start, line_end
        start = line_end
