"""A run as JSON Lines, to store and replay: the answer, each effect, the memory.

``redact`` is called on every text that came from outside (questions, evidence, prompts,
replies, errors) before it is written, so that a log holds no private text. What JSON
cannot express is changed, never refused, see `denoise_core.jsonable`. Fields that are
not compared (a model, an origin) are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, get_args

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

VERSION = 5  # of a run, and of a memory alone
Redact: TypeAlias = Callable[[str], str]

# Paths of keys ("*" is any index) whose values are names of this package. Any other
# string came from outside, in metadata also the keys and the numbers.
_OWN_VALUES = frozenset(
    (
        "line", "kind", "tag", "prompts", "outcome", "stopped_because", "judge",
        "effect/tag", "effect/messages/*/role", "effect/passages/*/provenance",
        "reply/*/provenance", "reply/passages/*/provenance", "reply/retrieved/*/passages/*/provenance",
        "evidence/*/provenance", "retrieved/*/provenance", "excluded_evidence/*/provenance",
        "history/*/role", "actions/*/action", "attempts/*/evidence/*/provenance",
        "attempts/*/verdict/kind", "attempts/*/verdict/claims/*/kind",
        "attempts/*/verdict/quotations/*/status",
        "attempts/*/verdict/claims/*/quotes/*/relation", "attempts/*/verdict/claims/*/differences/*/kind",
    )
)  # fmt: skip
_FOREIGN_FIELDS = ("metadata", "fields")  # all of their content came from outside

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


def to_lines(answer: Answer, *, redact: Redact | None = None) -> Iterator[str]:
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
        records.append({"line": "effect", **event_to_json(event)})
    records.append({"line": "memory", **memory_to_json(answer.memory)})
    for record in records:
        shown = record
        if redact:
            shown = _redact_record(record, redact, ())
        line = json.dumps(shown, ensure_ascii=False, allow_nan=False)
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
                    events.append(event_from_json(record))
                case "memory":
                    memory = memory_from_json(record)
                case other:
                    version = record.get("version")
                    raise InputError(f"unknown line {other!r} of version {version!r}")
        except (KeyError, TypeError, ValueError) as error:
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
    outcome = Outcome(head["outcome"])
    stop_reason = StopReason(head["stopped_because"])
    trace = Trace(tuple(events))
    return Answer(
        head["text"],
        outcome,
        stop_reason,
        memory,
        trace,
        citations,
        str(head.get("judge", "")),
    )


def event_to_json(event: Event) -> dict[str, Any]:
    """Return one effect and its reply as plain JSON."""
    kinds = {effect_class: kind for kind, effect_class in _EFFECTS.items()}
    written: dict[str, Any] = _to_json(event)
    if isinstance(event.reply, DenoiseResult):
        written["reply"] = {name: written["reply"][name] for name in _RESULT_FIELDS}
    return {"kind": kinds[type(event.effect)], **written}


def event_from_json(data: Mapping[str, Any]) -> Event:
    """Read the event that `event_to_json` wrote."""
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


def _redact_record(
    value: Any, redact: Redact, path: tuple[str, ...], is_foreign: bool = False
) -> Any:
    """Redact each text that is no name of this package.

    Of foreign fields also keys and numbers; a number that ``redact`` keeps stays one.
    """
    if isinstance(value, list):
        item_path = (*path, "*")
        redacted_items = []
        for item in value:
            redacted_item = _redact_record(item, redact, item_path, is_foreign)
            redacted_items.append(redacted_item)
        return redacted_items
    if isinstance(value, dict):
        redacted = {}
        for key, item in value.items():
            shown_key = redact(key) if is_foreign else key
            is_item_foreign = is_foreign or key in _FOREIGN_FIELDS
            item_path = (*path, key)
            redacted[shown_key] = _redact_record(
                item, redact, item_path, is_item_foreign
            )
        return redacted
    joined_path = "/".join(path)
    is_name = not is_foreign and joined_path in _OWN_VALUES
    if isinstance(value, str) and not is_name:
        return redact(value)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and is_foreign:
        number_text = redact(str(value))
        return value if number_text == str(value) else number_text
    return value


def memory_to_json(memory: WorkingMemory) -> dict[str, Any]:
    """Everything in the memory."""
    actions = []
    for action in memory.actions:
        actions.append({"action": type(action).__name__, **_to_json(action)})
    return {"version": VERSION, **_to_json(memory), "actions": actions}


def memory_from_json(data: Mapping[str, Any]) -> WorkingMemory:
    """The memory that `memory_to_json` wrote. Raises `InputError` for anything else."""
    if not isinstance(data, Mapping) or data.get("version") != VERSION:
        raise InputError(
            f"memory: expected an object with version {VERSION}, as memory_to_json() writes it"
        )
    try:
        actions = []
        for fields in data["actions"]:
            action_class = _ACTIONS[fields["action"]]
            actions.append(from_jsonable(action_class, fields))
        memory: WorkingMemory = from_jsonable(WorkingMemory, {**data, "actions": ()})
        return replace(memory, actions=tuple(actions))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"memory: not as memory_to_json() writes it: {type(error).__name__}: {error}"
        ) from error
