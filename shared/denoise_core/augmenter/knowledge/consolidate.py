"""Knowledge consolidator: search the sources, merge the results, denoise them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from denoise_core.augmenter.drafting.contamination import (
    is_contaminated,
    rejected_draft_words,
)
from denoise_core.augmenter.knowledge.queries import question_queries
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.prompts import with_title_line
from denoise_core.errors import BudgetExceeded, InputError
from denoise_core.protocols import (
    Denoiser,
    Retriever,
    expect_denoiser,
    expect_retriever,
)
from denoise_core.runtime.effects import FailedItem, Flow, Retrieve, batch, denoise
from denoise_core.types import Drop, Passage, unique_ids

QueryFunction: TypeAlias = Callable[[WorkingMemory, bool], Flow[tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class GatheredEvidence:
    """What one search adds to the memory.

    Attributes:
        queries: The queries searched.
        retrieved: All new passages that count as evidence.
        evidence: What of them is shown, after denoising.
        dropped: The ranges that the denoiser left out.
        failures: What failed, with its error.
        excluded_evidence: New passages that are no evidence by their provenance.
    """

    queries: tuple[str, ...]
    retrieved: tuple[Passage, ...] = ()
    evidence: tuple[Passage, ...] = ()
    dropped: tuple[Drop, ...] = ()
    failures: tuple[tuple[str, Exception], ...] = ()
    excluded_evidence: tuple[Passage, ...] = ()


class Consolidator:
    """Retrieval as the loop sees it (LLM-Augmenter, section 2.3.1).

    A text already in the memory is not added again; passages with one id but different
    texts get new ids. If a source or the denoiser fails, the others go on; if every
    source fails, the search does. A query that has words only a rejected draft has is
    not searched. Passages that a user or a model wrote are excluded.

    Args:
        sources: Each is asked every new query, concurrently.
        wide: Sources also asked in a wide search.
        queries: What to search; `question_queries` by default.
        denoiser: Denoises the results.
    """

    def __init__(
        self,
        sources: Retriever | Sequence[Retriever],
        *,
        wide: Sequence[Retriever] = (),
        queries: QueryFunction | None = None,
        denoiser: Denoiser | None = None,
    ) -> None:
        source_list: tuple[Any, ...] = (sources,)
        # A retriever may be iterable; a string is a mistake that is named below.
        if isinstance(sources, Iterable) and not isinstance(sources, (str, Retriever)):
            source_list = tuple(sources)
        self.sources = tuple(expect_retriever(s, "sources") for s in source_list)
        self.wide = tuple(expect_retriever(s, "wide") for s in wide)
        self.queries = queries or question_queries
        self.denoiser = denoiser
        if denoiser is not None:
            self.denoiser = expect_denoiser(denoiser)

    def gather(
        self, memory: WorkingMemory, *, wide: bool = False
    ) -> Flow[GatheredEvidence]:
        """Search, merge and denoise.

        Raises:
            Exception: What the sources raised, when all of them failed.
        """
        proposed_queries = yield from self.queries(memory, wide)
        rejected_words = rejected_draft_words(memory)
        queries: list[str] = []
        failures: list[tuple[str, Exception]] = []
        for query in filter(str.strip, dict.fromkeys(proposed_queries)):
            if not is_contaminated(query, rejected_words):
                queries.append(query)
            else:
                reason = f"not asked, it holds words of a rejected draft: {query!r}"
                failures.append(("query", InputError(reason)))
        replies = yield from self._search_sources(memory, queries, wide)
        results = []
        for reply in replies:
            if isinstance(reply, FailedItem):
                failures.append(("source", reply.error))
            else:
                results.append(reply)
        evidence, excluded = merge_new(memory, results)
        gathered = GatheredEvidence(
            tuple(queries),
            evidence,
            evidence,
            failures=tuple(failures),
            excluded_evidence=excluded,
        )
        if self.denoiser is None or not evidence:
            return gathered
        try:
            result = yield from denoise(
                memory.question, evidence, denoiser=self.denoiser
            )
        except Exception as error:
            failures.append(("denoise", error))
            return replace(gathered, failures=tuple(failures))
        return replace(gathered, evidence=result.passages, dropped=result.dropped)

    def _search_sources(
        self, memory: WorkingMemory, queries: Sequence[str], wide: bool
    ) -> Flow[list[Any]]:
        """The result of each source for each query new to it, or a `FailedItem`.

        Raises:
            Exception: When all failed; a spent budget first, because it ends the loop.
        """
        searches: list[Retrieve] = []
        for query in queries:
            if query not in memory.queries:
                searches += [Retrieve(query, "search", s) for s in self.sources]
        if wide:
            for query in queries:
                searches += [Retrieve(query, "search", s) for s in self.wide]
        if not searches:
            return []
        replies = yield from batch(tuple(searches))
        errors = []
        for reply in replies:
            if not isinstance(reply, FailedItem):
                return replies
            errors.append(reply.error)
        for error in errors:
            if isinstance(error, BudgetExceeded):
                raise error
        raise errors[0]


def merge_new(
    memory: WorkingMemory, result_lists: Sequence[Sequence[Passage]]
) -> tuple[tuple[Passage, ...], tuple[Passage, ...]]:
    """The new passages that count as evidence, and the new ones that do not.

    A text that did not count counts once it is retrieved.
    """
    counted_lists = [[p for p in results if p.counts] for results in result_lists]
    other_lists = [[p for p in results if not p.counts] for results in result_lists]
    return merge_both_kinds(memory, counted_lists, other_lists)


def merge_both_kinds(
    memory: WorkingMemory,
    counted_lists: Sequence[Sequence[Passage]],
    excluded_lists: Sequence[Sequence[Passage]],
) -> tuple[tuple[Passage, ...], tuple[Passage, ...]]:
    """The new passages of both kinds, merged by rank, under ids that no other has."""
    counted = merge_by_rank(memory.retrieved, counted_lists)
    known_passages = (*memory.retrieved, *memory.excluded_evidence, *counted)
    return counted, merge_by_rank(known_passages, excluded_lists)


def merge_by_rank(
    known_passages: tuple[Passage, ...], result_lists: Sequence[Sequence[Passage]]
) -> tuple[Passage, ...]:
    """Merge lists rank by rank, best first.

    Args:
        known_passages: Passages whose texts are not added again.
        result_lists: The lists, each best first.

    Returns:
        The new passages, each text once, with ids unlike each other and the known ones.
    """
    seen_texts = {with_title_line(passage) for passage in known_passages}
    new_passages: list[Passage] = []
    for same_rank in itertools.zip_longest(*result_lists):
        for passage in same_rank:
            if passage is None:
                continue
            text = with_title_line(passage)
            if text not in seen_texts:
                seen_texts.add(text)
                new_passages.append(passage)
    all_passages = (*known_passages, *new_passages)
    all_ids = unique_ids([passage.id for passage in all_passages])
    new_ids = all_ids[len(known_passages) :]
    merged: list[Passage] = []
    for passage, new_id in zip(new_passages, new_ids, strict=True):
        if passage.id == new_id:
            merged.append(passage)
        else:
            merged.append(replace(passage, id=new_id))
    return tuple(merged)
