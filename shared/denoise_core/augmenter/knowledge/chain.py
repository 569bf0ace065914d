"""Evidence chainer: short chains of passages that together cover the question.

The passages and their links are a graph. A chain is a path of at most ``length``
passages in it. Its score adds up over the words of the question: each word counts once,
with the best score any passage of the chain gives it, so that a second passage adds
exactly what the first does not say. Links through passages that everything points to
count less. (CORE, Ma et al. 2022, adds the log-scores of retriever and reranker; without
a trained reranker we use what a passage adds to the covered question.) `ChainRetriever`
and `ChainDenoiser` use chains as a retriever or a denoiser, within a token budget.
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

from denoise_core.augmenter.knowledge.link import Link, find_links
from denoise_core.augmenter.knowledge.retrieve import BM25Retriever
from denoise_core.errors import InputError
from denoise_core.result import DenoiseResult
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.text.token_budget import TokenBudget
from denoise_core.types import Drop, Keep, Passage, check_passages

_BEAM_WIDTH = 50  # chains of each length that are extended
_ScoredPath = tuple[float, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Chain:
    """Passages in the order of the path, and the links between neighbours.

    ``score`` is in units of the best single passage; one passage is a chain too.
    """

    passages: tuple[Passage, ...]
    links: tuple[Link, ...]
    score: float


class Chainer:
    """Finds the best chains (LLM-Augmenter, section 2.3.1, evidence chainer).

    Args:
        length: Passages of a chain at most, 1 to 3.
        hub: The cost of a link for each doubling of the links of its end with fewer.

    Raises:
        InputError: For values outside these ranges.
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
        """Find the chains, best first, each set of passages once.

        Args:
            passages: The candidates.
            term_scores: Shape ``(words of the question, passages)``, as
                `BM25Retriever.term_scores` returns.
            links: The links between the passages.
        """
        if term_scores.shape[-1:] != (len(passages),):
            raise InputError(
                f"term_scores: expected shape (words, {len(passages)}), "
                f"got {term_scores.shape}"
            )
        graph = _LinkGraph(passages, links)
        totals = term_scores.sum(0)
        best_total = float(totals.max(initial=0))
        if best_total <= 0:
            return ()
        relative_scores = term_scores / best_total
        relative_totals = totals / best_total
        scorer = _PathScorer(relative_scores, relative_totals, graph, self.hub)
        scored_paths: dict[frozenset[int], _ScoredPath] = {}
        for index in np.flatnonzero(totals > 0).tolist():
            single_path = (index,)
            members = frozenset(single_path)
            scored_paths[members] = scorer.score(single_path), single_path
        frontier = list(scored_paths.values())
        for _ in range(self.length - 1):
            ranked_paths = sorted(frontier, key=_path_rank)
            extensions: dict[frozenset[int], tuple[int, ...]] = {}
            for _, path in ranked_paths[:_BEAM_WIDTH]:
                for extension in graph.extend_path(path):
                    extensions[frozenset(extension)] = extension
            frontier = []
            for members, path in extensions.items():
                if members in scored_paths:
                    continue
                scored_path = scorer.score(path), path
                frontier.append(scored_path)
                scored_paths[members] = scored_path
        chains = []
        for score, path in sorted(scored_paths.values(), key=_path_rank):
            path_passages = tuple(passages[index] for index in path)
            path_links = graph.path_links(path)
            chain = Chain(path_passages, path_links, score)
            chains.append(chain)
        return tuple(chains)


def pack_chains(
    chains: Sequence[Chain], tokens: int
) -> tuple[tuple[Passage, Chain], ...]:
    """The passages of the best chains that fit into ``tokens``.

    Each passage comes once, with the chain that brought it. A passage too long for what
    is left is skipped.
    """
    budget = TokenBudget(tokens)
    packed: dict[str, tuple[Passage, Chain]] = {}
    for chain in chains:
        for passage in chain.passages:
            if passage.id in packed:
                continue
            if budget.try_add(passage.text):
                packed[passage.id] = (passage, chain)
    return tuple(packed.values())


def _path_rank(scored_path: _ScoredPath) -> tuple[float, int, tuple[int, ...]]:
    """Best first; of equals the shorter, then the one of earlier passages."""
    score, path = scored_path
    return -round(score, 9), len(path), path


