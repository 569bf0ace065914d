"""Evidence chainer: short chains of passages that belong together and cover the question together.

The passages and their links are a graph. A chain is a path of at most ``length`` passages in it; its score is
additive over the words of the question: each word counts once, with the best score any passage of the chain
gives it, so that a second passage adds exactly what the first does not say. Links through passages that
everything points to count less. (CORE, Ma et al. 2022, adds the log-scores of retriever and reranker; without
a trained reranker, what a passage adds to the covered question takes their place.) `ChainRetriever` and
`ChainDenoiser` put chains in the place of a retriever or a denoiser, within a budget of tokens.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.augmenter.knowledge.link import GazetteerLinker, Link, Linker
from denoise_core.augmenter.knowledge.retrieve import BM25Retriever
from denoise_core.errors import InputError
from denoise_core.result import DenoiseResult
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.text.token_budget import TokenBudget
from denoise_core.types import Drop, Keep, Passage, check_passages

_BEAM = 50  # chains of each length that are grown further


@dataclass(frozen=True, slots=True)
class Chain:
    """Passages in the order of the path, the links between neighbours, and what the chain is worth.

    ``score`` is in units of the best single passage; a single passage is a chain of one.
    """

    passages: tuple[Passage, ...]
    links: tuple[Link, ...]
    score: float


class Chainer:
    """Finds the best chains (LLM-Augmenter, section 2.3.1, evidence chainer).

    ``length`` passages at most (1 to 3); ``hub`` is what a link costs for each doubling of the links of its less
    linked end. Raises `InputError` for values outside these ranges.
    """

    def __init__(self, *, length: int = 2, hub: float = 0.07) -> None:
        if not 1 <= length <= 3:
            raise InputError(f"length={length}: expected 1, 2 or 3")
        if hub < 0:
            raise InputError(f"hub={hub}: expected 0 or more")
        self.length = length
        self.hub = hub

    def chains(
        self,
        passages: Sequence[Passage],
        term_scores: NDArray[np.float32],
        links: Sequence[Link],
    ) -> tuple[Chain, ...]:
        """The chains, best first, each set of passages once.

        ``term_scores`` has shape ``(words of the question, passages)``, as `BM25Retriever.term_scores` gives.
        """
        if term_scores.shape[-1:] != (len(passages),):
            raise InputError(
                f"term_scores: expected shape (words, {len(passages)}), got {term_scores.shape}"
            )
        graph = _Graph(passages, links)
        totals = term_scores.sum(0)
        best = float(totals.max()) if totals.size else 0.0
        if best <= 0:
            return ()
        worth = _Worth(term_scores / best, totals / best, graph, self.hub)
        found: dict[frozenset[int], tuple[float, tuple[int, ...]]] = {
            frozenset((i,)): (worth.of((i,)), (i,))
            for i in np.flatnonzero(totals > 0).tolist()
        }
        front = list(found.values())
        for _ in range(self.length - 1):
            front = sorted(front, key=_rank)[:_BEAM]
            grown = {
                frozenset(path): path
                for _, chain in front
                for path in graph.extended(chain)
            }
            front = [
                (worth.of(path), path)
                for members, path in grown.items()
                if members not in found
            ]
            found |= {frozenset(path): (score, path) for score, path in front}
        ranked = sorted(found.values(), key=_rank)
        return tuple(
            Chain(tuple(passages[i] for i in path), graph.along(path), score)
            for score, path in ranked
        )


def pack_chains(
    chains: Sequence[Chain], tokens: int
) -> tuple[tuple[Passage, Chain], ...]:
    """The passages of the best chains that fit into ``tokens`` (by `estimate_tokens`), each once
    with the chain that brought it. A passage too long for what is left is passed over."""
    budget = TokenBudget(tokens)
    taken: dict[str, tuple[Passage, Chain]] = {}
    for chain in chains:
        for passage in chain.passages:
            if passage.id not in taken and budget.try_add(passage.text):
                taken[passage.id] = (passage, chain)
    return tuple(taken.values())


def _rank(scored: tuple[float, tuple[int, ...]]) -> tuple[float, int, tuple[int, ...]]:
    """Best first; of equals the shorter, then the one of earlier passages: the same every time."""
    score, path = scored
    return -round(score, 9), len(path), path


class _Graph:
    """Who is linked with whom, in either direction."""

    def __init__(self, passages: Sequence[Passage], links: Sequence[Link]) -> None:
        at = {p.id: i for i, p in enumerate(passages)}
        self.links: dict[tuple[int, int], Link] = {}
        self.neighbours: list[set[int]] = [set() for _ in passages]
        for link in links:
            a, b = at.get(link.span.passage_id), at.get(link.target_id)
            if a is None or b is None or a == b:
                continue
            self.links.setdefault((min(a, b), max(a, b)), link)
            self.neighbours[a].add(b)
            self.neighbours[b].add(a)

    def extended(self, path: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The path with one more passage, at its end or its beginning."""
        after = [(*path, i) for i in sorted(self.neighbours[path[-1]]) if i not in path]
        before = (
            [(i, *path) for i in sorted(self.neighbours[path[0]]) if i not in path]
            if len(path) > 1
            else []
        )
        return after + before

    def along(self, path: tuple[int, ...]) -> tuple[Link, ...]:
        return tuple(
            self.links[min(a, b), max(a, b)] for a, b in itertools.pairwise(path)
        )


