"""Which judge judges where none is given: the one that ships; where an LLM is at hand, its quotes for the rest."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from denoise_core.errors import MissingExtra
from denoise_core.protocols import LLM
from denoise_core.running.effects import Flow
from denoise_core.running.fallbacks import fell_back
from denoise_core.support.answers import asks
from denoise_core.support.cascade import Cascade
from denoise_core.support.check import one_value
from denoise_core.support.hold import INSTALL, Words
from denoise_core.support.judging import Claim, FlowJudge, Judge, Judgement
from denoise_core.support.quoting import LLMJudge
from denoise_core.types import Passage

LEFT = (
    "its words stand in the evidence; the shipped judge leaves yes, no and several values to others: give judge="
)


def default_judge(llm: LLM | None = None) -> Judge:
    """The shipped judge where the extra ``embedded`` is installed, words alone where it is not. With ``llm`` a
    cascade: where the shipped judge is not sure, ``llm`` judges by its quotes, in one call; without the extra it
    judges alone."""
    shipped = Shipped()
    if llm is None:
        return shipped
    return Cascade(shipped, LLMJudge(llm))


class Shipped(FlowJudge):
    """`denoise_core.embedded.judge`, loaded at the first judgement; `Words`, and a warning once, without the extra
    ``embedded``. It asks nothing of the outside, so it costs no call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: Judge | None = None

    @property
    def id(self) -> str:
        """Of what judges; loads it."""
        return self._judge().id

    def flow(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> Flow[Judgement]:
        found = self._judge().judge(question, claims, passages)
        judgement = found if isinstance(found, Judgement) else Judgement(tuple(found))
        return _within_reach(question, claims, judgement, Words().judge(question, claims, passages))
        yield  # a flow, that asks nothing of the outside

    def _judge(self) -> Judge:
        with self._lock:
            if self._loaded is None:
                self._loaded = _load()
            return self._loaded


def _load() -> Judge:
    try:
        from denoise_core.embedded import judge

        return judge()
    except MissingExtra as error:
        fell_back("judge", error, "words alone judge, which never say that an answer is supported")
        return Words()


def _within_reach(question: str, claims: Sequence[Claim], found: Judgement, words: Judgement) -> Judgement:
    """What a reader of spans can tell: whether one value answers. It is kept off yes and no and claims of several
    values, where it was right of 43 % of what it decided; what code proves to be otherwise stands before it."""
    if not len(found) == len(words) == len(claims):
        return found
    out = []
    for claim, told, said in zip(claims, found, words, strict=True):
        word = replace(said, why=LEFT) if said.why == INSTALL else said
        open_ = asks(question) or claim.kind == "polarity" or not one_value(question, claim)
        open_ = open_ or (told.supported is False and len(claims) > 1)
        out.append(word if word.supported is False or (open_ and told.supported is not None) else told)
    return replace(found, claims=tuple(out), answers=found.answers if len(claims) == 1 else None)
