"""What is searched for: the question and failed claims without the doubtful value, or what a model writes."""

from __future__ import annotations

from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.prompts import (
    history_block,
    question_block,
    with_title_line,
)
from denoise_core.errors import BudgetExceeded, InputError, NotRecorded
from denoise_core.protocols import LLM, expect_llm
from denoise_core.runtime.effects import Flow, complete
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.support.citing import remove_citations
from denoise_core.text.delimit import ENVELOPE_NOTE
from denoise_core.text.wordlists import STOPWORDS
from denoise_core.text.words import content_words, split_words
from denoise_core.types import Message

QUERIES = (
    "Write search queries that would find the facts needed to answer the question. The history, where there is "
    "one, is the conversation before it, to resolve what 'it' and 'there' stand for. "
    f"{ENVELOPE_NOTE} "
    "Reply with at most {most} queries, one on each line, and nothing else."
)

_MOST = 2  # claims that are searched for
_LONGEST = 300  # characters of a query


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
    asked = frozenset(split_words(memory.question))
    read = frozenset(
        w for p in memory.evidence for w in split_words(with_title_line(p))
    )
    found: list[str] = []
    for finding in last.verdict.findings:
        missing = frozenset(
            w for d in finding.differences for w in split_words(d.claimed_text)
        )
        query = _without_doubt(remove_citations(finding.text), asked, read - missing)
        if query and frozenset(content_words(query)) - asked and query not in found:
            found.append(query)
    return tuple(found[:_MOST])


def _without_doubt(claim: str, asked: frozenset[str], read: frozenset[str]) -> str:
    kept = []
    for n, word in enumerate(claim.split()):
        own = split_words(word)
        named = n > 0 and word[:1].isupper()
        sure = all(
            w in asked or (w in read and not named and not any(c.isdigit() for c in w))
            for w in own
        )
        if own and (sure or all(w in STOPWORDS for w in own)):
            kept.append(word.strip(".,;:!?\"'()[]"))
    text = " ".join(kept)[:_LONGEST]
    return text if len(set(content_words(text))) > 1 else ""


class LLMQueries:
    """Up to ``most`` queries by a model, one a line, after the question itself (LLM-Augmenter, section 2.3.1).

    ``llm`` None is the model that drafts. A model that fails or says nothing usable leaves the question
    as the only query.
    """

    def __init__(self, llm: LLM | None = None, *, most: int = 3) -> None:
        if most < 1:
            raise InputError(f"most={most}: expected 1 or more")
        self.llm = None if llm is None else expect_llm(llm)
        self.most = most

    def __call__(self, memory: WorkingMemory, wide: bool) -> Flow[tuple[str, ...]]:
        parts = [history_block(memory.history)] if memory.history else []
        shown = "\n\n".join([*parts, question_block(memory.question)])
        messages = (
            Message("system", QUERIES.format(most=self.most)),
            Message("user", shown),
        )
        plain = yield from question_queries(memory, wide)
        try:
            reply = yield from complete(messages, tag="queries", llm=self.llm)
            lines = [_unmarked(line).strip("\"'") for line in reply.text.splitlines()]
        except (BudgetExceeded, NotRecorded):
            raise
        except Exception as error:
            log_fallback("LLMQueries", error, "the question alone was searched for")
            return plain
        usable = [line for line in lines if line and len(line) <= _LONGEST]
        return (*plain, *usable[: self.most])


def _unmarked(line: str) -> str:
    """A line without the mark or number of a list in front."""
    mark, _, rest = line.strip().partition(" ")
    listed = mark in ("-", "*", "•") or (mark[:-1].isdigit() and mark[-1] in ".)")
    return rest.strip() if listed else line.strip()
