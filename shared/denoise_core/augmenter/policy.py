"""Policy: look at the memory, choose the next action. Policies are pure: what they know is in the memory."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from denoise_core.augmenter.actions import Abstain, Action, Draft, Readmit, Search, SelfAsk, Send
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.errors import InputError

Consult = Literal["always", "never", "self_ask"]


@runtime_checkable
class Policy(Protocol):
    """Chooses; the loop carries it out, within its limits and the budget."""

    def choose(self, memory: WorkingMemory) -> Action: ...


class Rules:
    """Search, draft; when a draft fails change the evidence before asking again; send what passes.

    ``consult``: when to consult knowledge. ``"always"`` first of all, ``"never"``, or ``"self_ask"``: only
    when the model says that it needs it (paper, section 3.5). After a failed draft, in this order and as far
    as there is anything to do: admit dropped chunks again, ``readmit`` at a time, highest score first; then,
    if ``widen``, one wide search. Without evidence it abstains, or with ``without_evidence="draft"`` has the
    model answer from memory, which no utility passes.
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
            raise InputError(f"consult={consult!r}: expected 'always', 'never' or 'self_ask'")
        if without_evidence not in ("abstain", "draft"):
            raise InputError(f"without_evidence={without_evidence!r}: expected 'abstain' or 'draft'")
        if readmit < 0:
            raise InputError(f"readmit={readmit}: expected 0 (never) or more")
        self.consult = consult
        self.readmit = readmit
        self.widen = widen
        self.without_evidence = without_evidence

    def choose(self, memory: WorkingMemory) -> Action:
        if memory.last and memory.last.verdict.passed:
            return Send()
        if self._wants_knowledge(memory):
            if self.consult == "self_ask" and memory.needs_knowledge is None:
                return SelfAsk()
            if not _searched(memory):
                return Search()
            if (memory.last or not memory.evidence) and not _changed_since_last_draft(memory):
                more = self._more_evidence(memory)
                if more:
                    return more
            if not memory.evidence and self.without_evidence == "abstain":
                return Abstain()
        return Draft()

    def _wants_knowledge(self, memory: WorkingMemory) -> bool:
        return self.consult == "always" or (self.consult == "self_ask" and memory.needs_knowledge is not False)

    def _more_evidence(self, memory: WorkingMemory) -> Action | None:
        if self.readmit and memory.dropped:
            return Readmit(self.readmit)
        if self.widen and not any(isinstance(a, Search) and a.wide for a in memory.actions):
            return Search(wide=True)
        return None


def _searched(memory: WorkingMemory) -> bool:
    """A search came back, whatever it found."""
    return bool(memory.queries)


def _changed_since_last_draft(memory: WorkingMemory) -> bool:
    """The evidence is not what the last draft was written from."""
    return memory.last is not None and memory.last.evidence != memory.evidence
