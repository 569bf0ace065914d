"""How much stays of a tool's result, where nobody says: a share of its characters, by score and rare words."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from denoise_core import Denoiser
from denoise_core.end import ENDDenoiser
from denoise_core.end.auto import LEAST, AutoKeep
from denoise_core.end.selection import Floats, Mask, ranking
from denoise_core.text.cutting import pieces
from denoise_core.text.words import content_words

LONG_RESULT = 1000  # characters from which on a text is cut down to `SHARE` of them
SHARE = 3 / 8


@dataclass(frozen=True, slots=True)
class OfResult(AutoKeep):
    """``keep="auto"`` for a tool's result: the best pieces up to `SHARE` of its characters; of a text shorter than
    `LONG_RESULT` what lies within the margin.

    An encoder of sentences hardly tells rows and log lines apart, which are names and numbers: a piece gains by
    the rare words that it shares with ``query``, at most 1, and is lifted half way to a better neighbour.
    """

    query: str = ""

    def of(self, passages: int, chunks: int) -> AutoKeep:
        """Itself."""
        return self

    def choose(self, scores: Floats, texts: Sequence[str]) -> Mask:
        """True for each chunk to keep. Chunks of minus infinity (without text) never are."""
        room = SHARE * sum(map(len, texts))
        if room < SHARE * LONG_RESULT:
            return AutoKeep.choose(self, scores, texts)
        padded = np.pad(scores + shared_words(self.query, texts), 1, constant_values=-np.inf)
        best = np.maximum(np.maximum(padded[:-2], padded[2:]), padded[1:-1])
        kept = np.zeros(len(scores), dtype=np.bool_)
        for i in ranking(np.asarray(padded[1:-1] + best, dtype=np.float32))[: int(np.isfinite(scores).sum())]:
            room -= len(texts[int(i)])
            if room < 0 and kept.sum() >= LEAST:
                break
            kept[i] = True
        return kept

    def reason(self) -> str:
        """Why a chunk was dropped, in words."""
        return f"not among the best {100 * SHARE:g} % of the result"


def for_results(denoiser: Denoiser, query: str) -> Denoiser:
    """The denoiser as it reads tools' results: END cuts by their structure, and ``keep="auto"`` is `OfResult`."""
    if not isinstance(denoiser, ENDDenoiser):
        return denoiser
    made = copy.copy(denoiser)
    made.chunker, made.brings = pieces, True
    if isinstance(made.rule, AutoKeep):
        made.rule = OfResult(made.rule.scale, made.rule.risk, made.rule.margin, query=query)
    return made


def shared_words(query: str, texts: Sequence[str]) -> Floats:
    """For each text the weight of the query's words in it, by how few texts have them; 1 for the best."""
    having, n = [set(content_words(t)) for t in texts], len(texts)
    weight = {w: math.log(1 + n / (1 + sum(w in own for own in having))) for w in content_words(query)}
    found = np.array([sum(weight[w] for w in own & weight.keys()) for own in having], dtype=np.float32)
    return found / max(float(found.max(initial=0)), 1e-9)
