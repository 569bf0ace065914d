"""Write a run of the loop as JSON Lines, to store and replay it: the answer, each effect, the memory.

What JSON cannot express is changed, never refused, see `denoise_core.jsonable`. Fields
that are not compared (a model, an origin) are left out. Texts are written as they are, so a
file has the private data of its questions, evidence and replies.
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
from denoise_core.augmenter.prompts import VERSION as PROMPTS_VERSION
from denoise_core.augmenter.prompts import cited_passages
from denoise_core.errors import InputError
from denoise_core.jsonable import from_jsonable, to_jsonable
from denoise_core.result import DenoiseResult, Trace
from denoise_core.runtime.effects import Complete, DenoiseCall, Retrieve
from denoise_core.types import Event, Passage, Reply, Span

VERSION = 6
_EFFECT_TYPES: Mapping[str, type] = {
    "complete": Complete,
    "retrieve": Retrieve,
    "denoise": DenoiseCall,
}
_REPLY_TYPES: Mapping[str, Any] = {
    "complete": Reply | None,
    "retrieve": tuple[Passage, ...] | None,
    "denoise": DenoiseResult | None,
}
_RESULT_FIELDS = ("query", "passages", "dropped", "fallback")
_ACTION_TYPES = {cls.__name__: cls for cls in get_args(Action)}
_value_to_json = partial(to_jsonable, list_classes=(Span,))


def answer_to_lines(answer: Answer) -> Iterator[str]:
    """Yield the run as lines of JSON, without line ends."""
    answer_record = {
        "line": "answer",
        "version": VERSION,
        "prompts": PROMPTS_VERSION,
        "text": answer.text,
        "outcome": str(answer.outcome),
        "stopped_because": str(answer.stop_reason),
        "judge": answer.judge,
    }
    records = [answer_record]
    for event in answer.trace.events:
        records.append({"line": "effect", **_event_to_json(event)})
    records.append({"line": "memory", **_memory_to_json(answer.memory)})
    for record in records:
        line = json.dumps(record, ensure_ascii=False, allow_nan=False)
        # Half a character must not make the file unwritable.
        yield line.encode("utf-8", "replace").decode()


def answer_from_lines(lines: Iterable[str]) -> Answer:
    """Read the answer that `answer_to_lines` wrote; blank lines are skipped.

    Raises:
        InputError: A line cannot be read, or the answer or the memory is missing.
    """
    answer_record: Mapping[str, Any] | None = None
    memory = None
    events = []
    for line_number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            match _parse_line(line):
                case WorkingMemory() as parsed_record:
                    memory = parsed_record
                case Event() as parsed_record:
                    events.append(parsed_record)
                case parsed_record:
                    answer_record = parsed_record
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"line {line_number}: not a recorded run: {type(error).__name__}: {error}"
            ) from error
    if answer_record is None or memory is None:
        raise InputError(
            "not a recorded run: expected a line 'answer' and a line 'memory'"
        )
    best = memory.best
    citations: tuple[Passage, ...] = ()
    if best is not None and best.candidate == answer_record["text"]:
        citations = cited_passages(best)
    return Answer(
        answer_record["text"],
        Outcome(answer_record["outcome"]),
        StopReason(answer_record["stopped_because"]),
        memory,
        Trace(tuple(events)),
        citations,
        str(answer_record["judge"]),
    )


def _parse_line(line: str) -> Event | WorkingMemory | Mapping[str, Any]:
    """The effect, the memory, or the record of the answer."""
    record: Mapping[str, Any] = json.loads(line)
    kind = record["line"]
    if kind == "answer" and record["version"] == VERSION:
        return record
    if kind == "effect":
        return _event_from_json(record)
    if kind == "memory":
        return _memory_from_json(record)
    raise InputError(f"unknown line {kind!r} of version {record.get('version')!r}")


def _event_to_json(event: Event) -> dict[str, Any]:
    """One effect and its reply as plain JSON."""
    kinds = {effect_class: kind for kind, effect_class in _EFFECT_TYPES.items()}
    event_record: dict[str, Any] = _value_to_json(event)
    if isinstance(event.reply, DenoiseResult):
        result_record = event_record["reply"]
        event_record["reply"] = {name: result_record[name] for name in _RESULT_FIELDS}
    return {"kind": kinds[type(event.effect)], **event_record}


def _event_from_json(data: Mapping[str, Any]) -> Event:
    kind = data["kind"]
    if kind not in _EFFECT_TYPES:
        raise InputError(f"kind {kind!r}: expected complete, retrieve or denoise")
    effect = from_jsonable(_EFFECT_TYPES[kind], data["effect"])
    reply = data["reply"]
    reply_type: Any = _REPLY_TYPES[kind]
    if kind == "complete" and reply is not None and "retrieved" in reply:
        reply_type = DraftReply
    event: Event = from_jsonable(Event, data)
    return replace(event, effect=effect, reply=from_jsonable(reply_type, reply))


def _memory_to_json(memory: WorkingMemory) -> dict[str, Any]:
    """Everything in the memory, each action with the name of its class."""
    actions = []
    for action in memory.actions:
        actions.append({"action": type(action).__name__, **_value_to_json(action)})
    memory_record: dict[str, Any] = _value_to_json(memory)
    return {**memory_record, "actions": actions}


def _memory_from_json(data: Mapping[str, Any]) -> WorkingMemory:
    actions = []
    for fields in data["actions"]:
        action_class = _ACTION_TYPES[fields["action"]]
        actions.append(from_jsonable(action_class, fields))
    memory: WorkingMemory = from_jsonable(WorkingMemory, {**data, "actions": ()})
    return replace(memory, actions=tuple(actions))
