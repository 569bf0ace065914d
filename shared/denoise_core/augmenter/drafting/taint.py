"""Keep a draft from fetching its own evidence: what a search asked for, held against the drafts that did not hold.

A model that made something up will, asked again, search for what it made up, and find text that speaks of it. So a
search whose words come from a rejected draft and from nowhere else brings no evidence, and neither does a tool
that says back what it was told.
"""

from __future__ import annotations

from collections.abc import Iterable

from denoise_core.augmenter.drafting.drafter import Drafted, Found
from denoise_core.augmenter.engine import titled
from denoise_core.augmenter.memory import Attempt, WorkingMemory
from denoise_core.support.citing import uncited
from denoise_core.text.words import content_words
from denoise_core.types import Passage

# What a tool says around the words it was given.
_ECHOES = frozenset(
    content_words(
        "answer ask asked echo found input message no none ok query question received reply request response "
        "result results said saved search searched sent success successfully text tool user you your yes"
    )
)


def own_words(memory: WorkingMemory) -> frozenset[str]:
    """Words that only the rejected drafts have: neither the question, nor the conversation, nor the evidence."""
    rejected = [a for a in memory.attempts if not a.verdict.passed]
    said = {w for a in rejected for w in content_words(uncited(a.candidate))}
    return (
        frozenset(said - _known(memory) - _read(rejected) - _of(p for p in memory.evidence))
        if said
        else frozenset()
    )


def tainted(query: str, memory: WorkingMemory, own: frozenset[str] | None = None) -> bool:
    """Whether a search with ``query`` looks for what only a rejected draft says."""
    own = own_words(memory) if own is None else own
    return not own.isdisjoint(content_words(query))


def evidence_of(drafted: Drafted, memory: WorkingMemory) -> tuple[tuple[Passage, ...], tuple[Passage, ...]]:
    """The passages of a draft that count as evidence, and those that are set aside.

    Set aside is what a user or a model wrote, what a tool only said back, and, once a draft was rejected, what a
    search for that draft's own words brought. Of a search after a rejected draft whose words are not known, only
    what holds none of the rejected draft's own words counts.
    """
    own = own_words(memory)
    asked = _known(memory)
    counts: list[Passage] = []
    aside: list[Passage] = []
    for found in drafted.found:
        bad = found.query is not None and tainted(found.query, memory, own)
        for passage in found.passages:
            doubtful = found.query is None and own and not own.isdisjoint(content_words(titled(passage)))
            fit = passage.counts and not bad and not doubtful and not _echo(passage, found, asked)
            (counts if fit else aside).append(passage)
    return tuple(counts), tuple(aside)


def _echo(passage: Passage, found: Found, asked: frozenset[str]) -> bool:
    """A tool's text without a word of its own, asked with words that the question does not have."""
    if passage.provenance != "tool" or found.query is None:
        return False
    told = frozenset(content_words(found.query))
    return not told <= asked and frozenset(content_words(passage.text)) <= told | _ECHOES


def _known(memory: WorkingMemory) -> frozenset[str]:
    """Words of the question and of what the user said before it."""
    said = [memory.question, *(m.content for m in memory.history if m.role == "user")]
    return frozenset(w for text in said for w in content_words(text))


def _read(attempts: Iterable[Attempt]) -> frozenset[str]:
    return _of(p for a in attempts for p in a.evidence)


def _of(passages: Iterable[Passage]) -> frozenset[str]:
    return frozenset(w for p in passages for w in content_words(titled(p)))
