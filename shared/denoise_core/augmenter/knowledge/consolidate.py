"""Knowledge consolidator: ask the sources, merge what they find, take the noise out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from denoise_core.augmenter.drafting.contamination import rejected_draft_words, is_contaminated
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
    """What one search adds: all that was found new, what of it is shown, what was left out, what is no evidence by
    its provenance, what failed."""

    queries: tuple[str, ...]
    retrieved: tuple[Passage, ...] = ()
    evidence: tuple[Passage, ...] = ()
    dropped: tuple[Drop, ...] = ()
    failures: tuple[tuple[str, Exception], ...] = ()
    excluded_evidence: tuple[Passage, ...] = ()


class Consolidator:
    """Retrieval as the loop sees it (LLM-Augmenter, section 2.3.1).

    ``sources`` are all asked with every new query, concurrently; ``wide`` are asked as well in a wide search.
    A text that is in the memory already is not found again; passages of one id but different texts are renamed.
    A source or denoiser that fails is noted and the rest goes on; when every source fails, the search does. A
    query that holds what only a rejected draft says is noted and not asked; passages that a user or a model wrote
    are set aside.
    """

    def __init__(
        self,
        sources: Retriever | Sequence[Retriever],
        *,
        wide: Sequence[Retriever] = (),
        queries: QueryFunction | None = None,
        denoiser: Denoiser | None = None,
    ) -> None:
        several = isinstance(sources, Iterable) and not isinstance(sources, str)
        listed = (
            tuple(sources)
            if several and not isinstance(sources, Retriever)
            else (sources,)
        )
        self.sources = tuple(expect_retriever(s, "sources") for s in listed)
        self.wide = tuple(expect_retriever(s, "wide") for s in wide)
        self.queries = queries or question_queries
        self.denoiser = None if denoiser is None else expect_denoiser(denoiser)

    def gather(
        self, memory: WorkingMemory, *, wide: bool = False
    ) -> Flow[GatheredEvidence]:
        """Raises what the outside raised when nothing at all came back, `BudgetExceeded` included."""
        wanted = [
            q
            for q in dict.fromkeys((yield from self.queries(memory, wide)))
            if q.strip()
        ]
        own = rejected_draft_words(memory)
        queries = tuple(
            q for q in wanted if q == memory.question or not is_contaminated(q, own)
        )
        replies = yield from self._searched(memory, queries, wide)
        refused = [
            InputError(f"not asked, it holds words of a rejected draft: {q!r}")
            for q in wanted
            if q not in queries
        ]
        failures = [("source", r.error) for r in replies if isinstance(r, FailedItem)]
        merged = merge_by_rank(
            (*memory.retrieved, *memory.excluded_evidence),
            [r for r in replies if not isinstance(r, FailedItem)],
        )
        found = tuple(p for p in merged if p.counts)
        gathered = GatheredEvidence(
            queries,
            found,
            found,
            failures=(*failures, *(("query", error) for error in refused)),
            excluded_evidence=tuple(p for p in merged if not p.counts),
        )
        if self.denoiser is None or not found:
            return gathered
        try:
            result = yield from denoise(memory.question, found, denoiser=self.denoiser)
        except Exception as error:
            return replace(gathered, failures=(*gathered.failures, ("denoise", error)))
        return replace(gathered, evidence=result.passages, dropped=result.dropped)

    def _searched(
        self, memory: WorkingMemory, queries: Sequence[str], wide: bool
    ) -> Flow[list[Any]]:
        """What each source says to each query that is new to it, or a `FailedItem`; raises when all failed, a spent
        budget before anything else, because it ends the loop."""
        asked = [
            Retrieve(q, "search", s)
            for q in queries
            if q not in memory.queries
            for s in self.sources
        ]
        asked += [Retrieve(q, "search", s) for q in queries if wide for s in self.wide]
        replies = (yield from batch(tuple(asked))) if asked else []
        errors = [r.error for r in replies if isinstance(r, FailedItem)]
        if errors and len(errors) == len(replies):
            raise next((e for e in errors if isinstance(e, BudgetExceeded)), errors[0])
        return replies


def merge_by_rank(
    known: tuple[Passage, ...], found: Sequence[Sequence[Passage]]
) -> tuple[Passage, ...]:
    """The lists dealt out rank by rank, best first, each text once, with ids that differ."""
    seen = {with_title_line(p) for p in known}
    fresh: list[Passage] = []
    for rank in range(max(map(len, found), default=0)):
        for passages in found:
            if (
                rank < len(passages)
                and (key := with_title_line(passages[rank])) not in seen
            ):
                seen.add(key)
                fresh.append(passages[rank])
    ids = unique_ids([p.id for p in (*known, *fresh)])[len(known) :]
    return tuple(
        p if p.id == i else replace(p, id=i) for p, i in zip(fresh, ids, strict=True)
    )
