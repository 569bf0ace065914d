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
from denoise_core.augmenter.drafting.drafter import DraftReply, RetrievedEvidence
from denoise_core.augmenter.memory import Attempt, WorkingMemory
from denoise_core.augmenter.prompts import VERSION as PROMPTS
from denoise_core.augmenter.prompts import cited_passages
from denoise_core.errors import InputError
from denoise_core.jsonable import from_jsonable, to_jsonable
from denoise_core.result import DenoiseResult, Trace
from denoise_core.runtime.effects import Complete, DenoiseCall, Retrieve
from denoise_core.types import Drop, Event, Message, Passage, Reply, Span, Usage

VERSION = 4  # of a run, and of a memory alone
Redact: TypeAlias = Callable[[str], str]

# Paths of keys ("*" is any index) whose values are names of this package. Any other
# string came from outside, in metadata also the keys and the numbers.
_OWN_VALUES = frozenset(
    (
        "line", "kind", "tag", "prompts", "outcome", "stopped_because", "judge",
        "nearest/*/provenance",
        "messages/*/role",
        "reply/*/provenance", "reply/passages/*/provenance", "passages/*/provenance",
        "drafted/found/*/passages/*/provenance", "history/*/role", "actions/*/action",
        "attempts/*/verdict/kind", "attempts/*/verdict/claims/*/kind",
        "attempts/*/verdict/claims/*/quotes/*/relation", "attempts/*/verdict/claims/*/differences/*/kind",
    )
)  # fmt: skip
_FOREIGN_FIELDS = ("metadata", "fields")  # all of their content came from outside

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
        citations = cited_passages(best.text_without_reasoning, best.evidence)
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
    effect = event.effect
    reply = event.reply
    common = {
        "tag": event.tag,
        "seconds": round(event.seconds, 6),
        "usage": event.usage and list(_to_json(event.usage).values()),
        "error": event.error,
        "made": event.executed,
    }
    if isinstance(effect, Complete):
        common["messages"] = _to_json(effect.messages)
        return {"kind": "complete", **common, **_completion_to_json(reply)}
    if isinstance(effect, Retrieve):
        common["reply"] = _to_json(reply)
        return {"kind": "retrieve", **common, "query": effect.query}
    result = None
    if reply is not None:
        names = ("query", "passages", "dropped", "fallback")
        result = {}
        for name in names:
            result[name] = _to_json(getattr(reply, name))
    return {"kind": "denoise", **common, **_to_json(effect), "reply": result}


def _completion_to_json(reply: Reply | None) -> dict[str, Any]:
    if reply is None:
        return {"reply": None, "calls": 1, "drafted": None}
    draft = None
    if isinstance(reply, DraftReply):
        draft = {
            "found": _to_json(reply.retrieved),
            "fields": _to_json(reply.fields),
            "judge": reply.judge,
        }
    return {"reply": reply.text, "calls": reply.calls, "drafted": draft}


def event_from_json(data: Mapping[str, Any]) -> Event:
    """Read the event that `event_to_json` wrote."""
    usage = from_jsonable(Usage | None, data["usage"])
    reply = data["reply"]
    tag = data["tag"]
    effect: Complete | Retrieve | DenoiseCall
    match data["kind"]:
        case "complete":
            messages = from_jsonable(tuple[Message, ...], data["messages"])
            effect = Complete(messages, tag)
            if reply is not None:
                reply = _completion_from_json(data, usage)
        case "retrieve":
            effect = Retrieve(data["query"], tag)
            reply = from_jsonable(tuple[Passage, ...] | None, reply)
        case "denoise":
            inputs = from_jsonable(tuple[Passage, ...], data["passages"])
            effect = DenoiseCall(data["query"], inputs, tag)
            if reply is not None:
                passages = from_jsonable(tuple[Passage, ...], reply["passages"])
                dropped = from_jsonable(tuple[Drop, ...], reply["dropped"])
                fallback = reply["fallback"]
                reply = DenoiseResult(
                    reply["query"], passages, dropped, fallback=fallback
                )
        case other:
            raise InputError(f"kind {other!r}: expected complete, retrieve or denoise")
    executed = data.get("made", True)
    return Event(tag, effect, reply, data["seconds"], usage, data["error"], executed)


def _completion_from_json(data: Mapping[str, Any], usage: Usage | None) -> Reply:
    reply = Reply(data["reply"], usage, data["calls"])
    draft = data["drafted"]
    if draft is None:
        return reply
    retrieved = from_jsonable(tuple[RetrievedEvidence, ...], draft["found"])
    return DraftReply(
        reply.text,
        usage,
        reply.calls,
        (),
        retrieved,
        draft["fields"],
        draft["judge"],
    )


