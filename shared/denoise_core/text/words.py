"""Spelled words, as a search engine counts them: for overlap, look-up and copying, not for what a text says.

"1,234" is a word here and "not" is none that counts; what a word means, a number's value, a negation, a name, is
for `tokens` and `facts`. Kept apart on purpose: counting must stay cheap and blind to language.
"""

from __future__ import annotations

import re
import unicodedata

from denoise_core.text.wordlists import ARTICLES, STOPWORDS

# Scripts written without spaces count character by character; everywhere else a word is a run of letters and
# digits, and a number keeps its inner points and commas together.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\d+(?:[.,]\d+)+|[^\W_]+")


def split_words(text: str) -> list[str]:
    """Lower-cased words and numbers, compatibility forms folded ("ﬁ" is "fi").

    >>> split_words("The U.S. had 1,234 ships.")
    ['the', 'u', 's', 'had', '1,234', 'ships']
    """
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def word_spans(text: str) -> list[tuple[str, int, int]]:
    """`words` with the characters ``[start, end)`` of ``text`` on which they stand."""
    return [
        (unicodedata.normalize("NFKC", m.group()).casefold(), m.start(), m.end())
        for m in _WORD.finditer(text)
    ]


def drop_articles(tokens: list[str]) -> list[str]:
    return [t for t in tokens if t not in ARTICLES]


def content_words(text: str) -> list[str]:
    """Words that carry content: no articles, pronouns, auxiliaries."""
    return [w for w in split_words(text) if w not in STOPWORDS]
