"""Read passages with what is known of their documents.

A retriever cuts documents and returns some of the pieces. What a piece is about is often
in another one: the title, the section's heading, the table's header row. Pieces of one
document are therefore chunked as one text, as far as they follow each other, and every
range is translated to the passages that hold it.

Pieces belong together if their metadata names one file or address as ``source`` (and one
``page``, if any). Their order comes from ``start_index``, as LangChain's splitters write
it; LlamaIndex's nodes know both. Pieces without a place share the document's title alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple, TypeAlias, cast

from denoise_core.spans import Range, Ranges, clip_spans
from denoise_core.text.json_spans import BYTE_ORDER_MARK
from denoise_core.text.structural import ChunkedText, chunk_text
from denoise_core.types import Passage, Span

_MAX_GAP = 4  # characters, line breaks, that a splitter strips between two pieces
_MAX_INDENTED_GAP = 16  # characters, a line break and the indentation after it
_READ_BACK = 1000  # characters before a piece; they and it tell how lines are indented
_BLANKS = f"{BYTE_ORDER_MARK} \t\r\n"
_TITLE_MARKS = ("# ", "<h1")
_ADDRESS_MARKS = frozenset("/\\.")  # a path, an address or a file's name holds one

Group: TypeAlias = list[tuple[int | None, Passage]]
"""Passages of one document, with their places in it if these are known."""


@dataclass(slots=True)
class Run:
    """Passages that follow each other, with their places; one without is at 0."""

    start: int
    text: str = ""
    passages: list[tuple[int, Passage]] = field(default_factory=list)


class PlacedPiece(NamedTuple):
    """The beginning of a passage and where it is in a joined text."""

    passage_id: str
    joined_start: int
    length: int

    @property
    def joined_end(self) -> int:
        """Character after the piece in the joined text."""
        return self.joined_start + self.length

    def to_span(self, start: int, end: int) -> Span:
        """Translate a range of the joined text that is inside the piece."""
        return Span(self.passage_id, start - self.joined_start, end - self.joined_start)


class PassageChunk(NamedTuple):
    """A chunk of a passage as a scorer reads it; ``text`` is "" for mere structure."""

    span: Span
    context_text: str
    text: str


@dataclass(frozen=True, slots=True)
class JoinedText:
    """Pieces of one document in order, chunked as one text."""

    chunked: ChunkedText
    pieces: tuple[PlacedPiece, ...]

    def to_spans(self, joined_range: Range, own_piece: PlacedPiece) -> list[Span]:
        """Translate a range; what overlapping pieces share is in ``own_piece``."""
        start, end = joined_range
        if own_piece.joined_start <= start and end <= own_piece.joined_end:
            return [own_piece.to_span(start, end)]
        spans = []
        for piece in self.pieces:
            piece_start = max(start, piece.joined_start)
            piece_end = min(end, piece.joined_end)
            if piece_start < piece_end:
                spans.append(piece.to_span(piece_start, piece_end))
                start = piece_end
        return spans


class DocumentReader:
    """Chunks passages and says which other text a chunk cannot be read without."""

    def __init__(self, passages: Iterable[Passage]) -> None:
        # By passage id the joined text that the passage is in, and where.
        self._places: dict[str, tuple[JoinedText, PlacedPiece]] = {}
        for group in _group_by_document(passages):
            for joined_text in _chunk_group(group):
                for piece in joined_text.pieces:
                    self._places[piece.passage_id] = joined_text, piece

    def chunks_of(self, passage: Passage) -> Iterator[PassageChunk]:
        """Yield the chunks of a passage; their spans tile it."""
        joined_text, piece = self._places[passage.id]
        chunked = joined_text.chunked
        first_index = chunked.chunk_index(piece.joined_start)
        for chunk in chunked.chunks[first_index:]:
            start = max(chunk.start, piece.joined_start)
            end = min(chunk.end, piece.joined_end)
            if start >= end:
                break
            context_text, scored_text = chunked.chunk_context_and_text(chunk)
            is_blank = not chunked.text[start:end].strip()
            is_markup = chunk.is_structural and not chunk.display_text
            if is_markup or is_blank:
                scored_text = ""
            yield PassageChunk(piece.to_span(start, end), context_text, scored_text)

    def context_of(self, span: Span) -> tuple[Span, ...]:
        """Return what keeping a span must also keep, maybe of other passages."""
        joined_text, piece = self._places[span.passage_id]
        start = span.start + piece.joined_start
        end = span.end + piece.joined_start
        chunked = joined_text.chunked
        ranges = chunked.context_ranges(start, end)
        ranges += _cut_chunks(chunked, piece, start, end)
        spans = []
        for context_range in ranges:
            spans += joined_text.to_spans(context_range, piece)
        return tuple(spans)

    def parts_of(self, span: Span) -> Iterator[PassageChunk]:
        """Yield the sentences or lines of a chunk, each with the chunk's context."""
        joined_text, piece = self._places[span.passage_id]
        chunked = joined_text.chunked
        chunk = chunked.chunks[chunked.chunk_index(span.start + piece.joined_start)]
        context_text, _ = chunked.chunk_context_and_text(chunk)
        parts = chunked.split_chunk(chunk)
        for start, end in clip_spans(parts, piece.joined_start, piece.joined_end):
            part_text = chunked.readable_text(start, end)
            yield PassageChunk(piece.to_span(start, end), context_text, part_text)


