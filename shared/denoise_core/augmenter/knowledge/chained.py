"""Chains in the place of a retriever or a denoiser: linked evidence within a budget of tokens."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from denoise_core.augmenter.knowledge.chain import Chain, Chainer, pack
from denoise_core.augmenter.knowledge.link import GazetteerLinker, Link, Linker
from denoise_core.augmenter.knowledge.retrieve import BM25Retriever
from denoise_core.errors import InputError
from denoise_core.result import DenoiseResult
from denoise_core.running.offload import offload
from denoise_core.running.recipes import Travels
from denoise_core.types import Drop, Keep, Passage, check_passages


class ChainRetriever(Travels):
    """Searches ``passages`` and returns the best chains' passages, chain after chain, within ``tokens``.

    Links are found once, at the first search. The ``starts`` best passages by BM25 and all they are linked
    with are candidates. ``metadata["chain"]`` of each passage says which chain brought it: its rank, score,
    the ids on its path and the names that link them. ``score`` is the chain's.
    """

    def __init__(
        self,
        passages: Sequence[Passage],
        *,
        tokens: int = 1000,
        starts: int = 50,
        linker: Linker | None = None,
        chainer: Chainer | None = None,
    ) -> None:
        if tokens < 1 or starts < 1:
            raise InputError(f"tokens={tokens}, starts={starts}: expected 1 or more")
        self.bm25 = BM25Retriever(check_passages(passages))
        self.tokens = tokens
        self.starts = starts
        self.linker = linker or GazetteerLinker()
        self.chainer = chainer or Chainer()
        self._lock = threading.Lock()
        self._links: dict[str, list[Link]] | None = None

    def recipe(self) -> dict[str, Any]:
        names = ("tokens", "starts", "linker", "chainer")
        return {"passages": self.bm25.passages} | {name: getattr(self, name) for name in names}

    def retrieve(self, query: str) -> tuple[Passage, ...]:
        found = pack(self.chains(query), self.tokens)
        order = list({id(chain): None for _, chain in found})
        ranks = {key: n for n, key in enumerate(order, 1)}
        return tuple(_marked(passage, chain, ranks[id(chain)]) for passage, chain in found)

    async def aretrieve(self, query: str) -> tuple[Passage, ...]:
        return await offload(self.retrieve, query)

    def chains(self, query: str) -> tuple[Chain, ...]:
        """All chains over the candidates for ``query``, best first."""
        passages = self.bm25.passages
        scores = self.bm25.term_scores(query)
        if not scores.size:
            return ()
        links = self._linked()
        totals = scores.sum(0)
        order = (-totals).argsort(kind="stable")[: self.starts]
        ids = {passages[i].id for i in order if totals[i] > 0}
        near = [link for i in sorted(ids) for link in links.get(i, ())]
        ids |= {i for link in near for i in (link.span.passage_id, link.target_id)}
        at = [i for i, p in enumerate(passages) if p.id in ids]
        return self.chainer.chains([passages[i] for i in at], scores[:, at], near)

    def _linked(self) -> dict[str, list[Link]]:
        """Every link, under both of its ends."""
        with self._lock:
            if self._links is None:
                self._links = {}
                for link in self.linker.link(self.bm25.passages, self.bm25.passages):
                    self._links.setdefault(link.span.passage_id, []).append(link)
                    self._links.setdefault(link.target_id, []).append(link)
            return self._links


class ChainDenoiser:
    """Of any retriever's passages, keeps those of the best chains within ``tokens``, in their order.

    What is left out carries its best chain's score, so that the loop can admit it again. Passages that no
    word of the question meets are dropped last in line, with the score 0.
    """

    def __init__(
        self, *, tokens: int = 1000, linker: Linker | None = None, chainer: Chainer | None = None
    ) -> None:
        if tokens < 1:
            raise InputError(f"tokens={tokens}: expected 1 or more")
        self.tokens = tokens
        self.linker = linker or GazetteerLinker()
        self.chainer = chainer or Chainer()

    def denoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        given = check_passages(passages)
        if not given:
            return DenoiseResult(query, ())
        links = self.linker.link(given, given)
        chains = self.chainer.chains(given, BM25Retriever(given).term_scores(query), links)
        kept = {p.id for p, _ in pack(chains, self.tokens)}
        scores: dict[str, float] = {}
        for chain in chains:
            for passage in chain.passages:
                scores.setdefault(passage.id, chain.score)
        return DenoiseResult(
            query,
            tuple(p for p in given if p.id in kept),
            tuple(
                Drop(span, "not among the best chains", scores.get(p.id, 0.0))
                for p in given
                if p.id not in kept
                for span in p.covered
            ),
            kept=tuple(Keep(span, scores[p.id]) for p in given if p.id in kept for span in p.covered),
        )

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        return await offload(self.denoise, query, passages)


def _marked(passage: Passage, chain: Chain, rank: int) -> Passage:
    told: dict[str, Any] = {
        "rank": rank,
        "score": round(chain.score, 6),
        "path": [p.id for p in chain.passages],
        "via": [link.name for link in chain.links],
    }
    return replace(passage, score=chain.score, metadata={**passage.metadata, "chain": told})
