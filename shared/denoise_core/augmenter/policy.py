"""Policy: look at the memory, choose the next action; and the bounds of the loop.

A policy is pure: what it knows is in the memory. A new policy implements `Policy`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from denoise_core.augmenter.actions import (
    Abstain,
    Action,
    Draft,
    Readmit,
    Search,
    Send,
)
from denoise_core.augmenter.memory import Attempt, WorkingMemory
from denoise_core.errors import InputError
from denoise_core.support.judging import WRONG_ABSTENTION

Consult = Literal["always", "never"]


@dataclass(frozen=True, slots=True)
class LoopLimits:
    """The bounds of the loop, whatever the policy chooses.

    Attributes:
        attempts: Drafts at most.
        patience: Drafts in a row that may bring no better score.
        failures: Drafts or whole searches that may fail before the loop ends.
        steps: Actions at most.
        call_seconds: Time for one call of a model, judge or retriever; None for no
            limit.
        evidence_tokens: Evidence in a prompt at most, best first, estimated at four
            characters a token.
        rerun: Whether to ask a drafter again that is not ``repeatable``.
        unsupported: When no draft passed, ``"send"`` the best attempt with its
            outcome, or ``"abstain"``; a draft withheld because nothing is known of it,
            such as where the judge failed, stays ``unknown``.
        threshold: The share of supported claims from which on a draft passes in which
            nothing is contradicted; 1.0 is all of them.

    Raises:
        InputError: For values that make no loop.
    """

    attempts: int = 3
    patience: int = 2
    failures: int = 2
    steps: int = 16
    call_seconds: float | None = None
    evidence_tokens: int = 12_000
    rerun: bool = False
    unsupported: Literal["send", "abstain"] = "send"
    threshold: float = 1.0

    def __post_init__(self) -> None:
        for name in ("attempts", "patience", "failures", "steps", "evidence_tokens"):
            limit_value = getattr(self, name)
            if limit_value < 1:
                raise InputError(
                    f"LoopLimits({name}={limit_value}): expected 1 or more"
                )
        if self.call_seconds is not None and not self.call_seconds > 0:
            raise InputError(
                f"LoopLimits(call_seconds={self.call_seconds}): expected more than 0, or None for no limit"
            )
        if not 0.0 < self.threshold <= 1.0:
            raise InputError(
                f"LoopLimits(threshold={self.threshold}): expected above 0, up to 1"
            )
        if self.unsupported not in ("send", "abstain"):
            raise InputError(
                f"LoopLimits(unsupported={self.unsupported!r}): expected 'send' or 'abstain'"
            )


@runtime_checkable
class Policy(Protocol):
    """Chooses the actions (LLM-Augmenter, section 2.2)."""

    def choose(self, memory: WorkingMemory) -> Action:
        """Choose what to do next; the loop bounds it by limits and budget."""
        ...


class Rules:
    """Search and draft; after a failed draft change the evidence, then draft again.

    A failed draft is followed, as far as possible and in this order, by restoring
    dropped chunks and by one wide search; one that declines although its evidence
    answers is written again at once. A draft that is supported in part, with nothing
    contradicted, is sent. A draft that says it does not know, or that
    had no evidence, widens the search once; if that brings nothing new, the loop ends.
    A judge that cannot tell ends it too: asking again would only go on until something
    false passes.

    Args:
        consult: Whether to consult knowledge. ``"always"``, first of all; ``"never"``: a
            draft can only be supported by evidence of its drafter or of
            ``answer(..., evidence=)``.
        readmit: Dropped chunks restored at a time, highest score first; 0 for never.
        widen: Whether to search wide.
        without_evidence: ``"abstain"``, or ``"draft"`` to have the model answer from
            memory, which no utility passes.

    Raises:
        InputError: For other values.
    """

    def __init__(
        self,
        *,
        consult: Consult = "always",
        readmit: int = 3,
        widen: bool = True,
        without_evidence: Literal["abstain", "draft"] = "abstain",
    ) -> None:
        if consult not in ("always", "never"):
            raise InputError(f"consult={consult!r}: expected 'always' or 'never'")
        if without_evidence not in ("abstain", "draft"):
            raise InputError(
                f"without_evidence={without_evidence!r}: expected 'abstain' or 'draft'"
            )
        if readmit < 0:
            raise InputError(f"readmit={readmit}: expected 0 (never) or more")
        self.consult = consult
        self.readmit = readmit
        self.widen = widen
        self.without_evidence = without_evidence

    def choose(self, memory: WorkingMemory) -> Action:
        """Choose by the rules above."""
        last = memory.last
        if last is None:
            return self._first_action(memory)
        if _is_unknown(last):
            return self._after_unknown(memory, last)
        verdict = last.verdict
        if verdict.outcome in ("pass", "partial"):
            return Send()
        has_new_evidence = last.evidence != memory.evidence
        is_wrong_abstention = verdict.kind == WRONG_ABSTENTION
        if has_new_evidence or is_wrong_abstention:
            return Draft()
        more_evidence = self._more_evidence(memory)
        return more_evidence or Draft()

    def _first_action(self, memory: WorkingMemory) -> Action:
        if self.consult == "never":
            return Draft()
        if memory.searchable and not memory.queries:
            return Search()
        if memory.evidence or memory.drafter_brings_evidence:
            return Draft()
        more = self._more_evidence(memory)
        if more is not None:
            return more
        return Abstain() if self.without_evidence == "abstain" else Draft()

    def _after_unknown(self, memory: WorkingMemory, last: Attempt) -> Action:
        had_no_evidence = last.verdict.kind == "empty_evidence"
        if last.is_abstention or had_no_evidence:
            if last.evidence != memory.evidence:
                return Draft()
            more = self._widen_once(memory)
            if more is not None:
                return more
        return Abstain() if last.is_abstention else Send()

    def _widen_once(self, memory: WorkingMemory) -> Action | None:
        """More evidence after the first draft that is unknown; None after a second."""
        *earlier_attempts, _ = memory.attempts
        was_unknown = any(map(_is_unknown, earlier_attempts))
        if self.consult == "never" or was_unknown:
            return None
        last_action = memory.actions[-1]
        if not isinstance(last_action, Draft):
            return None
        if memory.searchable and not memory.queries:
            return Search()
        if self._may_widen(memory):
            return Search(wide=True)
        if self.readmit and memory.dropped:
            return Readmit(self.readmit)
        return None

    def _more_evidence(self, memory: WorkingMemory) -> Action | None:
        if self.readmit and memory.dropped:
            return Readmit(self.readmit)
        if self.consult == "always" and self._may_widen(memory):
            return Search(wide=True)
        return None

    def _may_widen(self, memory: WorkingMemory) -> bool:
        searches = [action for action in memory.actions if isinstance(action, Search)]
        has_searched_wide = any(search.wide for search in searches)
        return self.widen and memory.searchable and not has_searched_wide


def _is_unknown(attempt: Attempt) -> bool:
    """Whether a draft says that it does not know, or nothing is known of it."""
    return attempt.is_abstention or attempt.verdict.outcome == "unknown"
