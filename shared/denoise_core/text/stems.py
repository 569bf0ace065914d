"""Words that carry content, as stems that two texts are compared by."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import Stemmer

from denoise_core.text.lexemes import Lexeme
from denoise_core.text.wordlists import FUNCTION_WORDS, word_set

_NAMES = {
    "en": "english",
    "de": "german",
    "fr": "french",
    "es": "spanish",
    "ru": "russian",
    "ar": "arabic",
}
_SMALL = {
    "en": FUNCTION_WORDS | word_set("yes no would could like please"),
    "de": word_set(
        """
        der die das den dem des ein eine einen einem einer eines und oder aber auch als am an auf aus bei bis da
        dann dass daß denn dies diese dieser dieses doch durch er es für hat haben hatte hatten ich ihr ihre ihren
        im in ins ist kann man mit nach nicht noch nun nur ob sein seine seiner seit sich sie sind so über um uns
        unter vom von vor war waren was wegen weil welche welcher welches wenn wer werden wie wird wir wo wurde
        wurden zu zum zur zwischen wann warum wieviel viele viel hier dort schon wieder ja nein
        """
    ),
    "fr": word_set(
        """
        le la les l un une des du de d et ou mais au aux avec ce cet cette ces dans elle elles en est était été
        être il ils je leur leurs lui ne nous on par pas plus pour qu que quel quelle qui s sa se ses si son sont
        sur vous y a ont où quand comment pourquoi combien c n j oui non
        """
    ),
    "es": word_set(
        """
        el la los las lo un una uno unos unas y o pero al del de con como cual cuando cuándo cuánto cuántos cuánta
        cuántas dónde donde e en entre era eran es esa ese eso esta estaba este esto está fue fueron ha han había
        hay le les más me mi no nos para por porque qué que quién quien se ser si sin sobre son su sus también te
        tiene ya cuál sí a
        """
    ),
}
_IDEOGRAPHS = frozenset(
    "在的了是于和有也就都而及与这那吗呢吧请个他她它我你们被由从到为之其はがのをにでともたてだす"
)
_EVERY = _SMALL["en"] | _SMALL["de"] | _SMALL["fr"] | _SMALL["es"]
_LONGEST = 64  # characters; what is longer is no word

_local = threading.local()


@dataclass(frozen=True, slots=True)
class StemmedWord:
    """A content word: its stem and its characters ``[start, end)``."""

    stem: str
    start: int
    end: int


def is_function_word(word: str, language: str) -> bool:
    """A folded word that carries no content in English or in this language."""
    return word in _SMALL["en"] or word in _SMALL.get(language, ())


def content_stems(found: Sequence[Lexeme], language: str) -> list[StemmedWord]:
    """The words that are no small ones, numbers not among them; ideographs one by one, with what follows."""
    out: list[StemmedWord] = []
    small = _SMALL.get(language, _EVERY)
    for n, x in enumerate(found):
        if x.kind == "word":
            lower = x.folded_text
            if "'" in lower:
                lower = _open(lower, language)
            if lower not in small and len(lower) > 1:
                out.append(StemmedWord(stem_word(lower, language), x.start, x.end))
        elif x.kind == "ideograph" and x.text not in _IDEOGRAPHS:
            after = found[n + 1] if n + 1 < len(found) else None
            if (
                after
                and after.kind == "ideograph"
                and after.text not in _IDEOGRAPHS
                and after.start == x.end
            ):
                out.append(StemmedWord(x.text + after.text, x.start, after.end))
            elif not (
                n
                and found[n - 1].kind == "ideograph"
                and found[n - 1].text not in _IDEOGRAPHS
            ):
                out.append(StemmedWord(x.text, x.start, x.end))
    return out


@lru_cache(maxsize=65536)
def stem_word(word: str, language: str = "en") -> str:
    """The Snowball stem of a folded word, without accents, hyphens and apostrophes.

    >>> stem_word("bridges"), stem_word("gebaut", "de")
    ('bridg', 'gebaut')
    """
    bare = word.replace("-", "").replace("'", "").replace("_", "")[:_LONGEST]
    if language == "de":
        bare = _participle(bare)
    found: str = _stemmer(language).stemWord(bare)
    return found


def _open(lower: str, language: str) -> str:
    """Without an elided article or a possessive: l'éditeur, Brenner's."""
    head, _, tail = lower.partition("'")
    if (
        len(tail) > 2
        and head in ("l", "d", "n", "j", "s", "c", "qu", "m")
        and language != "en"
    ):
        return tail
    if tail in ("s", ""):
        return head
    return lower


def _participle(word: str) -> str:
    """gegründet and gründete, gebaut and baute have one stem."""
    if word.startswith("ge") and len(word) > 6 and word.endswith(("t", "en")):
        return word[2:]
    return word


def _stemmer(language: str) -> Stemmer.Stemmer:
    """One for each thread: a Snowball stemmer keeps state while it works."""
    name = _NAMES.get(language, "english")
    found: Stemmer.Stemmer | None = getattr(_local, name, None)
    if found is None:
        found = Stemmer.Stemmer(name)
        setattr(_local, name, found)
    return found
