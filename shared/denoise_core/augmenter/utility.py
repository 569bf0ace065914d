"""Utility: do the passages support this candidate? The protocol, and any judge as a utility (paper, section 2.4).

And what is judged at all: a greeting, thanks, a question back or a tool call makes no statement to check.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.protocols import LLM
from denoise_core.runtime.effects import Flow
from denoise_core.support.answers import parse_answer
from denoise_core.support.check import as_judge, check_flow
from denoise_core.support.citing import copied_passage_id
from denoise_core.support.judging import NO_CLAIMS, AnswerVerdict, Judge
from denoise_core.support.quoting import LLMJudge

T = TypeVar("T")
COPIED = (
    0.9  # share of a candidate of more than 40 words that may be one unbroken quotation
)
COPIED_MOST = 0.3  # its highest score
When: TypeAlias = Callable[[str, str], bool]
"""``when(question, answer)``: whether this answer is to be judged."""


@runtime_checkable
class Utility(Protocol):
    """Judges one candidate by ``memory.evidence`` (LLM-Augmenter, section 2.4); a flow, so it may ask a model."""

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[AnswerVerdict]:
        """Whether the evidence in memory supports the candidate: pass, fail or unknown, a score from 0 to 1, and
        reasons."""
        ...


@dataclass(frozen=True, slots=True)
class Groundedness:
    """Passes when ``judge`` finds every claim of the candidate in the evidence and nothing says that it answers
    another question; see `denoise_core.support.check`. Without a judge everything is unknown.

    An abstention is unknown. A long candidate of which more than nine tenths are one unbroken quotation fails: a
    copy is grounded, but it is no answer.
    """

    judge: Judge | None = None

    def __post_init__(self) -> None:
        if self.judge is not None:
            object.__setattr__(self, "judge", as_judge(self.judge))

    @classmethod
    def for_model(cls, llm: LLM | None = None) -> Groundedness:
        """Where no judge is given: the model that drafts judges by its quotes; without one, none does."""
        return cls(None if llm is None else LLMJudge(llm))

    @property
    def name(self) -> str:
        """What it is called in an answer: its judge's id."""
        return "no judge" if self.judge is None else self.judge.id

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[AnswerVerdict]:
        verdict = yield from check_flow(
            memory.question, candidate, memory.evidence, self.judge
        )
        if copied_passage_id(candidate, memory.evidence, COPIED) is not None:
            reason = "repeats the evidence word for word instead of answering"
            score = min(verdict.score, COPIED_MOST)
            return replace(
                verdict, supported=False, score=score, kind="copy", reason=reason
            )
        return unjudged_verdict() if verdict.kind == NO_CLAIMS else verdict


def unjudged_verdict() -> AnswerVerdict:
    """The verdict on a candidate that makes no statement."""
    return AnswerVerdict(kind="unjudged", reason="it makes no statement to judge")


def as_utility(
    judge: Any = None, llm: LLM | None = None, name: str = "judge"
) -> Utility:
    """Whatever judges as the loop asks it: a `Utility` as it is, any other judge (`as_judge`) in `Groundedness`,
    None for `Groundedness.for_model`. Raises `InputError` for what judges nothing."""
    if judge is None:
        return Groundedness.for_model(llm)
    if isinstance(judge, Utility) and not isinstance(judge, type):
        return judge
    return Groundedness(judge=as_judge(judge, name))


def utility_name(utility: Utility) -> str:
    """What to call a utility: its own ``name``, or its class's."""
    name = getattr(utility, "name", "")
    return name if isinstance(name, str) and name else type(utility).__name__


def without_effects(value: T) -> Flow[T]:
    """A flow that asks for nothing and returns ``value``."""
    return value
    yield


def states_something(question: str, answer: str) -> bool:
    """False for an answer that is nothing but small talk or questions back; everything else is judged.

    A statement among them makes it judged, and so does an empty answer.

    >>> [states_something("Hi", text) for text in ("Hello! How can I help you?", "It opened in 1889.")]
    [False, True]
    """
    parsed = parse_answer(answer, question)
    return bool(parsed.claims) or not parsed.units
