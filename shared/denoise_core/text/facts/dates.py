"""Dates, in the forms that English, German, French and Spanish texts usually have.

A norm is ``year-month-day`` with ``?`` for each digit that is not said, without what stands behind the last part
said: ``1962-07-04``, ``1962-07``, ``????-07-04``, ``195?`` (a decade).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from denoise_core.text.facts.fact import Fact
from denoise_core.text.facts.numbers import UNITS, parse_ordinal
from denoise_core.text.lexemes import Lexeme
from denoise_core.text.wordlists import words_by_key

_MONTHS = words_by_key(
    """
    1: january jan januar jänner janvier enero ene
    2: february feb februar février febrero
    3: march mar märz mars marzo
    4: april apr avril abril abr
    5: may mai mayo
    6: june jun juni juin junio
    7: july jul juli juillet julio
    8: august aug août agosto ago
    9: september sep sept septembre septiembre setiembre
    10: october oct oktober okt octobre octubre
    11: november nov novembre noviembre
    12: december dec dezember dez décembre diciembre dic
    """
)
MONTHS = {name: int(number) for name, number in _MONTHS.items()}
_AMONG = frozenset(
    ("may", "mars", "march", "mai")
)  # words besides, and short ones: no month alone
_OF = frozenset(("of", "de", "del", ",", ".", "the"))
_WRITTEN = re.compile(
    r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})$|(\d{1,2})([-./])(\d{1,2})\5(\d{4})$"
)
_FIRST, _LAST = 1000, 2199  # years
_CURRENCIES = frozenset("$€£¥")


def find_dates(
    found: Sequence[Lexeme], language: str
) -> tuple[list[Fact], frozenset[int]]:
    """The dates among lexemes that are `padded`, and the positions of those that they use."""
    out: list[Fact] = []
    taken: list[int] = []
    i = 0
    while found[i].text:
        read = _read(found, i, language)
        end = i + 1
        if read is not None:
            norm, end = read
            out.append(Fact("date", norm, found[i].start, found[end - 1].end))
            taken += range(i, end)
        i = end
    return out, frozenset(taken)


def entails_date(claimed: str, told: str) -> bool:
    """Whether a date of the source is the claimed one or a part of it: 1954 bears out the fifties.

    What one of the two leave open is not held against it, as long as they share something.

    >>> entails_date("195?", "1954"), entails_date("1954", "195?"), entails_date("1962-06-04", "1962-07-04")
    (True, False, False)
    """
    shared = 0
    for a, b in zip(claimed.split("-"), told.split("-"), strict=False):
        if "????" in (a, b):
            continue
        if len(a) != len(b) or any(
            x != y and x != "?" for x, y in zip(a, b, strict=True)
        ):
            return False
        shared += 1
    return shared > 0


def covers_date(claimed: str, told: Sequence[str]) -> bool:
    """Every part that the claim says stands in some date that bears it out: July 4th in one, 1962 in another."""
    fitting = [t.split("-") for t in told if entails_date(claimed, t)]
    parts = enumerate(claimed.split("-"))
    return all(
        part == "????" or any(n < len(t) and t[n] != "????" for t in fitting)
        for n, part in parts
    )


def _read(found: Sequence[Lexeme], i: int, language: str) -> tuple[str, int] | None:
    x, after = found[i], found[i + 1]
    read = (_written(found, i, language) if x.kind == "number" else None) or _spelled(
        found, i
    )
    if read is not None:
        return read
    is_decade = after.folded_text in ("s", "er") and after.start == x.end  # 1950er
    if (
        is_decade
        and x.text.isdecimal()
        and len(x.text) in (2, 4)
        and x.text.endswith("0")
    ):
        return f"{x.text[:-1]}?".rjust(4, "_").replace("__", "19"), i + 2
    has_unit = (after.folded_text in UNITS and after.folded_text != "s") or found[
        i - 1
    ].text in _CURRENCIES
    return (x.text, i + 1) if _is_year(x.text) and not has_unit else None


def _written(found: Sequence[Lexeme], i: int, language: str) -> tuple[str, int] | None:
    """Three numbers, in one lexeme or, with hyphens, in five."""
    five = found[i : i + 5]
    text, end = "".join(x.text for x in five), i + 5
    if five[1].text != "-" or five[4].end - five[0].start != len(text):
        text, end = found[i].text, i + 1
    match = _WRITTEN.match(text)
    if match is None:
        return None
    year, month, day = match[1] or match[7], match[2] or match[6], match[3] or match[4]
    if match[5] == "/" and language == "en" and int(day) <= 12:
        month, day = day, month
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return None
    return f"{int(year):04d}-{int(month):02d}-{int(day):02d}", end


def _is_year(text: str) -> bool:
    return len(text) == 4 and text.isdecimal() and _FIRST <= int(text) <= _LAST


def _spelled(found: Sequence[Lexeme], i: int) -> tuple[str, int] | None:
    """A month by its name, with the day and the year beside it, in any order that begins with month or day."""
    parts: dict[str, int] = {}
    j = end = i
    while found[j].text and j - end < 3 and "year" not in parts:
        what, value, after = _part(found, j)
        if what and what not in parts and (what != "year" or "month" in parts):
            parts[what] = value
            j = end = after
        elif parts and found[j].folded_text in _OF:
            j += 1
        else:
            break
    if "month" not in parts:
        return None
    if len(parts) == 1:
        doubtful = len(found[i].folded_text) < 4 or found[i].folded_text in _AMONG
        if not found[i].is_capitalized or (
            doubtful and found[i - 1].folded_text not in ("in", "im", "since", "until")
        ):
            return None
    norm = f"{parts.get('year', '????')}-{parts['month']:02d}"
    return (f"{norm}-{parts['day']:02d}" if "day" in parts else norm), end


def _part(found: Sequence[Lexeme], j: int) -> tuple[str, int, int]:
    """What a lexeme is of a date: a month, a year, a day (4, 4th, fourth); its value, and the place behind it."""
    x, after = found[j], j + 1
    if x.folded_text in MONTHS and (x.is_capitalized or x.folded_text not in _AMONG):
        return "month", MONTHS[x.folded_text], after
    if _is_year(x.text):
        return "year", int(x.text), after
    day = 0
    if x.kind == "word":
        day = parse_ordinal(x.folded_text) or 0
    elif x.kind == "number" and x.text.isdecimal() and len(x.text) <= 2:
        behind = found[after]
        has_ending = (
            behind.start == x.end
            and parse_ordinal(x.text + behind.folded_text) is not None
        )
        has_unit = (
            not has_ending and UNITS.get(behind.folded_text, ("time",))[0] != "time"
        )
        day, after = 0 if has_unit else int(x.text), after + has_ending
    return ("day", day, after) if 1 <= day <= 31 else ("", 0, j)
