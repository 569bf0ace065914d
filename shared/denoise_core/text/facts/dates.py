"""Dates in the forms that English, German, French and Spanish texts use.

A norm is ``year-month-day`` with ``?`` for each digit left open, and without the parts
after the last known one: ``1962-07-04``, ``1962-07``, ``????-07-04``, ``195?`` (a
decade).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from denoise_core.text.facts.fact import Fact
from denoise_core.text.facts.numbers import UNITS, parse_ordinal
from denoise_core.text.lexemes import Lexemes
from denoise_core.text.wordlists import word_set, words_by_key

_MONTH_WORDS = words_by_key(
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
_MONTHS = {name: int(number) for name, number in _MONTH_WORDS.items()}
# Also common words, as short names are: alone they are no month.
_AMBIGUOUS_MONTHS = word_set("may mars march mai")
_MONTH_PREPOSITIONS = word_set("in im since until")
_LINKS = word_set("of de del , . the")
_WRITTEN_DATE = re.compile(
    r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})$|(\d{1,2})([-./])(\d{1,2})\5(\d{4})$"
)
_FIRST_YEAR = 1000
_LAST_YEAR = 2199
_CURRENCY_SIGNS = frozenset("$€£¥")
_OPEN_YEAR = "????"


def find_dates(lexemes: Lexemes, language: str) -> tuple[list[Fact], frozenset[int]]:
    """Return the dates of a text and the indices of the lexemes they use.

    Args:
        lexemes: The text after `pad_lexemes`.
        language: ISO 639-1 code, which decides the order of day and month.
    """
    dates = []
    used_positions: list[int] = []
    i = 0
    while lexemes[i].text:
        parsed_date = _parse_date(lexemes, i, language)
        after = i + 1
        if parsed_date is not None:
            norm, after = parsed_date
            start = lexemes[i].start
            end = lexemes[after - 1].end
            date = Fact("date", norm, start, end)
            dates.append(date)
            used_positions += range(i, after)
        i = after
    return dates, frozenset(used_positions)


def entails_date(claimed_date: str, source_date: str) -> bool:
    """Whether the source's date is the claimed one or a part of it.

    Parts that one of them leaves open do not count, if they share another part.

    >>> entails_date("195?", "1954"), entails_date("1954", "195?")
    (True, False)
    >>> entails_date("1962-06-04", "1962-07-04")
    False
    """
    has_common_part = False
    claimed_parts = claimed_date.split("-")
    source_parts = source_date.split("-")
    for claimed_part, source_part in zip(claimed_parts, source_parts, strict=False):
        if _OPEN_YEAR in (claimed_part, source_part):
            continue
        pattern = claimed_part.replace("?", ".")
        if re.fullmatch(pattern, source_part) is None:
            return False
        has_common_part = True
    return has_common_part


def covers_date(claimed_date: str, source_dates: Sequence[str]) -> bool:
    """Whether the source's dates together state every part of the claimed one.

    July 4th may be in one date and 1962 in another.
    """
    stated_parts = set()
    for source_date in source_dates:
        if not entails_date(claimed_date, source_date):
            continue
        parts = source_date.split("-")
        for n, part in enumerate(parts):
            if part != _OPEN_YEAR:
                stated_parts.add(n)
    claimed_parts = claimed_date.split("-")
    for n, claimed_part in enumerate(claimed_parts):
        is_open = claimed_part == _OPEN_YEAR
        if not is_open and n not in stated_parts:
            return False
    return True


def _parse_date(lexemes: Lexemes, i: int, language: str) -> tuple[str, int] | None:
    """Return the norm of the date at index ``i`` and the index after it."""
    lexeme = lexemes[i]
    following = lexemes[i + 1]
    written_date = None
    if lexeme.kind == "number":
        written_date = _parse_written_date(lexemes, i, language)
    date = written_date or _parse_spelled_date(lexemes, i)
    if date is not None:
        return date
    number = lexeme.text
    suffix = following.folded_text
    is_attached = following.start == lexeme.end
    has_suffix = is_attached and suffix in ("s", "er")  # 1950s, 1950er
    if has_suffix and _is_decade(number):
        open_decade = f"{number[:-1]}?"
        if len(number) == 2:
            open_decade = f"19{open_decade}"
        return open_decade, i + 2
    if not _is_year(number):
        return None
    has_unit = suffix in UNITS and suffix != "s"
    is_money = lexemes[i - 1].text in _CURRENCY_SIGNS
    if has_unit or is_money:
        return None
    return number, i + 1


def _parse_written_date(
    lexemes: Lexemes,
    i: int,
    language: str,
) -> tuple[str, int] | None:
    """Parse three numbers, in one lexeme or, with hyphens, in five."""
    five = lexemes[i : i + 5]
    text = "".join(lexeme.text for lexeme in five)
    after = i + 5
    has_hyphens = five[1].text == "-"
    length = five[4].end - five[0].start
    if not has_hyphens or length != len(text):
        text = lexemes[i].text
        after = i + 1
    match = _WRITTEN_DATE.match(text)
    if match is None:
        return None
    year = int(match[1] or match[7])
    month = int(match[2] or match[6])
    day = int(match[3] or match[4])
    month_first = match[5] == "/" and language == "en"
    if month_first and day <= 12:
        month, day = day, month
    is_month = 1 <= month <= 12
    is_day = 1 <= day <= 31
    if not (is_month and is_day):
        return None
    return f"{year:04d}-{month:02d}-{day:02d}", after


def _is_year(text: str) -> bool:
    if len(text) != 4:
        return False
    if not text.isdecimal():
        return False
    return _FIRST_YEAR <= int(text) <= _LAST_YEAR


def _is_decade(text: str) -> bool:
    if len(text) not in (2, 4):
        return False
    return text.isdecimal() and text.endswith("0")


def _parse_spelled_date(lexemes: Lexemes, i: int) -> tuple[str, int] | None:
    """Parse a month by its name, with day and year in any order around it.

    The date begins with the month or the day.
    """
    date_parts = {}
    position = i
    after = i
    while lexemes[position].text and position - after < 3 and "year" not in date_parts:
        name, value, part_end = _parse_part(lexemes, position)
        is_early_year = name == "year" and "month" not in date_parts
        is_new = name and name not in date_parts
        if is_new and not is_early_year:
            date_parts[name] = value
            after = part_end
            position = after
        elif date_parts and lexemes[position].folded_text in _LINKS:
            position += 1
        else:
            break
    if "month" not in date_parts:
        return None
    if len(date_parts) == 1 and not _is_lone_month(lexemes, i):
        return None
    year = date_parts.get("year", _OPEN_YEAR)
    month = date_parts["month"]
    norm = f"{year}-{month:02d}"
    if "day" in date_parts:
        day = date_parts["day"]
        norm += f"-{day:02d}"
    return norm, after


def _is_lone_month(lexemes: Lexemes, i: int) -> bool:
    """Whether a month's name without day and year is certainly a month."""
    if not lexemes[i].is_capitalized:
        return False
    previous_word = lexemes[i - 1].folded_text
    if previous_word in _MONTH_PREPOSITIONS:
        return True
    name = lexemes[i].folded_text
    is_short = len(name) < 4
    return not is_short and name not in _AMBIGUOUS_MONTHS


