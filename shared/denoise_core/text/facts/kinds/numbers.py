"""Numbers with sign, scale, unit and bound, in digits, words or Chinese characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from denoise_core.text.facts.fact import Fact
from denoise_core.text.facts.kinds import bounds
from denoise_core.text.facts.kinds.numerals import (
    FRACTIONS,
    IDEOGRAPH_DIGITS,
    IDEOGRAPH_SCALES,
    JOINERS,
    SCALES,
    cardinal,
    ordinal,
)
from denoise_core.text.facts.kinds.units import MONEY_SIGNS, UNITS
from denoise_core.text.lexemes import Lexeme

_MINUS = frozenset(("-", "−", "–"))
_MINUS_WORDS = frozenset(("minus", "menos", "moins"))
_DASHES = frozenset(("-", "–", "—", "‑"))
_RANGE_WORDS = frozenset(("to", "bis", "à", "a", "and", "und", "et", "y", "against", "gegen", "hasta"))
_PER = frozenset(("per", "pro", "par", "por", "an", "a", "/"))
_GROUPED = re.compile(r"\d{1,3}([.,'’\u00a0\u202f ])\d{3}(?:\1\d{3})*$")
_DOZENS = frozenset(("dozen", "dutzend", "douzaines", "docenas"))
_LONGEST_WORDS = 10  # words of one number


def numbers(found: Sequence[Lexeme], language: str, taken: frozenset[int]) -> list[Fact]:
    """Numbers among the lexemes; ``taken`` are positions that something else (a date) uses."""
    out: list[Fact] = []
    i = last = 0
    while i < len(found):
        read = None if i in taken else _number(found, i, language)
        if read is None:
            i += 1
            continue
        fact, end = read
        if out and i - last <= 2:
            _share_unit(out, fact, found[last:i])
        out.append(fact)
        i = last = end
    return out


def readings(digits: str, language: str) -> tuple[float, ...]:
    """The values that digits with points and commas may stand for; the likeliest first.

    >>> readings("1.200", "de"), readings("1.200", "en"), readings("3,200,000", "en"), readings("2,4", "de")
    ((1200.0,), (1.2, 1200.0), (3200000.0,), (2.4,))
    """
    plain = "".join(str(unicodedata.digit(c)) if c.isdigit() else c for c in digits)
    if plain.isdigit():
        return (float(plain),) if len(plain) < 300 else ()
    marks = {c for c in plain if not c.isdigit()}
    if marks & {":", "/"}:
        return _ratio(plain)
    if len(marks) == 2 and "," in marks and "." in marks:  # the last one is the decimal mark
        point = "," if plain.rfind(",") > plain.rfind(".") else "."
        grouping = "." if point == "," else ","
        return _floats(plain.replace(grouping, "").replace(point, "."))
    grouped = _GROUPED.match(plain)
    whole = re.sub(r"[^\d]", "", plain)
    if grouped:
        mark = grouped[1]
        decimal = plain.replace(mark, ".")
        if mark not in ".," or plain.count(mark) > 1:
            return _floats(whole)
        if mark == ",":
            return _floats(whole) if language in ("en", "") else (*_floats(decimal), *_floats(whole))
        return _floats(whole) if language in ("de", "es", "fr") else (*_floats(decimal), *_floats(whole))
    if len(marks) == 1 and sum(not c.isdigit() for c in plain) == 1:
        return _floats(plain.replace(next(iter(marks)), "."))
    return ()  # a version, an address


def plain(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.10g}"


def _number(found: Sequence[Lexeme], i: int, language: str) -> tuple[Fact, int] | None:
    first = found[i]
    if first.shape == "number":
        values, j, percent = readings(first.text, language), i + 1, False
        if first.text.startswith("0") and first.text.isdigit() and len(first.text) > 1:
            values = ()  # a code
        if j < len(found) and found[j].start == first.end and ordinal(first.text + found[j].lower, language):
            return _ordinal(found, i, int(values[0]) if values else 0, j + 1)
        if not values:
            return Fact("number", first.lower, first.start, first.end), j
        values, j = _scaled(values, found, j, language)
    elif first.shape == "word":
        read = _in_words(found, i, language)
        if read is None:
            nth = ordinal(first.lower, language)
            return (
                None
                if nth is None or (first.lower in ("second", "seconds") and i == 0)
                else _ordinal(found, i, nth, i + 1)
            )
        value, j, percent = read
        values = (value,)
        values, j = _scaled(values, found, j, language)
    elif first.shape == "ideograph":
        read = _in_ideographs(found, i)
        if read is None:
            return None
        value, j, percent = read
        values = (value,)
    else:
        return None
    unit, end = ("%", j) if percent else _unit(found, j)
    start = i
    if not unit and i and found[i - 1].text in MONEY_SIGNS:
        unit, start = found[i - 1].text, i - 1
    sign, start = _sign(found, start)
    values = tuple(sign * v for v in values)
    bound = bounds.before(found, start) or bounds.behind(found, end)
    fact = Fact("number", plain(values[0]), found[start].start, found[end - 1].end, unit, bound, values)
    return fact, end


def _ordinal(found: Sequence[Lexeme], i: int, n: int, j: int) -> tuple[Fact, int]:
    return Fact("number", f"{n}th", found[i].start, found[j - 1].end, "", "", ()), j


def _in_words(found: Sequence[Lexeme], i: int, language: str) -> tuple[float, int, bool] | None:
    """Value, the position behind it, and whether it is a share of a whole (a third, half)."""
    word = found[i].lower
    if word in FRACTIONS and (word not in ("second", "media", "medio", "quart", "third") or _behind_one(found, i)):
        return _fraction(found, i)
    total, last, j = 0.0, 0.0, i
    seen = False
    while j < len(found) and j - i < _LONGEST_WORDS and found[j].shape == "word":
        word = found[j].lower
        value = cardinal(word, language)
        scale = SCALES.get(language, SCALES["en"]).get(word)
        if word in _DOZENS and seen and last:
            last *= 12
        elif value is not None and not (word == "one" and not seen and not _counts(found, j)):
            if seen and not (last >= 20 and value < last) and not (total and not last):
                if not (language == "fr" and last == 4 and value == 20):
                    break
                last, value = 80.0, 0
            last, seen = last + value, True
        elif (
            scale is not None
            and (seen or scale <= 1000 or _behind_one(found, i))
            and word not in ("cent", "mn", "bn")
        ):
            if scale == 100:
                last = max(last, 1) * 100
            else:
                total, last = total + max(last, 1) * scale, 0.0
            seen = True
        elif not (
            seen and word in JOINERS.get(language, JOINERS["en"]) and _goes_on(found, j + 1, language, last)
        ):
            break
        j += 1
    if not seen:
        return None
    if j < len(found) and found[j].lower in FRACTIONS and found[j].lower.rstrip("s") != "half":
        return 100 * (total + last) * FRACTIONS[found[j].lower], j + 1, True  # two thirds
    return total + last, j, False


def _goes_on(found: Sequence[Lexeme], j: int, language: str, last: float) -> bool:
    value = cardinal(found[j].lower, language) if j < len(found) else None
    return value is not None and last >= 20 and value < 100 and value < last


def _counts(found: Sequence[Lexeme], j: int) -> bool:
    """ "one" before a unit, a scale or a fraction counts; "one of them" does not."""
    after = found[j + 1].lower if j + 1 < len(found) else ""
    return after in UNITS or after in SCALES["en"] or after in FRACTIONS


def _behind_one(found: Sequence[Lexeme], i: int) -> bool:
    return i > 0 and found[i - 1].lower in (
        "a",
        "an",
        "one",
        "ein",
        "eine",
        "einer",
        "einem",
        "un",
        "une",
        "una",
        "two",
    )


def _fraction(found: Sequence[Lexeme], i: int) -> tuple[float, int, bool] | None:
    value, j = FRACTIONS[found[i].lower], i + 1
    if j < len(found) and found[j].lower in ("a", "an") and j + 1 < len(found):
        j += 1
    if j < len(found) and found[j].lower in UNITS and (j > i + 1 or UNITS[found[j].lower][0] != "share"):
        return value, j, False  # half an hour, half a percent
    return value * 100, i + 1, True


def _in_ideographs(found: Sequence[Lexeme], i: int) -> tuple[float, int, bool] | None:
    total, last, j, digits = 0, 0, i, 0
    while j < len(found) and found[j].shape == "ideograph":
        c = found[j].text
        if c in IDEOGRAPH_DIGITS:
            last, digits = IDEOGRAPH_DIGITS[c], digits + 1
        elif c in IDEOGRAPH_SCALES and (digits or c == "十"):
            total = total + (max(last, 1) if not total or last else 1) * IDEOGRAPH_SCALES[c]
            last, digits = 0, digits + 1
        else:
            break
        j += 1
    return (float(total + last), j, False) if digits else None


def _scaled(
    values: tuple[float, ...], found: Sequence[Lexeme], j: int, language: str
) -> tuple[tuple[float, ...], int]:
    while j < len(found):
        word = found[j].lower
        scale = SCALES.get(language, SCALES["en"]).get(word) or IDEOGRAPH_SCALES.get(word)
        if word == "k" and found[j].start == found[j - 1].end:
            scale = 1000
        if (
            scale is None
            or (word == "cent" and language != "fr")
            or (word in ("cent", "cents") and found[j - 1].shape == "number")
        ):
            break
        values, j = tuple(v * scale for v in values), j + 1
        if j < len(found) and found[j].text == "." and word in ("mio", "mrd", "tsd"):
            j += 1
    return values, j


def _unit(found: Sequence[Lexeme], j: int) -> tuple[str, int]:
    """The unit at ``j``, if one stands there, and the position behind it."""
    while j < len(found) and found[j].lower in ("de", "-"):
        if j + 1 >= len(found) or found[j + 1].lower not in UNITS:
            return "", j
        j += 1
    if j >= len(found):
        return "", j
    two = "".join(x.lower for x in found[j : j + 2])
    if (
        two in UNITS
        and len(two) > 1
        and j + 1 < len(found)
        and (found[j].shape in ("ideograph", "mark") or two in ("us$", "percent"))
    ):
        return two, j + 2
    word = found[j].lower
    if word not in UNITS or (found[j].line and len(word) == 1):
        return "", j
    if word in ("a", "t", "h", "m", "s", "g", "l", "w", "an", "pie") and found[j].start - found[j - 1].end > 1:
        return "", j
    if word in ("degrees", "degree", "grad", "grados", "degrés") and j + 1 < len(found):
        scale = found[j + 1].lower
        if scale in ("celsius", "fahrenheit"):
            return scale, j + 2
    if UNITS[word][0] == "length" and j + 2 < len(found) and found[j + 1].lower in _PER:
        hourly = UNITS.get(found[j + 2].lower) == ("time", 3600.0)
        if hourly and UNITS[word][1] in (1000, 1609.344):
            return ("km/h" if UNITS[word][1] == 1000 else "mph"), j + 3
    return word, j + 1


def _sign(found: Sequence[Lexeme], i: int) -> tuple[int, int]:
    if not i:
        return 1, i
    before = found[i - 1]
    if before.lower in _MINUS_WORDS:
        return -1, i - 1
    if before.text in _MINUS and before.end == found[i].start:
        apart = i < 2 or found[i - 2].end < before.start or found[i - 2].text in "(,[="
        if apart and (before.text != "–" or i < 2 or found[i - 2].shape != "number"):
            return -1, i - 1
    return 1, i


def _share_unit(out: list[Fact], fact: Fact, between: Sequence[Lexeme]) -> None:
    """Between 5 and 20 mg, from 7.9 to 6.4 percent: the first number has the second one's unit."""
    first = out[-1]
    if first.unit or not fact.unit or not first.values:
        return
    joins = [x.lower for x in between if x.text not in MONEY_SIGNS]
    if len(joins) == 1 and (joins[0] in _DASHES or joins[0] in _RANGE_WORDS):
        out[-1] = replace(first, unit=fact.unit)


def _ratio(text: str) -> tuple[float, ...]:
    top, _, bottom = text.partition("/")
    if top.isdigit() and bottom.isdigit() and int(bottom) and len(top) < 5 and len(bottom) < 5:
        return (int(top) / int(bottom),)
    return ()


def _floats(text: str) -> tuple[float, ...]:
    try:
        value = float(text)
    except ValueError:
        return ()
    return (value,) if abs(value) < 1e300 else ()
