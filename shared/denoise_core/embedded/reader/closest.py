"""Which windows are worth reading: those that share the question's rare word pieces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from denoise_core.embedded.reader.features import unmarked
from denoise_core.embedded.reader.windows import Tokens, Window

HEAD_WEIGHT = 0.5  # of a piece that stands in the head alone: the head is in every window of its passage


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