def _parse_part(lexemes: Lexemes, i: int) -> tuple[str, int, int]:
    """Return which part of a date is at index ``i``, its value, the index after it.

    ``"month"``, ``"year"``, ``"day"`` (4, 4th, fourth), or ``""`` for none.
    """
    lexeme = lexemes[i]
    after = i + 1
    word = lexeme.folded_text
    is_certain = lexeme.is_capitalized or word not in _AMBIGUOUS_MONTHS
    if word in _MONTHS and is_certain:
        return "month", _MONTHS[word], after
    if _is_year(lexeme.text):
        return "year", int(lexeme.text), after
    day = 0
    is_decimal = lexeme.kind == "number" and lexeme.text.isdecimal()
    if lexeme.kind == "word":
        day = parse_ordinal(word) or 0
    elif is_decimal and len(lexeme.text) <= 2:
        following = lexemes[after]
        suffix = following.folded_text
        ordinal = parse_ordinal(lexeme.text + suffix)
        is_attached = following.start == lexeme.end
        has_suffix = is_attached and ordinal is not None
        dimension, _ = UNITS.get(suffix, ("time", 1.0))
        if has_suffix or dimension == "time":
            day = int(lexeme.text)
        after += has_suffix
    if 1 <= day <= 31:
        return ("day", day, after)
    return ("", 0, i)
