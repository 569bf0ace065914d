"""The reader's network in NumPy, and what it is given: no torch where questions are answered.

It reads ``[CLS] question [SEP] window [SEP]`` with a mark on every piece, which tells what the network would have
to find out by itself: which pieces question and window share, and which are only the window's head. `overlap` says
which windows are worth reading at all.

MiniLM-L6 (six layers of 384, twelve heads) with what training changed merged into its weights when it is
loaded. `denoise_lab.span_reader.network` is the same in torch; a test holds the two together within 1e-4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from denoise_core.embedded.minilm import PIECES, Floats, MiniLM, Weights, f32, gelu
from denoise_core.embedded.reader.windows import Tokens, Window
from denoise_core.local.batching import batches
from denoise_core.text.wordlists import STOPWORDS

QUESTION = 40  # word pieces of a question; longer ones keep their end, where what is asked mostly stands
SPECIAL, BODY, BODY_SHARED, HEAD, HEAD_SHARED, ASKED, ASKED_SHARED = range(7)
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


@dataclass(frozen=True, slots=True)
class Logits:
    """What the network says about one window: start and end of an answer for each of its pieces, float32
    ``(pieces,)``, and whether it holds one (a logit)."""

    start: NDArray[np.float32]
    end: NDArray[np.float32]
    holds: float


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


class Network(MiniLM):
    """``base`` are MiniLM's weights by name, ``trained`` what `denoise_lab.span_reader` trained."""

    def __init__(self, base: Weights, trained: Weights) -> None:
        own = {name: np.asarray(value, dtype=np.float32) for name, value in trained.items()}
        super().__init__(base, own)
        self.marked_from = next(i for i in range(self.shape.layers) if f"layers.{i}.qkv.a" in own)
        self.marks = own["marks"]
        self.span = f32(own["span.weight"].T), own["span.bias"]
        self.hidden = f32(own["hidden.weight"].T), own["hidden.bias"]
        self.holds = f32(own["holds.weight"].T), own["holds.bias"]

    def logits(self, rows: Sequence[Row]) -> list[Logits]:
        """What the network says of each row's window, in the order of the rows. A row's logits do not depend
        on the others beyond rounding."""
        out: list[Logits | None] = [None] * len(rows)
        for numbers in batches([len(r) for r in rows], PIECES):
            start, end, holds = self(batch([rows[i] for i in numbers]))
            for n, i in enumerate(numbers):
                inside = slice(rows[i].start, rows[i].end)
                out[i] = Logits(start[n, inside], end[n, inside], float(holds[n]))
        return [x for x in out if x is not None]

    def __call__(self, given: Batch) -> tuple[Floats, Floats, Floats]:
        """Start and end logits ``(rows, length)``, meaningful inside of windows only, and presence ``(rows,)``."""
        h = self.read(given.ids, given.real, {self.marked_from: self.marks[given.marks.reshape(-1)]})
        span = (h.reshape(-1, h.shape[-1]) @ self.span[0] + self.span[1]).reshape(*given.ids.shape, 2)
        holds = gelu(h[:, 0] @ self.hidden[0] + self.hidden[1]) @ self.holds[0] + self.holds[1]
        return span[..., 0], span[..., 1], holds[:, 0]
