"""Numbers in a reply that is JSON: a list, an object of lists, an object of verdicts."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from denoise_core.s2a.replies.collected import Numbers, collect
from denoise_core.s2a.replies.statements import LARGEST, Range, normal, read, verdict
from denoise_core.text.replies import json_in, unparsable

_KEYED = re.compile(r"[\"'“]\s{0,9}:")
_CLOSING_COMMA = re.compile(r",\s{0,9}([}\]])")
_COMMENT = re.compile(r"\s(?://|#)[^\n\"\]}]{0,200}$", re.MULTILINE)
_SCORES = frozenset(("scores", "score", "confidence", "confidences", "ranks", "order"))
_KEYS = ("piece", "number", "id", "index", "n", "sentence", "item")


def from_json(text: str, count: int) -> Numbers | None:
    """The numbers of pieces ``1..count``; None when the text is no JSON.

    Raises `UnparsableReply` for JSON that names no pieces, or names them in a way that could be meant otherwise.
    """
    data = json_in(text)
    if data is None and text[:1] in ("[", "{"):
        data = json_in(_COMMENT.sub("", text))
    if data is None and text.startswith("{") and _KEYED.search(text):
        data = json_in(_CLOSING_COMMA.sub(r"\1", text.replace("'", '"')))
        if data is None:
            raise unparsable("an object that is whole", text)
    if data is None or isinstance(data, (str, int, float)):
        return None
    if isinstance(data, dict):
        found = _from_object(data, count)
        if found is None:
            raise unparsable("an object with one list of pieces", text)
        return found
    marked = _marked(data)
    if marked is not None:
        return collect([(n, n) for n, stays in marked if stays], count, "keep")
    ranges = _ranges(data, count)
    if ranges is None and not (data and all(isinstance(d, (str, int, float)) for d in data)):
        raise unparsable("a list of pieces", text)
    return None if ranges is None else collect(ranges, count, None)


def _marked(data: list[Any]) -> list[tuple[int, bool]] | None:
    """Objects that say of each piece whether it stays."""
    out: list[tuple[int, bool]] = []
    for item in data:
        if not isinstance(item, dict):
            return None
        named = {str(k).lower(): v for k, v in item.items()}
        numbers = [v for k, v in named.items() if k in _KEYS and isinstance(v, int)]
        verdicts = [(_polarity(k), _stays(v)) for k, v in named.items() if k not in _KEYS and _polarity(k)]
        if len(numbers) != 1 or len(verdicts) != 1 or verdicts[0][1] is None:
            return None
        out.append((numbers[0], verdicts[0][1] == (verdicts[0][0] == "keep")))
    return out or None


def _polarity(key: str) -> str | None:
    return read(normal(key.replace("_", " "))).polarity


def _stays(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"yes": True, "no": False}.get(verdict(str(value)) or "") if isinstance(value, str) else None


def _from_object(data: dict[Any, Any], count: int) -> Numbers | None:
    flags = {str(k).strip(): v for k, v in data.items()}
    if len(flags) == 1 and (verb := _polarity(key := next(iter(flags)))) in ("keep", "drop"):
        inner = flags[key]
        if isinstance(inner, dict) and inner and all(read(normal(str(k))).documents for k in inner):
            found = _from_object(inner, count)  # {"keep": {"document 1": [1, 2], "document 2": [6]}}
            if found is None or found.verb:
                return None
            return replace(found, verb="keep" if verb == "keep" else "drop")
    if (
        len(flags) == 1
        and isinstance(inner := next(iter(flags.values())), dict)
        and not _polarity(next(iter(flags)))
    ):
        return _from_object(inner, count)  # {"result": {"keep": [...]}}
    if "arguments" in flags and isinstance(flags["arguments"], dict):
        return _from_object(flags["arguments"], count)
    if flags and all(re.fullmatch(r"(?:piece |sentence )?\d{1,6}", k) for k in flags):
        chosen = []
        for key, value in flags.items():
            stays = _stays(value)
            if stays is None:
                return None
            chosen += [int(re.sub(r"\D", "", key))] * stays
        return collect([(n, n) for n in chosen], count, "keep")
    for key, value in flags.items():  # {"keep": {"2": "gives the date"}}
        if isinstance(value, dict) and value and all(str(k).isdecimal() for k in value):
            if not _polarity(key) or any(_stays(v) is not None or not isinstance(v, str) for v in value.values()):
                return None
            flags[key] = [int(str(k)) for k in value if len(str(k)) < 7]
    lists: dict[str, list[Range]] = {}
    for key, value in flags.items():
        value = [value] if isinstance(value, int) and not isinstance(value, bool) and _polarity(key) else value
        ranges = _ranges(value, count) if isinstance(value, (list, str)) else None
        if ranges is not None:
            lists[key.lower()] = ranges
    verbs = {key: read(normal(key.replace("_", " "))) for key in lists}
    keep = [k for k, s in verbs.items() if s.polarity == "keep"]
    drop = [k for k, s in verbs.items() if s.polarity == "drop"]
    documents = [k for k, s in verbs.items() if s.documents]
    if len(documents) == len(lists) > 0:
        named = [n for k in documents for a, b in lists[k] for n in range(a, min(b, count) + 1)]
        ranges = [r for k in documents for r in lists[k]]
        return collect(ranges, count, None) if named == sorted(set(named)) else None
    if len(keep) > 1 or len(drop) > 1 or (not keep and not drop and len(lists) != 1):
        return None
    if keep and drop:
        both = [set(collect(lists[k], count, None).chosen) for k in (keep[0], drop[0])]
        if both[0] & both[1] or not both[0]:
            return None
    others = set(lists) - {*keep, *drop, *_SCORES}
    if (keep or drop) and any(lists[k] for k in others):
        return None  # a third list: {"keep": [2], "maybe": [7]}
    key = (keep or drop or list(lists))[0]
    return collect(lists[key], count, "keep" if keep else "drop" if drop else None)


def _ranges(data: Any, count: int) -> list[Range] | None:
    """The ranges of a JSON list, or of a text that is a list."""
    if isinstance(data, str):
        said = read(normal(data))
        if said.nothing and said.is_list:
            return []
        if said.everything and said.is_list and not said.exception:
            return [(1, count)]
        return said.ranges if said.is_list and not said.documents else None
    if not isinstance(data, list):
        return None
    ranges: list[Range] = []
    for item in data:
        if isinstance(item, dict):
            if any(
                isinstance(v, (list, bool)) or (isinstance(v, (int, float)) and k.lower() not in _KEYS)
                for k, v in item.items()
            ):
                return None  # a mark for each piece says of none that it stays
            numbers = [v for k, v in item.items() if str(k).lower() in _KEYS]
            item = numbers[0] if len(numbers) == 1 else None
        if isinstance(item, int) and not isinstance(item, bool):
            ranges.append((min(item, LARGEST), min(item, LARGEST)))
        elif isinstance(item, list):
            return None
        elif isinstance(item, str) and (inner := _ranges(item, count)):
            ranges += inner
        elif isinstance(item, float) and item.is_integer() and item < LARGEST:
            ranges.append((int(item), int(item)))
        else:
            return None
    return ranges
