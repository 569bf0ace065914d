"""BM25: relevance by shared words (Robertson and Zaragoza; the variant of Lucene, through ``bm25s``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from denoise_core.errors import InputError
from denoise_core.types import well_formed

CJK = r"[぀-ヿ㐀-鿿가-힯豈-﫿]"


class BM25Scorer:
    """Scores texts by the query's words in them; listwise: word weights come from the texts given.

    ``language`` is the name of a Snowball stemmer (``english``, ``german``, ...), or None for none.
    The scale depends on the list: use shares, not thresholds.
    """

    listwise = True

    def __init__(self, *, language: str | None = "english") -> None:
        self.language = language

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """BM25 of each text, 0 or more, shape ``(len(texts),)``; all 0 when no word is shared."""
        import bm25s

        asked = self.words([query])[0]
        words = self.words(texts)
        known = {w for text in words for w in text}
        asked = [w for w in asked if w in known]
        if not asked:
            return np.zeros(len(texts), dtype=np.float32)
        index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        index.index(words, show_progress=False)
        return np.asarray(index.get_scores(asked), dtype=np.float32)

    def words(self, texts: Sequence[str]) -> list[list[str]]:
        """Lower-case word stems of each text, stop words left out if the stemmer's language is English."""
        import bm25s

        found: Any = bm25s.tokenize(
            [well_formed(t) for t in texts],
            token_pattern=f"{CJK}|[^\\W぀-ヿ㐀-鿿가-힯豈-﫿]+",
            stopwords="en" if self.language == "english" else [],
            stemmer=stemmer(self.language),
            return_ids=False,
            show_progress=False,
        )
        return cast(list[list[str]], found)


def stemmer(language: str | None) -> Any:
    """Snowball's stemmer; None for none. Raises `InputError` for a language that it does not know."""
    if language is None:
        return None
    import Stemmer as stemmers

    try:
        return stemmers.Stemmer(language)
    except KeyError as error:
        known = ", ".join(stemmers.algorithms())
        raise InputError(f"language={language!r}: expected None or one of {known}") from error
