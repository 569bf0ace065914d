"""Content words as stems, by which two texts are compared."""

from __future__ import annotations

import threading
from functools import lru_cache
from itertools import pairwise

import Stemmer

from denoise_core.text.lexemes import OUTSIDE, Lexeme, Lexemes
from denoise_core.text.wordlists import FUNCTION_WORDS, word_set

_SNOWBALL_NAMES = {
    "en": "english",
    "de": "german",
    "fr": "french",
    "es": "spanish",
    "ru": "russian",
    "ar": "arabic",
}
_FUNCTION_WORDS = {
    "en": FUNCTION_WORDS | word_set("yes no would could like please"),
    "de": word_set(
        """
        der die das den dem des ein eine einen einem einer eines und oder aber auch als
        am an auf aus bei bis da dann dass daß denn dies diese dieser dieses doch durch
        er es für hat haben hatte hatten ich ihr ihre ihren im in ins ist kann man mit
        nach nicht noch nun nur ob sein seine seiner seit sich sie sind so über um uns
        unter vom von vor war waren was wegen weil welche welcher welches wenn wer
        werden wie wird wir wo wurde wurden zu zum zur zwischen wann warum wieviel viele
        viel hier dort schon wieder ja nein
        """
    ),
    "fr": word_set(
        """
        le la les l un une des du de d et ou mais au aux avec ce cet cette ces dans elle
        elles en est était été être il ils je leur leurs lui ne nous on par pas plus
        pour qu que quel quelle qui s sa se ses si son sont sur vous y a ont où quand
        comment pourquoi combien c n j oui non
        """
    ),
    "es": word_set(
        """
        el la los las lo un una uno unos unas y o pero al del de con como cual cuando
        cuándo cuánto cuántos cuánta cuántas dónde donde e en entre era eran es esa ese
        eso esta estaba este esto está fue fueron ha han había hay le les más me mi no
        nos para por porque qué que quién quien se ser si sin sobre son su sus también
        te tiene ya cuál sí a
        """
    ),
}
_FUNCTION_IDEOGRAPHS = frozenset(
    "在的了是于和有也就都而及与这那吗呢吧请个他她它我你们被由从到为之其はがのをにでともたてだす"
)
_ALL_FUNCTION_WORDS = frozenset[str]().union(*_FUNCTION_WORDS.values())
_ELIDED_ARTICLES = word_set("l d n j s c m qu")
_MAX_STEM_CHARACTERS = 64  # what is longer is no word
_thread_stemmers = threading.local()


def is_function_word(word: str, language: str) -> bool:
    """Whether a folded word carries no content in English or in this language."""
    return word in _FUNCTION_WORDS["en"] or word in _FUNCTION_WORDS.get(language, ())


def content_stems(lexemes: Lexemes, language: str) -> list[str]:
    """Return the stems of the words that are no function words; no numbers.

    An ideograph forms a word with the one that follows it, or alone if it has no
    neighbour.
    """
    stems = []
    function_words = _FUNCTION_WORDS.get(language, _ALL_FUNCTION_WORDS)
    previous = OUTSIDE
    for lexeme, following in pairwise([*lexemes, OUTSIDE]):
        if lexeme.kind == "word":
            word = _without_elision(lexeme.folded_text, language)
            if word not in function_words and len(word) > 1:
                stems.append(stem_word(word, language))
        elif _is_content_ideograph(lexeme):
            if following.start == lexeme.end and _is_content_ideograph(following):
                stems.append(lexeme.text + following.text)
            elif not _is_content_ideograph(previous):
                stems.append(lexeme.text)
        previous = lexeme
    return stems


def stem_word(word: str, language: str = "en") -> str:
    """Return the Snowball stem of a folded word.

    Accents, hyphens and apostrophes are removed.

    >>> stem_word("bridges"), stem_word("gebaut", "de")
    ('bridg', 'gebaut')
    """
    return _stem_cached(word[: 2 * _MAX_STEM_CHARACTERS], language)


@lru_cache(maxsize=65536)  # counts words, which are short
def _stem_cached(word: str, language: str) -> str:
    letters = word.replace("-", "").replace("'", "").replace("_", "")
    letters = letters[:_MAX_STEM_CHARACTERS]
    is_participle = letters.startswith("ge") and letters.endswith(("t", "en"))
    if language == "de" and is_participle and len(letters) > 6:
        letters = letters[2:]  # gegründet and gründete have one stem
    stem: str = _stemmer(language).stemWord(letters)
    return stem


def _is_content_ideograph(lexeme: Lexeme) -> bool:
    return lexeme.kind == "ideograph" and lexeme.text not in _FUNCTION_IDEOGRAPHS


def _without_elision(word: str, language: str) -> str:
    """Remove an elided article or a possessive: l'éditeur, Brenner's."""
    head, _, tail = word.partition("'")
    if len(tail) > 2 and head in _ELIDED_ARTICLES and language != "en":
        return tail
    if tail in ("s", ""):
        return head
    return word


def _stemmer(language: str) -> Stemmer.Stemmer:
    """Return this thread's stemmer: a Snowball stemmer keeps state while it works."""
    name = _SNOWBALL_NAMES.get(language, "english")
    stemmer: Stemmer.Stemmer | None = getattr(_thread_stemmers, name, None)
    if stemmer is None:
        stemmer = Stemmer.Stemmer(name)
        setattr(_thread_stemmers, name, stemmer)
    return stemmer
