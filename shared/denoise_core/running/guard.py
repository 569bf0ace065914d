"""Never worse than no denoising: what a failure or an empty result gives is decided here, and said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from denoise_core.errors import EmptyResult, InputError, is_mistake
from denoise_core.protocols import Denoiser, expect_denoiser
from denoise_core.result import DenoiseResult, trace_of
from denoise_core.running.fallbacks import fell_back
from denoise_core.running.laws import check_laws
from denoise_core.types import Drop, Passage, Span, check_passages

Policy = Literal["keep", "drop", "raise"]

_DONE = {"keep": "the input was kept as it is", "drop": "everything was dropped"}
_ITEM = {"keep": "was kept as it is", "drop": "was dropped"}


class Guard:
    """A denoiser around another one, with a policy for each way of losing the context.

    ``on_error``: what a failure gives. ``"keep"`` hands the input back untouched, ``"drop"`` nothing,
    ``"raise"`` lets it through. A failure is an exception, or a result that breaks a law: another type, ids that
    were not given, spans that are not the text's, a changed order (`BrokenLaw`). Mistakes always raise, as
    `denoise_core.errors.is_mistake` tells them: settings, types, a missing extra, a refused key.

    ``on_empty``: the same for a result that keeps nothing (or only white space) of input that had text;
    ``"raise"`` is `EmptyResult`. The defaults never lose context. A result that says ``relevant=False`` may be
    empty: that nothing fits is what it found. Whatever was done instead of denoising stands in
    ``result.fallback`` and, by passage, in ``result.failures``, and is logged. Cancellation and Ctrl-C always go
    through.
    """

    def __init__(self, denoiser: Denoiser, *, on_error: Policy = "keep", on_empty: Policy = "keep") -> None:
        for name, policy in (("on_error", on_error), ("on_empty", on_empty)):
            if policy not in ("keep", "drop", "raise"):
                raise InputError(f"{name}={policy!r}: expected 'keep', 'drop' or 'raise'")
        self.denoiser = expect_denoiser(denoiser)
        self.on_error: Policy = on_error
        self.on_empty: Policy = on_empty

    def denoise(self, query: str, passages: Iterable[Passage]) -> DenoiseResult:
        given = check_passages(passages)
        try:
            result = check_laws(given, self.denoiser.denoise(query, given))
        except Exception as error:
            return self._failed(query, given, error)
        return self._checked(given, result)

    async def adenoise(self, query: str, passages: Iterable[Passage]) -> DenoiseResult:
        given = check_passages(passages)
        try:
            result = check_laws(given, await self.denoiser.adenoise(query, given))
        except Exception as error:
            return self._failed(query, given, error)
        return self._checked(given, result)

    def set_aside(self, item: str, error: Exception) -> str | None:
        """What to note on one ``item`` that stays as it came, by ``on_error``; None for one that goes.

        For adapters: a document that cannot be made a passage, or not be made a document again. Whatever the
        error's class, it is about this item, and the others go on. Raises it under ``"raise"``.
        """
        if self.on_error == "raise":
            raise error
        why = fell_back(f"{type(self.denoiser).__name__}, conversion", error, f"{item} {_ITEM[self.on_error]}")
        return f"{why}; {_ITEM[self.on_error]}" if self.on_error == "keep" else None

    def _failed(self, query: str, given: tuple[Passage, ...], error: Exception) -> DenoiseResult:
        if self.on_error == "raise" or is_mistake(error):
            raise error
        why = fell_back(type(self.denoiser).__name__, error, _DONE[self.on_error])
        return _instead(DenoiseResult(query, (), trace=trace_of(error)), given, self.on_error, why)

    def _checked(self, given: tuple[Passage, ...], result: DenoiseResult) -> DenoiseResult:
        if any(p.text.strip() for p in result.passages) or not any(p.text.strip() for p in given):
            return result
        if result.relevant is False:
            return result
        if self.on_empty == "raise":
            raise EmptyResult(f"nothing was kept of {len(given)} passages; pass on_empty='keep' to keep all then")
        why = fell_back(type(self.denoiser).__name__, "nothing was kept", _DONE[self.on_empty])
        return _instead(result, given, self.on_empty, why)


def _instead(result: DenoiseResult, given: tuple[Passage, ...], policy: Policy, why: str) -> DenoiseResult:
    done = f"{why}; {_DONE[policy]}"
    failures = {p.id: "; ".join(w for w in (result.failures.get(p.id), done) if w) for p in given}
    said = f"{result.fallback}; {done}" if result.fallback else done
    if policy == "keep":
        # Spans name the input of this step; what an earlier step may have left there is about another text.
        kept = tuple(replace(p, spans=(), rewritten=False) if p.spans or p.rewritten else p for p in given)
        return replace(result, passages=kept, dropped=(), kept=(), fallback=said, failures=failures)
    dropped = tuple(Drop(Span(p.id, 0, len(p.text)), why) for p in given)
    return replace(result, passages=(), dropped=dropped, kept=(), fallback=said, failures=failures)
