"""Never worse than no denoising: what a failure or an empty result gives is decided here, and said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from denoise_core.errors import EmptyResult, InputError
from denoise_core.protocols import Denoiser
from denoise_core.result import DenoiseResult, trace_of
from denoise_core.types import Drop, Passage, Span

Policy = Literal["keep", "drop", "raise"]


class Guard:
    """A denoiser around another one, with a policy for each way of losing the context.

    ``on_error``: what an exception gives. ``"keep"`` hands the input back untouched, ``"drop"`` nothing,
    ``"raise"`` lets it through. ``on_empty``: the same for a result that keeps nothing (or only white
    space) of input that had text; ``"raise"`` is `EmptyResult`. The defaults never lose context. A result that
    says ``relevant=False`` may be empty: that nothing fits is what it found. Whatever
    was done instead of denoising stands in ``result.fallback``. Cancellation and Ctrl-C always go through.
    """

    def __init__(self, denoiser: Denoiser, *, on_error: Policy = "keep", on_empty: Policy = "keep") -> None:
        for name, policy in (("on_error", on_error), ("on_empty", on_empty)):
            if policy not in ("keep", "drop", "raise"):
                raise InputError(f"{name}={policy!r}: expected 'keep', 'drop' or 'raise'")
        self.denoiser = denoiser
        self.on_error: Policy = on_error
        self.on_empty: Policy = on_empty

    def denoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        try:
            result = self.denoiser.denoise(query, passages)
        except Exception as error:
            return self._failed(query, passages, error)
        return self._checked(passages, result)

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        try:
            result = await self.denoiser.adenoise(query, passages)
        except Exception as error:
            return self._failed(query, passages, error)
        return self._checked(passages, result)

    def _failed(self, query: str, passages: Sequence[Passage], error: Exception) -> DenoiseResult:
        if self.on_error == "raise":
            raise error
        why = f"{type(error).__name__}: {error}"
        return _instead(DenoiseResult(query, (), trace=trace_of(error)), passages, self.on_error, why)

    def _checked(self, passages: Sequence[Passage], result: DenoiseResult) -> DenoiseResult:
        if any(p.text.strip() for p in result.passages) or not any(p.text.strip() for p in passages):
            return result
        if result.relevant is False:
            return result
        if self.on_empty == "raise":
            raise EmptyResult(
                f"nothing was kept of {len(passages)} passages; pass on_empty='keep' to keep all then"
            )
        return _instead(result, passages, self.on_empty, "nothing was kept")


def _instead(result: DenoiseResult, passages: Sequence[Passage], policy: Policy, why: str) -> DenoiseResult:
    if result.fallback:
        why = f"{result.fallback}; {why}"
    if policy == "keep":
        # Spans name the input of this step; what an earlier step may have left there is about another text.
        kept = tuple(replace(p, spans=(), rewritten=False) if p.spans or p.rewritten else p for p in passages)
        return replace(result, passages=kept, dropped=(), kept=(), fallback=f"{why}; the input was kept as it is")
    dropped = tuple(Drop(Span(p.id, 0, len(p.text)), why) for p in passages)
    return replace(result, passages=(), dropped=dropped, kept=(), fallback=f"{why}; everything was dropped")
