"""Words of a text, the way every lexical part of the Augmenter counts them."""

from __future__ import annotations

import re
import unicodedata

# Scripts written without spaces count character by character; everywhere else a word is a run of letters and
# digits, and a number keeps its inner points and commas together.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\d+(?:[.,]\d+)+|[^\W_]+")
_ARTICLES = frozenset(("a", "an", "the"))


def words(text: str) -> list[str]:
    """Lower-cased words and numbers, compatibility forms folded ("ﬁ" is "fi").

    >>> words("The U.S. had 1,234 ships.")
    ['the', 'u', 's', 'had', '1,234', 'ships']
    """
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


STOPWORDS = frozenset(
    words(
        """
        a an the and or but if of at by for with about into to from in on up down out over under is am are was
        were be been being have has had having do does did doing will would shall should can could may might must
        this that these those it its he she they them his hers her their we you i me my your our us as so than
        then there here what which who whom whose when where why how also s t not no nor
        """
    )
)


def without_articles(tokens: list[str]) -> list[str]:
    return [t for t in tokens if t not in _ARTICLES]


def content_words(text: str) -> list[str]:
    """Words that carry content: no articles, pronouns, auxiliaries."""
    return [w for w in words(text) if w not in STOPWORDS]
