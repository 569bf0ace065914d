"""BM25: relevance by shared words (Robertson and Zaragoza; the variant of Lucene, through ``bm25s``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.errors import InputError
from denoise_core.text.wordlists import STOPWORDS
from denoise_core.text.words import split_words
from denoise_core.types import replace_surrogates

Floats = NDArray[np.float32]


class BM25Index:
    """Word weights of ``texts``, to be searched any number of times.

    ``language`` is the name of a Snowball stemmer (``english``, ``german``, ...), or None for none. Words without
    content (articles, auxiliaries, question words) count only in a query of nothing else. Raises `InputError` for
    a language that Snowball does not know.
    """

    def __init__(
        self, texts: Sequence[str], *, language: str | None = "english"
    ) -> None:
        self.size = len(texts)
        self._stemmer = snowball_stemmer(language)
        self._index: Any = None
        corpus = [self._stems(split_words(text)) for text in texts]
        if any(corpus):
            import bm25s

            # The Lucene form gives no negative weights, so that a score of 0 means no word in common.
            self._index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
            self._index.index(corpus, show_progress=False)

    def scores(self, query: str) -> Floats:
        """BM25 of each text, 0 or more, shape ``(texts,)``; 0 where no word is shared."""
        return np.asarray(self.term_scores(query).sum(0), dtype=np.float32)

    def term_scores(self, query: str) -> Floats:
        """What each word of the query adds: shape ``(words, texts)``; words that no text has are left out."""
        index = self._index
        if index is None:
            return np.zeros((0, self.size), dtype=np.float32)
        spoken = split_words(query)
        content = [word for word in spoken if word not in STOPWORDS] or spoken
        terms = [
            stem
            for stem in dict.fromkeys(self._stems(content))
            if stem in index.vocab_dict
        ]
        if not terms:
            return np.zeros((0, self.size), dtype=np.float32)
        return np.stack(
            [np.asarray(index.get_scores([term]), dtype=np.float32) for term in terms]
        )

    def _stems(self, spoken: list[str]) -> list[str]:
        if self._stemmer is None:
            return spoken
        stems: list[str] = self._stemmer.stemWords(
            [replace_surrogates(word) for word in spoken]
        )
        return stems


class BM25Scorer:
    """Scores texts by the query's words in them, as `BM25Index`; listwise: word weights come from the texts given.

    The scale depends on the list: use shares, not thresholds.
    """

    listwise = True

    def __init__(self, *, language: str | None = "english") -> None:
        self.language = language

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        """BM25 of each text, 0 or more, shape ``(len(texts),)``; all 0 when no word is shared."""
        return BM25Index(texts, language=self.language).scores(query)


def snowball_stemmer(language: str | None) -> Any:
    """Snowball's stemmer; None for none. Raises `InputError` for a language that it does not know."""
    if language is None:
        return None
    import Stemmer as stemmers

    try:
        return stemmers.Stemmer(language)
    except KeyError as error:
        known = ", ".join(stemmers.algorithms())
        raise InputError(
            f"language={language!r}: expected None or one of {known}"
        ) from error
