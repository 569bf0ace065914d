"""Dates, in the forms that English, German, French and Spanish texts usually have.

A norm is ``year-month-day`` with ``?`` for each digit that is not said, without what stands behind the last part
said: ``1962-07-04``, ``1962-07``, ``????-07-04``, ``195?`` (a decade).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from denoise_core.text.facts.fact import Fact
from denoise_core.text.facts.numbers import UNITS, ordinal
from denoise_core.text.lexemes import Lexeme

MONTHS = {
    name: n
    for n, names in enumerate(
        (
            "january jan januar jänner janvier enero ene",
            "february feb februar février febrero",
            "march mar märz mars marzo",
            "april apr avril abril abr",
            "may mai mayo",
            "june jun juni juin junio",
            "july jul juli juillet julio",
            "august aug août agosto ago",
            "september sep sept septembre septiembre setiembre",
            "october oct oktober okt octobre octubre",
            "november nov novembre noviembre",
            "december dec dezember dez décembre diciembre dic",
        ),
        1,
    )
    for name in names.split()
}
_AMONG = frozenset(("may", "mars", "march", "mai"))  # words besides, and short ones: no month alone
_OF = frozenset(("of", "de", "del", ",", ".", "the"))
_WRITTEN = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})$|(\d{1,2})([-./])(\d{1,2})\5(\d{4})$")
_FIRST, _LAST = 1000, 2199  # years


def dates(found: Sequence[Lexeme], language: str) -> tuple[list[Fact], frozenset[int]]:
    """The dates, and the positions of the lexemes that they use."""
    out: list[Fact] = []
    taken: set[int] = set()
    for i in range(len(found)):
        if i not in taken and (read := _read(found, i, language)):
            norm, end = read
            out.append(Fact("date", norm, found[i].start, found[end - 1].end))
            taken.update(range(i, end))
    return out, frozenset(taken)


def bears_out(claimed: str, told: str) -> bool:
    """Whether a date of the source is the claimed one or a part of it: 1954 bears out the fifties.

    What one of the two leave open is not held against it, as long as they share something.

    >>> bears_out("195?", "1954"), bears_out("1954", "195?"), bears_out("1962-06-04", "1962-07-04")
    (True, False, False)
    """
    shared = 0
    for a, b in zip(claimed.split("-"), told.split("-"), strict=False):
        if "????" in (a, b):
            continue
        if len(a) != len(b) or any(x != y and x != "?" for x, y in zip(a, b, strict=True)):
            return False
        shared += 1
    return shared > 0


def covers(claimed: str, told: Sequence[str]) -> bool:
    """Every part that the claim says stands in some date that bears it out: July 4th in one, 1962 in another."""
    fitting = [t.split("-") for t in told if bears_out(claimed, t)]
    parts = enumerate(claimed.split("-"))
    return all(part == "????" or any(n < len(t) and t[n] != "????" for t in fitting) for n, part in parts)


def _read(found: Sequence[Lexeme], i: int, language: str) -> tuple[str, int] | None:
    x, j = found[i], i + 1
    if x.lower in MONTHS:
        return _from_month(found, i)
    if x.shape == "word":
        nth = ordinal(x.lower)
        return _from_day(found, nth, j) if nth else None
    if x.shape != "number":
        return None
    if written := _written(found, i, language):
        return written
    ending = found[j].lower if j < len(found) and found[j].start == x.end else ""
    if ending in ("s", "er") and len(x.text) in (2, 4) and x.text.endswith("0"):  # 1950s, 50s, 1950er
        return f"{x.text[:-1]}?".rjust(4, "_").replace("__", "19"), j + 1
    if x.text.isdecimal() and len(x.text) <= 2:
        return _from_day(found, int(x.text), j + (ordinal(x.text + ending) is not None))
    return _year(found, i)


def _written(found: Sequence[Lexeme], i: int, language: str) -> tuple[str, int] | None:
    """Three numbers, in one lexeme or, with hyphens, in five."""
    five = found[i : i + 5]
    whole = (
        len(five) == 5 and five[1].text == "-" and five[4].end - five[0].start == sum(len(x.text) for x in five)
    )
    text, end = ("".join(x.text for x in five), i + 5) if whole else (found[i].text, i + 1)
    match = _WRITTEN.match(text)
    if match is None:
        return None
    year, month, day = match[1] or match[7], match[2] or match[6], match[3] or match[4]
    if match[5] == "/" and language == "en" and int(day) <= 12:
        month, day = day, month
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return None
    return f"{int(year):04d}-{int(month):02d}-{int(day):02d}", end


def _year(found: Sequence[Lexeme], i: int) -> tuple[str, int] | None:
    """A number of four digits that counts nothing."""
    after = found[i + 1].lower if i + 1 < len(found) else ""
    counts = (after in UNITS and after != "s") or (i and found[i - 1].text in "$€£¥")
    return (found[i].text, i + 1) if _is_year(found[i].text) and not counts else None


def _is_year(text: str) -> bool:
    return len(text) == 4 and text.isdecimal() and _FIRST <= int(text) <= _LAST


def _from_month(found: Sequence[Lexeme], i: int) -> tuple[str, int] | None:
    name = found[i]
    month, j = MONTHS[name.lower], i + 1
    j += j < len(found) and found[j].text == "." and len(name.text) <= 4
    j += j < len(found) and found[j].lower == "the"
    day, after = _day(found, j)
    year, end = _year_behind(found, after)
    if day:
        return f"{year or '????'}-{month:02d}-{day:02d}", end
    if year:
        return f"{year}-{month:02d}", end
    doubtful = (len(name.lower) < 4 or name.lower in _AMONG) and not (
        i and found[i - 1].lower in ("in", "im", "since", "until")
    )
    return None if doubtful or not name.capital else (f"????-{month:02d}", i + 1)


def _from_day(found: Sequence[Lexeme], n: int, j: int) -> tuple[str, int] | None:
    """A day before its month."""
    at = j
    while at < len(found) and at - j < 3 and found[at].lower in _OF:
        at += 1
    if at >= len(found) or not 1 <= n <= 31:
        return None
    name = found[at]
    if name.lower not in MONTHS or (name.lower in _AMONG and not name.capital):
        return None
    dotted = at + 1 < len(found) and found[at + 1].text == "." and len(name.text) <= 4
    year, end = _year_behind(found, at + 1 + dotted)
    return f"{year or '????'}-{MONTHS[name.lower]:02d}-{n:02d}", end if year else at + 1


def _year_behind(found: Sequence[Lexeme], j: int) -> tuple[str, int]:
    """A year that follows, at most behind a comma or "of"; '' and ``j`` when none does."""
    at = j
    while at < len(found) and at - j < 2 and found[at].lower in _OF and found[at].text != ".":
        at += 1
    return (found[at].text, at + 1) if at < len(found) and _is_year(found[at].text) else ("", j)


def _day(found: Sequence[Lexeme], j: int) -> tuple[int, int]:
    """A day that follows a month: 4, 4th, fourth."""
    if j >= len(found) or found[j].shape == "mark":
        return 0, j
    text, end = found[j].text, j + 1
    after = found[end].lower if end < len(found) else ""
    if not text.isdecimal():
        nth = ordinal(found[j].lower) or 0
    elif after in UNITS and UNITS[after][0] != "time":
        return 0, j
    else:
        nth = int(text) if len(text) <= 2 else 0
        end += bool(after) and found[end].start == found[j].end and ordinal(text + after) is not None
    return (nth, end) if 1 <= nth <= 31 else (0, j)
