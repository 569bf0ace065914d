"""Passages for a question out of one's own documents: cut at headings, paragraphs and sentences, then searched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from denoise_core.augmenter.knowledge.hybrid import HybridRetriever
from denoise_core.augmenter.knowledge.retrieve import BM25Retriever
from denoise_core.embedded.default import encoder
from denoise_core.errors import InputError
from denoise_core.evaluate.trial.cases import Find
from denoise_core.running.offload import offload
from denoise_core.text.pieces import heading, pieces
from denoise_core.types import Passage, check_passages

FOUND = 20  # passages for a question
AT_ONCE = 64  # pieces that are read between two words of progress

Progress = Callable[[int, int], None]


def searching(documents: Sequence[Passage], *, k: int = FOUND, progress: Progress | None = None) -> Find:
    """A search over the pieces of ``documents``: BM25 and the embedded encoder, fused by rank.

    Each piece is a passage ``document#n`` under its heading, with the document's id as its source. All are read at
    the first search; ``progress`` hears of pieces read, and of all. Raises `InputError` when the documents hold no
    text or ``k < 1``.
    """
    own = cut(documents)
    found = HybridRetriever([BM25Retriever(own, k=max(k, 50)), _Nearest(own, max(k, 50), progress)], k=k)
    return found.retrieve


def cut(documents: Sequence[Passage]) -> tuple[Passage, ...]:
    """The pieces of ``documents``, as `searching` finds them. Raises `InputError` when there is no text."""
    own = tuple(p for d in documents for p in _cut(d))
    if not own:
        raise InputError("the documents hold no text")
    return own


def _cut(document: Passage) -> list[Passage]:
    out = []
    for n, span in enumerate(pieces(document), 1):
        text = document.text[span.start : span.end].strip()
        above = heading(document, span)
        if text:
            out.append(
                replace(
                    document,
                    text=text,
                    id=f"{document.id}#{n}",
                    metadata={**document.metadata, "source": document.id},
                    header=document.text[slice(*above)].strip() if above else "",
                )
            )
    return out


class _Nearest:
    """The ``k`` passages nearest to the query by the encoder's cosine; all are read at the first search."""

    def __init__(self, passages: Sequence[Passage], k: int, progress: Progress | None) -> None:
        self.passages = check_passages(passages)
        self.k = k
        self.progress = progress
        self._vectors: NDArray[np.float32] | None = None

    def retrieve(self, query: str) -> tuple[Passage, ...]:
        if self._vectors is None:
            self._vectors = np.concatenate(list(self._read()))
        near = self._vectors @ encoder().vectors([query])[0]
        return tuple(self.passages[i] for i in np.argsort(-near, kind="stable")[: self.k].tolist())

    def _read(self) -> Iterator[NDArray[np.float32]]:
        for start in range(0, len(self.passages), AT_ONCE):
            part = self.passages[start : start + AT_ONCE]
            yield encoder().vectors([p.headed for p in part])
            if self.progress is not None:
                self.progress(start + len(part), len(self.passages))

    async def aretrieve(self, query: str) -> tuple[Passage, ...]:
        return await offload(self.retrieve, query)