class _LinkGraph:
    """The passages as nodes, linked in either direction."""

    def __init__(self, passages: Sequence[Passage], links: Sequence[Link]) -> None:
        indexes = {}
        for index, passage in enumerate(passages):
            indexes[passage.id] = index
        self.links: dict[tuple[int, int], Link] = {}
        self.neighbours: list[set[int]] = [set() for _ in passages]
        for link in links:
            source = indexes.get(link.span.passage_id)
            target = indexes.get(link.target_id)
            if source is None or target is None or source == target:
                continue
            ends = _link_key(source, target)
            self.links.setdefault(ends, link)
            self.neighbours[source].add(target)
            self.neighbours[target].add(source)

    def extend_path(self, path: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The paths with one more passage, at the end or the beginning."""
        first = path[0]
        last = path[-1]
        extensions = []
        for index in sorted(self.neighbours[last]):
            if index not in path:
                extensions.append((*path, index))
        if len(path) == 1:
            return extensions
        for index in sorted(self.neighbours[first]):
            if index not in path:
                extensions.append((index, *path))
        return extensions

    def path_links(self, path: tuple[int, ...]) -> tuple[Link, ...]:
        """The links between the neighbours of a path."""
        links = []
        for source, target in itertools.pairwise(path):
            ends = _link_key(source, target)
            links.append(self.links[ends])
        return tuple(links)


def _link_key(source: int, target: int) -> tuple[int, int]:
    return min(source, target), max(source, target)


class _PathScorer:
    """Scores a path: what its passages cover together, less what its links cost."""

    def __init__(
        self,
        term_scores: NDArray[np.float32],
        totals: NDArray[np.float32],
        graph: _LinkGraph,
        hub_cost: float,
    ) -> None:
        self.term_scores = term_scores
        self.totals = totals
        self.graph = graph
        self.hub_cost = hub_cost

    def score(self, path: tuple[int, ...]) -> float:
        """The score of a path, in units of the best single passage."""
        indexes = list(path)
        best_scores = self.term_scores[:, indexes].max(1)
        covered = float(best_scores.sum())
        plain_sum = float(self.totals[indexes].sum())
        # A little of the plain sum, so that of two passages that add the same the
        # stronger one wins.
        score = 0.9 * covered + 0.1 * plain_sum
        link_cost = 0.0
        for source, target in itertools.pairwise(path):
            link_cost += self._link_cost(source, target)
        return score - self.hub_cost * link_cost

    def _link_cost(self, source: int, target: int) -> float:
        neighbours = self.graph.neighbours
        source_degree = len(neighbours[source])
        target_degree = len(neighbours[target])
        return math.log2(1 + min(source_degree, target_degree))


class ChainRetriever:
    """Searches passages and returns those of the best chains.

    Links are found once, at the first search. The passages come chain after chain.
    ``metadata["chain"]`` of each says which chain brought it: its rank, score, the ids
    on its path and the names that link them. ``score`` is the chain's.

    Args:
        passages: The passages to search.
        tokens: Tokens of the result at most.
        starts: How many of the best passages by BM25 are candidates, with all that they
            are linked with.
        chainer: Finds the chains.

    Raises:
        InputError: For ``tokens`` or ``starts`` below 1.
    """

    def __init__(
        self,
        passages: Sequence[Passage],
        *,
        tokens: int = 1000,
        start_count: int = 50,
        chainer: Chainer | None = None,
    ) -> None:
        if tokens < 1 or start_count < 1:
            raise InputError(
                f"tokens={tokens}, starts={start_count}: expected 1 or more"
            )
        self.bm25 = BM25Retriever(check_passages(passages))
        self.tokens = tokens
        self.starts = start_count
        self.chainer = chainer or Chainer()
        self._lock = threading.Lock()
        self._links: dict[str, list[Link]] | None = None

    def retrieve(self, query: str) -> tuple[Passage, ...]:
        """The passages of the best chains that fit into ``tokens``."""
        chains = self.chains(query)
        ranks: dict[int, int] = {}
        results = []
        for passage, chain in pack_chains(chains, self.tokens):
            next_rank = len(ranks) + 1
            rank = ranks.setdefault(id(chain), next_rank)
            result = _with_chain_metadata(passage, chain, rank)
            results.append(result)
        return tuple(results)

    async def aretrieve(self, query: str) -> tuple[Passage, ...]:
        """Retrieve on a thread of the pool."""
        return await run_in_pool(self.retrieve, query)

    def chains(self, query: str) -> tuple[Chain, ...]:
        """All chains over the candidates for ``query``, best first."""
        passages = self.bm25.passages
        term_scores = self.bm25.term_scores(query)
        if not term_scores.size:
            return ()
        links_by_passage = self._all_links()
        totals = term_scores.sum(0)
        order = (-totals).argsort(kind="stable")
        candidate_ids = set()
        for index in order[: self.starts]:
            if totals[index] > 0:
                candidate_ids.add(passages[index].id)
        links: list[Link] = []
        for passage_id in sorted(candidate_ids):
            links += links_by_passage.get(passage_id, ())
        for link in links:
            candidate_ids.add(link.span.passage_id)
            candidate_ids.add(link.target_id)
        indexes = []
        candidates = []
        for index, passage in enumerate(passages):
            if passage.id in candidate_ids:
                indexes.append(index)
                candidates.append(passage)
        candidate_scores = term_scores[:, indexes]
        return self.chainer.chains(candidates, candidate_scores, links)

    def _all_links(self) -> dict[str, list[Link]]:
        """Every link, under both of its ends."""
        passages = self.bm25.passages
        with self._lock:
            if self._links is None:
                self._links = {}
                for link in find_links(passages):
                    for passage_id in (link.span.passage_id, link.target_id):
                        passage_links = self._links.setdefault(passage_id, [])
                        passage_links.append(link)
            return self._links


class ChainDenoiser:
    """Keeps the passages of the best chains within ``tokens``, in their order.

    A dropped passage carries its best chain's score, so that the loop can restore it;
    one that no word of the question matches has the score 0.

    Args:
        tokens: Tokens of the kept passages at most.
        chainer: Finds the chains.

    Raises:
        InputError: For ``tokens`` below 1.
    """

    def __init__(
        self,
        *,
        tokens: int = 1000,
        chainer: Chainer | None = None,
    ) -> None:
        if tokens < 1:
            raise InputError(f"tokens={tokens}: expected 1 or more")
        self.tokens = tokens
        self.chainer = chainer or Chainer()

    def denoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        """Keep the passages of the best chains."""
        passages = check_passages(passages)
        if not passages:
            return DenoiseResult(query, ())
        links = find_links(passages)
        term_scores = BM25Retriever(passages).term_scores(query)
        chains = self.chainer.chains(passages, term_scores, links)
        packed = pack_chains(chains, self.tokens)
        kept_ids = {passage.id for passage, _ in packed}
        chain_scores: dict[str, float] = {}
        for chain in chains:
            for passage in chain.passages:
                chain_scores.setdefault(passage.id, chain.score)
        kept_passages: list[Passage] = []
        keeps: list[Keep] = []
        drops: list[Drop] = []
        reason = "not among the best chains"
        for passage in passages:
            score = chain_scores.get(passage.id, 0.0)
            spans = passage.source_spans
            if passage.id in kept_ids:
                kept_passages.append(passage)
                keeps += [Keep(span, score) for span in spans]
            else:
                drops += [Drop(span, reason, score) for span in spans]
        return DenoiseResult(
            query, tuple(kept_passages), tuple(drops), kept=tuple(keeps)
        )

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        """Denoise on a thread of the pool."""
        return await run_in_pool(self.denoise, query, passages)


def _with_chain_metadata(passage: Passage, chain: Chain, rank: int) -> Passage:
    path_ids = []
    for path_passage in chain.passages:
        path_ids.append(path_passage.id)
    link_names = []
    for link in chain.links:
        link_names.append(link.name)
    record: dict[str, Any] = {
        "rank": rank,
        "score": round(chain.score, 6),
        "path": path_ids,
        "via": link_names,
    }
    metadata = {**passage.metadata, "chain": record}
    return replace(passage, score=chain.score, metadata=metadata)
