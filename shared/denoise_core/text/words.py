"""Words as a search engine counts them: for overlap, lookup and copying.

"1,234" is one word, and "not" is a stopword. Use `lexemes` and `facts` for what a
text says (values, negations, names). The two are apart on purpose: this one must stay
cheap and independent of the language.
"""

from __future__ import annotations

import re
import unicodedata

from denoise_core.text.wordlists import ARTICLES, STOPWORDS

# Scripts without spaces count by character. Elsewhere a word is a run of letters and
# digits, and a number keeps its inner points and commas.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\d+(?:[.,]\d+)+|[^\W_]+")


def split_words(text: str) -> list[str]:
    """Return lower-case words and numbers, with compatibility forms folded.

    >>> split_words("The U.S. had 1,234 ships.")
    ['the', 'u', 's', 'had', '1,234', 'ships']
    """
    return _WORD.findall(_fold_word(text))


def word_spans(text: str) -> list[tuple[str, int, int]]:
    """Return each word with its half-open range ``[start, end)`` of ``text``."""
    matches = _WORD.finditer(text)
    return [(_fold_word(match[0]), match.start(), match.end()) for match in matches]


def drop_articles(words: list[str]) -> list[str]:
    """Return the words that are no English article."""
    return [word for word in words if word not in ARTICLES]


def content_words(text: str) -> list[str]:
    """Return words that carry content: no articles, pronouns, auxiliaries."""
    return [word for word in split_words(text) if word not in STOPWORDS]


def _fold_word(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
