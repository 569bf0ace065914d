"""Values as plain JSON and back: strings, finite numbers, booleans, None, lists and dicts.

What JSON cannot say is changed, never refused: another object in a passage's metadata becomes its string, a
tuple a list, a number that is not finite None. `plain` writes our dataclasses by their fields, `made` reads them
again; what is not compared (a model, an origin) is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from denoise_core.augmenter import actions
from denoise_core.augmenter.memory import Attempt, WorkingMemory
from denoise_core.errors import InputError
from denoise_core.types import Drop, Message, Passage, Span

VERSION = 2
_ACTIONS = {cls.__name__: cls for cls in get_args(actions.Action)}


_TABLED = ("evidence", "retrieved", "aside")  # of the memory: passages, which stand in a table


def memory_to_json(memory: WorkingMemory) -> dict[str, Any]:
    """Everything in the memory; each passage stands once and is named by its place in ``passages``."""
    table = _Table()
    bare: dict[str, Any] = dict.fromkeys(_TABLED, ())
    return {
        "version": VERSION,
        **plain(replace(memory, attempts=(), actions=(), **bare)),
        **{name: table.add(getattr(memory, name)) for name in _TABLED},
        "attempts": [
            plain(replace(a, evidence=())) | {"evidence": table.add(a.evidence)} for a in memory.attempts
        ],
        "actions": [{"action": type(a).__name__, **plain(a)} for a in memory.actions],
        "passages": table.rows,
    }


def memory_from_json(data: Mapping[str, Any]) -> WorkingMemory:
    """The memory that `memory_to_json` wrote. Raises `InputError` for anything else."""
    if not isinstance(data, Mapping) or data.get("version") != VERSION:
        raise InputError(f"memory: expected an object with version {VERSION}, as memory_to_json() writes it")
    try:
        passages = made(tuple[Passage, ...], data["passages"])

        def named(places: Iterable[int]) -> tuple[Passage, ...]:
            return tuple(passages[i] for i in places)

        return WorkingMemory(
            **{name: data[name] for name in ("question", "needs_knowledge", "searchable", "brings_own")},
            evidence=named(data["evidence"]),
            retrieved=named(data["retrieved"]),
            aside=named(data["aside"]),
            attempts=tuple(
                replace(made(Attempt, {**a, "evidence": ()}), evidence=named(a["evidence"]))
                for a in data["attempts"]
            ),
            history=made(tuple[Message, ...], data["history"]),
            dropped=made(tuple[Drop, ...], data["dropped"]),
            queries=tuple(data["queries"]),
            actions=tuple(made(_ACTIONS[a["action"]], a) for a in data["actions"]),
            failures=made(tuple[tuple[str, str], ...], data["failures"]),
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"memory: not as memory_to_json() writes it: {type(error).__name__}: {error}") from error


def plain(value: Any) -> Any:
    """The value as JSON has it; a span is a list."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Span):
        return [value.passage_id, value.start, value.end]
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value) if f.compare}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return str(value)


def made(kind: Any, data: Any) -> Any:
    """What `plain` wrote, as a ``kind`` again: a dataclass by its fields, a tuple of them; fields that it does not
    know are passed over. Raises `TypeError` where one is missing."""
    if get_origin(kind) is tuple:
        return tuple(made(get_args(kind)[0], v) for v in data)
    if data is None or not is_dataclass(kind):
        inner = next((k for k in get_args(kind) if get_origin(k) is tuple), None)  # one or None
        return made(inner, data) if inner is not None and data is not None else data
    of: Any = kind
    hints = _hints(of)
    named = data if isinstance(data, Mapping) else dict(zip(hints, data, strict=False))
    return of(**{name: made(hints[name], v) for name, v in named.items() if name in hints})


_hints = cache(get_type_hints)


class _Table:
    """Passages met so far; equal ones share a row."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._at: dict[tuple[str, str], list[int]] = {}

    def add(self, passages: Iterable[Passage]) -> list[int]:
        return [self._place(plain(p)) for p in passages]

    def _place(self, row: dict[str, Any]) -> int:
        same = self._at.setdefault((row["id"], row["text"]), [])
        for at in same:
            if self.rows[at] == row:
                return at
        self.rows.append(row)
        same.append(len(self.rows) - 1)
        return same[-1]
