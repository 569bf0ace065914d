"""Citations in an answer: which passages it names, and where."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from denoise_core.types import Passage

_BRACKETS = re.compile(r"\[([^\[\]\n]{1,80})\]|【([^】\n]{1,40})】")
_NUMBERS = re.compile(r"\s{0,9}\d{1,3}(?:\s{0,9}[,;–-]\s{0,9}\d{1,3})*\s{0,9}$")  # four digits are a year
_LONGEST_RANGE = 50


@dataclass(frozen=True, slots=True)
class Citation:
    """``[start, end)`` of the answer names the passages ``ids``; ``unknown`` are names of none."""

    start: int
    end: int
    ids: tuple[str, ...]
    unknown: tuple[str, ...]


def cited(answer: str, passages: Sequence[Passage]) -> list[Citation]:
    """Numbers in brackets count the passages from 1; a passage's own id in brackets names it. Brackets with
    anything else, and those in code, cite nothing."""
    ids = {p.id: p.id for p in passages}
    code = [m.span() for m in re.finditer(r"`[^`\n]*`", answer)]
    out: list[Citation] = []
    for match in _BRACKETS.finditer(answer):
        inside = match[1] or match[2]
        if any(a <= match.start() < b for a, b in code):
            continue
        names = [part.strip() for part in re.split(r"[,;]", inside)]
        if all(n in ids for n in names):
            out.append(Citation(*match.span(), tuple(names), ()))
        elif _NUMBERS.match(inside):
            numbers = [n for part in names for n in _range(part)]
            known = tuple(passages[n - 1].id for n in numbers if 1 <= n <= len(passages))
            unknown = tuple(f"[{n}]" for n in numbers if not 1 <= n <= len(passages))
            out.append(Citation(*match.span(), known, unknown))
    return out


def _range(part: str) -> range:
    first, _, last = re.sub(r"\s{0,9}[–-]\s{0,9}", "-", part).partition("-")
    low = int(first)
    return range(low, min(int(last or first), low + _LONGEST_RANGE) + 1)
