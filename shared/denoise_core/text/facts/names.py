"""Names of Latin, Greek and Cyrillic texts, by their capitals: runs of capitalised words with initials, hyphens
and apostrophes; and codes, words with a digit or an underscore inside.

Scripts without capitals have no names here; there the characters themselves are compared.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

from denoise_core.text.facts.fact import Fact
from denoise_core.text.facts.numbers import UNITS, is_roman_numeral
from denoise_core.text.lexemes import Lexeme
from denoise_core.text.stems import is_function_word

_ENDS = frozenset(".!?:;…•。！？")
_ALIKE = (
    5  # letters of a word from which on an ending is none of it: Spain's, Spaniards
)


def find_names(
    found: Sequence[Lexeme], language: str, taken: frozenset[int]
) -> Iterator[Fact]:
    """Of lexemes that are `padded`; ``taken`` are positions of dates. In German, where nouns have capitals, only
    runs, all doubtful."""
    lowered = {
        x.folded_text for x in found if x.kind == "word" and not x.is_capitalized
    }
    i = 0
    while found[i].text:
        if not _begins(found, i, language, taken, lowered):
            i += 1
            continue
        end = _run(found, i, taken, language)
        words = [
            x.folded_text.removesuffix("'s").rstrip("'")
            for x in found[i:end]
            if x.kind == "word"
        ]
        if words and words != [words[0][:1]]:
            doubtful = language == "de" or (end - i == 1 and _may_open(found, i, end))
            yield Fact(
                "name",
                " ".join(words),
                found[i].start,
                found[end - 1].end,
                is_uncertain=doubtful,
            )
        i = end


def is_code_name(norm: str) -> bool:
    """One word with a digit or an underscore inside: a model, a setting, a part."""
    return " " not in norm and (
        "_" in norm
        or (any(c.isdigit() for c in norm) and any(c.isalpha() for c in norm))
    )


def same_name(claimed: str, told: str) -> bool:
    """Whether a name of the source holds the words of the claimed one, or is its surname; initials stand for first
    names, half of a double name for nothing.

    >>> same_name("j r r tolkien", "john ronald reuel tolkien"), same_name("luc berger", "jean-luc berger")
    (True, False)
    """
    one, two = claimed.split(), told.split()
    return _within(one, two) or (
        len(two) < len(one) and two[-1] == one[-1] and _within(two, one)
    )


def _within(wanted: list[str], told: list[str]) -> bool:
    rest = iter(told)
    return all(any(_one(word, other) for other in rest) for word in wanted)


def _one(claimed: str, told: str) -> bool:
    one, two = sorted((_plain(claimed), _plain(told)), key=len)
    if one == two:
        return True
    if (
        is_code_name(one)
        or is_code_name(two)
        or (is_roman_numeral(one.upper()) and is_roman_numeral(two.upper()))
    ):
        return False
    if len(one) == 1:
        return one == two[0]
    return (
        len(one) >= _ALIKE
        and two.startswith(one.rstrip("se"))
        and len(two) - len(one) <= 3
    )


def _plain(word: str) -> str:
    """Without accents and hyphens."""
    return "".join(
        c
        for c in unicodedata.normalize("NFKD", word)
        if not unicodedata.combining(c) and c != "-"
    )


def _begins(
    found: Sequence[Lexeme],
    i: int,
    language: str,
    taken: frozenset[int],
    lowered: set[str],
) -> bool:
    x = found[i]
    if x.kind == "word" and is_code_name(x.folded_text) and i not in taken:
        return True
    if not _named(found, i, language, taken) or (
        is_roman_numeral(x.text) and len(x.text) > 1
    ):
        return False
    if language == "de" and not _named(found, i + 1, language, taken):
        return "-" in x.text or "'" in x.folded_text
    return not (
        _opens(found, i)
        and (x.folded_text in lowered or is_function_word(x.folded_text, language))
    )


def _named(
    found: Sequence[Lexeme], i: int, language: str, taken: frozenset[int]
) -> bool:
    """A capitalised word that is neither a small one nor a unit behind a number."""
    x = found[i]
    if x.kind != "word" or not x.is_capitalized or i in taken:
        return False
    initial = len(x.text) == 1 and found[i + 1].text == "."
    if is_function_word(x.folded_text, language) and not initial and x.text != "US":
        return False
    return not (
        x.folded_text in UNITS
        and (found[i - 1].kind == "number" or found[i - 1].folded_text in UNITS)
    )


def _may_open(found: Sequence[Lexeme], i: int, end: int) -> bool:
    """One capitalised word that opens a sentence may be any word; alone it is a name."""
    x = found[i]
    if (
        not _opens(found, i)
        or any(c.isupper() for c in x.text[1:])
        or "'" in x.folded_text
    ):
        return False
    return i > 0 or any(y.text not in ".!" for y in found[end:])


def _opens(found: Sequence[Lexeme], i: int) -> bool:
    """The word begins a sentence, a line or a quotation."""
    at = i - 1
    while at >= 0 and found[at].text in "\"'“”‘’([*#>-«»¿¡_`":
        at -= 1
    return (
        at < 0
        or found[at].text in _ENDS
        or found[i].starts_line
        or found[at + 1].starts_line
    )


def _run(found: Sequence[Lexeme], i: int, taken: frozenset[int], language: str) -> int:
    """The position behind the run of capitalised words and initials that begins at ``i``."""
    j = i + 1
    while not is_code_name(found[i].folded_text) and not found[
        j - 1
    ].folded_text.endswith("'s"):
        at = j + (found[j].text == "." and len(found[j - 1].text) == 1)
        if (
            found[at].starts_line
            or is_code_name(found[at].folded_text)
            or not (
                _named(found, at, language, taken) or is_roman_numeral(found[at].text)
            )
        ):
            break
        j = at + 1
    return j
