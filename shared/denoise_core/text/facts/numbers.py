"""Numbers with sign, scale and unit: in digits as English, German, French and Spanish write them, and in English
words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from denoise_core.text.facts.fact import Fact
from denoise_core.text.lexemes import Lexeme
from denoise_core.text.wordlists import words_by_key


def _row(words: str, first: int = 0, step: int = 1) -> dict[str, int]:
    return {w: first + step * n for n, w in enumerate(words.split())}


CARDINALS = _row(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
) | _row("twenty thirty forty fifty sixty seventy eighty ninety", 20, 10)
_ORDINALS = (
    _row(
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth",
        1,
    )
    | _row(
        "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth", 14
    )
    | _row("thirtieth", 30)
)
_POWERS = words_by_key(
    """
    2: hundred
    3: thousand tausend mil mille
    6: million millions mn millionen millones mio
    9: billion billions bn milliarden milliards mrd milliarde milliard
    12: trillion
    """
)
_SCALES: dict[str, int] = {word: 10 ** int(power) for word, power in _POWERS.items()}
_ORDINAL_DIGITS = re.compile(r"(\d{1,4})(?:st|nd|rd|th|er|re|e|ème|º|ª)$")
_ROMAN = re.compile(r"(?=[IVXLC])(?:XC|XL|L?X{0,3}|C{1,2})?(?:IX|IV|V?I{0,3})$")
_GROUPED = re.compile(r"\d{1,3}([.,'’\u00a0\u202f ])\d{3}(?:\1\d{3})*$")

# Dimension, factor and names: what is of one dimension is compared by its factors.
_UNITS = words_by_key(
    """
    share 0.01: % percent prozent pct percentage pourcent
    length 1: m metre metres meter meters metern mètres metros
    length 1000: km kilometre kilometres kilometer kilometers kilometern kilomètres kilómetros
    length 0.01: cm centimetre centimetres centimeter centimeters zentimeter
    length 0.001: mm millimetre millimetres millimeter millimeters
    length 0.3048: ft foot feet
    length 0.0254: inch inches
    length 1609.344: mile miles meilen millas
    length 0.9144: yard yards
    mass 1: g gram grams gramm grammes gramos
    mass 1000: kg kilo kilos kilogram kilograms kilogramm kilogrammes kilogramos
    mass 0.001: mg milligram milligrams
    mass 0.000001: µg μg mcg ug microgram micrograms
    mass 1000000: t tonne tonnes tonnen toneladas ton tons
    mass 453.592: lb lbs
    mass 28.3495: oz ounce ounces
    time 1: s sec secs seconds sekunden secondes segundos
    time 0.001: ms millisecond milliseconds
    time 60: min mins minute minutes minuten minutos
    time 3600: h hr hrs hour hours stunde stunden heures horas
    time 86400: day days tage tagen jours días
    time 604800: week weeks wochen semaines semanas
    time 2629800: month months monate monaten mois meses
    time 31557600: year years jahre jahren ans années años
    speed 1: km/h kmh kph
    speed 1.609344: mph
    volume 1: l litre litres liter liters litern litros
    volume 0.001: ml millilitre millilitres milliliter milliliters
    volume 3.785: gallon gallons
    area 10000: ha hectare hectares hektar
    degree 1: ° degree degrees grad grados degrés
    celsius 1: °c celsius
    fahrenheit 1: °f fahrenheit
    power 1: w watt watts
    power 1000: kw kilowatt kilowatts
    power 1000000: mw megawatt megawatts
    data 1: kb kilobyte kilobytes
    data 1000: mb megabyte megabytes
    data 1000000: gb gigabyte gigabytes
    usd 1: $ usd dollar dollars dólares us$
    eur 1: € eur euro euros
    gbp 1: £ gbp
    jpy 1: ¥ yen jpy
    inr 1: ₹ rupee rupees inr
    pound 1: pound pounds
    """
)
UNITS = {name: (row.split()[0], float(row.split()[1])) for name, row in _UNITS.items()}
_MONEY = {
    name
    for name, (dimension, _) in UNITS.items()
    if dimension in ("usd", "eur", "gbp", "jpy", "inr")
}
_CURRENCIES, _MINUS = frozenset("$€£¥₹"), frozenset("-−–")
_LETTERS = {"k": 10**3, "m": 10**6, "b": 10**9}
_APART = (
    "t",
    "h",
    "m",
    "s",
    "g",
    "l",
    "w",
)  # letters that are a unit only right behind the number
_SAME = (
    {"degree", "celsius"},
    {"degree", "fahrenheit"},
    {"pound", "gbp"},
    {"pound", "mass"},
)


def find_numbers(
    found: Sequence[Lexeme], language: str, taken: frozenset[int]
) -> Iterator[Fact]:
    """Numbers among lexemes that are `padded`; ``taken`` are positions that something else (a date) uses."""
    i = 0
    while found[i].text:
        read = None if i in taken else _number(found, i, language)
        if read is None:
            i += 1
            continue
        fact, i = read
        yield fact


def unit_factors(one: str, two: str) -> tuple[float, float] | None:
    """The factors that bring values in ``one`` and ``two`` to one unit; None when they measure different things.

    A value without a unit compares with anything: the unit may stand elsewhere.
    """
    if not one or not two:
        return 1.0, 1.0
    (a, of_one), (b, of_two) = UNITS[one], UNITS[two]
    if {a, b} in _SAME:
        return 1.0, 1.0
    return (of_one, of_two) if a == b else None


def parse_cardinal(word: str) -> int | None:
    """The value of one folded English word: ``twenty``, ``twenty-one``."""
    if word in CARDINALS:
        return CARDINALS[word]
    head, _, last = word.partition("-")
    tens, ones = CARDINALS.get(head, 0), CARDINALS.get(last, 0)
    return tens + ones if tens >= 20 and 0 < ones < 10 else None


def parse_ordinal(word: str) -> int | None:
    """
    >>> parse_ordinal("4th"), parse_ordinal("twenty-first")
    (4, 21)
    """
    if match := _ORDINAL_DIGITS.match(word):
        return int(match[1])
    head, _, last = word.rpartition("-")
    if last in _ORDINALS and (not head or head in CARDINALS):
        return CARDINALS.get(head, 0) + _ORDINALS[last]
    return None


def is_roman_numeral(word: str) -> bool:
    """A Roman numeral in capitals."""
    return _ROMAN.match(word) is not None


def parse_digits(digits: str, language: str) -> tuple[float, ...]:
    """The values that digits with points and commas may stand for; the likeliest first.

    >>> parse_digits("1.200", "de"), parse_digits("1.200", "en"), parse_digits("3,200,000", "en"), parse_digits("2,4", "de")
    ((1200.0,), (1.2, 1200.0), (3200000.0,), (2.4,))
    """
    plain = "".join(str(unicodedata.digit(c)) if c.isdigit() else c for c in digits)
    marks = {c for c in plain if not c.isdigit()}
    if not marks or marks & {":", "/"}:
        return _floats(plain)
    if marks == {",", "."}:  # the last one is the decimal mark
        point, grouping = (
            (",", ".") if plain.rfind(",") > plain.rfind(".") else (".", ",")
        )
        return _floats(plain.replace(grouping, "").replace(point, "."))
    if grouped := _GROUPED.match(plain):
        mark, whole = grouped[1], _floats("".join(c for c in plain if c.isdigit()))
        here = ("en", "") if mark == "," else ("de", "es", "fr")
        if mark not in ".," or plain.count(mark) > 1 or language in here:
            return whole
        return (*_floats(plain.replace(mark, ".")), *whole)
    # what is left with several marks is a version, an address
    return (
        _floats(plain.replace(marks.pop(), "."))
        if sum(not c.isdigit() for c in plain) == 1
        else ()
    )


def _floats(text: str) -> tuple[float, ...]:
    try:
        value = float(text)
    except ValueError:
        return ()
    return (value,) if abs(value) < 1e300 else ()


def _plain(value: float) -> str:
    return (
        str(int(value))
        if value == int(value) and abs(value) < 1e15
        else f"{value:.10g}"
    )


def _number(found: Sequence[Lexeme], i: int, language: str) -> tuple[Fact, int] | None:
    first, j = found[i], i + 1
    if first.kind == "number":
        glued = found[j].start == first.end and found[j].kind == "word"
        if glued and parse_ordinal(first.text + found[j].folded_text):
            return Fact("number", f"{first.text}th", first.start, found[j].end), j + 1
        if glued and not _scale(found, j) and not _unit(found, j)[0]:
            return None  # 7b
        code = (
            first.text.startswith("0") and first.text.isdigit() and len(first.text) > 1
        )
        values = () if code else parse_digits(first.text, language)
        if not values:
            return Fact("number", first.folded_text, first.start, first.end), j
    elif first.kind == "word":
        value, nth = parse_cardinal(first.folded_text), parse_ordinal(first.folded_text)
        if nth is not None:
            return Fact("number", f"{nth}th", first.start, first.end), j
        if value is None or (
            value == 1 and not (_scale(found, j) or _unit(found, j)[0])
        ):
            return None  # "one" only before a unit or a scale
        values = (float(value),)
    else:
        return None
    return _measured(found, i, j, values)


def _measured(
    found: Sequence[Lexeme], i: int, j: int, values: tuple[float, ...]
) -> tuple[Fact, int]:
    """The number in the lexemes ``[i, j)`` with its sign, scale and unit."""
    while scale := _scale(found, j):
        values, j = tuple(v * scale for v in values), j + 1
    unit, end = _unit(found, j)
    start = i
    if not unit and found[i - 1].text in _CURRENCIES:
        unit, start = found[i - 1].text, i - 1
    if _negative(found, start):
        values, start = tuple(-v for v in values), start - 1
    return Fact(
        "number",
        _plain(values[0]),
        found[start].start,
        found[end - 1].end,
        unit,
        values,
    ), end


def _scale(found: Sequence[Lexeme], j: int) -> int:
    word = found[j].folded_text
    if word in _LETTERS and found[j].start == found[j - 1].end:
        is_money = (
            found[j - 2].folded_text in _MONEY or found[j + 1].folded_text in _MONEY
        )
        if word == "k" or is_money:  # m and b of money alone: "$3.2m", "3.2M USD"
            return _LETTERS[word]
    return _SCALES.get(word, 0)


def _unit(found: Sequence[Lexeme], j: int) -> tuple[str, int]:
    """The unit at ``j``, if one stands there, and the position behind it."""
    at = j + (found[j].folded_text in ("de", "-"))
    word, after = found[at].folded_text, found[at + 1].folded_text
    two = word + after
    if (
        after
        and two in UNITS
        and (found[at].kind == "mark" or two in ("us$", "percent"))
    ):
        return two, at + 2
    if word not in UNITS or (
        word in _APART and found[at].start - found[at - 1].end > 1
    ):
        return "", j
    return word, at + 1


def _negative(found: Sequence[Lexeme], i: int) -> bool:
    before, further = found[i - 1], found[i - 2]
    apart = further.end < before.start or further.text in "(,[="
    return before.folded_text == "minus" or (
        before.text in _MINUS and before.end == found[i].start and apart
    )
