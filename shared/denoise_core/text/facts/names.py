"""Names of Latin, Greek and Cyrillic texts, by their capitals: runs of capitalised words with initials, hyphens
and apostrophes; and codes, words with a digit or an underscore inside.

Scripts without capitals have no names here; there the characters themselves are compared.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

from denoise_core.text.facts.fact import Fact
from denoise_core.text.facts.numbers import UNITS, is_roman
from denoise_core.text.lexemes import Lexeme
from denoise_core.text.stems import is_small

_ENDS = frozenset(".!?:;…•。！？")
_ALIKE = 5  # letters of a word from which on an ending is none of it: Spain's, Spaniards


def names(found: Sequence[Lexeme], language: str, taken: frozenset[int]) -> Iterator[Fact]:
    """Of lexemes that are `padded`; ``taken`` are positions of dates. In German, where nouns have capitals, only
    runs, all doubtful."""
    lowered = {x.lower for x in found if x.shape == "word" and not x.capital}
    i = 0
    while found[i].text:
        if not _begins(found, i, language, taken, lowered):
            i += 1
            continue
        end = _run(found, i, taken, language)
        words = [x.lower.removesuffix("'s").rstrip("'") for x in found[i:end] if x.shape == "word"]
        if words and words != [words[0][:1]]:
            doubtful = language == "de" or (end - i == 1 and _may_open(found, i, end))
            yield Fact("name", " ".join(words), found[i].start, found[end - 1].end, doubtful=doubtful)
        i = end


def is_code(norm: str) -> bool:
    """One word with a digit or an underscore inside: a model, a setting, a part."""
    return " " not in norm and ("_" in norm or (any(c.isdigit() for c in norm) and any(c.isalpha() for c in norm)))


def same_name(claimed: str, told: str) -> bool:
    """Whether a name of the source holds the words of the claimed one, or is its surname; initials stand for first
    names, half of a double name for nothing.

    >>> same_name("j r r tolkien", "john ronald reuel tolkien"), same_name("luc berger", "jean-luc berger")
    (True, False)
    """
    one, two = claimed.split(), told.split()
    return _within(one, two) or (len(two) < len(one) and two[-1] == one[-1] and _within(two, one))


def _within(wanted: list[str], told: list[str]) -> bool:
    rest = iter(told)
    return all(any(_one(word, other) for other in rest) for word in wanted)


def _one(claimed: str, told: str) -> bool:
    one, two = sorted((_plain(claimed), _plain(told)), key=len)
    if one == two:
        return True
    if is_code(one) or is_code(two) or (is_roman(one.upper()) and is_roman(two.upper())):
        return False
    if len(one) == 1:
        return one == two[0]
    return len(one) >= _ALIKE and two.startswith(one.rstrip("se")) and len(two) - len(one) <= 3


def _plain(word: str) -> str:
    """Without accents and hyphens."""
    return "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c) and c != "-")


def _begins(found: Sequence[Lexeme], i: int, language: str, taken: frozenset[int], lowered: set[str]) -> bool:
    x = found[i]
    if x.shape == "word" and is_code(x.lower) and i not in taken:
        return True
    if not _named(found, i, language, taken) or (is_roman(x.text) and len(x.text) > 1):
        return False
    if language == "de" and not _named(found, i + 1, language, taken):
        return "-" in x.text or "'" in x.lower
    return not (_opens(found, i) and (x.lower in lowered or is_small(x.lower, language)))


def _named(found: Sequence[Lexeme], i: int, language: str, taken: frozenset[int]) -> bool:
    """A capitalised word that is neither a small one nor a unit behind a number."""
    x = found[i]
    if x.shape != "word" or not x.capital or i in taken:
        return False
    initial = len(x.text) == 1 and found[i + 1].text == "."
    if is_small(x.lower, language) and not initial and x.text != "US":
        return False
    return not (x.lower in UNITS and (found[i - 1].shape == "number" or found[i - 1].lower in UNITS))


def _may_open(found: Sequence[Lexeme], i: int, end: int) -> bool:
    """One capitalised word that opens a sentence may be any word; alone it is a name."""
    x = found[i]
    if not _opens(found, i) or any(c.isupper() for c in x.text[1:]) or "'" in x.lower:
        return False
    return i > 0 or any(y.text not in ".!" for y in found[end:])


def _opens(found: Sequence[Lexeme], i: int) -> bool:
    """The word begins a sentence, a line or a quotation."""
    at = i - 1
    while at >= 0 and found[at].text in "\"'“”‘’([*#>-«»¿¡_`":
        at -= 1
    return at < 0 or found[at].text in _ENDS or found[i].line or found[at + 1].line


def _run(found: Sequence[Lexeme], i: int, taken: frozenset[int], language: str) -> int:
    """The position behind the run of capitalised words and initials that begins at ``i``."""
    j = i + 1
    while not is_code(found[i].lower) and not found[j - 1].lower.endswith("'s"):
        at = j + (found[j].text == "." and len(found[j - 1].text) == 1)
        if (
            found[at].line
            or is_code(found[at].lower)
            or not (_named(found, at, language, taken) or is_roman(found[at].text))
        ):
            break
        j = at + 1
    return j
