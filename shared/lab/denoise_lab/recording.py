"""A run as JSON Lines, to store and replay: the answer, each effect, the memory.

What JSON cannot express is changed, never refused, see `denoise_core.jsonable`. Fields
that are not compared (a model, an origin) are left out. Texts are written as they are:
a file holds whatever the questions, the evidence and the replies held.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, get_args

from denoise_core.augmenter.actions import Action
from denoise_core.augmenter.answer import Answer, Outcome, StopReason
from denoise_core.augmenter.drafting.drafter import DraftReply
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.prompts import VERSION as PROMPTS
from denoise_core.augmenter.prompts import cited_passages
from denoise_core.errors import InputError
from denoise_core.jsonable import from_jsonable, to_jsonable
from denoise_core.result import DenoiseResult, Trace
from denoise_core.runtime.effects import Complete, DenoiseCall, Retrieve
from denoise_core.types import Event, Passage, Reply, Span

VERSION = 6
_EFFECTS: Mapping[str, type] = {
    "complete": Complete,
    "retrieve": Retrieve,
    "denoise": DenoiseCall,
}
_REPLIES: Mapping[str, Any] = {
    "complete": Reply | None,
    "retrieve": tuple[Passage, ...] | None,
    "denoise": DenoiseResult | None,
}
_RESULT_FIELDS = ("query", "passages", "dropped", "fallback")
_ACTIONS = {cls.__name__: cls for cls in get_args(Action)}
_to_json = partial(to_jsonable, list_classes=(Span,))


def to_lines(answer: Answer) -> Iterator[str]:
    """Yield the run as lines of JSON, without line ends."""
    head = {
        "line": "answer",
        "version": VERSION,
        "prompts": PROMPTS,
        "text": answer.text,
        "outcome": str(answer.outcome),
        "stopped_because": str(answer.stop_reason),
        "judge": answer.judge,
    }
    records = [head]
    for event in answer.trace.events:
        records.append({"line": "effect", **_event_to_json(event)})
    records.append({"line": "memory", **_memory_to_json(answer.memory)})
    for record in records:
        line = json.dumps(record, ensure_ascii=False, allow_nan=False)
        # Half a character must not make the file unwritable.
        yield line.encode("utf-8", "replace").decode()


def from_lines(lines: Iterable[str]) -> Answer:
    """Read the answer that `to_lines` wrote; blank lines are skipped.

    Raises `InputError` naming the bad line.
    """
    head: Mapping[str, Any] | None = None
    memory = None
    events = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            match record["line"]:
                case "answer" if record["version"] == VERSION:
                    head = record
                case "effect":
                    events.append(_event_from_json(record))
                case "memory":
                    memory = _memory_from_json(record)
                case other:
                    version = record.get("version")
                    raise InputError(f"unknown line {other!r} of version {version!r}")
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"line {number}: not a recorded run: {type(error).__name__}: {error}"
            ) from error
    if head is None or memory is None:
        raise InputError(
            "not a recorded run: expected a line 'answer' and a line 'memory'"
        )
    best = memory.best
    citations: tuple[Passage, ...] = ()
    if best is not None and best.candidate == head["text"]:
        citations = cited_passages(best)
    return Answer(
        head["text"],
        Outcome(head["outcome"]),
        StopReason(head["stopped_because"]),
        memory,
        Trace(tuple(events)),
        citations,
        str(head["judge"]),
    )


def _event_to_json(event: Event) -> dict[str, Any]:
    """One effect and its reply as plain JSON."""
    kinds = {effect_class: kind for kind, effect_class in _EFFECTS.items()}
    written: dict[str, Any] = _to_json(event)
    if isinstance(event.reply, DenoiseResult):
        written["reply"] = {name: written["reply"][name] for name in _RESULT_FIELDS}
    return {"kind": kinds[type(event.effect)], **written}


def _event_from_json(data: Mapping[str, Any]) -> Event:
    kind = data["kind"]
    if kind not in _EFFECTS:
        raise InputError(f"kind {kind!r}: expected complete, retrieve or denoise")
    effect = from_jsonable(_EFFECTS[kind], data["effect"])
    reply = data["reply"]
    reply_type: Any = _REPLIES[kind]
    if kind == "complete" and reply is not None and "retrieved" in reply:
        reply_type = DraftReply
    event: Event = from_jsonable(Event, data)
    return replace(event, effect=effect, reply=from_jsonable(reply_type, reply))


def _memory_to_json(memory: WorkingMemory) -> dict[str, Any]:
    """Everything in the memory."""
    actions = []
    for action in memory.actions:
        actions.append({"action": type(action).__name__, **_to_json(action)})
    written: dict[str, Any] = _to_json(memory)
    return {**written, "actions": actions}


def _memory_from_json(data: Mapping[str, Any]) -> WorkingMemory:
    actions = []
    for fields in data["actions"]:
        action_class = _ACTIONS[fields["action"]]
        actions.append(from_jsonable(action_class, fields))
    memory: WorkingMemory = from_jsonable(WorkingMemory, {**data, "actions": ()})
    return replace(memory, actions=tuple(actions))
