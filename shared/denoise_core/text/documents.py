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

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple, TypeAlias, cast

from denoise_core.spans import Range, Ranges
from denoise_core.text.structural import ChunkedText, chunk_text
from denoise_core.types import Passage, Span

_MAX_GAP = 4  # characters, line breaks, that a splitter strips between two pieces
_TITLE_MARKS = ("# ", "<h1")
_ADDRESS_MARKS = frozenset("/\\.")  # a path, an address or a file's name holds one

Group: TypeAlias = list[tuple[int | None, Passage]]
"""Passages of one document, with their places in it if these are known."""

Run: TypeAlias = list[tuple[int, Passage]]
"""Passages that follow each other, with their places; one without a place is at 0."""


class PlacedPiece(NamedTuple):
    """A range of a passage and where it is in a joined text."""

    passage_id: str
    start: int
    joined_start: int
    length: int

    @property
    def joined_end(self) -> int:
        """Character after the piece in the joined text."""
        return self.joined_start + self.length

    def to_span(self, start: int, end: int) -> Span:
        """Translate a range of the joined text that is inside the piece."""
        shift = self.start - self.joined_start
        return Span(self.passage_id, start + shift, end + shift)


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
        starts_inside = own_piece.joined_start <= start
        ends_inside = end <= own_piece.joined_end
        if starts_inside and ends_inside:
            return [own_piece.to_span(start, end)]
        spans = []
        for piece in self.pieces:
            piece_start = max(start, piece.joined_start)
            piece_end = min(end, piece.joined_end)
            if piece_start >= piece_end:
                continue
            span = piece.to_span(piece_start, piece_end)
            spans.append(span)
            start = piece_end
        return spans


class DocumentReader:
    """Chunks passages and says which other text a chunk cannot be read without."""

    def __init__(self, passages: Iterable[Passage]) -> None:
        # By passage id the joined text that the passage is in, and where.
        self._places: dict[str, tuple[JoinedText, PlacedPiece]] = {}
        for group in _group_by_document(passages):
            for joined_text, own_pieces in _join_group(group):
                for piece in own_pieces:
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
            raw_text = chunked.text[start:end]
            is_blank = not raw_text.strip()
            if chunk.is_structural or is_blank:
                scored_text = ""
            yield PassageChunk(
                span=piece.to_span(start, end),
                context_text=context_text,
                text=scored_text,
            )

    def context_of(self, span: Span) -> tuple[Span, ...]:
        """Return what keeping a span must also keep, maybe of other passages."""
        joined_text, piece = self._places[span.passage_id]
        shift = piece.joined_start - piece.start
        start = span.start + shift
        end = span.end + shift
        chunked = joined_text.chunked
        ranges = chunked.context_ranges(start, end)
        ranges += _cut_chunks(chunked, piece, start, end)
        spans: list[Span] = []
        for context_range in ranges:
            range_spans = joined_text.to_spans(context_range, piece)
            spans.extend(range_spans)
        return tuple(spans)

    def parts_of(self, span: Span) -> Iterator[PassageChunk]:
        """Yield the sentences or lines of a chunk, each with the chunk's context."""
        joined_text, piece = self._places[span.passage_id]
        chunked = joined_text.chunked
        joined_start = span.start + piece.joined_start - piece.start
        chunk_index = chunked.chunk_index(joined_start)
        chunk = chunked.chunks[chunk_index]
        context_text, _ = chunked.chunk_context_and_text(chunk)
        for part_start, part_end in chunked.split_chunk(chunk):
            start = max(part_start, piece.joined_start)
            end = min(part_end, piece.joined_end)
            if start >= end:
                continue
            part_span = piece.to_span(start, end)
            part_text = chunked.readable_text(start, end)
            yield PassageChunk(part_span, context_text, part_text)


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
    last_position = max(start, end - 1)
    for position in (start, last_position):
        chunk_index = chunked.chunk_index(position)
        chunk = chunked.chunks[chunk_index]
        text_after = chunked.text[piece.joined_end : chunk.end]
        starts_before = chunk.start < piece.joined_start
        ends_after = bool(text_after.strip())
        if starts_before or ends_after:
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
    own_document = ("passage", passage.id)
    source = passage.metadata.get("source")
    if not isinstance(source, str) or not passage.text:
        return own_document, None
    has_address_marks = not _ADDRESS_MARKS.isdisjoint(source)
    if not has_address_marks:
        return own_document, None
    page = passage.metadata.get("page")
    document = ("source", source, str(page))
    position = passage.metadata.get("start_index")
    is_known = isinstance(position, int) and position >= 0
    if not is_known:
        position = None
    return document, position


