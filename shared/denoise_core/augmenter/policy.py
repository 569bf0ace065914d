"""Policy: look at the memory, choose the next action; and the bounds that hold whatever it chooses.

Policies are pure: what they know is in the memory.
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
    SelfAsk,
    Send,
)
from denoise_core.augmenter.memory import Attempt, WorkingMemory
from denoise_core.errors import InputError

Consult = Literal["always", "never", "self_ask"]


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
            outcome, or ``"abstain"``.

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

    def __post_init__(self) -> None:
        for name in ("attempts", "patience", "failures", "steps", "evidence_tokens"):
            if getattr(self, name) < 1:
                raise InputError(
                    f"LoopLimits({name}={getattr(self, name)}): expected 1 or more"
                )
        if self.call_seconds is not None and not self.call_seconds > 0:
            raise InputError(
                f"LoopLimits(call_seconds={self.call_seconds}): expected more than 0, or None for no limit"
            )
        if self.unsupported not in ("send", "abstain"):
            raise InputError(
                f"LoopLimits(unsupported={self.unsupported!r}): expected 'send' or 'abstain'"
            )


@runtime_checkable
class Policy(Protocol):
    """Chooses; the loop carries it out, within its limits and the budget (LLM-Augmenter, section 2.2)."""

    def choose(self, memory: WorkingMemory) -> Action:
        """What to do next, by all that is known so far."""
        ...


class Rules:
    """Search, draft; when a draft fails change the evidence before asking again; send what passes.

    A draft that says it does not know, or that nothing was there to hold against, widens the search once; where
    that brings nothing new, or the model still does not know, the loop ends. A judge that could not tell ends it
    too: asking again would only go on until something false passes.

    ``consult``: when to consult knowledge. ``"always"`` first of all; ``"self_ask"``: when the model says that it
    needs it (paper, section 3.5), or when there was nothing to hold its draft against; ``"never"``: then a draft
    can only be supported by what its drafter or ``answer(..., evidence=)`` brought. After a failed draft, in this
    order and as far as there is anything to do: admit dropped chunks again, ``restore_dropped`` at a time, highest score
    first; then, if ``widen``, one wide search. Without evidence it abstains, or with ``without_evidence="draft"``
    has the model answer from memory, which no utility passes.
    """

    def __init__(
        self,
        *,
        consult: Consult = "always",
        readmit: int = 3,
        widen: bool = True,
        without_evidence: Literal["abstain", "draft"] = "abstain",
    ) -> None:
        if consult not in ("always", "never", "self_ask"):
            raise InputError(
                f"consult={consult!r}: expected 'always', 'never' or 'self_ask'"
            )
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
        last = memory.last
        if last is None:
            return self._first(memory)
        if last.verdict.passed:
            return Send()
        if last.verdict.outcome == "unknown":
            return self._after_unknown(memory, last)
        changed = last.evidence != memory.evidence
        return (None if changed else self._more_evidence(memory)) or Draft()

    def _first(self, memory: WorkingMemory) -> Action:
        if self._wants_knowledge(memory):
            if self.consult == "self_ask" and memory.needs_knowledge is None:
                return SelfAsk()
            if memory.searchable and not memory.queries:
                return Search()
            if not memory.evidence and not memory.drafter_brings_evidence:
                more = self._more_evidence(memory)
                if more:
                    return more
                if self.without_evidence == "abstain":
                    return Abstain()
        return Draft()

    def _after_unknown(self, memory: WorkingMemory, last: Attempt) -> Action:
        nothing = last.verdict.kind == "empty_evidence"
        if last.is_abstention or nothing:
            if last.evidence != memory.evidence:
                return Draft()
            if (more := self._once_wider(memory, last)) is not None:
                return more
        return Abstain() if last.is_abstention else Send()

    def _once_wider(self, memory: WorkingMemory, last: Attempt) -> Action | None:
        """The one search that follows an abstention, if none has."""
        if (
            self.consult == "never"
            or sum(a.verdict.outcome == "unknown" for a in memory.attempts) > 1
        ):
            return None
        since = next(
            n for n, a in enumerate(reversed(memory.actions)) if isinstance(a, Draft)
        )
        if since:
            return None
        if memory.searchable and not memory.queries:
            return Search()
        if self._may_widen(memory):
            return Search(wide=True)
        return Readmit(self.readmit) if self.readmit and memory.dropped else None

    def _wants_knowledge(self, memory: WorkingMemory) -> bool:
        return self.consult == "always" or (
            self.consult == "self_ask" and memory.needs_knowledge is not False
        )

    def _more_evidence(self, memory: WorkingMemory) -> Action | None:
        if self.readmit and memory.dropped:
            return Readmit(self.readmit)
        return (
            Search(wide=True)
            if self._wants_knowledge(memory) and self._may_widen(memory)
            else None
        )

    def _may_widen(self, memory: WorkingMemory) -> bool:
        searched = any(isinstance(a, Search) and a.wide for a in memory.actions)
        return self.widen and memory.searchable and not searched
