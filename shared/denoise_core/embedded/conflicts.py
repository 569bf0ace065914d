"""Passages that answer the question differently: none of the answers is lost, and the result names them.

A scorer averages conflicts away: of two passages that say a different year one is a little closer to the question.
Here the reader of real text is asked of each passage what it answers; of each answer the best passage stays, even
where the denoiser would drop it, and `DenoiseResult.conflicts` says which passage gives which. Which answer is
right is not decided: sources that are wrong read as well as others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from denoise_core.embedded.reader.judge import span_reader
from denoise_core.embedded.reader.span_reader import Found, SpanReader
from denoise_core.errors import InputError
from denoise_core.protocols import Denoiser, expect_denoiser
from denoise_core.result import Conflict, DenoiseResult
from denoise_core.running.offload import offload
from denoise_core.spans import is_within
from denoise_core.text.stems import stem
from denoise_core.text.words import content_words
from denoise_core.types import Keep, Passage, Span, check_passages

LEAST = 0.5  # probability of holding an answer from which a passage counts as giving one


class WithConflicts:
    """``denoiser``, with the best passage of each answer kept and the answers in ``result.conflicts``.

    A passage gives an answer when the reader finds one in it with probability ``least`` or more. The reader reads
    two windows of every passage at most, several times what the default costs: this is asked for and not the rule.
    English only, as the reader is. ``reader`` is the one that ships unless given; it is loaded at the first call.

    Raises `InputError` for a ``least`` outside 0 to 1, and as ``denoiser`` does.
    """

    def __init__(self, denoiser: Denoiser, *, reader: SpanReader | None = None, least: float = LEAST) -> None:
        if not 0.0 <= least <= 1.0:
            raise InputError(f"least={least}: expected a probability, 0 to 1")
        self.denoiser = expect_denoiser(denoiser)
        self.least = least
        self._reader = reader

    def denoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        given = check_passages(passages)
        return self._named(query, given, self.denoiser.denoise(query, given))

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        given = check_passages(passages)
        result = await self.denoiser.adenoise(query, given)
        return await offload(self._named, query, given, result)

    def _named(self, query: str, passages: Sequence[Passage], result: DenoiseResult) -> DenoiseResult:
        found = conflicts(self._reader or span_reader(), query, passages, self.least)
        if not found:
            return result
        return replace(_readmitted(result, passages, [c.span for c in found]), conflicts=found)


def conflicts(
    reader: SpanReader, query: str, passages: Sequence[Passage], least: float = LEAST
) -> tuple[Conflict, ...]:
    """The answers that the passages give, surest first; none unless there are two or more.

    Two are the same when the content words of one are all among those of the other.
    """
    groups: list[list[Found]] = []
    sure = [f for f in reader.per_passage(query, passages) if f is not None and f.holds >= least]
    for found in sorted(sure, key=lambda f: -f.holds):
        own = _words(found.text)
        same = next((g for g in groups if own <= _words(g[0].text) or own >= _words(g[0].text)), None)
        if same is not None:
            same.append(found)
        elif own:
            groups.append([found])
    if len(groups) < 2:
        return ()
    spans = (Span(group[0].passage_id, group[0].start, group[0].end) for group in groups)
    return tuple(
        Conflict(g[0].text, span, tuple(f.passage_id for f in g), g[0].holds) for g, span in zip(groups, spans)
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(map(stem, content_words(text)))


def _readmitted(result: DenoiseResult, passages: Sequence[Passage], answers: Sequence[Span]) -> DenoiseResult:
    """With the whole passage of each answer that no kept text covers; of a rewritten text nobody can tell."""
    kept = [s for p in result.passages for s in p.covered]
    if any(p.rewritten for p in result.passages):
        return result
    back = {a.passage_id for a in answers if not any(is_within(a, span) for span in kept)}
    if not back:
        return result
    best = dict(sorted((d.span.passage_id, d.score) for d in result.dropped if d.score is not None))
    there = {p.id: p for p in result.passages}
    there |= {p.id: replace(p, score=best.get(p.id, p.score)) for p in passages if p.id in back}
    stays = [there[p.id] for p in passages if p.id in there]
    more = [Keep(d.span, d.score) for d in result.dropped if d.span.passage_id in back and d.score is not None]
    return replace(
        result,
        passages=tuple(stays),
        dropped=tuple(d for d in result.dropped if d.span.passage_id not in back),
        kept=(*result.kept, *more) if result.kept else (),
    )
