"""Numbers in a reply that is JSON: a list, an object of lists, an object of verdicts."""

from __future__ import annotations

import re
from typing import Any

from denoise_core.s2a.replies.collected import Numbers, collect
from denoise_core.s2a.replies.statements import LARGEST, Range, normal, read, verdict
from denoise_core.text.replies import json_in

_KEYS = ("piece", "number", "id", "index", "n", "sentence", "item")


def from_json(text: str, count: int) -> Numbers | None:
    """The numbers of pieces ``1..count``; None when the text is no JSON that names any."""
    data = json_in(text)
    if isinstance(data, dict):
        return _from_object(data, count)
    ranges = _ranges(data, count)
    return None if ranges is None else collect(ranges, count, None)


def _from_object(data: dict[Any, Any], count: int) -> Numbers | None:
    flags = {str(k).strip(): v for k, v in data.items()}
    if flags and all(re.fullmatch(r"(?:piece |sentence )?\d{1,6}", k) for k in flags):
        chosen = []
        for key, value in flags.items():
            stays = value if isinstance(value, bool) else {"yes": True, "no": False}.get(verdict(str(value)) or "")
            if not isinstance(stays, bool):
                return None
            chosen += [int(re.sub(r"\D", "", key))] * stays
        return collect([(n, n) for n in chosen], count, "keep")
    lists: dict[str, list[Range]] = {}
    for key, value in flags.items():
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
            numbers = [v for k, v in item.items() if str(k).lower() in _KEYS]
            item = numbers[0] if len(numbers) == 1 else None
        if isinstance(item, int) and not isinstance(item, bool):
            ranges.append((min(item, LARGEST), min(item, LARGEST)))
        elif isinstance(item, str) and (inner := _ranges(item, count)):
            ranges += inner
        elif isinstance(item, float) and item.is_integer() and item < LARGEST:
            ranges.append((int(item), int(item)))
        else:
            return None
    return ranges
