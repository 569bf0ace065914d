"""Values as plain JSON and back: strings, finite numbers, booleans, None, lists and dicts.

What JSON cannot say is changed, never refused: another object in a passage's metadata becomes its string, a
tuple a list, a number that is not finite None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from denoise_core.augmenter import actions
from denoise_core.augmenter.memory import Attempt, Reason, Verdict, WorkingMemory
from denoise_core.errors import InputError
from denoise_core.types import Drop, Message, Passage, Span

VERSION = 2
_AS_THEY_ARE = ("question", "needs_knowledge", "searchable", "brings_own")
_ACTIONS = {cls.__name__: cls for cls in get_args(actions.Action)}


def memory_to_json(memory: WorkingMemory) -> dict[str, Any]:
    """Everything in the memory; each passage stands once and is named by its place in ``passages``."""
    table = _Table()
    out = {
        "version": VERSION,
        **{name: getattr(memory, name) for name in _AS_THEY_ARE},
        "evidence": table.add(memory.evidence),
        "attempts": [
            {
                "candidate": a.candidate,
                "verdict": verdict_to_json(a.verdict),
                "feedback": a.feedback,
                "evidence": table.add(a.evidence),
                "draft": a.draft,
                "repaired": a.repaired,
                "fields": plain(a.fields),
            }
            for a in memory.attempts
        ],
        "history": [_fields(m) for m in memory.history],
        "retrieved": table.add(memory.retrieved),
        "dropped": [drop_to_json(d) for d in memory.dropped],
        "queries": list(memory.queries),
        "actions": [{"action": type(a).__name__, **_fields(a)} for a in memory.actions],
        "failures": [list(f) for f in memory.failures],
        "aside": table.add(memory.aside),
    }
    out["passages"] = table.rows
    return out


def memory_from_json(data: Mapping[str, Any]) -> WorkingMemory:
    """The memory that `memory_to_json` wrote. Raises `InputError` for anything else."""
    if not isinstance(data, Mapping) or data.get("version") != VERSION:
        raise InputError(f"memory: expected an object with version {VERSION}, as memory_to_json() writes it")
    try:
        passages = [passage_from_json(p) for p in data["passages"]]

        def named(places: Iterable[int]) -> tuple[Passage, ...]:
            return tuple(passages[i] for i in places)

        return WorkingMemory(
            **{name: data[name] for name in _AS_THEY_ARE},
            evidence=named(data["evidence"]),
            attempts=tuple(
                Attempt(
                    a["candidate"],
                    verdict_from_json(a["verdict"]),
                    a["feedback"],
                    named(a["evidence"]),
                    a["draft"],
                    a["repaired"],
                    a["fields"],
                )
                for a in data["attempts"]
            ),
            history=tuple(Message(m["role"], m["content"]) for m in data["history"]),
            retrieved=named(data["retrieved"]),
            dropped=tuple(drop_from_json(d) for d in data["dropped"]),
            queries=tuple(data["queries"]),
            actions=tuple(
                _ACTIONS[a["action"]](**{k: v for k, v in a.items() if k != "action"}) for a in data["actions"]
            ),
            failures=tuple((what, why) for what, why in data["failures"]),
            aside=named(data["aside"]),
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(f"memory: not as memory_to_json() writes it: {type(error).__name__}: {error}") from error


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    reasons = [
        {**_fields(r), "missing": list(r.missing), "place": list(r.place) if r.place else None}
        for r in verdict.reasons
    ]
    return {"outcome": verdict.outcome, "score": verdict.score, "reasons": reasons}


def verdict_from_json(data: Mapping[str, Any]) -> Verdict:
    reasons = []
    for r in data["reasons"]:
        place = r.get("place")  # records of before have none, and an "instead" that nothing reads any more
        told = {k: v for k, v in r.items() if k not in ("place", "missing", "instead")}
        reasons.append(Reason(**told, missing=tuple(r["missing"]), place=tuple(place) if place else None))
    return Verdict(data["outcome"], data["score"], tuple(reasons))


def passage_to_json(passage: Passage) -> dict[str, Any]:
    told = {"score": plain(passage.score), "metadata": plain(passage.metadata)}
    return _fields(passage) | told | {"spans": [_span(s) for s in passage.spans]}


def passage_from_json(data: Mapping[str, Any]) -> Passage:
    return Passage(
        data["text"],
        data["id"],
        data["score"],
        dict(data["metadata"]),
        tuple(Span(*s) for s in data["spans"]),
        bool(data["rewritten"]),
        data["header"],
        data["provenance"],
    )


def drop_to_json(drop: Drop) -> dict[str, Any]:
    return {"span": _span(drop.span), "reason": drop.reason, "score": plain(drop.score)}


def drop_from_json(data: Mapping[str, Any]) -> Drop:
    return Drop(Span(*data["span"]), data["reason"], data["score"])


def plain(value: Any) -> Any:
    """The value as JSON has it."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return str(value)


class _Table:
    """Passages met so far; equal ones share a row."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._at: dict[tuple[str, str], list[int]] = {}

    def add(self, passages: Iterable[Passage]) -> list[int]:
        return [self._place(passage_to_json(p)) for p in passages]

    def _place(self, row: dict[str, Any]) -> int:
        same = self._at.setdefault((row["id"], row["text"]), [])
        for at in same:
            if self.rows[at] == row:
                return at
        self.rows.append(row)
        same.append(len(self.rows) - 1)
        return same[-1]


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _span(span: Span) -> list[Any]:
    return [span.passage_id, span.start, span.end]
