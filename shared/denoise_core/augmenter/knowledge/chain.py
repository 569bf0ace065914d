"""Evidence chainer: short chains of passages that together cover the question.

The passages and their links are a graph. A chain is a passage or two linked ones: three
did no better on OTT-QA. Its score adds up over the words of the question: each word
counts once, with the best score any passage of the chain gives it, so that a second
passage adds exactly what the first does not say. Links through passages that everything
points to count less. (CORE, Ma et al. 2022, adds the log-scores of retriever and reranker; without
a trained reranker we use what a passage adds to the covered question.) `ChainRetriever`
and `ChainDenoiser` use chains as a retriever or a denoiser, within a token budget.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from denoise_core.augmenter.knowledge.link import Link, find_links
from denoise_core.augmenter.knowledge.retrieve import BM25Retriever
from denoise_core.errors import InputError
from denoise_core.result import DenoiseResult
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.text.token_budget import TokenBudget
from denoise_core.types import Drop, Keep, Passage, check_passages

_MAX_STARTS = 50  # single passages from which pairs are made
_LINK_COST = 0.07  # for each doubling of the links of a pair's end with fewer
_Pair: TypeAlias = tuple[int, int]
_ScoredPath: TypeAlias = tuple[float, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Chain:
    """Passages in the order of the path, and the links between neighbours.

    ``score`` is in units of the best single passage; one passage is a chain too.
    """

    passages: tuple[Passage, ...]
    links: tuple[Link, ...]
    score: float


def find_chains(
    passages: Sequence[Passage],
    term_scores: NDArray[np.float32],
    links: Sequence[Link],
) -> tuple[Chain, ...]:
    """Find the chains, best first, each set of passages once.

    Pairs begin with one of the best single passages (LLM-Augmenter, section 2.3.1,
    evidence chainer).

    Args:
        passages: The candidates.
        term_scores: Shape ``(words of the question, passages)``, as
            `BM25Retriever.term_scores` returns.
        links: The links between the passages.

    Raises:
        InputError: For scores of another shape.
    """
    if term_scores.shape[-1:] != (len(passages),):
        raise InputError(
            f"term_scores: expected shape (words, {len(passages)}), "
            f"got {term_scores.shape}"
        )
    totals = term_scores.sum(0)
    best_total = float(totals.max(initial=0))
    if best_total <= 0:
        return ()
    relative_scores = term_scores / best_total
    linked_pairs = _linked_pairs(passages, links)
    neighbours: list[set[int]] = [set() for _ in passages]
    for first, second in linked_pairs:
        neighbours[first].add(second)
        neighbours[second].add(first)

    def rank_paths(paths: Iterable[tuple[int, ...]]) -> list[_ScoredPath]:
        scored_paths = []
        for path in paths:
            path_score = _score_path(path, relative_scores, neighbours)
            scored_paths.append((path_score, path))
        return sorted(scored_paths, key=_path_rank)

    singles = [(index,) for index in np.flatnonzero(totals > 0).tolist()]
    ranked_singles = rank_paths(singles)
    pairs: dict[_Pair, _Pair] = {}
    for _, (start, *_) in ranked_singles[:_MAX_STARTS]:
        for second in sorted(neighbours[start]):
            pairs[_sorted_pair(start, second)] = (start, second)
    ranked_paths = ranked_singles + rank_paths(pairs.values())
    chains = []
    for score, path in sorted(ranked_paths, key=_path_rank):
        path_passages = tuple(passages[index] for index in path)
        path_links: tuple[Link, ...] = ()
        if len(path) > 1:
            path_links = (linked_pairs[_sorted_pair(*path)],)
        chains.append(Chain(path_passages, path_links, score))
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


def _linked_pairs(
    passages: Sequence[Passage], links: Sequence[Link]
) -> dict[_Pair, Link]:
    """The first link between each two passages, in either direction."""
    indexes = {passage.id: index for index, passage in enumerate(passages)}
    linked_pairs: dict[_Pair, Link] = {}
    for link in links:
        source = indexes.get(link.span.passage_id)
        target = indexes.get(link.target_id)
        if source is None or target is None or source == target:
            continue
        linked_pairs.setdefault(_sorted_pair(source, target), link)
    return linked_pairs


def _sorted_pair(first: int, second: int) -> _Pair:
    return min(first, second), max(first, second)


def _score_path(
    path: tuple[int, ...],
    term_scores: NDArray[np.float32],
    neighbours: Sequence[set[int]],
) -> float:
    """What its passages cover together, less what their link costs."""
    path_scores = term_scores[:, list(path)]
    covered = float(path_scores.max(1).sum())
    plain_sum = float(path_scores.sum())
    # A little of the plain sum, so that of two passages that add the same the
    # stronger one wins.
    score = 0.9 * covered + 0.1 * plain_sum
    if len(path) == 1:
        return score
    fewest_links = min(len(neighbours[index]) for index in path)
    return score - _LINK_COST * math.log2(1 + fewest_links)


class ChainRetriever:
    """Searches passages and returns those of the best chains.

    Links are found once, at the first search. The passages come chain after chain.
    ``metadata["chain"]`` of each says which chain brought it: its rank, score, the ids
    on its path and the names that link them. ``score`` is the chain's.

    Args:
        passages: The passages to search.
        tokens: Tokens of the result at most.
        start_count: How many of the best passages by BM25 are candidates, with all that
            they are linked with.

    Raises:
        InputError: For ``tokens`` or ``start_count`` below 1.
    """

    def __init__(
        self,
        passages: Sequence[Passage],
        *,
        tokens: int = 1000,
        start_count: int = 50,
    ) -> None:
        if tokens < 1 or start_count < 1:
            raise InputError(
                f"tokens={tokens}, start_count={start_count}: expected 1 or more"
            )
        self.bm25 = BM25Retriever(check_passages(passages))
        self.tokens = tokens
        self.start_count = start_count
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
        for index in order[: self.start_count]:
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
        return find_chains(candidates, candidate_scores, links)

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

    Raises:
        InputError: For ``tokens`` below 1.
    """

    def __init__(self, *, tokens: int = 1000) -> None:
        if tokens < 1:
            raise InputError(f"tokens={tokens}: expected 1 or more")
        self.tokens = tokens

    def denoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        """Keep the passages of the best chains."""
        passages = check_passages(passages)
        if not passages:
            return DenoiseResult(query, ())
        links = find_links(passages)
        term_scores = BM25Retriever(passages).term_scores(query)
        chains = find_chains(passages, term_scores, links)
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
    path_ids = [path_passage.id for path_passage in chain.passages]
    link_names = [link.name for link in chain.links]
    record: dict[str, Any] = {
        "rank": rank,
        "score": round(chain.score, 6),
        "path": path_ids,
        "via": link_names,
    }
    metadata = {**passage.metadata, "chain": record}
    return replace(passage, score=chain.score, metadata=metadata)
