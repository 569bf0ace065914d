"""Names of Latin, Greek and Cyrillic texts, by their capitals: runs of capitalised words with particles,
initials, hyphens and apostrophes; and the numerals that tell one war, pope or bowl from another.

Scripts without capitals have no names here; there the characters themselves are compared.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from denoise_core.text.facts.fact import Fact
from denoise_core.text.facts.kinds.numerals import SCALES, ordinal, roman
from denoise_core.text.facts.kinds.units import UNITS
from denoise_core.text.lexemes import Lexeme
from denoise_core.text.wordlists import FUNCTION_WORDS, listed

_PARTICLES = listed(
    """
    de del della di da dos du des la le van von der den ter ten zu zur bin ibn al el of y e d
    """
)
_TITLES = listed(
    """
    mr mrs ms miss dr prof professor sir dame lord lady sgt capt captain st herr frau fräulein monsieur
    madame mme judge justice minister director sir señor señora don doña papst pope king queen könig
    königin rey reina president präsident chancellor
    """
)
_NEVER = listed(
    """
    i yes no ja nein sí si oui non the a an in on at der die das ein eine el la los las le les un une una
    however therefore thus moreover it he she they we you there this that these those what who when where
    why how which whose whom lrb rrb lsb rsb both all not never only sure certainly unfortunately according
    """
)
_MEASURES = frozenset(UNITS) | {w for words in SCALES.values() for w in words}
_ENDS = frozenset(".!?:;…•。！？")
_POSSESSIVE = re.compile(r"(?:'s|s')$|'$")


def names(found: Sequence[Lexeme], language: str, taken: frozenset[int]) -> list[Fact]:
    """``taken`` are positions of dates. In German, where nouns have capitals, only runs of two and more."""
    out: list[Fact] = []
    lower_elsewhere = {x.lower for x in found if x.shape == "word" and not x.capital}
    i = 0
    while i < len(found):
        if not _begins(found, i, language, taken, lower_elsewhere):
            i += 1
            continue
        end = _run(found, i, taken, language)
        fact = _fact(found, i, end, language)
        if fact:
            out.append(replace(fact, doubtful=True) if _doubtful(found, i, end, language) else fact)
        number = _numeral(found, i, end)
        if number:
            out.append(number[0])
            end = max(end, number[1])
        i = end
    return out


def name_words(norm: str) -> list[str]:
    """The words of a name's norm, hyphens opened, initials and particles left out."""
    return [w for w in re.split(r"[ \-]", norm) if len(w) > 1 and w not in _PARTICLES]


def is_code(norm: str) -> bool:
    """One word with a digit or an underscore inside: a model, a setting, a part."""
    return " " not in norm and ("_" in norm or (any(c.isdigit() for c in norm) and any(c.isalpha() for c in norm)))


def same_name(claimed: str, told: Sequence[str]) -> bool:
    """Whether the words of some one name of the source hold the claimed one: a surname, the initials of first
    names, one part of a double name only when that is all that is claimed and no other name has it alone.

    >>> same_name("j r r tolkien", ["john ronald reuel tolkien"]), same_name("luc berger", ["jean-luc berger"])
    (True, False)
    """
    wanted = _bare(claimed)
    return any(_within(wanted, _bare(t)) or _shorter(wanted, _bare(t)) for t in told)


def _shorter(wanted: list[str], told: list[str]) -> bool:
    """The source says the surname only."""
    return 0 < len(told) < len(wanted) and told[-1] == wanted[-1] and _within(told, wanted)


def _bare(norm: str) -> list[str]:
    words = [w for w in norm.split() if w not in _PARTICLES]
    return [w for w in words if w not in _TITLES] or words or norm.split()  # a name may be a particle alone


def _within(wanted: list[str], told: list[str]) -> bool:
    at = 0
    for word in wanted:
        while at < len(told) and not _one(word, told[at]):
            at += 1
        if at == len(told):
            return False
        at += 1
    return bool(wanted)


def _one(claimed: str, told: str) -> bool:
    if claimed == told or claimed.replace("-", "") == told.replace("-", ""):
        return True
    if 1 in (len(claimed), len(told)):
        return claimed[0] == told[0]
    one, two = sorted((_unaccented(claimed), _unaccented(told)), key=len)
    if is_code(one) or is_code(two):
        return one == two
    return one == two or (len(one) >= 5 and two.startswith(one.rstrip("se")) and len(two) - len(one) <= 3)


def _unaccented(word: str) -> str:
    if word.isascii():
        return word
    return "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))


def _begins(
    found: Sequence[Lexeme], i: int, language: str, taken: frozenset[int], lower_elsewhere: set[str]
) -> bool:
    x = found[i]
    if x.shape == "word" and is_code(x.lower) and i not in taken:
        return True
    if x.shape != "word" or i in taken or not x.capital or x.lower in _NEVER or _measures(found, i):
        return False
    if roman(x.text) and len(x.text) > 1 and i and found[i - 1].shape != "word":
        return False
    opens = _opens(found, i)
    follows = i + 1 < len(found) and _continues(found, i + 1, taken)
    several = any(c.isupper() for c in x.text[1:]) or "'" in x.lower.removesuffix("'s") or "-" in x.lower
    if language == "de":
        numbered = i + 1 < len(found) and (
            roman(found[i + 1].text) is not None
            or (
                found[i + 1].lower == "der"
                and i + 2 < len(found)
                and ordinal(found[i + 2].lower, "de") is not None
            )
        )
        if numbered and x.lower not in FUNCTION_WORDS:
            return True
        return (
            follows or (several and x.text.count("-") + x.text.count("'") > 0)
        ) and x.lower not in FUNCTION_WORDS
    if opens:
        if x.lower in FUNCTION_WORDS or x.lower in lower_elsewhere:
            return follows and x.lower not in FUNCTION_WORDS and x.lower not in lower_elsewhere
        return True
    return x.lower not in FUNCTION_WORDS or x.text.isupper()


