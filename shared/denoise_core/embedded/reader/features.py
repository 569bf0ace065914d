"""What the reader's network is given: ``[CLS] question [SEP] window [SEP]``, and a mark on every piece.

Marks tell the network what it would have to find out by itself: which pieces question and window share, and
which are only the window's head. `overlap` says which windows are worth reading at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from denoise_core.embedded.reader.windows import Tokens, Window
from denoise_core.text.wordlists import STOPWORDS

QUESTION = 40  # word pieces of a question; longer ones keep their end, where what is asked mostly stands
SPECIAL, BODY, BODY_SHARED, HEAD, HEAD_SHARED, ASKED, ASKED_SHARED = range(7)
MARKS = 7
HEAD_WEIGHT = 0.5  # of a piece that stands in the head alone: the head is in every window of its passage


@dataclass(frozen=True, slots=True)
class Row:
    """One question with one window. ``start`` is where the window's pieces begin, ``ids[start:end]``."""

    ids: tuple[int, ...]
    marks: tuple[int, ...]
    start: int

    @property
    def end(self) -> int:
        return len(self.ids) - 1

    def __len__(self) -> int:
        return len(self.ids)


@cache
def unmarked(tokens: Tokens) -> frozenset[int]:
    """Pieces too common to be marked as shared: function words and punctuation."""
    return frozenset(i for word in (*STOPWORDS, *".,;:()'\"-?!") for i in tokens.pieces(word).ids)


def row(question: Sequence[int], window: Window, tokens: Tokens) -> Row:
    """The row of a question's pieces and a window."""
    asked = tuple(question[-QUESTION:])
    common = (set(asked) & set(window.ids)) - unmarked(tokens)
    ids = (tokens.first, *asked, tokens.between, *window.ids, tokens.between)
    marks = (
        SPECIAL,
        *(ASKED_SHARED if i in common else ASKED for i in asked),
        SPECIAL,
        *(HEAD_SHARED if i in common else HEAD for i in window.ids[: window.head]),
        *(BODY_SHARED if i in common else BODY for i in window.ids[window.head :]),
        SPECIAL,
    )
    return Row(ids, marks, len(asked) + 2)


def overlap(asked: Sequence[int], windows: Sequence[Window], tokens: Tokens) -> NDArray[np.float64]:
    """Weight of the question's pieces that each window holds, ``(windows,)``; rarer pieces weigh more."""
    wanted = sorted(set(asked) - unmarked(tokens))
    out = np.zeros(len(windows))
    if not wanted or not windows:
        return out
    bodies = [set(w.ids[w.head :]) for w in windows]
    heads = [set(w.ids[: w.head]) for w in windows]
    for piece in wanted:
        body = np.array([piece in b for b in bodies])
        head = np.array([piece in h for h in heads]) & ~body
        found = body.sum() + head.sum()
        rarity = np.log1p((len(windows) - found + 0.5) / (found + 0.5))
        out += rarity * (body + HEAD_WEIGHT * head)
    return out


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows padded to one length: ``ids`` and ``marks`` int64 ``(rows, length)``; ``real`` and ``inside`` bool
    of the same shape, true on pieces that are not padding, and on those of the window."""

    ids: NDArray[np.int64]
    marks: NDArray[np.int64]
    real: NDArray[np.bool_]
    inside: NDArray[np.bool_]


def batch(rows: Sequence[Row], length: int | None = None) -> Batch:
    """The rows as arrays, padded to ``length`` or to the longest."""
    width = length or max(map(len, rows))
    ids = np.zeros((len(rows), width), dtype=np.int64)
    marks = np.zeros_like(ids)
    real = np.zeros(ids.shape, dtype=np.bool_)
    inside = np.zeros_like(real)
    for i, r in enumerate(rows):
        ids[i, : len(r)] = r.ids
        marks[i, : len(r)] = r.marks
        real[i, : len(r)] = True
        inside[i, r.start : r.end] = True
    return Batch(ids, marks, real, inside)
