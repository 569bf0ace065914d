"""Keep a draft from fetching its own evidence: what a search asked for, held against the drafts that did not hold.

A model that made something up will, asked again, search for what it made up, and find text that speaks of it. So a
search whose words come from a rejected draft and from nowhere else brings no evidence, and neither does what a
tool says back of its arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from denoise_core.augmenter.drafting.drafter import DraftReply, RetrievedEvidence
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.prompts import with_title_line
from denoise_core.support.citing import matching_runs, remove_citations
from denoise_core.text.words import content_words, split_words, word_spans
from denoise_core.types import Passage

BACK, BLANK = (
    3,
    6,
)  # words in a row that a tool repeats of what it was told: counted, and left out of what it said
MOSTLY = 0.6  # of a tool's words, from which on it said nothing of its own


def rejected_draft_words(memory: WorkingMemory) -> frozenset[str]:
    """Words that only the rejected drafts have: neither the question, nor the conversation, nor the evidence."""
    rejected = [a for a in memory.attempts if not a.verdict.passed]
    said = {w for a in rejected for w in content_words(remove_citations(a.candidate))}
    if not said:
        return frozenset()
    read = _of(p for a in rejected for p in a.evidence) | _of(memory.evidence)
    return frozenset(said - _known(memory) - read)


def is_contaminated(query: str, own: frozenset[str]) -> bool:
    """Whether a search with ``query`` looks for what only a rejected draft says: one of its `rejected_draft_words`."""
    return not own.isdisjoint(content_words(query))


def split_evidence(
    drafted: DraftReply, memory: WorkingMemory
) -> tuple[tuple[Passage, ...], tuple[Passage, ...]]:
    """The passages of a draft that count as evidence, and those that are set aside.

    Set aside is what a user or a model wrote, what a tool only said back, and, once a draft was rejected, what a
    search for that draft's own words brought. Of a search after a rejected draft whose words are not known, only
    what holds none of the rejected draft's own words counts.
    """
    own = rejected_draft_words(memory)
    asked = _known(memory)
    counts: list[Passage] = []
    aside: list[Passage] = []
    for found in drafted.retrieved:
        bad = found.query is not None and is_contaminated(found.query, own)
        for passage in found.passages:
            doubtful = (
                found.query is None
                and own
                and not own.isdisjoint(content_words(with_title_line(passage)))
            )
            own_part = _own_part(passage, found, asked)
            fit = passage.counts and not bad and not doubtful and own_part is not None
            (counts if fit else aside).append(own_part or passage)
    return tuple(counts), tuple(aside)


def drop_contaminated_searches(
    question: str, found: Sequence[RetrievedEvidence], rejected: Sequence[str]
) -> tuple[RetrievedEvidence, ...]:
    """What an agent's searches found, in order, without those that looked for what only a rejected draft says.

    ``question`` is all that the user said, ``rejected_draft`` the drafts judged before these searches are read again. A
    word that an earlier search brought may be searched for.
    """
    drafted_words = {w for text in rejected for w in content_words(text)}
    known = set(content_words(question))
    queries = [frozenset(content_words(one.query or "")) for one in found]
    for one, query in zip(found, queries):
        if not query & (drafted_words - known):
            known |= _of(one.passages)
    return tuple(
        one for one, query in zip(found, queries) if not query & (drafted_words - known)
    )


def _own_part(
    passage: Passage, found: RetrievedEvidence, asked: frozenset[str]
) -> Passage | None:
    """A tool's text without what it says back of its arguments, which a model wrote; None when that is most of it.

    A run of `BACK` words or more that stand so in the arguments, and that the question alone does not make up, is
    said back. One of `BLANK` or more is blanked out: shorter ones are what a search was for, and stand in whatever
    it found. Places in the text stay what they were.
    """
    if passage.provenance != "tool" or found.query is None:
        return passage
    told = frozenset(content_words(found.query))
    if told <= asked:
        return passage
    said = word_spans(passage.text)
    back = [
        (a, b)
        for a, b in matching_runs([w for w, _, _ in said], split_words(found.query))
        if b - a >= BACK
        and not frozenset(content_words(" ".join(w for w, _, _ in said[a:b]))) <= asked
    ]
    if (
        sum(b - a for a, b in back) >= MOSTLY * len(said)
        or frozenset(content_words(passage.text)) <= told
    ):
        return None
    text = passage.text
    for a, b in back:
        if b - a >= BLANK:
            start, end = said[a][1], said[b - 1][2]
            text = text[:start] + " " * (end - start) + text[end:]
    return passage if text == passage.text else replace(passage, text=text)


def _known(memory: WorkingMemory) -> frozenset[str]:
    """Words of the question and of what the user said before it."""
    said = [memory.question, *(m.content for m in memory.history if m.role == "user")]
    return frozenset(w for text in said for w in content_words(text))


def _of(passages: Iterable[Passage]) -> frozenset[str]:
    return frozenset(w for p in passages for w in content_words(with_title_line(p)))
