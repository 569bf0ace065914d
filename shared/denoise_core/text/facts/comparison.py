"""Parse a text once into facts and words, and compare two parsed texts.

On claims that people labelled (grounding sets and FEVER-symmetric, November 2026; the
benchmark is no longer here) a missing date indicates a wrong claim 2.7 to 1, a number
1.9 to 1, a name 1.7 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import isclose

from denoise_core.text.facts.dates import covers_date, find_dates
from denoise_core.text.facts.fact import Difference, Fact
from denoise_core.text.facts.names import find_names, same_name
from denoise_core.text.facts.numbers import find_numbers, unit_factors
from denoise_core.text.language import detect_language
from denoise_core.text.lexemes import pad_lexemes, tokenize_text
from denoise_core.weighted_cache import cache_by_bytes

_RELATIVE_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class ParsedText:
    """A text with what comparison needs of it: its facts in order, and its folded words."""

    text: str
    facts: tuple[Fact, ...]
    words: frozenset[str]


def extract_facts(text: str, *, language: str = "") -> tuple[Fact, ...]:
    """Return the numbers, dates and names of a text in order. Linear in its length.

    Args:
        text: Any text.
        language: ISO 639-1 code that decides how numbers and dates are read (English,
            German, French, Spanish); detected by default.
    """
    return parse_text(text, language).facts


# Every claim is compared with the same windows.
@cache_by_bytes("parsed texts", 32 * 2**20, bytes_per_character=140)
def parse_text(text: str, language: str = "") -> ParsedText:
    """Parse a text."""
    language = language or detect_language(text)
    lexemes = tokenize_text(text)
    padded_lexemes = pad_lexemes(lexemes)
    dates, date_positions = find_dates(padded_lexemes, language)
    names = find_names(padded_lexemes, language, date_positions)
    numbers = find_numbers(padded_lexemes, language, date_positions)
    facts = [*dates, *names, *numbers]
    facts.sort(key=lambda fact: (fact.start, fact.end, fact.kind))
    words = set()
    for lexeme in lexemes:
        word = lexeme.folded_text.removesuffix("'s")
        words.add(word)
    return ParsedText(text, tuple(facts), frozenset(words))


def find_differences(
    claim: str,
    source: str | ParsedText,
    *,
    known_text: str = "",
    language: str = "",
) -> tuple[Difference, ...]:
    """Return the facts of ``claim`` that ``source`` does not state.

    Time grows with both lengths, and with the product of the numbers of facts.

    >>> claim, source = "It rose to $3.2 billion in 2021.", "It rose to 3.2 million $."
    >>> [difference.kind for difference in find_differences(claim, source)]
    ['number', 'date']

    Args:
        claim: The text to check.
        source: The text that should support it; parsed, where many claims are compared
            with one text: the cache of parsed texts holds none of 250,000 characters.
        known_text: A text, such as a question, whose names need no support; its numbers
            and dates may be what is asked.
        language: See `extract_facts`.
    """
    if isinstance(source, str):
        source = parse_text(source, language)
    known_facts = extract_facts(known_text, language=language)
    differences = []
    for fact in extract_facts(claim, language=language):
        if fact.is_uncertain or _has_name_words(fact, source):
            continue
        if _is_stated(fact, source.facts):
            continue
        if fact.kind == "name" and _is_stated(fact, known_facts):
            continue
        claimed_text = claim[fact.start : fact.end]
        rival = _find_rival(fact, source.facts)
        source_text = source.text[rival.start : rival.end] if rival else ""
        difference = Difference(
            fact.kind, claimed_text, source_text, fact.start, fact.end
        )
        differences.append(difference)
    return tuple(differences)


def _is_stated(fact: Fact, source_facts: Sequence[Fact]) -> bool:
    """Whether the facts of a source support ``fact``."""
    if fact.kind == "number":
        return any(_same_number(fact, other) for other in source_facts)
    same_kind = [other.norm for other in source_facts if other.kind == fact.kind]
    if fact.kind == "name":
        return any(same_name(fact.norm, other_norm) for other_norm in same_kind)
    if covers_date(fact.norm, same_kind):
        return True
    # A year may have been read as a number.
    numbers = [other.norm for other in source_facts if other.kind == "number"]
    return fact.norm in numbers


def _same_number(fact: Fact, other: Fact) -> bool:
    has_values = bool(fact.values and other.values)
    if other.kind != "number" or not has_values:
        # A cell such as 1590, with its unit in the header row, may be read as a year.
        return other.kind in ("number", "date") and fact.norm == other.norm
    factors = unit_factors(fact.unit, other.unit)
    if factors is None:
        return False
    factor, other_factor = factors
    for value, other_value in product(fact.values, other.values):
        claimed_value = value * factor
        stated_value = other_value * other_factor
        if isclose(claimed_value, stated_value, rel_tol=_RELATIVE_TOLERANCE):
            return True
    return False


def _find_rival(fact: Fact, source_facts: Sequence[Fact]) -> Fact | None:
    """Return what the source states instead: a fact of this kind and dimension.

    An ordinal does not replace a number.
    """
    is_ordinal = fact.norm.endswith("th")
    for other in source_facts:
        if other.kind != fact.kind:
            continue
        is_other_ordinal = other.norm.endswith("th")
        if is_other_ordinal != is_ordinal:
            continue
        has_both_units = bool(fact.unit) == bool(other.unit)
        if has_both_units and unit_factors(fact.unit, other.unit):
            return other
    return None


def _has_name_words(fact: Fact, source: ParsedText) -> bool:
    """Whether the source has each word of a name, in one name, in several or in none."""
    if fact.kind != "name":
        return False
    name_words = fact.norm.split()
    return source.words.issuperset(name_words)