def number_documents(passages: Iterable[Passage]) -> dict[str, int]:
    """Return by passage id the number of the document it is a piece of, from 0."""
    document_numbers = {}
    for number, group in enumerate(_group_by_document(passages)):
        for _, passage in group:
            document_numbers[passage.id] = number
    return document_numbers


def _cut_chunks(
    chunked: ChunkedText, piece: PlacedPiece, start: int, end: int
) -> Ranges:
    """Return the chunks of a range that the splitter cut in two."""
    ranges = []
    for position in (start, max(start, end - 1)):
        chunk = chunked.chunks[chunked.chunk_index(position)]
        text_after = chunked.text[piece.joined_end : chunk.end]
        if chunk.start < piece.joined_start or text_after.strip():
            ranges.append(chunk.span)
    return ranges


def _document_place(
    passage: Passage,
) -> tuple[Hashable, int | None]:
    """Return which document a passage is a piece of, and where it begins there.

    A source such as "wiki" is no document: passages of many pages may name it.
    """
    known_place = getattr(passage.metadata, "document_place", None)
    if known_place is not None:
        return cast(tuple[Hashable, int | None], known_place)
    source = passage.metadata.get("source")
    is_address = isinstance(source, str) and not _ADDRESS_MARKS.isdisjoint(source)
    if not is_address or not passage.text:
        return ("passage", passage.id), None
    document = ("source", source, str(passage.metadata.get("page")))
    position = passage.metadata.get("start_index")
    if isinstance(position, int) and position >= 0:
        return document, position
    return document, None


def _group_by_document(passages: Iterable[Passage]) -> Iterable[Group]:
    groups: dict[Hashable, Group] = {}
    for passage in passages:
        document, position = _document_place(passage)
        group = groups.setdefault(document, [])
        group.append((position, passage))
    return groups.values()


def _chunk_group(group: Group) -> Iterator[JoinedText]:
    """Yield the joined texts of one document.

    They get the document's title, if it has exactly one. The text that has the title
    as its own comes last.
    """
    runs = _split_runs(group)
    joined_texts = [_chunk_run(run) for run in runs]
    titles = []
    for joined_text, run in zip(joined_texts, runs, strict=True):
        title_text = _title_text(joined_text.chunked)
        if title_text and run.start == 0:
            titles.append((joined_text, title_text))
    if len(titles) != 1:
        yield from joined_texts
        return
    titled_text, title_text = titles[0]
    for joined_text, run in zip(joined_texts, runs, strict=True):
        if joined_text is not titled_text:
            yield _chunk_run(run, title_text, titled_text.pieces[0])
    yield titled_text


def _title_text(chunked: ChunkedText) -> str:
    """Return what names the whole text: its one title, or its header row; or ``""``."""
    title = chunked.chunks[0]
    title_text = title.text_of(chunked.text)
    is_title = title_text.lstrip(_BLANKS).startswith(_TITLE_MARKS)
    if not title.is_structural or not (is_title or chunked.text_format == "csv"):
        return ""
    for chunk in chunked.chunks[1:]:
        if not chunk.is_structural and title.span not in chunk.context_spans:
            return ""
    return title_text.rstrip()


def _split_runs(group: Group) -> list[Run]:
    """Join the pieces that follow each other; none if the place of one is unknown."""
    placed_passages = []
    for position, passage in group:
        if position is None:
            return [Run(0, passage.text, [(0, passage)]) for _, passage in group]
        placed_passages.append((position, passage))
    runs: list[Run] = []
    for position, passage in sorted(placed_passages, key=itemgetter(0)):
        run = runs[-1] if runs else Run(position)
        offset = position - run.start
        gap = offset - len(run.text)
        shared_text = run.text[offset : offset + len(passage.text)]
        stripped_text = _stripped_text(gap, run.text[-_READ_BACK:] + passage.text)
        if len(stripped_text) < gap or not passage.text.startswith(shared_text):
            run = Run(position)
            stripped_text = ""
            gap = 0
        if not run.passages:
            runs.append(run)
        # Pieces may overlap.
        run.text += stripped_text + passage.text[max(0, -gap) :]
        run.passages.append((position, passage))
    return runs


def _stripped_text(gap: int, text_around: str) -> str:
    """Return what a splitter strips between pieces; it is shorter if that is too long.

    A line break and an indentation if lines around have the same and none is blank:
    without it a nested item or key would be at the margin. Otherwise line breaks.
    """
    indentation = "\n".ljust(gap)
    is_indented = text_around.count(indentation) > text_around.count(indentation + " ")
    if (
        2 < gap <= _MAX_INDENTED_GAP
        and is_indented
        and "\n\n" not in text_around
        and "\r" not in text_around
    ):
        return indentation
    return "\n" * min(gap, _MAX_GAP)


def _chunk_run(
    run: Run, title_text: str = "", titled_piece: PlacedPiece | None = None
) -> JoinedText:
    """Chunk pieces that follow each other, under the title of their document, if any."""
    pieces = []
    if titled_piece is not None:
        title_length = min(len(title_text), titled_piece.length)
        pieces.append(PlacedPiece(titled_piece.passage_id, 0, title_length))
        title_text += "\n"
    base = len(title_text) - run.start
    for position, passage in run.passages:
        pieces.append(PlacedPiece(passage.id, base + position, len(passage.text)))
    return JoinedText(chunk_text(title_text + run.text), tuple(pieces))
