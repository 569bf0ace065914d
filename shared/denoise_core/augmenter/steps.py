"""What each action does: a flow from memory to memory. What fails is noted in the memory, not raised."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from denoise_core.augmenter.answer import StopReason
from denoise_core.augmenter.drafting.drafter import (
    DraftReply,
    Drafter,
    DraftRequest,
    DraftServer,
    request_messages,
)
from denoise_core.augmenter.drafting.repair import repaired
from denoise_core.augmenter.drafting.taint import split_evidence
from denoise_core.augmenter.feedback import Feedback
from denoise_core.augmenter.knowledge.cap import (
    blank_over_budget,
    truncate_to_budget,
    restore_dropped,
    count_tokens,
)
from denoise_core.augmenter.knowledge.consolidate import Consolidator, merge_by_rank
from denoise_core.augmenter.memory import Attempt, WorkingMemory
from denoise_core.augmenter.policy import LoopLimits
from denoise_core.augmenter.prompts import Task, draft_prompt, self_ask_prompt
from denoise_core.augmenter.utility import Utility, When, unjudged_verdict
from denoise_core.errors import BudgetExceeded, InputError, NotRecorded, is_user_error
from denoise_core.protocols import LLM, SupportsSampling
from denoise_core.runtime.effects import Flow, complete
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.support.answers import parse_answer
from denoise_core.support.check import verdict_without_claims
from denoise_core.support.citing import remove_citations
from denoise_core.support.judging import (
    ABSTENTION,
    ABSTENTION_REASON,
    NO_CLAIMS,
    AnswerVerdict,
)
from denoise_core.text.words import split_words
from denoise_core.types import Passage, Reply

REASONS = {
    "search": StopReason.RETRIEVER_ERROR,
    "draft": StopReason.LLM_ERROR,
    "self_ask": StopReason.LLM_ERROR,
}
"""The failures that end a loop when there are too many of them, and the reason they end it for."""

WrapServer: TypeAlias = Callable[[LLM | None], LLM]

ENDING = (BudgetExceeded, NotRecorded)
_INSTEAD = {
    "source": "the other sources were searched",
    "denoise": "the passages were taken as they are",
    "query": "the other queries were asked",
}


class BudgetExhausted(Exception):
    """Nothing more can be asked for; carries the memory as it stands, with what was already paid for."""

    def __init__(self, memory: WorkingMemory, error: Exception) -> None:
        super().__init__(str(error))
        self.memory = memory
        self.error = error


@dataclass(frozen=True, slots=True)
class LoopParts:
    """What a draft is written, judged and explained with. ``drafter`` None: ``llm`` writes from our prompt.
    ``wrap_server``: see `Augmenter.flow`."""

    task: Task
    utility: Utility
    feedback: Feedback
    limits: LoopLimits
    llm: LLM | None
    when: When | None
    drafter: Drafter | None
    wrap_server: WrapServer | None


def record_failure(
    memory: WorkingMemory, what: str, error: Exception, instead: str
) -> WorkingMemory:
    """The memory with a failure in it, which is also logged and counted. A mistake raises: see `is_user_error`."""
    if what != "query" and is_user_error(error):
        raise error
    log_fallback(f"Augmenter {what}", error, instead)
    return memory.with_failure(what, error)


def with_evidence(
    memory: WorkingMemory, evidence: Sequence[Passage], limits: LoopLimits
) -> WorkingMemory:
    """A new memory with evidence that is at hand before anything is asked."""
    if isinstance(evidence, (str, Passage)):
        raise InputError(
            f"evidence: expected a list of Passages, got a {type(evidence).__name__}"
        )
    passages = tuple(evidence)
    for p in passages:
        if not isinstance(p, Passage):
            raise InputError(f"evidence: expected Passages, got a {type(p).__name__}")
    passages = merge_by_rank((), [passages])
    counts = tuple(p for p in passages if p.counts)
    shown = blank_over_budget(counts, limits.evidence_tokens, memory.question)
    return replace(
        memory,
        evidence=shown,
        retrieved=counts,
        excluded_evidence=tuple(p for p in passages if not p.counts),
    )


def search(
    memory: WorkingMemory, consolidator: Consolidator, limits: LoopLimits, *, wide: bool
) -> Flow[WorkingMemory]:
    """The memory with what was found beside what it had, within the limit of tokens."""
    try:
        found = yield from consolidator.gather(memory, wide=wide)
    except ENDING as error:
        raise BudgetExhausted(memory, error) from error
    except Exception as error:
        return record_failure(
            memory, "search", error, "the loop goes on with the evidence in hand"
        )
    for what, failure in found.failures:
        memory = record_failure(memory, what, failure, _INSTEAD[what])
    memory = replace(
        memory,
        retrieved=memory.retrieved + found.retrieved,
        dropped=memory.dropped + found.dropped,
        queries=tuple(dict.fromkeys(memory.queries + found.queries)),
        excluded_evidence=memory.excluded_evidence + found.excluded_evidence,
    )
    return _shown(memory, memory.evidence, found.evidence, limits)


def restore_evidence(
    memory: WorkingMemory, count: int, limits: LoopLimits
) -> WorkingMemory:
    """`restore_dropped` within the limit of tokens: what comes back takes the room of what was shown before."""
    back = restore_dropped(memory, count)
    before = {(p.id, p.text) for p in memory.evidence}
    new = tuple(p for p in back.evidence if (p.id, p.text) not in before)
    ids = {p.id for p in new}
    old = tuple(p for p in memory.evidence if p.id not in ids)
    if count_tokens(back.evidence) <= limits.evidence_tokens:
        return back
    return _shown(replace(back, evidence=()), old, new, limits)


def self_ask(memory: WorkingMemory) -> Flow[WorkingMemory]:
    """Ask whether knowledge is needed; anything but a clear "yes, I can answer" means that it is."""
    try:
        reply = yield from complete(self_ask_prompt(memory), tag="self_ask")
        knows = re.fullmatch(r"\W*yes\W*", reply.text, re.IGNORECASE) is not None
    except ENDING as error:
        raise BudgetExhausted(memory, error) from error
    except Exception as error:
        memory = record_failure(memory, "self_ask", error, "knowledge is consulted")
        return replace(memory, needs_knowledge=True)
    return replace(memory, needs_knowledge=not knows)


def draft(memory: WorkingMemory, parts: LoopParts) -> Flow[WorkingMemory]:
    """The memory with one more attempt: a candidate and its verdict; what could be made of it by repair; feedback
    on one that failed, and on no other."""
    try:
        reply = yield from _ask(memory, parts)
        candidate = parse_answer(reply.text).text_without_reasoning.strip()
    except ENDING as error:
        raise BudgetExhausted(memory, error) from error
    except Exception as error:
        return record_failure(memory, "draft", error, "there is no draft")
    number = memory.draft_count
    drafted = reply if isinstance(reply, DraftReply) else DraftReply(reply.text)
    memory = _collected(memory, drafted, candidate, parts.limits)
    attempt = Attempt(
        candidate,
        _unknown("the budget was spent before it could be judged"),
        evidence=memory.evidence,
        draft=number,
        fields=drafted.fields,
        origin=drafted.origin,
    )
    wanted = (
        parts.when is None
        or drafted.fields is not None
        or bool(parts.when(memory.question, candidate))
    )
    if not (drafted.judge and wanted):
        return memory.with_attempt(replace(attempt, verdict=unjudged_verdict()))
    verdict = (
        _without_answer(memory.question, candidate, parts.task)
        if drafted.fields is None
        else None
    )
    if verdict is None:
        memory, verdict = yield from _judged(memory, parts.utility, attempt)
    attempt = replace(attempt, verdict=verdict)
    memory = memory.with_attempt(attempt)
    if verdict.outcome != "fail":
        return memory
    if parts.limits.repair and attempt.fields is None:
        memory = yield from _repaired(memory, parts.utility, attempt)
        if memory.attempts[-1].verdict.passed:
            return memory
    try:
        feedback = yield from parts.feedback.write(memory, candidate, verdict)
    except ENDING as error:
        raise BudgetExhausted(memory, error) from error
    except Exception as error:
        return record_failure(
            memory, "feedback", error, "the next draft is written without"
        )
    return replace(
        memory, attempts=(*memory.attempts[:-1], replace(attempt, feedback=feedback))
    )


def _ask(memory: WorkingMemory, parts: LoopParts) -> Flow[Reply]:
    """One draft, from the drafter or from the model; a later one sampled anew where the model can be."""
    last = memory.last
    failed = last is not None and last.verdict.outcome == "fail" and bool(last.feedback)
    server: LLM | None = None
    if parts.drafter is None:
        messages = draft_prompt(memory, parts.task)
        if failed and isinstance(parts.llm, SupportsSampling):
            server = parts.llm.with_sampling(memory.draft_count)
    else:
        rejected = (last.candidate, last.feedback) if last and failed else ("", "")
        known = (memory.question, memory.history, memory.evidence)
        request = DraftRequest(
            *known, *rejected, memory.draft_count, should_resample=failed
        )
        messages, server = (
            request_messages(request),
            DraftServer(parts.drafter, request),
        )
    if parts.wrap_server is not None:
        server = parts.wrap_server(server)
    return (yield from complete(messages, tag="draft", llm=server))


def _collected(
    memory: WorkingMemory, drafted: DraftReply, candidate: str, limits: LoopLimits
) -> WorkingMemory:
    """With the evidence that came with a draft, behind what there was; what does not count is set aside."""
    if not drafted.retrieved:
        return memory
    counts, aside = split_evidence(drafted, memory)
    known = (*memory.retrieved, *memory.excluded_evidence)
    fresh = merge_by_rank(known, [counts])
    aside = merge_by_rank((*known, *fresh), [aside])
    evidence = blank_over_budget(
        (*memory.evidence, *fresh),
        limits.evidence_tokens,
        f"{memory.question} {candidate}",
    )
    return replace(
        memory,
        evidence=evidence,
        retrieved=(*memory.retrieved, *fresh),
        excluded_evidence=(*memory.excluded_evidence, *aside),
    )


def _judged(
    memory: WorkingMemory, utility: Utility, attempt: Attempt
) -> Flow[tuple[WorkingMemory, AnswerVerdict]]:
    """The verdict; a judge that failed is asked once more, then nothing is known. Raises `BudgetExhausted` with the attempt
    kept, unjudged."""
    for _ in range(2):
        try:
            verdict = yield from utility.assess(memory, attempt.candidate)
            if not isinstance(verdict, AnswerVerdict):
                raise TypeError(
                    f"Utility.assess must return an AnswerVerdict, got {type(verdict).__name__}"
                )
            return memory, verdict
        except ENDING as error:
            raise BudgetExhausted(memory.with_attempt(attempt), error) from error
        except Exception as error:
            memory = record_failure(
                memory, "judge", error, "it is asked once more, then nothing is known"
            )
    return memory, _unknown(f"the judge failed: {memory.failures[-1][1]}")


def _repaired(
    memory: WorkingMemory, utility: Utility, attempt: Attempt
) -> Flow[WorkingMemory]:
    """With what is left of a failed attempt without the claims that do not hold, if that passes."""
    left = repaired(attempt.candidate, attempt.verdict)
    if not left:
        return memory
    try:
        verdict = yield from utility.assess(memory, left)
    except ENDING as error:
        raise BudgetExhausted(memory, error) from error
    except Exception as error:
        return record_failure(memory, "judge", error, "the draft was not repaired")
    if isinstance(verdict, AnswerVerdict) and verdict.passed:
        return memory.with_attempt(
            replace(attempt, candidate=left, verdict=verdict, repaired=True)
        )
    return memory


def _shown(
    memory: WorkingMemory,
    old: tuple[Passage, ...],
    new: Sequence[Passage],
    limits: LoopLimits,
) -> WorkingMemory:
    """With old and new evidence under the cap; when both do not fit, the new gets at least half of the room."""
    room = limits.evidence_tokens
    if count_tokens(old) + count_tokens(new) <= room:
        return replace(memory, evidence=(*old, *new))
    second, more = truncate_to_budget(
        new, max(room // 2, room - count_tokens(old)), memory.question
    )
    first, over = truncate_to_budget(old, room - count_tokens(second), memory.question)
    return replace(
        memory, evidence=(*first, *second), dropped=(*memory.dropped, *over, *more)
    )


def _without_answer(question: str, candidate: str, task: Task) -> AnswerVerdict | None:
    """The verdict on a draft that holds no answer, whatever the judge is; None for every other."""
    parsed = parse_answer(candidate, question)
    if split_words(remove_citations(parsed.text_without_reasoning)) == split_words(
        task.unknown_reply
    ):
        return AnswerVerdict(kind=ABSTENTION, reason=ABSTENTION_REASON)
    verdict = verdict_without_claims(question, candidate, parsed)
    return None if verdict is None or verdict.kind in ("length", NO_CLAIMS) else verdict


def _unknown(why: str) -> AnswerVerdict:
    return AnswerVerdict(kind="judge_error", reason=why)
