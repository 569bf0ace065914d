"""Numbers with sign, scale and unit.

In digits as English, German, French and Spanish write them, and in English words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

from denoise_core.text.facts.fact import Fact
from denoise_core.text.lexemes import Lexemes
from denoise_core.text.wordlists import word_set, words_by_key


def _count_words(words: str, first: int = 0, step: int = 1) -> dict[str, int]:
    """Give the words of a text the values ``first``, ``first + step``, ..."""
    return dict(zip(words.split(), count(first, step), strict=False))


_CARDINALS = _count_words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen "
    "fourteen fifteen sixteen seventeen eighteen nineteen"
) | _count_words("twenty thirty forty fifty sixty seventy eighty ninety", 20, 10)
_ORDINALS = _count_words(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth "
    "thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth "
    "twentieth",
    1,
) | {"thirtieth": 30}
_POWERS_OF_TEN = words_by_key(
    """
    2: hundred
    3: thousand tausend mil mille
    6: million millions mn millionen millones mio
    9: billion billions bn milliarden milliards mrd milliarde milliard
    12: trillion
    """
)
_SCALES: dict[str, int] = {
    word: 10 ** int(power) for word, power in _POWERS_OF_TEN.items()
}
_ORDINAL_DIGITS = re.compile(r"(\d{1,4})(?:st|nd|rd|th|er|re|e|ème|º|ª)$")
_ROMAN = re.compile(r"(?=[IVXLC])(?:XC|XL|L?X{0,3}|C{1,2})?(?:IX|IV|V?I{0,3})$")
_GROUPED = re.compile(r"\d{1,3}([.,'’\u00a0\u202f ])\d{3}(?:\1\d{3})*$")

# Dimension, factor, names. Units of one dimension are compared by their factors.
_UNIT_TABLE = words_by_key(
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
UNITS: dict[str, tuple[str, float]] = {}
"""Dimension and factor of each unit name."""
for _name, _row in _UNIT_TABLE.items():
    _dimension, _factor = _row.split()
    UNITS[_name] = _dimension, float(_factor)
_CURRENCY_DIMENSIONS = ("usd", "eur", "gbp", "jpy", "inr")
_MONEY = {name for name, (kind, _) in UNITS.items() if kind in _CURRENCY_DIMENSIONS}
_CURRENCY_SIGNS = frozenset("$€£¥₹")
_MINUS_SIGNS = frozenset("-−–")
_LETTER_SCALES = {"k": 10**3, "m": 10**6, "b": 10**9}
# These letters are a unit only right after the number.
_ADJACENT_UNITS = word_set("t h m s g l w")
_SAME_DIMENSIONS = (
    {"degree", "celsius"},
    {"degree", "fahrenheit"},
    {"pound", "gbp"},
    {"pound", "mass"},
)
_LARGEST_VALUE = 1e300  # beyond it, factors overflow


def find_numbers(
    lexemes: Lexemes,
    language: str,
    used_positions: frozenset[int],
) -> Iterator[Fact]:
    """Yield the numbers of a text.

    Args:
        lexemes: The text after `pad_lexemes`.
        language: ISO 639-1 code, which decides points and commas.
        used_positions: Indices of lexemes that belong to a date.
    """
    i = 0
    while lexemes[i].text:
        parsed_number = None
        if i not in used_positions:
            parsed_number = _parse_number(lexemes, i, language)
        if parsed_number is None:
            i += 1
            continue
        fact, i = parsed_number
        yield fact


def unit_factors(first_unit: str, second_unit: str) -> tuple[float, float] | None:
    """Return the factors that convert values in two units to a common one.

    A value without a unit compares with anything, because the unit may be elsewhere.
    None if the units measure different things.
    """
    if not first_unit or not second_unit:
        return 1.0, 1.0
    first_dimension, first_factor = UNITS[first_unit]
    second_dimension, second_factor = UNITS[second_unit]
    if {first_dimension, second_dimension} in _SAME_DIMENSIONS:
        return 1.0, 1.0
    if first_dimension != second_dimension:
        return None
    return first_factor, second_factor


def parse_cardinal(word: str) -> int | None:
    """Return the value of a folded English word: ``twenty``, ``twenty-one``."""
    if word in _CARDINALS:
        return _CARDINALS[word]
    tens_word, _, ones_word = word.partition("-")
    tens = _CARDINALS.get(tens_word, 0)
    ones = _CARDINALS.get(ones_word, 0)
    if tens >= 20 and 0 < ones < 10:
        return tens + ones
    return None


def parse_ordinal(word: str) -> int | None:
    """Return the value of a folded ordinal, in digits or in English words.

    >>> parse_ordinal("4th"), parse_ordinal("twenty-first")
    (4, 21)
    """
    digits = _ORDINAL_DIGITS.match(word)
    if digits:
        return int(digits[1])
    tens_word, _, last_word = word.rpartition("-")
    if last_word not in _ORDINALS or (tens_word and tens_word not in _CARDINALS):
        return None
    return _CARDINALS.get(tens_word, 0) + _ORDINALS[last_word]


def is_roman_numeral(word: str) -> bool:
    """Whether a word is a Roman numeral in capitals."""
    return _ROMAN.match(word) is not None


def parse_digits(digits: str, language: str) -> tuple[float, ...]:
    """Return the values that digits with points and commas may mean, likeliest first.

    >>> parse_digits("1.200", "de"), parse_digits("1.200", "en")
    ((1200.0,), (1.2, 1200.0))
    >>> parse_digits("3,200,000", "en"), parse_digits("2,4", "de")
    ((3200000.0,), (2.4,))
    """
    separators = []
    for symbol in digits:
        if not symbol.isdigit():
            separators.append(symbol)
    if not separators or ":" in separators or "/" in separators:
        return _to_float(digits)
    if set(separators) == {",", "."}:
        grouping_mark, decimal_mark = sorted(",.", key=digits.rfind)
        plain_digits = digits.replace(grouping_mark, "")
        return _to_float(plain_digits.replace(decimal_mark, "."))
    mark = separators[0]
    decimal_values = _to_float(digits.replace(mark, "."))
    if _GROUPED.match(digits):
        grouped_values = _to_float(digits.replace(mark, ""))
        grouping_languages = ("en", "") if mark == "," else ("de", "es", "fr")
        is_grouping = mark not in ".," or len(separators) > 1
        if is_grouping or language in grouping_languages:
            return grouped_values
        return (*decimal_values, *grouped_values)
    # Several separators without groups of three: a version or an address.
    if len(separators) == 1:
        return decimal_values
    return ()


def _to_float(text: str) -> tuple[float, ...]:
    try:
        value = float(text)
    except ValueError:
        return ()
    if abs(value) < _LARGEST_VALUE:
        return (value,)
    return ()


def _format_value(value: float) -> str:
    is_integer = value == int(value) and abs(value) < 1e15
    if is_integer:
        return str(int(value))
    return f"{value:.10g}"


def _parse_number(lexemes: Lexemes, i: int, language: str) -> tuple[Fact, int] | None:
    """Return the number at index ``i`` and the index after it."""
    after = i + 1
    lexeme = lexemes[i]
    following = lexemes[after]
    if lexeme.kind == "number":
        is_glued = following.start == lexeme.end and following.kind == "word"
        if is_glued and parse_ordinal(lexeme.text + following.folded_text):
            norm = f"{lexeme.text}th"
            return Fact("number", norm, lexeme.start, following.end), after + 1
        if is_glued and not _has_measure(lexemes, after):
            return None  # a code such as "7b"
        has_leading_zero = lexeme.text.startswith("0") and len(lexeme.text) > 1
        is_identifier = has_leading_zero and lexeme.text.isdigit()
        values = parse_digits(lexeme.text, language)
        if is_identifier or not values:
            norm = lexeme.folded_text
            if norm[2:3] == ":":
                norm = norm.removeprefix("0")  # 08:00 is 8:00
            return Fact("number", norm, lexeme.start, lexeme.end), after
        return _measured_number(lexemes, i, values)
    if lexeme.kind != "word":
        return None
    ordinal = parse_ordinal(lexeme.folded_text)
    if ordinal is not None:
        return Fact("number", f"{ordinal}th", lexeme.start, lexeme.end), after
    cardinal = parse_cardinal(lexeme.folded_text)
    # "one" is a number only before a scale or a unit.
    if cardinal is None or (cardinal == 1 and not _has_measure(lexemes, after)):
        return None
    return _measured_number(lexemes, i, (float(cardinal),))


def _measured_number(
    lexemes: Lexemes,
    i: int,
    values: tuple[float, ...],
) -> tuple[Fact, int]:
    """Return the number at index ``i`` with its sign, scale and unit."""
    factor = 1
    after = i + 1
    while scale := _scale_at(lexemes, after):
        factor *= scale
        after += 1
    unit, after = _unit_at(lexemes, after)
    first = i
    if not unit and lexemes[i - 1].text in _CURRENCY_SIGNS:
        first = i - 1
        unit = lexemes[first].text
    if _is_negative(lexemes, first):
        factor = -factor
        first -= 1
    scaled_values = tuple(value * factor for value in values)
    norm = _format_value(scaled_values[0])
    start = lexemes[first].start
    end = lexemes[after - 1].end
    return Fact("number", norm, start, end, unit, scaled_values), after


def _has_measure(lexemes: Lexemes, i: int) -> bool:
    return bool(_scale_at(lexemes, i) or _unit_at(lexemes, i)[0])


def _scale_at(lexemes: Lexemes, i: int) -> int:
    """Return the scale at index ``i``; 0 for none."""
    word = lexemes[i].folded_text
    if word in _LETTER_SCALES and lexemes[i].start == lexemes[i - 1].end:
        # "m" and "b" are scales only of money: "$3.2m", "3.2M USD".
        neighbours = (lexemes[i - 2].folded_text, lexemes[i + 1].folded_text)
        if word == "k" or not _MONEY.isdisjoint(neighbours):
            return _LETTER_SCALES[word]
    return _SCALES.get(word, 0)


def _unit_at(lexemes: Lexemes, i: int) -> tuple[str, int]:
    """Return the unit at index ``i`` (``""`` for none) and the index after it."""
    has_link = lexemes[i].folded_text in ("de", "-")
    at = i + has_link
    lexeme = lexemes[at]
    following = lexemes[at + 1]
    word = lexeme.folded_text
    pair = word + following.folded_text
    is_pair = lexeme.kind == "mark" or pair in ("us$", "percent")
    if following.folded_text and pair in UNITS and is_pair:
        return pair, at + 2
    is_apart = lexeme.start - lexemes[at - 1].end > 1
    if word not in UNITS or (is_apart and word in _ADJACENT_UNITS):
        return "", i
    return word, at + 1


def _is_negative(lexemes: Lexemes, i: int) -> bool:
    sign = lexemes[i - 1]
    before_sign = lexemes[i - 2]
    if sign.folded_text == "minus":
        return True
    is_minus = sign.text in _MINUS_SIGNS and sign.end == lexemes[i].start
    # "5-3" is a range.
    is_apart = before_sign.end < sign.start or before_sign.text in "(,[="
    return is_minus and is_apart
