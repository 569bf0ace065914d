"""Cutting a passage into overlapping windows that a reader reads one by one, each headed by what it is about.

A window is some sentences in a row, at most `BODY` word pieces (about 52 English words), and begins with the
last sentence of the one before it, so that no answer is lost at a cut. Windows after the first are headed by
the passage's title or first words, which say whom "he" and "the city" mean. Places are characters of the
passage's text, half-open.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from denoise_core.embedded.minilm import minilm, tokenizer_of
from denoise_core.text.chunk import sentences
from denoise_core.types import Passage, well_formed

BODY = 72  # word pieces of a window, its head not counted
HEAD = 12  # word pieces of a head, at most
FIRST_WORDS = 6  # the head of a passage without a title
NOWHERE = (-1, -1)

_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Pieces:
    """Word pieces of a text: ids, and the characters ``[start, end)`` that each stands for."""

    ids: tuple[int, ...]
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Window:
    """One window of the passage ``passage_id``: its head's pieces, then its body's.

    ``places`` has the characters of each piece in the passage's text, `NOWHERE` for those of a title that
    does not stand there. ``start`` and ``end`` are the characters of the body; bodies of one passage cover
    every character of it that is in a word.
    """

    passage_id: str
    ids: tuple[int, ...]
    places: tuple[tuple[int, int], ...]
    head: int
    start: int
    end: int


class Tokens:
    """MiniLM's own tokenizer, without transformers. Safe to share between threads."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = tokenizer = tokenizer_of(folder)
        vocabulary = tokenizer.get_vocab()
        self.first, self.between, self.mask = (vocabulary[name] for name in ("[CLS]", "[SEP]", "[MASK]"))
        self.continues = frozenset(i for word, i in vocabulary.items() if word.startswith("##"))

    def pieces(self, text: str) -> Pieces:
        """The pieces of ``text`` without special ones; lone surrogates are read as unknown characters."""
        if not text:
            return Pieces((), ())
        (found,) = self._tokenizer.encode_batch([well_formed(text)], add_special_tokens=False)  # off the GIL
        return Pieces(tuple(found.ids), tuple(found.offsets))


@cache
def tokens() -> Tokens:
    """The tokenizer that lies beside MiniLM's weights. Raises `MissingExtra` without the extra ``embedded``."""
    return Tokens(minilm())


def windows(passage: Passage, tokens: Tokens) -> tuple[Window, ...]:
    """The windows of a passage in order; none when its text holds no word piece. Time grows with the text."""
    text = passage.text
    pieces = tokens.pieces(text)
    if not pieces.ids:
        return ()
    starts = [start for start, _ in pieces.places]
    cuts = [bisect_left(starts, span.start) for span in sentences(passage)]
    units = _units(sorted({*cuts, 0}), pieces, tokens)
    head = _head(passage, pieces, tokens)
    found: list[Window] = []
    i = 0
    while i < len(units):
        j, first = i + 1, units[i][0]
        while j < len(units) and units[j][1] - first <= BODY:
            j += 1
        last = units[j - 1][1]
        lead = head if first > 0 or head.places[:1] == (NOWHERE,) else Pieces((), ())
        found.append(
            Window(
                passage.id,
                lead.ids + pieces.ids[first:last],
                lead.places + pieces.places[first:last],
                len(lead.ids),
                pieces.places[first][0],
                pieces.places[last - 1][1],
            )
        )
        if j >= len(units):
            break
        i = max(i + 1, j - 1)
    return tuple(found)


def _units(cuts: Sequence[int], pieces: Pieces, tokens: Tokens) -> list[tuple[int, int]]:
    """What windows are packed of, as ranges of pieces: sentences, or parts of those too long for a window."""
    out: list[tuple[int, int]] = []
    total = len(pieces.ids)
    for start, end in zip(cuts, [*cuts[1:], total]):
        while end - start > BODY:
            cut = start + BODY // 2
            while cut > start + BODY // 4 and pieces.ids[cut] in tokens.continues:
                cut -= 1
            out.append((start, cut))
            start = cut
        if start < end:
            out.append((start, end))
    return out


def _head(passage: Passage, pieces: Pieces, tokens: Tokens) -> Pieces:
    """The title, with its places if the text begins with it, else the text's first words."""
    title = str(passage.metadata.get("title") or "").strip()
    if title and not passage.text.startswith(title):
        ids = tokens.pieces(title).ids[:HEAD]
        return Pieces(ids, (NOWHERE,) * len(ids))
    end = len(title)
    if not title:
        found = [m.end() for m, _ in zip(_WORD.finditer(passage.text), range(FIRST_WORDS))]
        end = found[-1] if found else 0
    count = 0
    while count < min(HEAD, len(pieces.ids)) and pieces.places[count][1] <= end:
        count += 1
    return Pieces(pieces.ids[:count], pieces.places[:count])
