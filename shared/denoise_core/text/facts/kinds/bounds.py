"""How a number is meant: at least, more than, at most, less than, about. Phrases before and behind it."""

from __future__ import annotations

from collections.abc import Sequence

from denoise_core.text.lexemes import Lexeme

_BEFORE = {
    ">=": "at least|no less than|no fewer than|not less than|minimum of|a minimum of|mindestens|wenigstens|ab|"
    "au moins|al menos|por lo menos|como mínimo|mínimo|mínimo de|un mínimo de|minimum|至少|不少于",
    ">": "more than|over|above|exceeding|greater than|upwards of|mehr als|über|plus de|más de|超过|多于",
    "<=": "at most|no more than|not more than|up to|maximum of|a maximum of|as many as|as much as|höchstens|"
    "maximal|bis zu|au plus|jusqu'à|a lo sumo|como máximo|máximo|un máximo de|hasta|最多|不超过",
    "<": "less than|fewer than|under|below|weniger als|unter|moins de|menos de|menor de|少于|不到",
    "~": "about|around|roughly|approximately|some|nearly|almost|circa|ca|c|etwa|ungefähr|rund|knapp|fast|environ|"
    "près de|presque|unos|unas|casi|alrededor de|cerca de|aproximadamente|约|大约",
}
_BEHIND = {
    ">=": "or more|or older|or above|and more|oder mehr|oder älter|ou plus|o más|及以上|以上",
    "<=": "or less|or fewer|or younger|oder weniger|ou moins|o menos|at most|at the most|以下",
}
_OPEN = {tuple(p.split()): bound for bound, phrases in _BEFORE.items() for p in phrases.split("|")}
_CLOSE = {tuple(p.split()): bound for bound, phrases in _BEHIND.items() for p in phrases.split("|")}
_LONGEST = 3
UP = frozenset((">", ">="))
DOWN = frozenset(("<", "<="))


def before(found: Sequence[Lexeme], at: int) -> str:
    """The bound whose phrase ends right before lexeme ``at``; a currency sign or article may stand between."""
    end = at
    while end and found[end - 1].lower in ("a", "the", "$", "€", "£", "us"):
        end -= 1
    for size in range(_LONGEST, 0, -1):
        if size <= end:
            phrase = tuple(x.lower for x in found[end - size : end])
            if phrase in _OPEN:
                return _negated(_OPEN[phrase], found, end - size)
    joined = "".join(x.lower for x in found[max(0, end - 3) : end])
    return next((b for p, b in _OPEN.items() if len(p) == 1 and p[0][0] > "\u3000" and joined.endswith(p[0])), "")


def behind(found: Sequence[Lexeme], at: int) -> str:
    """The bound whose phrase begins at lexeme ``at`` or one word later ("18 years or older")."""
    for first in (at, at + 1):
        for size in (3, 2):
            bound = _CLOSE.get(tuple(x.lower for x in found[first : first + size]))
            if bound:
                return bound
    return ""


def opposed(one: str, two: str) -> bool:
    """One gives a floor and the other a ceiling."""
    return (one in UP and two in DOWN) or (one in DOWN and two in UP)


def _negated(bound: str, found: Sequence[Lexeme], first: int) -> str:
    """ "not more than" where no phrase of its own has it ("nicht mehr als")."""
    if first and found[first - 1].lower in ("nicht", "no", "not", "pas", "kein"):
        return {">": "<=", "<": ">=", ">=": "<", "<=": ">"}.get(bound, bound)
    return bound
