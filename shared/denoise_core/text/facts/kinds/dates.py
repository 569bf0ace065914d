"""Dates and times of day, in the forms that English, German, French and Spanish texts usually have.

A norm is ``year-month-day`` with ``?`` for each digit that is not said, without what stands behind the last part
said: ``1962-07-04``, ``1962-07``, ``????-07-04``, ``195?`` (a decade), ``15??`` (a century), ``1962-q3``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from denoise_core.text.facts.fact import Fact
from denoise_core.text.facts.kinds.clock import clock
from denoise_core.text.facts.kinds.numerals import CARDINALS, ordinal, roman
from denoise_core.text.facts.kinds.units import UNITS
from denoise_core.text.lexemes import Lexeme
from denoise_core.text.wordlists import listed

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
# Words besides: a month only beside a day or a year.
_DOUBTFUL = listed(
    """
    may mar mars march jan dec apr jun jul aug ago abr ene mai sep sept nov oct okt dez dic feb
    """
)
_WEEKDAYS = {
    name: n
    for n, names in enumerate(
        (
            "monday mondays montag montags lundi lunes",
            "tuesday tuesdays dienstag dienstags mardi martes",
            "wednesday wednesdays mittwoch mittwochs mercredi miércoles",
            "thursday thursdays donnerstag donnerstags jeudi jueves",
            "friday fridays freitag freitags vendredi viernes",
            "saturday saturdays samstag samstags sonnabend samedi sábado sábados",
            "sunday sundays sonntag sonntags dimanche domingo domingos",
        ),
        1,
    )
    for name in names.split()
}
_DECADES = {
    "twenties": 2, "thirties": 3, "forties": 4, "fifties": 5, "sixties": 6, "seventies": 7, "eighties": 8,
    "nineties": 9, "zwanziger": 2, "dreißiger": 3, "vierziger": 4, "fünfziger": 5, "sechziger": 6, "siebziger": 7,
    "achtziger": 8, "neunziger": 9,
}  # fmt: skip
_OF = frozenset(("of", "de", "del", ",", ".", "the", "des", "l"))
_CENTURY = frozenset(("century", "centuries", "jahrhundert", "jahrhunderts", "siècle", "siècles"))
_ISO = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})$")
_POINTS = re.compile(r"(\d{1,2})([./])(\d{1,2})\2(\d{4}|\d{2})$")
YEARS = (1000, 2199)


def dates(found: Sequence[Lexeme], language: str) -> tuple[list[Fact], frozenset[int]]:
    """The dates and times, and the positions of the lexemes that they use."""
    out: list[Fact] = []
    taken: set[int] = set()
    i = 0
    while i < len(found):
        read = _read(found, i, language)
        if read is None:
            i += 1
            continue
        kind, norm, end = read
        out.append(Fact("time" if kind == "time" else "date", norm, found[i].start, found[end - 1].end))
        taken.update(range(i, end))
        i = end
    return out, frozenset(taken)


def bears_out(claimed: str, told: str) -> bool:
    """Whether a date of the source is the claimed one or a part of it: 1954 bears out the fifties.

    What one of the two leaves open is not held against it, as long as they share something.

    >>> bears_out("195?", "1954"), bears_out("1954", "195?"), bears_out("1962-06-04", "1962-07-04")
    (True, False, False)
    """
    if "q" in claimed or "q" in told or claimed.startswith(("w", "-")) or told.startswith(("w", "-")):
        return claimed == told
    one, two = claimed.split("-"), told.split("-")
    shared = 0
    for a, b in zip(one, two, strict=False):
        if "????" in (a, b) or "??" in (a, b):
            continue
        if len(a) != len(b) or any(x != y and x != "?" for x, y in zip(a, b, strict=True)):
            return False
        shared += 1
    return shared > 0


def covers(claimed: str, told: Sequence[str]) -> bool:
    """Every part that the claim says stands in some date that bears it out: July 4th in one, 1962 in another."""
    fitting = [t for t in told if bears_out(claimed, t)]
    if not fitting:
        return False
    parts = claimed.split("-")
    open_parts = {n for n, part in enumerate(parts) if set(part) != {"?"}}
    for date in fitting:
        said = date.split("-")
        open_parts -= {n for n in range(len(said)) if n < len(parts) and set(said[n]) != {"?"}}
    return not open_parts


def _read(found: Sequence[Lexeme], i: int, language: str) -> tuple[str, str, int] | None:
    first = found[i]
    if first.shape == "number":
        return _from_number(found, i, language)
    if first.shape != "word":
        return None
    word = first.lower
    if word in MONTHS:
        return _from_month(found, i, language)
    if word in _WEEKDAYS and (first.capital or language in ("es", "fr")):
        return "date", f"w{_WEEKDAYS[word]}", i + 1
    if word in _DECADES and _before(found, i, ("the", "die", "den", "der", "early", "late", "mid", "1900er")):
        return "date", f"19{_DECADES[word]}?", i + 1
    if word.startswith("nineteen-") and word.removeprefix("nineteen-") in _DECADES:
        return "date", f"19{_DECADES[word.removeprefix('nineteen-')]}?", i + 1
    if word in ("siglo", "s") and i + 1 < len(found) and (n := roman(found[i + 1].text)):
        return "date", f"{n - 1:02d}??", i + 2
    if word == "años" and i + 1 < len(found):
        return _spanish_decade(found, i)
    nth = ordinal(word, language)
    if nth is not None and nth <= 31:
        return _from_ordinal(found, i, nth, i + 1, language)
    return _quarter(found, i) if re.fullmatch(r"q[1-4]", word) else None


def _from_number(found: Sequence[Lexeme], i: int, language: str) -> tuple[str, str, int] | None:
    text = found[i].text
    if i + 4 < len(found) and found[i + 1].text in "-/" and (joined := _joined(found, i)):
        return joined
    if match := _ISO.match(text):
        return _checked(match[1], match[2], match[3], i + 1)
    if match := _POINTS.match(text):
        day, month = (
            (match[1], match[3])
            if match[2] == "." or language != "en" or int(match[1]) > 12
            else (match[3], match[1])
        )
        year = match[4] if len(match[4]) == 4 else ("19" if int(match[4]) > 40 else "20") + match[4]
        return _checked(year, month, day, i + 1)
    if told := clock(found, i):
        return told
    if not text.isdigit():
        return None
    n, j = int(text) if len(text) < 5 else 0, i + 1
    if _ideograph(found, j, "年"):
        return _ideograph_date(found, i, text)
    if j < len(found) and found[j].start == found[i].end:  # 4th, 1950s, 1950er, XVIe
        ending = found[j].lower
        if ending in ("s", "er", "ers") and len(text) == 4 and text.endswith("0"):
            return "date", f"{text[:3]}?", j + 1
        if ending in ("s", "er") and len(text) == 2 and text.endswith("0") and n >= 20:
            return "date", f"19{text[0]}?", j + 1
        if ordinal(text + ending, language) is not None:
            return _from_ordinal(found, i, n, j + 1, language)
    if 1 <= n <= 31 and len(text) <= 2 and (dated := _from_ordinal(found, i, n, j, language)):
        return dated
    return _year(found, i, n)


def _year(found: Sequence[Lexeme], i: int, n: int) -> tuple[str, str, int] | None:
    text, j = found[i].text, i + 1
    after = found[j].lower if j < len(found) else ""
    if after == "b" and [x.lower for x in found[j : j + 3]] == ["b", ".", "c"]:
        return (
            "date",
            f"-{n:04d}",
            j + 3 + (j + 3 < len(found) and found[j + 3].text == "." and not _last(found, j + 3)),
        )
    if after in ("bc", "bce") or (after == "v" and j + 2 < len(found) and found[j + 2].lower == "chr"):
        return "date", f"-{n:04d}", j + (1 if after != "v" else 3)
    if len(text) != 4 or not YEARS[0] <= n <= YEARS[1]:
        return None
    if after in UNITS and after not in ("s", "a", "an", "in"):
        return None
    if i and found[i - 1].text in "$€£¥":
        return None
    return "date", text, j


def _last(found: Sequence[Lexeme], i: int) -> bool:
    return i + 1 >= len(found) or found[i + 1].line


def _from_month(found: Sequence[Lexeme], i: int, language: str) -> tuple[str, str, int] | None:
    month, j = MONTHS[found[i].lower], i + 1
    if j < len(found) and found[j].text == "." and len(found[i].text) <= 4:
        j += 1
    while j < len(found) and found[j].lower == "the":
        j += 1
    day, after = _day(found, j, language)
    if day:
        year, end = _year_behind(found, after)
        return "date", f"{year}-{month:02d}-{day:02d}", end
    year, end = _year_behind(found, j)
    if year != "????":
        return "date", f"{year}-{month:02d}", end
    if found[i].lower in _DOUBTFUL and not (
        found[i].lower in ("march", "may", "mai") and _before(found, i, ("in", "im", "since", "until"))
    ):
        return None
    if not found[i].capital and not _before(found, i, ("en", "de", "fin", "début")):
        return None
    return "date", f"????-{month:02d}", i + 1


def _from_ordinal(found: Sequence[Lexeme], i: int, n: int, j: int, language: str) -> tuple[str, str, int] | None:
    """A day before its month, an ordinal before a century or a quarter."""
    at = j
    while at < len(found) and at - j < 3 and found[at].lower in _OF:
        at += 1
    if at < len(found) and found[at].lower in _CENTURY:
        return "date", f"{n - 1:02d}??", at + 1
    if at < len(found) and found[at].lower in ("quarter", "quartal", "trimestre") and 1 <= n <= 4:
        year, end = _year_behind(found, at + 1)
        return ("date", f"{year}-q{n}", end) if year != "????" else None
    if at >= len(found) or found[at].lower not in MONTHS or not 1 <= n <= 31:
        return None
    name = found[at]
    if name.lower in _DOUBTFUL and not name.capital and language in ("en", "de"):
        return None
    end = at + 1
    if end < len(found) and found[end].text == "." and len(name.text) <= 4:
        end += 1
    year, end = _year_behind(found, end) if end < len(found) else ("????", end)
    if year == "????" and found[end - 1].text == ".":
        end -= 1
    return "date", f"{year}-{MONTHS[name.lower]:02d}-{n:02d}", end


def _year_behind(found: Sequence[Lexeme], j: int) -> tuple[str, int]:
    """A year that follows, at most behind a comma or "of"; ``????`` and ``j`` when none does."""
    at = j
    while at < len(found) and at - j < 2 and found[at].lower in _OF and found[at].text != ".":
        at += 1
    text = found[at].text if at < len(found) else ""
    if len(text) == 4 and text.isdigit() and YEARS[0] <= int(text) <= YEARS[1]:
        return text, at + 1
    return "????", j


def _day(found: Sequence[Lexeme], j: int, language: str) -> tuple[int, int]:
    if j >= len(found):
        return 0, j
    text = found[j].text
    if found[j].shape == "number" and text.isdigit() and len(text) <= 2 and 1 <= int(text) <= 31:
        end = j + 1
        if end < len(found) and found[end].start == found[j].end and found[end].lower in ("st", "nd", "rd", "th"):
            end += 1
        elif end < len(found) and found[end].lower in UNITS and UNITS[found[end].lower][0] != "time":
            return 0, j
        return int(text), end
    nth = ordinal(found[j].lower, language) if found[j].shape == "word" else None
    return (nth, j + 1) if nth and nth <= 31 else (0, j)


def _joined(found: Sequence[Lexeme], i: int) -> tuple[str, str, int] | None:
    """2020-07-04 and 4-7-2020, which stand in five pieces."""
    five = found[i : i + 5]
    if five[1].text != five[3].text or any(five[n].end != five[n + 1].start for n in range(4)):
        return None
    parts = [five[n].text for n in (0, 2, 4)]
    if not all(p.isdigit() for p in parts):
        return None
    if len(parts[0]) == 4:
        return _checked(parts[0], parts[1], parts[2], i + 5)
    return _checked(parts[2], parts[1], parts[0], i + 5) if len(parts[2]) == 4 else None


def _checked(year: str, month: str, day: str, end: int) -> tuple[str, str, int] | None:
    if 1 <= int(month) <= 12 and 1 <= int(day) <= 31:
        return "date", f"{year}-{int(month):02d}-{int(day):02d}", end
    return None


def _quarter(found: Sequence[Lexeme], i: int) -> tuple[str, str, int] | None:
    year, end = _year_behind(found, i + 1)
    return None if year == "????" else ("date", f"{year}-{found[i].lower}", end)


def _spanish_decade(found: Sequence[Lexeme], i: int) -> tuple[str, str, int] | None:
    word, text = found[i + 1].lower, found[i + 1].text
    if text.isdigit() and len(text) in (2, 4) and text.endswith("0"):
        return "date", (f"19{text[0]}?" if len(text) == 2 else f"{text[:3]}?"), i + 2
    value = CARDINALS["es"].get(word)
    if value and value % 10 == 0 and 20 <= value <= 90 and _before(found, i, ("los", "década", "de")):
        return "date", f"19{value // 10}?", i + 2
    return None


def _ideograph(found: Sequence[Lexeme], j: int, sign: str) -> bool:
    return j < len(found) and found[j].text == sign


def _ideograph_date(found: Sequence[Lexeme], i: int, year: str) -> tuple[str, str, int] | None:
    norm, j = year, i + 2
    for sign in ("月", "日"):
        if not (_ideograph(found, j + 1, sign) and found[j].text.isdigit()):
            break
        norm, j = f"{norm}-{int(found[j].text):02d}", j + 2
    return ("date", norm, j) if len(year) == 4 else None


def _before(found: Sequence[Lexeme], i: int, words: Sequence[str]) -> bool:
    return i > 0 and found[i - 1].lower in words
