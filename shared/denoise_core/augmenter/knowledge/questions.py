"""What is searched for without a model: the question, and failed claims with the doubtful value taken out."""

from __future__ import annotations

from denoise_core.augmenter.engine import titled
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.running.effects import Flow
from denoise_core.support.citing import uncited
from denoise_core.text.wordlists import STOPWORDS
from denoise_core.text.words import content_words, words

_MOST = 2  # claims that are searched for
_LONGEST = 300  # characters of such a query


def question_queries(memory: WorkingMemory, wide: bool) -> Flow[tuple[str, ...]]:
    """The question; wide: also with the user's turn before it, for what a follow-up leaves unsaid, and the claims
    that did not hold, as `claim_queries` has them."""
    queries = [memory.question]
    before = [m.content for m in memory.history if m.role == "user"]
    if wide and before:
        queries.append(f"{before[-1]} {memory.question}")
    if wide:
        queries += claim_queries(memory)
    return tuple(queries)
    yield


def claim_queries(memory: WorkingMemory) -> tuple[str, ...]:
    """The claims of the last draft that failed, without what is doubtful in them, two at most.

    Only words that the question or the evidence has stay, and of these no number and no name that the question
    does not have: what the draft made up is never searched for.
    """
    last = memory.last
    if last is None or last.verdict.outcome != "fail":
        return ()
    asked = frozenset(words(memory.question))
    read = frozenset(w for p in memory.evidence for w in words(titled(p)))
    found: list[str] = []
    for reason in last.verdict.reasons:
        missing = frozenset(w for m in reason.missing for w in words(m))
        query = _without_doubt(uncited(reason.claim), asked, read - missing)
        if query and frozenset(content_words(query)) - asked and query not in found:
            found.append(query)
    return tuple(found[:_MOST])


def _without_doubt(claim: str, asked: frozenset[str], read: frozenset[str]) -> str:
    kept = []
    for n, word in enumerate(claim.split()):
        own = words(word)
        named = n > 0 and word[:1].isupper()
        sure = all(w in asked or (w in read and not named and not any(c.isdigit() for c in w)) for w in own)
        if own and (sure or all(w in STOPWORDS for w in own)):
            kept.append(word.strip(".,;:!?\"'()[]"))
    text = " ".join(kept)[:_LONGEST]
    return text if len(set(content_words(text))) > 1 else ""
