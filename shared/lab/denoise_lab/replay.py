"""Run a recorded question again with another utility, threshold, feedback or policy; no generator is called.

Drafts, queries, searches and denoising come from the recording, in their order. A judge with its own model (an
effect that names the model) is really called, and so is a feedback model whose prompt is another one. When the new
loop wants more than was recorded, it ends as with a spent budget, with the best of what there was, and
`Replay.is_complete` is False. `denoise_lab.recording` stores runs.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from denoise_core.augmenter.answer import Answer
from denoise_core.augmenter.drafting.drafter import DraftReply, DraftRequest
from denoise_core.augmenter.loop import Augmenter
from denoise_core.errors import BudgetExceeded
from denoise_core.runtime.effects import (
    Batch,
    Complete,
    DenoiseCall,
    Effect,
    FailedItem,
    Flow,
    Retrieve,
    SingleEffect,
)
from denoise_core.runtime.flow import run
from denoise_core.types import Event, Passage

_GENERATOR = frozenset(("draft", "queries"))
_SPENT = re.compile(
    r"BudgetExceeded: budget of (\S+) (calls|tokens|seconds) is spent \((\S+) used\)"
)


class NotRecorded(BudgetExceeded):
    """The recording does not hold the next effect: the loop ends, as with a spent budget."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The new answer, whose trace holds only what was asked for real.

    Attributes:
        answer: The new answer.
        exact: Every effect asked for was word for word the recorded one; otherwise the replies are those to
            slightly other prompts.
        is_complete: The recording held every effect that the loop asked for.
    """

    answer: Answer
    exact: bool
    is_complete: bool


def replay(augmenter: Augmenter, recorded: Answer) -> Replay:
    """``augmenter`` on the recorded question; its own model, retriever and denoiser are not called."""
    tape = _Tape(recorded.trace.events)
    memory = recorded.memory
    drafter = (
        _Recorded() if memory.drafter_brings_evidence or augmenter.llm is None else None
    )
    flow = augmenter.flow(
        memory.question, memory.history, drafter=drafter, evidence=_at_hand(recorded)
    )
    answer, trace = run(_played(flow, tape), budget=augmenter.budget)
    return Replay(replace(answer, trace=trace), tape.exact, tape.is_complete)


class _Recorded:
    """Stands for the drafter of a recorded run; its drafts come from the tape, and it is never asked."""

    repeatable = True

    def draft(self, request: DraftRequest) -> DraftReply:
        raise NotRecorded("recorded drafts", 0, 0)

    async def adraft(self, request: DraftRequest) -> DraftReply:
        return self.draft(request)


def _at_hand(recorded: Answer) -> tuple[Passage, ...]:
    """The evidence that was there before anything was asked: what no effect of the run brought."""
    brought: set[str] = set()
    for event in recorded.trace.events:
        reply = event.reply
        found = (
            [f.passages for f in reply.retrieved]
            if isinstance(reply, DraftReply)
            else [reply]
        )
        brought.update(
            p.text
            for passages in found
            if isinstance(passages, tuple)
            for p in passages
        )
    return tuple(
        p
        for p in (*recorded.memory.retrieved, *recorded.memory.excluded_evidence)
        if p.text not in brought
    )


def _played(flow: Flow[Answer], tape: _Tape) -> Flow[Answer]:
    """``flow`` with what the tape holds answered from it; only the rest reaches the driver."""
    outcome: Any = None
    while True:
        try:
            effect = (
                flow.throw(outcome.error)
                if isinstance(outcome, FailedItem)
                else flow.send(outcome)
            )
        except StopIteration as stop:
            answer: Answer = stop.value
            return answer
        outcome = yield from _outcome(effect, tape)


def _outcome(effect: Effect, tape: _Tape) -> Flow[Any]:
    if isinstance(effect, Batch):
        found = []
        for item in effect.items:
            found.append((yield from _outcome(item, tape)))
        return found
    if (
        isinstance(effect, Complete)
        and effect.llm is not None
        and not tape.answers(effect)
    ):
        try:
            return (yield effect)
        except Exception as error:
            return FailedItem(error)
    return tape.take(effect)


class _Tape:
    """The recorded events, each handed out once, by kind and tag in their order."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.exact = True
        self.is_complete = True
        self._left: dict[tuple[type, str], deque[Event]] = {}
        for event in events:
            self._left.setdefault((type(event.effect), event.tag), deque()).append(
                event
            )

    def answers(self, effect: Complete) -> bool:
        """The tape has to serve this although it names a model: a part of the generator always, feedback
        when it was asked for in the same words."""
        left = self._left.get((Complete, effect.tag), ())
        return effect.tag in _GENERATOR or (
            effect.tag == "feedback" and any(e.effect == effect for e in left)
        )

    def take(self, effect: SingleEffect) -> Any:
        left = self._left.get((type(effect), effect.tag))
        if not left:
            self.exact = False
            self.is_complete = False
            return FailedItem(NotRecorded(f"recorded {effect.tag!r}", 0, 0))
        same = next((e for e in left if _same(e.effect, effect)), None)
        event = same or left[0]
        left.remove(event)
        self.exact = self.exact and same is not None
        return event.reply if event.error is None else FailedItem(_error(event.error))


def _same(recorded: SingleEffect, asked: SingleEffect) -> bool:
    """Metadata aside, which JSON may have changed."""
    if isinstance(recorded, DenoiseCall) and isinstance(asked, DenoiseCall):
        texts = [[(p.id, p.text) for p in e.passages] for e in (recorded, asked)]
        return recorded.query == asked.query and texts[0] == texts[1]
    if isinstance(recorded, Retrieve) and isinstance(asked, Retrieve):
        return recorded.query == asked.query
    return recorded == asked


def _error(text: str) -> Exception:
    """An exception that reads as the recorded one did."""
    spent = _SPENT.match(text)
    if spent:
        return BudgetExceeded(spent[2], float(spent[1]), float(spent[3]))
    name, _, message = text.partition(": ")
    kind: type[Exception] = type(
        name if name.isidentifier() else "Exception", (Exception,), {}
    )
    return kind(message)
