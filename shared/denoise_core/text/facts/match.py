"""Whether facts of a source bear a claimed fact out."""

from __future__ import annotations

from collections.abc import Sequence

from denoise_core.text.facts.fact import Fact
from denoise_core.text.facts.kinds import bounds
from denoise_core.text.facts.kinds.dates import bears_out, covers
from denoise_core.text.facts.kinds.names import is_code, name_words, same_name
from denoise_core.text.facts.kinds.units import comparable

HELD = frozenset(("number", "date", "time", "name", "numeral"))  # kinds that must stand in the source
_CLOSE = 1e-6
_IMPLIED = 0.15  # "over 20,000" is borne out by 21,196: so much more at most


def standing(fact: Fact, told: Sequence[Fact]) -> list[Fact]:
    """The facts of a source that bear ``fact`` out, one of the kinds in `HELD`; none when it is not borne out."""
    if fact.kind == "name":
        found = [t for t in told if t.kind == "name" and same_name(fact.norm, [t.norm])]
        return found or _scattered(fact, told)
    if fact.kind == "date":
        dated = [t for t in told if t.kind == "date"]
        if not covers(fact.norm, [t.norm for t in dated]):
            return [t for t in told if t.kind == "number" and t.norm == fact.norm]
        return [t for t in dated if bears_out(fact.norm, t.norm)]
    if fact.kind == "number":
        return [t for t in told if _same_number(fact, t)]
    return [t for t in told if t.kind == fact.kind and t.norm == fact.norm]


def rivals(fact: Fact, told: Sequence[Fact]) -> list[Fact]:
    """The facts of a source that stand in its place: of its kind, of a unit that can be compared."""
    own = set(name_words(fact.norm)) if fact.kind == "name" and not is_code(fact.norm) else set()
    told = [t for t in told if not (own and own & set(name_words(t.norm)))]
    return [t for t in told if t.kind == fact.kind and (fact.kind != "number" or _rival_number(fact, t))]


def _rival_number(fact: Fact, told: Fact) -> bool:
    if fact.norm.endswith("th") != told.norm.endswith("th"):
        return False
    return bool(fact.unit) == bool(told.unit) and comparable(fact.unit, told.unit) is not None


def _same_number(fact: Fact, told: Fact) -> bool:
    if told.kind == "date":
        return not fact.unit and fact.norm == told.norm
    if told.kind == "numeral":
        return fact.norm.removesuffix("th") == told.norm.rpartition(" ")[2]
    if told.kind == "time":
        return fact.norm.isdigit() and told.norm == f"{int(fact.norm) % 100:02d}:00" and not fact.unit
    if told.kind != "number":
        return False
    if not fact.values or not told.values:
        return fact.norm == told.norm
    factors = comparable(fact.unit, told.unit)
    if factors is None or bounds.opposed(fact.bound, told.bound):
        return False
    for a in fact.values:
        for b in told.values:
            one, two = a * factors[0], b * factors[1]
            if abs(one - two) <= _CLOSE * max(abs(one), abs(two), 1e-9):
                return True
            if fact.bound in bounds.UP and one < two <= one * (1 + _IMPLIED) and told.bound not in bounds.DOWN:
                return True
            if fact.bound in bounds.DOWN and one * (1 - _IMPLIED) <= two < one and told.bound not in bounds.UP:
                return True
            if fact.bound == "~" and abs(one - two) <= 0.05 * abs(two):
                return True
    return False


def _scattered(fact: Fact, told: Sequence[Fact]) -> list[Fact]:
    """The names that hold the claimed one's words between them, when each word is in some name: "Mrs James" and
    "James's recipe" read as one or two names by chance of capitals."""
    wanted = set(name_words(fact.norm))
    found = [
        t for t in told if t.kind == "name" and wanted & set(name_words(t.norm)) and _apart(fact.norm, t.norm)
    ]
    have = {w for t in found for w in name_words(t.norm)}
    return found if wanted and wanted <= have else []


def _apart(claimed: str, told: str) -> bool:
    """No half of a hyphenated name for the whole: Luc is not Jean-Luc."""
    whole = set(claimed.split())
    return not any("-" in w and set(w.split("-")) & whole for w in told.split())
