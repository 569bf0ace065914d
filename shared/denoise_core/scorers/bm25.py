"""BM25: relevance by shared words (Robertson and Zaragoza), Lucene's variant, by ``bm25s``."""

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

    Words without content (articles, auxiliaries, question words) count only in a query
    of nothing else.

    Args:
        texts: The corpus.
        language: Name of a Snowball stemmer (``english``, ``german``, ...), or None.

    Raises:
        InputError: Snowball does not know the language.
    """

    def __init__(
        self, texts: Sequence[str], *, language: str | None = "english"
    ) -> None:
        self.size = len(texts)
        self._stemmer = snowball_stemmer(language)
        self._index: Any = None
        stemmed_corpus = []
        for text in texts:
            text_stems = self._stem_words(split_words(text))
            stemmed_corpus.append(text_stems)
        if any(stemmed_corpus):
            import bm25s

            # Lucene's form has no negative weights: a score of 0 means no shared word.
            self._index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
            self._index.index(stemmed_corpus, show_progress=False)

    def scores(self, query: str) -> Floats:
        """BM25 of each text, ``(texts,)``; 0 if no word is shared."""
        term_scores = self.term_scores(query)
        text_scores = term_scores.sum(0)
        return np.asarray(text_scores, dtype=np.float32)

    def term_scores(self, query: str) -> Floats:
        """What each word of the query adds, ``(words, texts)``.

        Words that no text has are left out.
        """
        bm25_index = self._index
        if bm25_index is None:
            return np.zeros((0, self.size), dtype=np.float32)
        query_words = split_words(query)
        content_words = [word for word in query_words if word not in STOPWORDS]
        searched_words = content_words or query_words
        query_stems = self._stem_words(searched_words)
        query_terms = []
        for stem in dict.fromkeys(query_stems):
            if stem in bm25_index.vocab_dict:
                query_terms.append(stem)
        score_shape = (len(query_terms), self.size)
        term_scores = np.zeros(score_shape, dtype=np.float32)
        for row, query_term in enumerate(query_terms):
            term_scores[row] = bm25_index.get_scores([query_term])
        return term_scores

    def _stem_words(self, text_words: list[str]) -> list[str]:
        if self._stemmer is None:
            return text_words
        # The stemmer cannot encode half characters.
        encodable_words = [replace_surrogates(text_word) for text_word in text_words]
        query_stems: list[str] = self._stemmer.stemWords(encodable_words)
        return query_stems


class BM25Scorer:
    """Scores texts by the query's words in them, as `BM25Index`.

    Listwise: word weights depend on the list of texts. So does the scale: use a fraction
    or a count, not a threshold.
    """

    listwise = True

    def __init__(self, *, language: str | None = "english") -> None:
        self.language = language

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        """BM25 of each text, 0 or more, ``(len(texts),)``."""
        word_index = BM25Index(texts, language=self.language)
        return word_index.scores(query)


def snowball_stemmer(language: str | None) -> Any:
    """Snowball's stemmer; None for None. Raises `InputError` for unknown languages."""
    if language is None:
        return None
    import Stemmer

    try:
        return Stemmer.Stemmer(language)
    except KeyError as error:
        known_languages = ", ".join(Stemmer.algorithms())
        raise InputError(
            f"language={language!r}: expected None or one of {known_languages}"
        ) from error