class _Worth:
    """The score of a path: what its passages cover together, less what its links cost."""

    def __init__(
        self,
        terms: NDArray[np.float32],
        totals: NDArray[np.float32],
        graph: _Graph,
        hub: float,
    ) -> None:
        self.terms = terms
        self.totals = totals
        self.graph = graph
        self.hub = hub

    def of(self, path: tuple[int, ...]) -> float:
        covered = float(self.terms[:, list(path)].max(1).sum())
        # A little of the plain sum, so that of two passages that add the same the stronger one is taken.
        value = 0.9 * covered + 0.1 * float(self.totals[list(path)].sum())
        return value - self.hub * sum(
            self._cost(a, b) for a, b in itertools.pairwise(path)
        )

    def _cost(self, a: int, b: int) -> float:
        sure = self.graph.links[min(a, b), max(a, b)].score
        return math.log2(
            1 + min(len(self.graph.neighbours[a]), len(self.graph.neighbours[b]))
        ) + (1 - sure)


class ChainRetriever:
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

    def retrieve(self, query: str) -> tuple[Passage, ...]:
        found = pack_chains(self.chains(query), self.tokens)
        order = list({id(chain): None for _, chain in found})
        ranks = {key: n for n, key in enumerate(order, 1)}
        return tuple(
            _marked(passage, chain, ranks[id(chain)]) for passage, chain in found
        )

    async def aretrieve(self, query: str) -> tuple[Passage, ...]:
        return await run_in_pool(self.retrieve, query)

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
        self,
        *,
        tokens: int = 1000,
        linker: Linker | None = None,
        chainer: Chainer | None = None,
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
        chains = self.chainer.chains(
            given, BM25Retriever(given).term_scores(query), links
        )
        kept = {p.id for p, _ in pack_chains(chains, self.tokens)}
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
                for span in p.source_spans
            ),
            kept=tuple(
                Keep(span, scores[p.id])
                for p in given
                if p.id in kept
                for span in p.source_spans
            ),
        )

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        return await run_in_pool(self.denoise, query, passages)


def _marked(passage: Passage, chain: Chain, rank: int) -> Passage:
    told: dict[str, Any] = {
        "rank": rank,
        "score": round(chain.score, 6),
        "path": [p.id for p in chain.passages],
        "via": [link.name for link in chain.links],
    }
    return replace(
        passage, score=chain.score, metadata={**passage.metadata, "chain": told}
    )
