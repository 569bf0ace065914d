"""Which of the lists in a reply is meant, when there are several; none when they disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from denoise_core.s2a.replies.collected import Numbers, Verb, collect
from denoise_core.s2a.replies.statements import Range


@dataclass(frozen=True, slots=True)
class Listed:
    """A list found in a reply, and where: ``rank`` 2 is a final answer, 1 an answer, 0 any list."""

    ranges: tuple[Range, ...]
    verb: Verb | None
    rank: int
    paragraph: int
    document: bool = False
    complement: bool = False
    bare: bool = False


def decide(lists: list[Listed], count: int) -> Numbers | None:
    if any((-1, -1) in found.ranges for found in lists):
        return None
    named = [f for f in lists if not (f.rank and f.ranges and all(min(r) > count for r in f.ranges))]
    lists = named or lists  # "Answer: 1889" answers the question, "Pieces: 2, 4" chooses
    best = max(found.rank for found in lists)
    lists = [found for found in lists if found.rank == best]
    if best and len({_set(found, count) for found in lists}) > 1:
        return None
    if best:
        return numbers_of(lists[-1], count)
    if all(f.document for f in lists) and {f.verb for f in lists} == {"keep", None}:
        lists = [replace(f, verb="keep") for f in lists]
    keep = [f for f in lists if f.verb == "keep"]
    drop = [f for f in lists if f.verb == "drop"]
    plain = [f for f in lists if f.verb is None]
    if plain and (keep or drop):
        if keep and {n for f in plain for n in _set(f, count)} != {n for f in keep for n in _set(f, count)}:
            return None
        return _union(keep or plain, count)
    if keep and drop:
        kept, dropped = ({n for f in g for n in _set(f, count)} for g in (keep, drop))
        return None if kept & dropped else _union(keep, count)
    chosen = keep or drop or plain
    if any(f.document for f in chosen):
        places = [n for f in chosen for a, b in f.ranges for n in range(a, min(b, count) + 1)]
        return _union(chosen, count) if places == sorted(set(places)) else None
    if len({f.paragraph for f in chosen}) > 1 and len({_set(f, count) for f in chosen}) > 1 and not (keep or drop):
        return None
    return _union(chosen, count)


def _set(found: Listed, count: int) -> frozenset[int]:
    return frozenset(numbers_of(found, count).chosen)


def _union(lists: Sequence[Listed], count: int) -> Numbers | None:
    if any(f.complement for f in lists) and len(lists) > 1:
        return numbers_of(lists[0], count) if len({_set(f, count) for f in lists}) == 1 else None
    ranges = tuple(r for f in lists for r in f.ranges)
    verbs = {f.verb for f in lists}
    if len(lists) > 1 and ranges and not all(f.ranges or f.document for f in lists):
        return None  # NONE beside numbers
    return numbers_of(replace(lists[0], ranges=ranges, verb=verbs.pop() if len(verbs) == 1 else None), count)


def numbers_of(found: Listed, count: int) -> Numbers:
    ranges: Sequence[Range] = found.ranges
    if found.complement:
        out = set(collect(ranges, count, None).chosen)
        ranges = [(n, n) for n in range(1, count + 1) if n not in out]
    return collect(ranges, count, found.verb)