def _group_by_document(passages: Iterable[Passage]) -> Iterable[Group]:
    groups: dict[Hashable, Group] = {}
    for passage in passages:
        document, position = _document_place(passage)
        group = groups.setdefault(document, [])
        group.append((position, passage))
    return groups.values()


def _join_group(
    group: Group,
) -> Iterator[tuple[JoinedText, Sequence[PlacedPiece]]]:
    """Yield the joined texts of one document, each with the passages' own pieces."""
    runs = _split_runs(group)
    joined_texts = []
    for run in runs:
        joined_text = _join_run(run)
        joined_texts.append(joined_text)
    titles = []
    for joined_text, run in zip(joined_texts, runs, strict=True):
        title_span = _title_span(joined_text.chunked)
        first_position, _ = run[0]
        if title_span is not None and first_position == 0:
            titles.append((joined_text, title_span))
    if len(titles) != 1:
        for joined_text in joined_texts:
            yield joined_text, joined_text.pieces
        return
    title_source, title_span = titles[0]
    for joined_text, run in zip(joined_texts, runs, strict=True):
        if joined_text is not title_source:
            joined_text = _join_run(run, title_source, title_span)
        own_pieces = joined_text.pieces[-len(run) :]
        yield joined_text, own_pieces


def _title_span(chunked: ChunkedText) -> Range | None:
    """Return the range that names the whole text: its one title, or its header row."""
    title = chunked.chunks[0]
    if not title.is_structural:
        return None
    raw_title = title.text_of(chunked.text)
    title_text = raw_title.lstrip()
    is_title = title_text.startswith(_TITLE_MARKS)
    if not is_title and chunked.text_format != "csv":
        return None
    for chunk in chunked.chunks[1:]:
        is_under_title = title.span in chunk.context_spans
        if not chunk.is_structural and not is_under_title:
            return None
    return title.span


def _split_runs(group: Group) -> list[Run]:
    """Group the pieces that follow each other; each by itself if places are unknown."""
    placed_passages: Run = []
    for position, passage in group:
        if position is None:
            return [[(0, passage)] for _, passage in group]
        placed_passages.append((position, passage))
    runs: list[Run] = []
    run_text = ""
    run_start = 0
    for position, passage in sorted(placed_passages, key=itemgetter(0)):
        run_end = run_start + len(run_text)
        gap = position - run_end
        run_offset = position - run_start
        passage_length = len(passage.text)
        shared_text = run_text[run_offset:]
        shared_text = shared_text[:passage_length]
        has_same_text = passage.text.startswith(shared_text)
        is_near = gap <= _MAX_GAP
        if runs and is_near and has_same_text:
            runs[-1].append((position, passage))
        else:
            runs.append([(position, passage)])
            run_text = ""
            run_start = position
            gap = 0
        run_text = _append_piece(run_text, gap, passage.text)
    return runs


def _append_piece(joined_text: str, gap: int, piece_text: str) -> str:
    """Append a piece after stripped line breaks, or after what it shares, if gap < 0."""
    if gap < 0:
        new_text = piece_text[-gap:]
        return joined_text + new_text
    line_breaks = "\n" * gap
    return joined_text + line_breaks + piece_text


def _join_run(
    run: Run, title_source: JoinedText | None = None, title_span: Range = (0, 0)
) -> JoinedText:
    """Join pieces that follow each other, under the title of their document, if any."""
    joined_text = ""
    pieces = []
    if title_source is not None:
        start, end = title_span
        title_text = title_source.chunked.text[start:end]
        joined_text = title_text.rstrip()
        title_end = start + len(joined_text)
        first_piece = title_source.pieces[0]
        title_spans = title_source.to_spans((start, title_end), first_piece)
        title = title_spans[0]
        title_piece = PlacedPiece(
            passage_id=title.passage_id,
            start=title.start,
            joined_start=0,
            length=len(title),
        )
        pieces.append(title_piece)
        joined_text += "\n"
    run_start, _ = run[0]
    base = len(joined_text) - run_start
    for position, passage in run:
        joined_start = base + position
        gap = joined_start - len(joined_text)
        piece = PlacedPiece(
            passage_id=passage.id,
            start=0,
            joined_start=joined_start,
            length=len(passage.text),
        )
        pieces.append(piece)
        joined_text = _append_piece(joined_text, gap, passage.text)
    chunked = chunk_text(joined_text)
    return JoinedText(chunked, tuple(pieces))