def _doubtful(found: Sequence[Lexeme], i: int, end: int, language: str) -> bool:
    """One capitalised word that opens a sentence may be any word; alone it is a name."""
    x = found[i]
    if language == "de" and not any(
        found[n].text in ".'-" or set("'-") & set(found[n].lower) for n in range(i, end)
    ):
        return True  # two nouns in a row look like a name
    if end - i > 1 or not _opens(found, i) or any(c.isupper() for c in x.text[1:]) or "'" in x.lower:
        return False
    return not (i == 0 and (end >= len(found) or (end + 1 == len(found) and found[end].text in ".!")))


def _opens(found: Sequence[Lexeme], i: int) -> bool:
    """The word begins a sentence, a line or a quotation."""
    at = i - 1
    while at >= 0 and found[at].text in "\"'“”‘’([*#>-«»¿¡_`":
        at -= 1
    return at < 0 or found[at].text in _ENDS or found[i].line or found[at + 1].line


def _continues(found: Sequence[Lexeme], i: int, taken: frozenset[int]) -> bool:
    x = found[i]
    if x.shape != "word" or not x.capital or i in taken or x.line or is_code(x.lower):
        return False
    return x.lower not in _NEVER and not _measures(found, i)


def _measures(found: Sequence[Lexeme], i: int) -> bool:
    """A unit or a scale behind a number: "Millionen Euro", "°C"."""
    return (
        bool(i)
        and found[i].lower in _MEASURES
        and (found[i - 1].shape == "number" or found[i - 1].text == "°" or found[i - 1].lower in _MEASURES)
    )


def _run(found: Sequence[Lexeme], i: int, taken: frozenset[int], language: str) -> int:
    """The position behind the run of capitalised words, initials and particles that begins at ``i``."""
    j = i + 1
    while j < len(found) and not is_code(found[i].lower):
        if found[j - 1].lower.endswith("'s"):
            break
        if _continues(found, j, taken):
            j += 1
        elif (found[j].text == "." and len(found[j - 1].text) == 1 and j + 1 < len(found)) or (
            found[j].text == "." and found[j - 1].lower in _TITLES and j + 1 < len(found)
        ):
            if not _continues(found, j + 1, taken):
                break
            j += 2
        elif found[j].lower in _PARTICLES:
            if j + 1 < len(found) and ordinal(found[j + 1].lower, "de") is not None:
                break
            at = j + 1
            while at < len(found) and at - j < 3 and found[at].lower in _PARTICLES:
                at += 1
            joins = (
                found[j].lower not in ("of", "y", "e", "la", "le", "el", "al", "da", "des", "zu", "zur")
                or language == "es"
            )
            if not (at < len(found) and _continues(found, at, taken)) or not joins:
                break
            j = at + 1
        else:
            break
    return j


def _fact(found: Sequence[Lexeme], i: int, end: int, language: str) -> Fact | None:
    words: list[str] = []
    first = i
    for n in range(i, end):
        x = found[n]
        if x.shape != "word" or (roman(x.text) and n > i and len(x.text) > 0 and x.text != "I" and len(words) > 0):
            continue
        if x.lower in _TITLES and not words:
            first = n + 1
            continue
        words.append(_POSSESSIVE.sub("", x.lower) if x.lower.endswith("'s") else x.lower.rstrip("'"))
    words = [w for w in words if w]
    if (
        not words
        or first >= end
        or words == [words[0][:1]]
        or (language == "de" and len(words) == 1 and not is_code(words[0]) and not set("-'") & set(words[0]))
    ):
        return None
    return Fact("name", " ".join(words), found[first].start, found[end - 1].end)


def _numeral(found: Sequence[Lexeme], i: int, end: int) -> tuple[Fact, int] | None:
    """World War II, Super Bowl 16, Charles I, Pius the Sixth: the number with the word before it."""
    for n in range(i + 1, min(end + 1, len(found))):
        x = found[n]
        value = roman(x.text) if x.shape == "word" else None
        if value is None or (x.text in ("I", "C", "L", "X", "V") and n == end and found[n - 1].shape != "word"):
            continue
        if (
            x.text == "I"
            and n + 1 < len(found)
            and found[n + 1].lower in ("am", "think", "was", "have", "believe")
        ):
            continue
        return _numbered(found, n - 1, n, value)
    if end >= len(found):
        return None
    x = found[end]
    opens = end - i == 1 and _opens(found, i)
    if (
        not opens
        and x.shape == "number"
        and x.text.isdigit()
        and len(x.text) <= 3
        and not (end + 1 < len(found) and found[end + 1].text == "%")
    ):
        return _numbered(found, end - 1, end, int(x.text))
    if x.lower in ("the", "der", "die", "el", "la") and end + 1 < len(found) and found[end + 1].capital:
        nth = ordinal(
            found[end + 1].lower, "de" if x.lower in ("der", "die") else "es" if x.lower in ("el", "la") else "en"
        )
        if nth:
            return _numbered(found, end - 1, end + 1, nth)
    return None


def _numbered(found: Sequence[Lexeme], before: int, at: int, value: int) -> tuple[Fact, int]:
    name = found[before]
    fact = Fact("numeral", f"{name.lower} {value}", name.start, found[at].end)
    return fact, at + 1
