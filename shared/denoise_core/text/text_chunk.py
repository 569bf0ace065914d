"""A piece of a text: what is read, scored and kept as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from denoise_core.spans import Range

MAX_CHUNK_CHARACTERS = 800  # characters of a paragraph that stays one piece; a longer one is cut at its sentences


class TextChunk(NamedTuple):
    """The characters ``[start, end)`` of a text.

    ``above`` are ranges of the text that it cannot be read without, and which a kept piece brings along: headings,
    the header row of its table, the lead of its list, the question before an answer. ``header`` is such a thing
    that is no range (a record's path). ``said`` is read in the place of the raw characters, ``""`` for these
    themselves.

    A ``frame`` is structure: a heading with something under it, a header row, markup. It is not scored, and stays
    only where a kept piece brings it. A ``whole`` piece is not cut further: half a record is none.

    Of JSON: ``path`` leads to the value; where that is a long string, ``inside`` is the range in the raw text of
    the part of it that this piece is.
    """

    start: int
    end: int
    context_spans: tuple[Range, ...] = ()
    header: str = ""
    display_text: str = ""
    is_structural: bool = False
    is_atomic: bool = False
    path: tuple[str | int, ...] = ()
    string_span: Range | None = None


def with_title(name: str, title: Range, made: Sequence[TextChunk]) -> list[TextChunk]:
    """The pieces with their text's title as header: all are read under it, and none brings it along."""
    return [
        p._replace(
            context_spans=tuple(r for r in p.context_spans if r != title), header=name
        )
        if title in p.context_spans
        else p
        for p in made
    ]


def fill_gaps(text: str, made: Sequence[TextChunk]) -> list[TextChunk]:
    """The pieces in order with what lies between them: white space and commas go with the piece before, other
    structure is frame."""
    out: list[TextChunk] = []
    at = 0
    for piece in [*made, TextChunk(len(text), len(text))]:
        if piece.start > at:
            if out and not text[at : piece.start].strip(" \t\r\n,"):
                out[-1] = out[-1]._replace(end=piece.start)
            else:
                out.append(TextChunk(at, piece.start, is_structural=True))
        if piece.end > piece.start:
            out.append(piece)
        at = piece.end
    return out


def line_spans(text: str, start: int = 0, end: int | None = None) -> Iterator[Range]:
    """Lines with their ends, as ranges of the text."""
    end = len(text) if end is None else end
    while start < end:
        at = text.find("\n", start, end)
        stop = end if at < 0 else at + 1
        yield start, stop
        start = stop
