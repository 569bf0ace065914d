"""Working memory: everything known about one question so far. Immutable; each step gives a new one.

The paper's six-tuple (section 2.1): question q, evidence e, candidates o with their utility u and feedback f
(one `Attempt` each), dialogue history h. Beside it stand what was searched, what a denoiser left out, which
actions were taken and what failed, so that a policy can decide from the memory alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from denoise_core.errors import InputError
from denoise_core.types import Drop, Message, Passage

if TYPE_CHECKING:
    from denoise_core.augmenter.actions import Action

Judgement = Literal["pass", "fail", "unknown"]


@dataclass(frozen=True, slots=True)
class Reason:
    """One finding of a utility.

    ``kind`` is a short name a program can test (``"number"``, ``"negation"``, ``"empty_evidence"`` ...).
    ``claim`` is the part of the candidate that is meant, ``passage_id`` the passage it was held against
    (None: all of them), ``missing`` what that passage does not say.
    """

    text: str
    kind: str = "other"
    claim: str = ""
    passage_id: str | None = None
    missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a utility says of a candidate: ``score`` in [0, 1], higher is better.

    ``unknown`` means that nothing could be said (no evidence, a judge that failed); it is never a pass.
    Raises `InputError` for another outcome or a score outside [0, 1].
    """

    outcome: Judgement
    score: float = 0.0
    reasons: tuple[Reason, ...] = ()

    def __post_init__(self) -> None:
        if self.outcome not in ("pass", "fail", "unknown"):
            raise InputError(f"Verdict outcome {self.outcome!r}: expected 'pass', 'fail' or 'unknown'")
        if not isinstance(self.score, (int, float)) or not 0.0 <= self.score <= 1.0 or math.isnan(self.score):
            raise InputError(f"Verdict score {self.score!r}: expected a number from 0 to 1")

    @property
    def passed(self) -> bool:
        return self.outcome == "pass"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One candidate, the evidence the model saw when it wrote it, and what was said of it."""

    candidate: str
    verdict: Verdict
    feedback: str = ""
    evidence: tuple[Passage, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkingMemory:
    """The state of one question.

    ``retrieved`` is what the searches found, ``evidence`` what of it the model is shown, ``dropped`` the
    ranges a denoiser left out (they may be admitted again). ``needs_knowledge`` is None until the model was
    asked whether it needs any. ``failures`` are effects that failed, as ``(what, "Type: message")``.
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

    def acted(self, action: Action) -> WorkingMemory:
        return replace(self, actions=(*self.actions, action))

    def attempted(self, attempt: Attempt) -> WorkingMemory:
        return replace(self, attempts=(*self.attempts, attempt))

    def failed(self, what: str, error: BaseException) -> WorkingMemory:
        return replace(self, failures=(*self.failures, (what, f"{type(error).__name__}: {error}")))

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def best(self) -> Attempt | None:
        """The attempt to send: one that passed before any that did not, then the highest score, then the
        earliest."""
        return best_attempt(self.attempts)

    @property
    def repeats(self) -> bool:
        """The last candidate says what an earlier one said, written from the same evidence."""
        if not self.attempts:
            return False
        *earlier, last = self.attempts
        said = same_text(last.candidate)
        return any(same_text(a.candidate) == said and a.evidence == last.evidence for a in earlier)

    def attempts_since_best(self) -> int:
        """How many attempts have been made since the best one."""
        best = self.best
        if best is None:
            return 0
        return len(self.attempts) - 1 - next(i for i, a in enumerate(self.attempts) if a is best)


def best_attempt(attempts: Sequence[Attempt]) -> Attempt | None:
    """See `WorkingMemory.best`; `max` keeps the first of equals."""
    return max(attempts, key=lambda a: (a.verdict.passed, a.verdict.score), default=None)


def same_text(text: str) -> str:
    """Equal for texts that differ only in case and white space."""
    return " ".join(text.casefold().split())
