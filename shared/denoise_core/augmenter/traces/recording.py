"""A run as JSON Lines: one line for the answer, one for each effect, one for the memory. To keep, to replay.

``redact`` is called on every text that came from outside (questions, evidence, prompts, replies, errors)
before it is written, so that a log need not hold what must not be held.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from denoise_core.augmenter.answer import Answer, Outcome, StopReason
from denoise_core.augmenter.drafting.drafter import Drafted, Found
from denoise_core.augmenter.engine import citations
from denoise_core.augmenter.prompts import VERSION as PROMPTS
from denoise_core.augmenter.traces.plain import (
    drop_from_json,
    drop_to_json,
    memory_from_json,
    memory_to_json,
    passage_from_json,
    passage_to_json,
    plain,
)
from denoise_core.augmenter.utility import Measured
from denoise_core.errors import InputError
from denoise_core.result import DenoiseResult, Trace
from denoise_core.running.effects import Complete, Denoise, Retrieve
from denoise_core.types import Event, Message, Reply, Usage

VERSION = 2
Redact: TypeAlias = Callable[[str], str]

# Names of ours, where they stand in a record: a path of keys, "*" for a place in a list. A string anywhere
# else came from outside, in metadata also the keys and the numbers.
_OURS = frozenset(
    (
        "line", "kind", "tag", "prompts", "outcome", "stopped_because", "judge",
        "nearest/*/provenance", "measured/*/*",
        "messages/*/role",
        "reply/*/provenance", "reply/passages/*/provenance", "passages/*/provenance",
        "drafted/found/*/passages/*/provenance", "history/*/role", "actions/*/action",
        "attempts/*/verdict/outcome", "attempts/*/verdict/reasons/*/kind",
    )
)  # fmt: skip
_FREE = ("metadata", "fields")  # what others put there: nothing in it is ours


def to_lines(answer: Answer, *, redact: Redact | None = None) -> Iterator[str]:
    """The run as lines of JSON, without line ends."""
    head = {
        "line": "answer",
        "version": VERSION,
        "prompts": PROMPTS,
        "text": answer.text,
        "outcome": str(answer.outcome),
        "stopped_because": str(answer.stopped_because),
        "judge": answer.judge,
        "measured": [[m.set, m.passed_right, m.passed_wrong, m.answers] for m in answer.measured],
        "holds": answer.holds,
        "nearest": [passage_to_json(p) for p in answer.nearest],
    }
    for record in (
        head,
        *({"line": "effect", **event_to_json(e)} for e in answer.trace.events),
        {"line": "memory", **memory_to_json(answer.memory)},
    ):
        line = json.dumps(_redacted(record, redact, ()) if redact else record, ensure_ascii=False, allow_nan=False)
        yield line.encode("utf-8", "replace").decode()  # half a character makes no file unwritable


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
                    raise InputError(f"{other!r} of version {record.get('version')!r} is none of ours")
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"line {number}: not a recorded run: {type(error).__name__}: {error}") from error
    if head is None or memory is None:
        raise InputError("not a recorded run: expected a line 'answer' and a line 'memory'")
    outcome = Outcome(head["outcome"])
    best = memory.best
    sent = best is not None and best.candidate == head["text"]
    cited = citations(best.candidate, best.evidence) if sent and best else ()
    stop = StopReason(head["stopped_because"])
    try:
        measured = tuple(Measured(*m) for m in head["measured"])
        near = tuple(map(passage_from_json, head["nearest"]))
        judge, holds = head["judge"], head["holds"]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"not a recorded run: {type(error).__name__}: {error}") from error
    return Answer(head["text"], outcome, stop, memory, Trace(tuple(events)), cited, judge, measured, near, holds)


def event_to_json(event: Event) -> dict[str, Any]:
    usage = event.usage
    used = None
    if usage is not None:
        used = [usage.input_tokens, usage.output_tokens, usage.estimated, usage.cached_tokens]
    common = {"tag": event.tag, "seconds": round(event.seconds, 6), "usage": used}
    common |= {"error": event.error, "made": event.made}
    effect, reply = event.effect, event.reply
    if isinstance(effect, Complete):
        asked = [{"role": m.role, "content": m.content} for m in effect.messages]
        text = reply.text if isinstance(reply, Reply) else None
        calls = reply.calls if isinstance(reply, Reply) else 1
        drafted = _drafted(reply) if isinstance(reply, Drafted) else None
        return {"kind": "complete", **common, "messages": asked, "reply": text, "calls": calls, "drafted": drafted}
    if isinstance(effect, Retrieve):
        found = None if reply is None else [passage_to_json(p) for p in reply]
        return {"kind": "retrieve", **common, "query": effect.query, "reply": found}
    given = [passage_to_json(p) for p in effect.passages]
    return {"kind": "denoise", **common, "query": effect.query, "passages": given, "reply": _result(reply)}


def event_from_json(data: Mapping[str, Any]) -> Event:
    usage = None if data["usage"] is None else Usage(*data["usage"])
    reply = data["reply"]
    effect: Complete | Retrieve | Denoise
    match data["kind"]:
        case "complete":
            effect = Complete(tuple(Message(m["role"], m["content"]) for m in data["messages"]), data["tag"])
            if reply is not None and data["drafted"] is not None:
                reply = _drafted_from(data["drafted"], reply, usage, data["calls"])
            else:
                reply = None if reply is None else Reply(reply, usage, data["calls"])
        case "retrieve":
            effect = Retrieve(data["query"], data["tag"])
            reply = None if reply is None else tuple(map(passage_from_json, reply))
        case "denoise":
            effect = Denoise(data["query"], tuple(map(passage_from_json, data["passages"])), data["tag"])
            reply = None if reply is None else _result_from(reply)
        case other:
            raise InputError(f"kind {other!r}: expected complete, retrieve or denoise")
    return Event(data["tag"], effect, reply, data["seconds"], usage, data["error"], data.get("made", True))


def _drafted(draft: Drafted) -> dict[str, Any]:
    found = [{"query": f.query, "passages": [passage_to_json(p) for p in f.passages]} for f in draft.found]
    return {"found": found, "fields": plain(draft.fields), "judge": draft.judge}


def _drafted_from(data: Mapping[str, Any], text: str, usage: Usage | None, calls: int) -> Drafted:
    found = tuple(Found(tuple(map(passage_from_json, f["passages"])), f["query"]) for f in data["found"])
    return Drafted(text, usage, calls, found=found, fields=data["fields"], judge=data["judge"])


def _result(result: DenoiseResult | None) -> dict[str, Any] | None:
    if result is None:
        return None
    return {
        "query": result.query,
        "passages": [passage_to_json(p) for p in result.passages],
        "dropped": [drop_to_json(d) for d in result.dropped],
        "fallback": result.fallback,
    }


def _result_from(data: Mapping[str, Any]) -> DenoiseResult:
    passages = tuple(map(passage_from_json, data["passages"]))
    dropped = tuple(map(drop_from_json, data["dropped"]))
    return DenoiseResult(data["query"], passages, dropped, fallback=data["fallback"])


def _redacted(value: Any, redact: Redact, at: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return value if "/".join(at) in _OURS else redact(value)
    if isinstance(value, list):
        return [_redacted(v, redact, (*at, "*")) for v in value]
    if isinstance(value, dict):
        return {k: _hidden(v, redact) if k in _FREE else _redacted(v, redact, (*at, k)) for k, v in value.items()}
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
