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
    passage_count = len(passages)
    last_axes = term_scores.shape[-1:]
    if last_axes != (passage_count,):
        raise InputError(
            f"term_scores: expected shape (words, {passage_count}), "
            f"got {term_scores.shape}"
        )
    totals = term_scores.sum(0)
    highest_total = totals.max(initial=0)
    best_total = float(highest_total)
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

    matching_indexes = np.flatnonzero(totals > 0)
    single_paths = [(index,) for index in matching_indexes.tolist()]
    ranked_singles = rank_paths(single_paths)
    paths_by_pair = {}
    for _, single_path in ranked_singles[:_MAX_STARTS]:
        (start,) = single_path
        start_neighbours = sorted(neighbours[start])
        for second in start_neighbours:
            sorted_pair = _sorted_pair(start, second)
            paths_by_pair[sorted_pair] = (start, second)
    pair_paths = paths_by_pair.values()
    ranked_pairs = rank_paths(pair_paths)
    ranked_paths = ranked_singles + ranked_pairs
    ranked_paths.sort(key=_path_rank)
    chains = []
    for score, path in ranked_paths:
        path_passages = tuple(passages[index] for index in path)
        path_links: tuple[Link, ...] = ()
        if len(path) > 1:
            sorted_pair = _sorted_pair(*path)
            pair_link = linked_pairs[sorted_pair]
            path_links = (pair_link,)
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
    packed = {}
    for chain in chains:
        for passage in chain.passages:
            passage_id = passage.id
            if passage_id in packed:
                continue
            has_room = budget.try_add(passage.text)
            if has_room:
                packed[passage_id] = (passage, chain)
    packed_passages = packed.values()
    return tuple(packed_passages)


def _path_rank(scored_path: _ScoredPath) -> tuple[float, int, tuple[int, ...]]:
    """Best first; of equals the shorter, then the one of earlier passages."""
    score, path = scored_path
    rounded_score = round(score, 9)
    path_length = len(path)
    return -rounded_score, path_length, path


def _linked_pairs(
    passages: Sequence[Passage], links: Sequence[Link]
) -> dict[_Pair, Link]:
    """The first link between each two passages, in either direction."""
    indexes = {passage.id: index for index, passage in enumerate(passages)}
    linked_pairs: dict[_Pair, Link] = {}
    for link in links:
        source_id = link.span.passage_id
        source = indexes.get(source_id)
        target = indexes.get(link.target_id)
        if source is None or target is None or source == target:
            continue
        sorted_pair = _sorted_pair(source, target)
        linked_pairs.setdefault(sorted_pair, link)
    return linked_pairs


def _sorted_pair(first: int, second: int) -> _Pair:
    lower_index = min(first, second)
    higher_index = max(first, second)
    return lower_index, higher_index


def _score_path(
    path: tuple[int, ...],
    term_scores: NDArray[np.float32],
    neighbours: Sequence[set[int]],
) -> float:
    """What its passages cover together, less what their link costs."""
    path_indexes = list(path)
    path_scores = term_scores[:, path_indexes]
    best_scores = path_scores.max(1)
    covered_score = float(best_scores.sum())
    plain_sum = float(path_scores.sum())
    # A little of the plain sum, so that of two passages that add the same the
    # stronger one wins.
    path_score = 0.9 * covered_score + 0.1 * plain_sum
    if len(path) == 1:
        return path_score
    link_counts = [len(neighbours[index]) for index in path]
    fewest_links = min(link_counts)
    link_doublings = math.log2(1 + fewest_links)
    return path_score - _LINK_COST * link_doublings


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
        checked_passages = check_passages(passages)
        self.bm25 = BM25Retriever(checked_passages)
        self.tokens = tokens
        self.start_count = start_count
        self._lock = threading.Lock()
        self._links: dict[str, list[Link]] | None = None

    def retrieve(self, query: str) -> tuple[Passage, ...]:
        """The passages of the best chains that fit into ``tokens``."""
        chains = self.chains(query)
        packed_passages = pack_chains(chains, self.tokens)
        chain_ranks: dict[int, int] = {}
        results = []
        for passage, chain in packed_passages:
            next_rank = len(chain_ranks) + 1
            chain_key = id(chain)
            chain_rank = chain_ranks.setdefault(chain_key, next_rank)
            result = _with_chain_metadata(passage, chain, chain_rank)
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
        negated_totals = -totals
        ranked_indexes = negated_totals.argsort(kind="stable")
        start_indexes = ranked_indexes[: self.start_count]
        candidate_ids = set()
        for index in start_indexes:
            if totals[index] > 0:
                start_passage = passages[index]
                candidate_ids.add(start_passage.id)
        start_ids = sorted(candidate_ids)
        links: list[Link] = []
        for passage_id in start_ids:
            links += links_by_passage.get(passage_id, ())
        for link in links:
            source_id = link.span.passage_id
            candidate_ids.add(source_id)
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
                found_links = find_links(passages)
                for link in found_links:
                    end_ids = (link.span.passage_id, link.target_id)
                    for passage_id in end_ids:
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
        bm25_retriever = BM25Retriever(passages)
        term_scores = bm25_retriever.term_scores(query)
        chains = find_chains(passages, term_scores, links)
        packed_passages = pack_chains(chains, self.tokens)
        kept_ids = {passage.id for passage, _ in packed_passages}
        chain_scores: dict[str, float] = {}
        for chain in chains:
            for passage in chain.passages:
                chain_scores.setdefault(passage.id, chain.score)
        kept_passages = []
        keeps = []
        drops = []
        reason = "not among the best chains"
        for passage in passages:
            passage_id = passage.id
            score = chain_scores.get(passage_id, 0.0)
            spans = passage.source_spans
            if passage_id in kept_ids:
                kept_passages.append(passage)
                keeps += [Keep(span, score) for span in spans]
            else:
                drops += [Drop(span, reason, score) for span in spans]
        dropped_spans = tuple(drops)
        kept_spans = tuple(keeps)
        return DenoiseResult(
            query, tuple(kept_passages), dropped_spans, kept=kept_spans
        )

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        """Denoise on a thread of the pool."""
        return await run_in_pool(self.denoise, query, passages)


def _with_chain_metadata(passage: Passage, chain: Chain, rank: int) -> Passage:
    path_ids = [path_passage.id for path_passage in chain.passages]
    link_names = [link.name for link in chain.links]
    rounded_score = round(chain.score, 6)
    chain_record: dict[str, Any] = {
        "rank": rank,
        "score": rounded_score,
        "path": path_ids,
        "via": link_names,
    }
    metadata = {**passage.metadata, "chain": chain_record}
    return replace(passage, score=chain.score, metadata=metadata)
