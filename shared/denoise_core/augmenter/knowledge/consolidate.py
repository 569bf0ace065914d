"""Knowledge consolidator: search the sources, merge the results, denoise them.

A new way to make queries is a function of the memory, as `question_queries` is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from denoise_core.augmenter.drafting.contamination import (
    is_contaminated,
    rejected_draft_words,
)
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


def question_queries(memory: WorkingMemory, wide: bool) -> Flow[tuple[str, ...]]:
    """The question; in a wide search also with the user's turn before it.

    A follow-up leaves unsaid what that turn says. Nothing of a draft is searched: it
    may be made up.
    """
    queries = [memory.question]
    if wide and memory.user_turns:
        last_turn = memory.user_turns[-1]
        queries.append(f"{last_turn} {memory.question}")
    return tuple(queries)
    yield  # makes this a flow, though it asks nothing


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
        source_list = sources if isinstance(sources, (list, tuple)) else (sources,)
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
        distinct_queries = dict.fromkeys(proposed_queries)
        written_queries = filter(str.strip, distinct_queries)
        for query in written_queries:
            is_suspect = is_contaminated(query, rejected_words)
            if not is_suspect:
                queries.append(query)
            else:
                reason = f"not asked, it holds words of a rejected draft: {query!r}"
                query_error = InputError(reason)
                failures.append(("query", query_error))
        replies = yield from self._search_sources(memory, queries, wide)
        results = []
        for reply in replies:
            if isinstance(reply, FailedItem):
                source_failure = ("source", reply.error)
                failures.append(source_failure)
            else:
                results.append(reply)
        evidence, excluded_evidence = merge_new(memory, results)
        gathered = GatheredEvidence(
            tuple(queries),
            evidence,
            evidence,
            failures=tuple(failures),
            excluded_evidence=excluded_evidence,
        )
        if self.denoiser is None or not evidence:
            return gathered
        try:
            result = yield from denoise(
                memory.question, evidence, denoiser=self.denoiser
            )
        except Exception as error:
            failures.append(("denoise", error))
            all_failures = tuple(failures)
            return replace(gathered, failures=all_failures)
        return replace(gathered, evidence=result.passages, dropped=result.dropped)

    def _search_sources(
        self, memory: WorkingMemory, queries: Sequence[str], wide: bool
    ) -> Flow[list[Any]]:
        """The result of each source for each query new to it, or a `FailedItem`.

        Raises:
            Exception: When all failed; a spent budget first, because it ends the loop.
        """
        new_queries = [query for query in queries if query not in memory.queries]
        searches = _plan_searches(new_queries, self.sources)
        if wide:
            searches += _plan_searches(queries, self.wide)
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


def _plan_searches(
    queries: Sequence[str], sources: Sequence[Retriever]
) -> list[Retrieve]:
    searches = []
    for query in queries:
        for source in sources:
            query_search = Retrieve(query, "search", source)
            searches.append(query_search)
    return searches


def merge_new(
    memory: WorkingMemory, result_lists: Sequence[Sequence[Passage]]
) -> tuple[tuple[Passage, ...], tuple[Passage, ...]]:
    """The new passages that count as evidence, and the new ones that do not.

    The lists are merged rank by rank, best first, and each text is there once. A text
    that did not count counts once it is retrieved.
    """
    counted: list[Passage] = []
    excluded: list[Passage] = []
    rank_groups = itertools.zip_longest(*result_lists)
    for same_rank in rank_groups:
        for passage in same_rank:
            if passage is not None:
                same_kind = counted if passage.counts else excluded
                same_kind.append(passage)
    distinct_counted = _distinct_texts(counted)
    new_counted = select_new(memory.retrieved, distinct_counted)
    new_excluded = select_excluded(memory, new_counted, excluded)
    return new_counted, new_excluded


def select_excluded(
    memory: WorkingMemory,
    new_counted: tuple[Passage, ...],
    excluded: Sequence[Passage],
) -> tuple[Passage, ...]:
    """The new passages that are no evidence, given the new ones that are."""
    earlier_passages = (*memory.retrieved, *memory.excluded_evidence)
    known_passages = (*earlier_passages, *new_counted)
    distinct_excluded = _distinct_texts(excluded)
    return select_new(known_passages, distinct_excluded)


def _distinct_texts(passages: Sequence[Passage]) -> list[Passage]:
    """The passages without those whose text an earlier one has."""
    passages_by_text: dict[str, Passage] = {}
    for passage in passages:
        text = with_title_line(passage)
        passages_by_text.setdefault(text, passage)
    return list(passages_by_text.values())


def select_new(
    known_passages: tuple[Passage, ...], passages: Sequence[Passage]
) -> tuple[Passage, ...]:
    """The passages of a list whose texts are not known, under ids that no other has.

    A text that the list repeats stays: of evidence that a caller or a drafter numbered,
    ``[3]`` stays the third.
    """
    known_texts = set(map(with_title_line, known_passages))
    new_passages = [p for p in passages if with_title_line(p) not in known_texts]
    all_passages = (*known_passages, *new_passages)
    written_ids = [passage.id for passage in all_passages]
    distinct_ids = unique_ids(written_ids)
    known_count = len(known_passages)
    new_ids = distinct_ids[known_count:]
    merged_passages: list[Passage] = []
    for passage, new_id in zip(new_passages, new_ids, strict=True):
        merged_passage = passage
        if passage.id != new_id:
            merged_passage = replace(passage, id=new_id)
        merged_passages.append(merged_passage)
    return tuple(merged_passages)
