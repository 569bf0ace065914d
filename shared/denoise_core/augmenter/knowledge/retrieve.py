"""BM25 over passages in memory, by bm25s with Snowball stemming."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.augmenter.engine import titled
from denoise_core.errors import InputError
from denoise_core.running.offload import offload
from denoise_core.running.recipes import Travels
from denoise_core.text.wordlists import STOPWORDS
from denoise_core.text.words import words
from denoise_core.types import Passage, check_passages, well_formed


class BM25Retriever(Travels):
    """The ``k`` best of ``passages`` by BM25, with the score in ``Passage.score``; none that shares no word.

    The index is built at the first search. ``language`` is a Snowball name; None does not stem. A passage's
    title (``metadata["title"]``) is indexed with its text. Ties keep the order of ``passages``.
    Raises `InputError` for repeated ids, ``k < 1`` or an unknown language.
    """

    def __init__(self, passages: Sequence[Passage], *, k: int = 10, language: str | None = "english") -> None:
        if k < 1:
            raise InputError(f"k={k}: expected 1 or more")
        self.passages = check_passages(passages)
        self.k = k
        self.language = language
        self._lock = threading.Lock()
        self._index: Any = None
        self._stemmer: Any = None

    def retrieve(self, query: str) -> tuple[Passage, ...]:
        scores = self.scores(query)
        order = sorted((i for i, s in enumerate(scores) if s > 0), key=lambda i: -scores[i])
        return tuple(replace(self.passages[i], score=float(scores[i])) for i in order[: self.k])

    async def aretrieve(self, query: str) -> tuple[Passage, ...]:
        return await offload(self.retrieve, query)

    def scores(self, query: str) -> Sequence[float]:
        """One BM25 score for each passage, in their order; 0.0 where no word is shared."""
        found: Sequence[float] = self.term_scores(query).sum(0).tolist()
        return found

    def term_scores(self, query: str) -> NDArray[np.float32]:
        """What each word of the query adds: shape ``(words, passages)``; words nobody has are left out.

        Words without content (articles, auxiliaries, question words) count only in a query of nothing else.
        """
        self._ready()
        index = self._index
        known = index.vocab_dict if index is not None else {}
        spoken = words(query)
        content = [w for w in spoken if w not in STOPWORDS] or spoken
        terms = [t for t in dict.fromkeys(self._stemmed(content)) if t in known]
        if index is None or not terms:
            return np.zeros((0, len(self.passages)), dtype=np.float32)
        return np.stack([np.asarray(index.get_scores([t]), dtype=np.float32) for t in terms])

    def _ready(self) -> None:
        with self._lock:
            if self._index is not None or not self.passages:
                return
            from denoise_core.scorers.bm25 import stemmer  # not before a search: all scorers come with it

            self._stemmer = stemmer(self.language)
            corpus = [self._stemmed(words(titled(p))) for p in self.passages]
            if any(corpus):
                # The Lucene form gives no negative weights, so that a score of 0 means no word in common.
                import bm25s

                index = bm25s.BM25(method="lucene")
                index.index(corpus, show_progress=False)
                self._index = index

    def _stemmed(self, found: list[str]) -> list[str]:
        return self._stemmer.stemWords([well_formed(w) for w in found]) if self._stemmer else found