def _redact_record(value: Any, redact: Redact, path: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        if "/".join(path) in _OWN_VALUES:
            return value
        return redact(value)
    if isinstance(value, list):
        item_path = (*path, "*")
        redacted_items = []
        for item in value:
            redacted_items.append(_redact_record(item, redact, item_path))
        return redacted_items
    if not isinstance(value, dict):
        return value
    redacted = {}
    for key, item in value.items():
        if key in _FOREIGN_FIELDS:
            redacted[key] = _redact_metadata(item, redact)
        else:
            redacted[key] = _redact_record(item, redact, (*path, key))
    return redacted


def _redact_metadata(value: Any, redact: Redact) -> Any:
    """Redact keys, texts and numbers; a number that ``redact`` keeps stays a number."""
    if isinstance(value, dict):
        redacted_fields = {}
        for key, item in value.items():
            redacted_key = redact(key)
            redacted_fields[redacted_key] = _redact_metadata(item, redact)
        return redacted_fields
    if isinstance(value, list):
        redacted_items = []
        for item in value:
            redacted_items.append(_redact_metadata(item, redact))
        return redacted_items
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number_text = redact(str(value))
        if number_text == str(value):
            return value
        return number_text
    if isinstance(value, str):
        return redact(value)
    return value


_ACTIONS = {cls.__name__: cls for cls in get_args(Action)}
# The memory's lists of passages, which go into a table; their names in the file.
_PASSAGE_FIELDS = {
    "evidence": "evidence",
    "retrieved": "retrieved",
    "excluded_evidence": "aside",
}


def memory_to_json(memory: WorkingMemory) -> dict[str, Any]:
    """Everything in the memory; each passage once, named by its index in ``passages``."""
    table = _Table()
    without_passages: dict[str, Any] = dict.fromkeys(_PASSAGE_FIELDS, ())
    written: dict[str, Any] = _to_json(
        replace(memory, attempts=(), actions=(), **without_passages)
    )
    del written["excluded_evidence"]
    written["brings_own"] = written.pop("drafter_brings_evidence")
    return {
        "version": VERSION,
        **written,
        **{
            key: table.add(getattr(memory, name))
            for name, key in _PASSAGE_FIELDS.items()
        },
        "attempts": [
            _to_json(replace(a, evidence=())) | {"evidence": table.add(a.evidence)}
            for a in memory.attempts
        ],
        "actions": [
            {"action": type(a).__name__, **_to_json(a)} for a in memory.actions
        ],
        "passages": table.rows,
    }


def memory_from_json(data: Mapping[str, Any]) -> WorkingMemory:
    """The memory that `memory_to_json` wrote. Raises `InputError` for anything else."""
    if not isinstance(data, Mapping) or data.get("version") != VERSION:
        raise InputError(
            f"memory: expected an object with version {VERSION}, as memory_to_json() writes it"
        )
    try:
        passages = from_jsonable(tuple[Passage, ...], data["passages"])

        def rows_at(positions: Iterable[int]) -> tuple[Passage, ...]:
            return tuple(passages[i] for i in positions)

        passage_fields: dict[str, Any] = {}
        for name, key in _PASSAGE_FIELDS.items():
            passage_fields[name] = rows_at(data[key])
        return WorkingMemory(
            **passage_fields,
            **{
                name: data[name]
                for name in ("question", "needs_knowledge", "searchable")
            },
            drafter_brings_evidence=data["brings_own"],
            attempts=tuple(
                replace(
                    from_jsonable(Attempt, {**a, "evidence": ()}),
                    evidence=rows_at(a["evidence"]),
                )
                for a in data["attempts"]
            ),
            history=from_jsonable(tuple[Message, ...], data["history"]),
            dropped=from_jsonable(tuple[Drop, ...], data["dropped"]),
            queries=tuple(data["queries"]),
            actions=tuple(
                from_jsonable(_ACTIONS[a["action"]], a) for a in data["actions"]
            ),
            failures=from_jsonable(tuple[tuple[str, str], ...], data["failures"]),
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"memory: not as memory_to_json() writes it: {type(error).__name__}: {error}"
        ) from error


class _Table:
    """Passages met so far; equal ones share a row."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._at: dict[tuple[str, str], list[int]] = {}

    def add(self, passages: Iterable[Passage]) -> list[int]:
        row_indices = []
        for passage in passages:
            row = _to_json(passage)
            row_indices.append(self._row_index(row))
        return row_indices

    def _row_index(self, row: dict[str, Any]) -> int:
        same = self._at.setdefault((row["id"], row["text"]), [])
        for at in same:
            if self.rows[at] == row:
                return at
        self.rows.append(row)
        last_index = len(self.rows) - 1
        same.append(last_index)
        return last_index
