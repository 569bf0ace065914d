"""Run a recorded question again with another utility, threshold, feedback or policy; no generator is called.

Drafts, queries, searches and denoising come from the recording, in their order. A judge with its own model (an
effect that names the model) is really called, and so is a feedback model with another prompt. When the new loop
asks for more than was recorded, it ends as with a spent budget, with the best draft so far, and
`Replay.is_complete` is False. `denoise_lab.recording` stores runs.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
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

_GENERATOR_TAGS = frozenset(("draft", "queries"))
_SPENT_BUDGET = re.compile(
    r"BudgetExceeded: budget of (\S+) (calls|tokens|seconds) is spent \((\S+) used\)"
)


class NotRecorded(BudgetExceeded):
    """The recording does not have the next effect: the loop ends, as with a spent budget."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of a replay.

    Attributes:
        answer: The new answer, whose trace has only the calls that were really made.
        exact: Every effect was word for word the recorded one; otherwise some replies are
            those to slightly other prompts.
        is_complete: The recording had every effect that the loop asked for.
    """

    answer: Answer
    exact: bool
    is_complete: bool


def replay(augmenter: Augmenter, recorded_run: Answer) -> Replay:
    """Run ``augmenter`` on the recorded question; its own model, retriever and denoiser are not called."""
    recording = _Recording(recorded_run.trace.events)
    memory = recorded_run.memory
    drafter = None
    if memory.drafter_brings_evidence or augmenter.llm is None:
        drafter = _RecordedDrafter()
    flow = augmenter.flow(
        memory.question,
        memory.history,
        drafter=drafter,
        evidence=_initial_evidence(recorded_run),
    )
    replayed_flow = _reply_from_recording(flow, recording)
    answer, trace = run(replayed_flow, budget=augmenter.budget)
    answer = replace(answer, trace=trace)
    return Replay(answer, recording.is_exact, recording.is_complete)


class _RecordedDrafter:
    """Takes the place of the drafter of a recorded run; its drafts come from the recording."""

    repeatable = True

    def draft(self, request: DraftRequest) -> DraftReply:
        raise NotRecorded("recorded drafts", 0, 0)

    async def adraft(self, request: DraftRequest) -> DraftReply:
        return self.draft(request)


def _initial_evidence(recorded_run: Answer) -> tuple[Passage, ...]:
    """The evidence that the loop was given: passages that no effect of the run retrieved."""
    retrieved_texts: set[str] = set()
    for event in recorded_run.trace.events:
        for passages in _retrieved_passages(event.reply):
            retrieved_texts.update(passage.text for passage in passages)
    memory = recorded_run.memory
    initial_passages = []
    for passage in (*memory.retrieved, *memory.excluded_evidence):
        if passage.text not in retrieved_texts:
            initial_passages.append(passage)
    return tuple(initial_passages)


def _retrieved_passages(reply: Any) -> list[Sequence[Passage]]:
    if isinstance(reply, DraftReply):
        return [evidence.passages for evidence in reply.retrieved]
    if isinstance(reply, tuple):
        return [reply]
    return []


def _reply_from_recording(flow: Flow[Answer], recording: _Recording) -> Flow[Answer]:
    """Drive ``flow`` with the recorded replies; only what is not recorded reaches the driver."""
    reply: Any = None
    while True:
        try:
            if isinstance(reply, FailedItem):
                effect = flow.throw(reply.error)
            else:
                effect = flow.send(reply)
        except StopIteration as stop:
            answer: Answer = stop.value
            return answer
        reply = yield from _find_reply(effect, recording)


def _find_reply(effect: Effect, recording: _Recording) -> Flow[Any]:
    if isinstance(effect, Batch):
        replies = []
        for item in effect.items:
            replies.append((yield from _find_reply(item, recording)))
        return replies
    if _is_live_call(effect, recording):
        try:
            return (yield effect)
        except Exception as error:
            return FailedItem(error)
    return recording.take_reply(effect)


def _is_live_call(effect: SingleEffect, recording: _Recording) -> bool:
    """Whether the effect is a call of a judge or a feedback model that has to be made.

    The generator is never asked, feedback only if the recording has no call with the same words.
    """
    if not isinstance(effect, Complete) or effect.llm is None:
        return False
    if effect.tag in _GENERATOR_TAGS:
        return False
    return effect.tag != "feedback" or not recording.has_same(effect)


class _Recording:
    """The recorded events, each used once, by kind and tag in their order."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.is_exact = True
        self.is_complete = True
        self._events: dict[tuple[type, str], deque[Event]] = {}
        for event in events:
            key = (type(event.effect), event.tag)
            self._events.setdefault(key, deque()).append(event)

    def has_same(self, effect: SingleEffect) -> bool:
        """Whether an event with the same effect is left."""
        events = self._events.get((type(effect), effect.tag), ())
        return any(event.effect == effect for event in events)

    def take_reply(self, effect: SingleEffect) -> Any:
        """The reply of an event with the same effect, or else of the next event of its kind and tag."""
        events = self._events.get((type(effect), effect.tag))
        if not events:
            self.is_exact = False
            self.is_complete = False
            return FailedItem(NotRecorded(f"recorded {effect.tag!r}", 0, 0))
        taken_event = None
        for event in events:
            if _is_same_effect(event.effect, effect):
                taken_event = event
                break
        if taken_event is None:
            self.is_exact = False
            taken_event = events[0]
        events.remove(taken_event)
        if taken_event.error is None:
            return taken_event.reply
        return FailedItem(_make_error(taken_event.error))


def _is_same_effect(recorded_effect: SingleEffect, effect: SingleEffect) -> bool:
    """Compare two effects without the passages' metadata, which JSON may have changed."""
    if isinstance(recorded_effect, DenoiseCall) and isinstance(effect, DenoiseCall):
        recorded_texts = [
            (passage.id, passage.text) for passage in recorded_effect.passages
        ]
        texts = [(passage.id, passage.text) for passage in effect.passages]
        return recorded_effect.query == effect.query and recorded_texts == texts
    if isinstance(recorded_effect, Retrieve) and isinstance(effect, Retrieve):
        return recorded_effect.query == effect.query
    return recorded_effect == effect


def _make_error(text: str) -> Exception:
    """An exception with the class name and message of the recorded one."""
    spent_budget = _SPENT_BUDGET.match(text)
    if spent_budget:
        limit, unit, used = spent_budget.groups()
        return BudgetExceeded(unit, float(limit), float(used))
    name, _, message = text.partition(": ")
    if not name.isidentifier():
        name = "Exception"
    error_class: type[Exception] = type(name, (Exception,), {})
    return error_class(message)
