"""Utility: do the passages support a draft? (paper, section 2.4)

The protocol, any judge as a utility, and what is judged at all: a greeting, thanks, a
question back or a tool call makes no statement to check.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.protocols import LLM
from denoise_core.runtime.effects import Flow
from denoise_core.support.check import as_judge, check_flow
from denoise_core.support.cited_units import CitationJudge
from denoise_core.support.judging import NO_CLAIMS, AnswerVerdict, Judge

T = TypeVar("T")
NOT_JUDGED = "not judged"
"""What an answer names as its judge where there is none."""
JUDGE_OFF = "off"
"""``judge="off"``: no judge, where the model at hand would judge by default."""
When: TypeAlias = Callable[[str, str], bool]
"""``when(question, answer)`` says whether to judge this answer."""


@runtime_checkable
class Utility(Protocol):
    """Judges one draft by ``memory.evidence`` (LLM-Augmenter, section 2.4)."""

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[AnswerVerdict]:
        """Judge whether the evidence supports the candidate; a flow, so it may ask a model."""
        ...


@dataclass(frozen=True, slots=True)
class Groundedness:
    """Passes when the judge finds every claim of a draft in the evidence.

    See `denoise_core.support.check`. Without a judge everything is unknown, and so is an
    abstention. A draft that answers another question fails.
    """

    judge: Judge | None = None

    def __post_init__(self) -> None:
        if self.judge is not None:
            object.__setattr__(self, "judge", as_judge(self.judge))

    @classmethod
    def for_model(cls, llm: LLM | None = None) -> Groundedness:
        """The default: the model that drafts judges what code cannot check; without one, nobody."""
        return cls(None if llm is None else CitationJudge(llm))

    @property
    def name(self) -> str:
        """The name in an answer: the judge's id."""
        return NOT_JUDGED if self.judge is None else self.judge.id

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[AnswerVerdict]:
        """Ask the judge."""
        verdict = yield from check_flow(
            memory.question,
            candidate,
            memory.evidence,
            self.judge,
            citations=memory.draft_citations,
            is_numbered=memory.evidence_is_numbered,
        )
        if verdict.kind == NO_CLAIMS:
            return unjudged_verdict()
        return verdict


def unjudged_verdict() -> AnswerVerdict:
    """The verdict on a draft that makes no statement."""
    return AnswerVerdict(kind="unjudged", reason="it makes no statement to judge")


def as_utility(judge: Any = None, llm: LLM | None = None) -> Utility:
    """Return a utility for anything that judges.

    Args:
        judge: A `Utility` itself, any other judge (`as_judge`) in `Groundedness`, None
            for `Groundedness.for_model`, `JUDGE_OFF` for no judge.
        llm: The model that drafts.

    Raises:
        InputError: For what judges nothing.
    """
    if judge is None:
        return Groundedness.for_model(llm)
    if judge == JUDGE_OFF:
        return Groundedness()
    if isinstance(judge, Utility) and not isinstance(judge, type):
        return judge
    own_judge: Any = judge
    return Groundedness(own_judge)


def utility_name(utility: Utility) -> str:
    """The utility's ``name``, or the name of its class."""
    name = getattr(utility, "name", "")
    if isinstance(name, str) and name:
        return name
    return type(utility).__name__


def without_effects(value: T) -> Flow[T]:
    """A flow that yields nothing and returns ``value``."""
    return value
    yield
