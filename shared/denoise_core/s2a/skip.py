"""When not to ask at all: the context is short, or a scorer in front is sure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from denoise_core.errors import InputError
from denoise_core.protocols import Scorer
from denoise_core.result import DenoiseResult
from denoise_core.running.offload import offload
from denoise_core.s2a.units import units
from denoise_core.text.chunk import extract
from denoise_core.types import Drop, Passage


@dataclass(frozen=True, slots=True)
class Skip:
    """The rule, in this order.

    1. Passages that together have fewer than ``shorter_than`` characters are all kept unasked.
    2. With a ``scorer``, every piece is scored. A piece at ``keep_from`` or above surely stays, one below
       ``drop_below`` surely goes. A passage whose pieces are all sure is settled unasked; any other passage is
       asked about whole.

    Scores are in the scorer's own unit; without thresholds nothing is sure.
    Raises `InputError` when ``drop_below`` lies above ``keep_from``.
    """

    shorter_than: int = 0
    scorer: Scorer | None = None
    keep_from: float = math.inf
    drop_below: float = -math.inf

    def __post_init__(self) -> None:
        if self.drop_below > self.keep_from:
            raise InputError(
                f"Skip(drop_below={self.drop_below}, keep_from={self.keep_from}): a piece would both stay and go"
            )


class SureByScore:
    """The scorer in front as a denoiser, so that it runs where the driver runs things.

    Its result keeps the passages all of whose pieces are sure to stay or go, without the latter; passages that
    are not settled are neither among its passages nor among its drops.
    """

    def __init__(self, rule: Skip, scorer: Scorer, language: str) -> None:
        self.rule = rule
        self.scorer = scorer
        self.language = language

    def denoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        pieces = [units(p, language=self.language) for p in passages]
        texts = [p.text[s.start : s.end] for p, spans in zip(passages, pieces) for s in spans]
        scores = iter(float(s) for s in self.scorer.score(query, texts)) if texts else iter(())
        kept: list[Passage] = []
        dropped: list[Drop] = []
        for p, spans in zip(passages, pieces):
            own = [(span, next(scores)) for span in spans]
            if all(map(self._is_sure, (s for _, s in own))):
                left = extract(p, [span for span, s in own if s >= self.rule.keep_from])
                kept += [left] if left else []
                dropped += [Drop(span, "surely not needed", s) for span, s in own if s < self.rule.keep_from]
        return DenoiseResult(query, tuple(kept), tuple(dropped))

    def _is_sure(self, score: float) -> bool:
        return score >= self.rule.keep_from or score < self.rule.drop_below

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        return await offload(self.denoise, query, passages)
