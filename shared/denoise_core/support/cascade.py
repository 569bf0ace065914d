"""A judge that is asked first, and one that is asked where the first is not sure."""

from __future__ import annotations

from collections.abc import Sequence

from denoise_core.errors import InputError
from denoise_core.running.effects import Flow
from denoise_core.support.judging import Claim, FlowJudge, Judge, Judgement, asked, expect_judge
from denoise_core.types import Passage

SURE = 0.9
SHORT = 3
"""Words of a claim that the first judge decides alone. Of sentences, over sibling records above all, the shipped
judge passes .35 of the wrong ones while it is sure; of bare answers none (`make bench ONLY=quoting`)."""


class Cascade(FlowJudge):
    """``first`` judges answers whose claims have at most ``short`` words each; where it does not know of every one
    with at least the probability ``sure`` that it is supported, or that it is not, and for longer ones, ``second``
    judges the whole answer instead, in its own way. ``short`` None: the first is asked about any.

    Raises `InputError` for ``sure`` outside .5 to 1.
    """

    def __init__(self, first: Judge, second: Judge, *, sure: float = SURE, short: int | None = SHORT) -> None:
        if not 0.5 <= sure <= 1.0:
            raise InputError(f"sure={sure}: expected .5 to 1")
        self.first, self.second = expect_judge(first, "first"), expect_judge(second, "second")
        self.sure, self.short = sure, short

    @property
    def id(self) -> str:
        return f"{self.first.id}, else {self.second.id}"

    def flow(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> Flow[Judgement]:
        if claims and (self.short is None or all(len(c.whole.split()) <= self.short for c in claims)):
            found = yield from asked(self.first, question, claims, passages)
            if self.decides(found):
                return found
        return (yield from asked(self.second, question, claims, passages))

    def decides(self, found: Judgement) -> bool:
        """The first judge is sure of every claim."""
        known = [j.probability for j in found if j.supported is not None and j.probability is not None]
        return len(known) == len(found) > 0 and all(p >= self.sure or p <= 1 - self.sure for p in known)
