"""A run as JSON Lines: one line for the answer, one for each effect, one for the memory. To keep, to replay.

``redact`` is called on every text that came from outside (questions, evidence, prompts, replies, errors)
before it is written, so that a log need not hold what must not be held. What JSON cannot say is changed, never
refused: another object in a passage's metadata becomes its string, a tuple a list, a number that is not finite
None. What is not compared (a model, an origin) is left out.
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
from denoise_core.runtime.effects import Complete, Denoise, Retrieve
from denoise_core.types import Drop, Event, Message, Passage, Reply, Span, Usage

VERSION = 3  # of a run, and of a memory alone
Redact: TypeAlias = Callable[[str], str]

# Names of ours, where they stand in a record: a path of keys, "*" for a place in a list. A string anywhere
# else came from outside, in metadata also the keys and the numbers.
_OURS = frozenset(
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
_FREE = ("metadata", "fields")  # what others put there: nothing in it is ours

_written = partial(to_jsonable, list_classes=(Span,))


def to_lines(answer: Answer, *, redact: Redact | None = None) -> Iterator[str]:
    """The run as lines of JSON, without line ends."""
    head = {
        "line": "answer",
        "version": VERSION,
        "prompts": PROMPTS,
        "text": answer.text,
        "outcome": str(answer.outcome),
        "stopped_because": str(answer.stop_reason),
        "judge": answer.judge,
        "holds": answer.supported_part,
        "nearest": _written(answer.closest_evidence),
    }
    for record in (
        head,
        *({"line": "effect", **event_to_json(e)} for e in answer.trace.events),
        {"line": "memory", **memory_to_json(answer.memory)},
    ):
        line = json.dumps(
            _redacted(record, redact, ()) if redact else record,
            ensure_ascii=False,
            allow_nan=False,
        )
        yield line.encode(
            "utf-8", "replace"
        ).decode()  # half a character makes no file unwritable


def from_lines(lines: Iterable[str]) -> Answer:
    """The answer that `to_lines` wrote; blank lines are skipped. Raises `InputError` naming the bad line."""
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
                    raise InputError(
                        f"{other!r} of version {record.get('version')!r} is none of ours"
                    )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"line {number}: not a recorded run: {type(error).__name__}: {error}"
            ) from error
    if head is None or memory is None:
        raise InputError(
            "not a recorded run: expected a line 'answer' and a line 'memory'"
        )
    outcome = Outcome(head["outcome"])
    best = memory.best
    sent = best is not None and best.candidate == head["text"]
    cited = cited_passages(best.candidate, best.evidence) if sent and best else ()
    stop = StopReason(head["stopped_because"])
    try:
        near = from_jsonable(tuple[Passage, ...], head["nearest"])
        judge, holds = head["judge"], head["holds"]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"not a recorded run: {type(error).__name__}: {error}"
        ) from error
    return Answer(
        head["text"],
        outcome,
        stop,
        memory,
        Trace(tuple(events)),
        cited,
        judge,
        near,
        holds,
    )


def event_to_json(event: Event) -> dict[str, Any]:
    used = None if event.usage is None else list(_written(event.usage).values())
    common = {"tag": event.tag, "seconds": round(event.seconds, 6), "usage": used}
    common |= {"error": event.error, "made": event.executed}
    effect, reply = event.effect, event.reply
    if isinstance(effect, Complete):
        whole = isinstance(reply, Reply)
        common |= {
            "reply": reply.text if whole else None,
            "calls": reply.calls if whole else 1,
        }
        drafted = None
        if isinstance(reply, DraftReply):
            drafted = {
                "found": _written(reply.retrieved),
                "fields": _written(reply.fields),
                "judge": reply.judge,
            }
        return {
            "kind": "complete",
            **common,
            "messages": _written(effect.messages),
            "drafted": drafted,
        }
    if isinstance(effect, Retrieve):
        return {
            "kind": "retrieve",
            **common,
            "query": effect.query,
            "reply": _written(reply),
        }
    told = ("query", "passages", "dropped", "fallback")
    found = (
        None
        if reply is None
        else {name: _written(getattr(reply, name)) for name in told}
    )
    return {
        "kind": "denoise", **common, "query": effect.query, "passages": _written(effect.passages), "reply": found
    }  # fmt: skip


def event_from_json(data: Mapping[str, Any]) -> Event:
    usage = from_jsonable(Usage | None, data["usage"])
    reply = data["reply"]
    effect: Complete | Retrieve | Denoise
    match data["kind"]:
        case "complete":
            effect = Complete(
                from_jsonable(tuple[Message, ...], data["messages"]), data["tag"]
            )
            if reply is not None and (told := data["drafted"]) is not None:
                found = from_jsonable(tuple[RetrievedEvidence, ...], told["found"])
                reply = DraftReply(
                    reply,
                    usage,
                    data["calls"],
                    (),
                    found,
                    told["fields"],
                    told["judge"],
                )
            else:
                reply = None if reply is None else Reply(reply, usage, data["calls"])
        case "retrieve":
            effect = Retrieve(data["query"], data["tag"])
            reply = None if reply is None else from_jsonable(tuple[Passage, ...], reply)
        case "denoise":
            effect = Denoise(
                data["query"],
                from_jsonable(tuple[Passage, ...], data["passages"]),
                data["tag"],
            )
            if reply is not None:
                passages = from_jsonable(tuple[Passage, ...], reply["passages"])
                dropped = from_jsonable(tuple[Drop, ...], reply["dropped"])
                reply = DenoiseResult(
                    reply["query"], passages, dropped, fallback=reply["fallback"]
                )
        case other:
            raise InputError(f"kind {other!r}: expected complete, retrieve or denoise")
    return Event(
        data["tag"],
        effect,
        reply,
        data["seconds"],
        usage,
        data["error"],
        data.get("made", True),
    )


def _redacted(value: Any, redact: Redact, at: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return value if "/".join(at) in _OURS else redact(value)
    if isinstance(value, list):
        return [_redacted(v, redact, (*at, "*")) for v in value]
    if isinstance(value, dict):
        return {
            k: _hidden(v, redact) if k in _FREE else _redacted(v, redact, (*at, k))
            for k, v in value.items()
        }
    return value


def _hidden(value: Any, redact: Redact) -> Any:
    """Metadata: keys, texts and numbers go through ``redact``; a number that it leaves alone stays a number."""
    if isinstance(value, dict):
        return {redact(k): _hidden(v, redact) for k, v in value.items()}
    if isinstance(value, list):
        return [_hidden(v, redact) for v in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        said = redact(str(value))
        return value if said == str(value) else said
    return redact(value) if isinstance(value, str) else value


_ACTIONS = {cls.__name__: cls for cls in get_args(Action)}
# The memory's lists of passages, which go into a table; their names in the file.
_TABLED = {
    "evidence": "evidence",
    "retrieved": "retrieved",
    "excluded_evidence": "aside",
}


def memory_to_json(memory: WorkingMemory) -> dict[str, Any]:
    """Everything in the memory; each passage stands once and is named by its place in ``passages``."""
    table = _Table()
    bare: dict[str, Any] = dict.fromkeys(_TABLED, ())
    written: dict[str, Any] = _written(replace(memory, attempts=(), actions=(), **bare))
    del written["excluded_evidence"]
    written["brings_own"] = written.pop("drafter_brings_evidence")
    return {
        "version": VERSION,
        **written,
        **{key: table.add(getattr(memory, name)) for name, key in _TABLED.items()},
        "attempts": [
            _written(replace(a, evidence=())) | {"evidence": table.add(a.evidence)}
            for a in memory.attempts
        ],
        "actions": [
            {"action": type(a).__name__, **_written(a)} for a in memory.actions
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

        def named(places: Iterable[int]) -> tuple[Passage, ...]:
            return tuple(passages[i] for i in places)

        own: dict[str, Any] = {name: named(data[key]) for name, key in _TABLED.items()}
        return WorkingMemory(
            **own,
            **{
                name: data[name]
                for name in ("question", "needs_knowledge", "searchable")
            },
            drafter_brings_evidence=data["brings_own"],
            attempts=tuple(
                replace(
                    from_jsonable(Attempt, {**a, "evidence": ()}),
                    evidence=named(a["evidence"]),
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
        return [self._place(_written(p)) for p in passages]

    def _place(self, row: dict[str, Any]) -> int:
        same = self._at.setdefault((row["id"], row["text"]), [])
        for at in same:
            if self.rows[at] == row:
                return at
        self.rows.append(row)
        same.append(len(self.rows) - 1)
        return same[-1]
