"""Working memory: everything known about one question so far. Immutable; each step gives a new one.

The paper's six-tuple (section 2.1): question q, evidence e, candidates o with their utility u and feedback f
(one `Attempt` each), dialogue history h. Beside it stand what was searched, what a denoiser left out, which
actions were taken and what failed, so that a policy can decide from the memory alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from denoise_core.errors import format_error
from denoise_core.support.judging import AnswerVerdict
from denoise_core.types import Drop, Message, Passage

if TYPE_CHECKING:
    from denoise_core.augmenter.actions import Action


@dataclass(frozen=True, slots=True)
class Attempt:
    """One candidate, the evidence it is held against, and what was said of it.

    ``evidence`` is the union of what was found before the candidate was written, in the order the model saw it.
    ``draft`` counts the drafts from 0; ``repaired`` marks what was made of that draft by correcting or
    cutting what does not hold. ``fields`` is set when the candidate is structured output. ``origin`` is what the
    drafter's adapter put there; it is neither compared nor recorded.
    """

    candidate: str
    verdict: AnswerVerdict
    feedback: str = ""
    evidence: tuple[Passage, ...] = ()
    draft: int = 0
    repaired: bool = False
    fields: Mapping[str, Any] | None = None
    origin: Any = field(default=None, compare=False, repr=False)

    @property
    def is_abstention(self) -> bool:
        """The candidate says that it does not know."""
        return self.verdict.outcome == "unknown" and self.verdict.abstains


@dataclass(frozen=True, slots=True)
class WorkingMemory:
    """The state of one question (LLM-Augmenter, section 2.1).

    ``retrieved`` is what the searches and the drafters found, ``evidence`` what of it the model is shown and the
    answer held against, ``dropped`` the ranges a denoiser or the limit of tokens left out (they may be admitted
    again), ``excluded_evidence`` what was brought and does not count: text of a user or a model, an echo, what a search for a
    rejected draft found. ``needs_knowledge`` is None until the model was asked whether it needs any. ``failures``
    are effects that failed, as ``(what, "Type: message")``; a ``"source"`` is one of several, the others brought
    something. ``searchable``: there is something to search. ``drafter_brings_evidence``: who drafts may bring evidence along.
    """

    question: str
    evidence: tuple[Passage, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    history: tuple[Message, ...] = ()
    retrieved: tuple[Passage, ...] = ()
    dropped: tuple[Drop, ...] = ()
    queries: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()
    needs_knowledge: bool | None = None
    excluded_evidence: tuple[Passage, ...] = ()
    searchable: bool = True
    drafter_brings_evidence: bool = False

    def with_action(self, action: Action) -> WorkingMemory:
        """A memory with one action more."""
        return replace(self, actions=(*self.actions, action))

    def with_attempt(self, attempt: Attempt) -> WorkingMemory:
        """A memory with one attempt more."""
        return replace(self, attempts=(*self.attempts, attempt))

    def with_failure(self, what: str, error: BaseException) -> WorkingMemory:
        """A memory that also holds what failed and, masked, why."""
        return replace(self, failures=(*self.failures, (what, format_error(error))))

    @property
    def last(self) -> Attempt | None:
        """The latest attempt; None before the first."""
        return self.attempts[-1] if self.attempts else None

    @property
    def best(self) -> Attempt | None:
        """The attempt to send: one that passed before any that did not, one with text before an empty one, one
        that says something before an abstention, then the highest score, then the earliest."""
        return best_attempt(self.attempts)

    @property
    def draft_count(self) -> int:
        """How many drafts were written; what was made of them by repair is none."""
        return sum(not a.repaired for a in self.attempts)

    @property
    def repeats(self) -> bool:
        """The last candidate says what an earlier one said, written from the same evidence."""
        if not self.attempts:
            return False
        *earlier, last = self.attempts
        said = normalized_text(last.candidate)
        return any(
            normalized_text(a.candidate) == said and a.evidence == last.evidence
            for a in earlier
        )

    def attempts_since_best(self) -> int:
        """How many attempts have been made since the best one."""
        best = self.best
        if best is None:
            return 0
        return (
            len(self.attempts)
            - 1
            - next(i for i, a in enumerate(self.attempts) if a is best)
        )


def best_attempt(attempts: Sequence[Attempt]) -> Attempt | None:
    """See `WorkingMemory.best`; `max` keeps the first of equals."""
    return max(attempts, key=attempt_rank, default=None)


def attempt_rank(attempt: Attempt) -> tuple[bool, bool, bool, float]:
    """What attempts are compared by; see `WorkingMemory.best`."""
    return (
        attempt.verdict.passed,
        bool(attempt.candidate),
        not attempt.is_abstention,
        attempt.verdict.score,
    )


def normalized_text(text: str) -> str:
    """Equal for texts that differ only in case and white space."""
    return " ".join(text.casefold().split())
