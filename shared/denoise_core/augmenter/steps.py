"""The steps of the loop: each action as a flow from one memory to the next.

A step that fails notes the failure in the memory and returns; only a spent budget and
user errors (`denoise_core.errors.is_user_error`) are raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from denoise_core.augmenter.answer import StopReason
from denoise_core.augmenter.drafting.contamination import split_evidence
from denoise_core.augmenter.drafting.drafter import (
    Drafter,
    DraftReply,
    DraftRequest,
    DraftServer,
    RetrievedEvidence,
    request_messages,
)
from denoise_core.augmenter.feedback import Feedback
from denoise_core.augmenter.knowledge.consolidate import (
    Consolidator,
    select_excluded,
    select_new,
)
from denoise_core.augmenter.knowledge.evidence_budget import (
    blank_over_budget,
    count_tokens,
    restore_dropped,
    truncate_to_budget,
)
from denoise_core.augmenter.memory import Attempt, WorkingMemory
from denoise_core.augmenter.policy import LoopLimits
from denoise_core.augmenter.prompts import Task, draft_prompt
from denoise_core.augmenter.utility import (
    Groundedness,
    Utility,
    When,
    unjudged_verdict,
)
from denoise_core.errors import BudgetExceeded, UnparsableReply, is_user_error
from denoise_core.protocols import LLM, SupportsSampling
from denoise_core.runtime.effects import Flow, complete
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.support.answers import parse_answer
from denoise_core.support.check import expect_passages, verdict_without_claims
from denoise_core.support.judging import NO_CLAIMS, AnswerVerdict
from denoise_core.text.delimit import copies_envelope, envelope_markers
from denoise_core.types import Message, Passage, Reply

FAILURE_REASONS = {
    "search": StopReason.RETRIEVER_ERROR,
    "draft": StopReason.LLM_ERROR,
}
"""The failures that end a loop when there are too many, and the reason reported."""

WrapServer: TypeAlias = Callable[[LLM | None], LLM]

_FALLBACKS = {
    "source": "the other sources were searched",
    "denoise": "the passages were taken as they are",
    "query": "the other queries were asked",
}


class BudgetExhausted(Exception):
    """Nothing more can be asked for; carries the memory with what was paid for."""

    def __init__(self, memory: WorkingMemory, error: BudgetExceeded) -> None:
        super().__init__(str(error))
        self.memory = memory
        self.error = error


@dataclass(frozen=True, slots=True)
class LoopParts:
    """What writes, judges and explains a draft.

    Without a ``drafter``, ``llm`` writes from our prompt. ``wrap_server``: see
    `Augmenter.flow`; ``plain_prompts``: see `Augmenter`.
    """

    task: Task
    utility: Utility
    feedback: Feedback
    limits: LoopLimits
    llm: LLM | None
    when: When | None
    drafter: Drafter | None
    wrap_server: WrapServer | None
    plain_prompts: bool | None


def record_failure(
    memory: WorkingMemory, what: str, error: Exception, fallback: str
) -> WorkingMemory:
    """Return the memory with a failure, which is also logged and counted.

    Raises:
        Exception: ``error`` itself, if the user caused it; see `is_user_error`.
    """
    if what != "query" and is_user_error(error):
        raise error
    log_fallback(f"Augmenter {what}", error, fallback)
    return memory.with_failure(what, error)


def with_evidence(
    memory: WorkingMemory, evidence: Sequence[Passage], limits: LoopLimits
) -> WorkingMemory:
    """Return a new memory with the evidence that the caller has at hand."""
    passages = expect_passages(evidence, "evidence")
    caller_evidence = RetrievedEvidence(passages)
    caller_draft = DraftReply("", retrieved=(caller_evidence,))
    return _with_draft_evidence(memory, caller_draft, limits)


def search(
    memory: WorkingMemory,
    consolidator: Consolidator,
    limits: LoopLimits,
    *,
    wide: bool,
) -> Flow[WorkingMemory]:
    """Search, and add the evidence to the memory within the token limit."""
    try:
        gathered = yield from consolidator.gather(memory, wide=wide)
    except BudgetExceeded as error:
        raise BudgetExhausted(memory, error) from error
    except Exception as error:
        return record_failure(
            memory, "search", error, "the loop goes on with the evidence in hand"
        )
    for what, failure in gathered.failures:
        failure_effect = _FALLBACKS[what]
        memory = record_failure(memory, what, failure, failure_effect)
    all_queries = memory.queries + gathered.queries
    distinct_queries = dict.fromkeys(all_queries)
    excluded_evidence = memory.excluded_evidence + gathered.excluded_evidence
    memory = replace(
        memory,
        retrieved=memory.retrieved + gathered.retrieved,
        dropped=memory.dropped + gathered.dropped,
        queries=tuple(distinct_queries),
        excluded_evidence=excluded_evidence,
    )
    return _fit_evidence(memory, memory.evidence, gathered.evidence, limits)


def restore_evidence(
    memory: WorkingMemory, count: int, limits: LoopLimits
) -> WorkingMemory:
    """Restore dropped ranges within the token limit.

    What is restored takes the room of what was shown before.
    """
    restored_memory = restore_dropped(memory, count)
    restored_tokens = count_tokens(restored_memory.evidence)
    if restored_tokens <= limits.evidence_tokens:
        return restored_memory
    shown_before = {passage.id: passage for passage in memory.evidence}
    new_passages = []
    old_passages = []
    for passage in restored_memory.evidence:
        earlier_passage = shown_before.get(passage.id)
        if earlier_passage is passage:
            old_passages.append(passage)
        else:
            new_passages.append(passage)
    return _fit_evidence(restored_memory, tuple(old_passages), new_passages, limits)


def draft(memory: WorkingMemory, parts: LoopParts) -> Flow[WorkingMemory]:
    """Write one draft, judge it once, and write feedback on one that failed."""
    try:
        reply = yield from _ask_for_draft(memory, parts)
    except BudgetExceeded as error:
        raise BudgetExhausted(memory, error) from error
    except Exception as error:
        return record_failure(memory, "draft", error, "there is no draft")
    candidate = reply.text
    draft_number = memory.draft_count
    draft_reply = reply if isinstance(reply, DraftReply) else DraftReply(reply.text)
    memory = _with_draft_evidence(memory, draft_reply, parts.limits)
    memory = replace(
        memory,
        draft_citations=draft_reply.citations,
        evidence_is_numbered=draft_reply.evidence_is_numbered,
    )
    no_verdict = _judge_error("the budget was spent before it could be judged")
    attempt = Attempt(
        candidate,
        no_verdict,
        evidence=memory.evidence,
        draft=draft_number,
        fields=draft_reply.fields,
        origin=draft_reply.origin,
        citations=draft_reply.citations,
        evidence_is_numbered=draft_reply.evidence_is_numbered,
    )
    memory, should_judge = _should_judge(memory, draft_reply, parts.when)
    if not should_judge:
        unjudged_attempt = replace(attempt, verdict=unjudged_verdict())
        return memory.with_attempt(unjudged_attempt)
    verdict = None
    checks_form = isinstance(parts.utility, Groundedness)
    if draft_reply.fields is None and not checks_form:
        verdict = _verdict_of_form(memory.question, candidate)
    if verdict is None:
        memory, verdict = yield from _judge_attempt(memory, parts, attempt)
    attempt = replace(attempt, verdict=verdict)
    memory = memory.with_attempt(attempt)
    if verdict.outcome != "fail":
        return memory
    return (yield from _with_feedback(memory, parts.feedback, attempt))


def _should_judge(
    memory: WorkingMemory, draft_reply: DraftReply, when: When | None
) -> tuple[WorkingMemory, bool]:
    if not draft_reply.judge:
        return memory, False
    if when is None or draft_reply.fields is not None:
        return memory, True
    try:
        should_judge = bool(when(memory.question, draft_reply.text))
    except Exception as error:  # the draft is written: it must not be lost
        memory = record_failure(memory, "when", error, "the draft is judged")
        should_judge = True
    return memory, should_judge


def _with_feedback(
    memory: WorkingMemory, feedback: Feedback, attempt: Attempt
) -> Flow[WorkingMemory]:
    """Add feedback to the attempt, which is the memory's last and failed."""
    try:
        feedback_text = yield from feedback.write(
            memory, attempt.candidate, attempt.verdict
        )
    except BudgetExceeded as error:
        raise BudgetExhausted(memory, error) from error
    except Exception as error:
        return record_failure(
            memory, "feedback", error, "the next draft is written without"
        )
    attempt = replace(attempt, feedback=feedback_text)
    earlier_attempts = memory.attempts[:-1]
    all_attempts = (*earlier_attempts, attempt)
    return replace(memory, attempts=all_attempts)


def _ask_for_draft(memory: WorkingMemory, parts: LoopParts) -> Flow[Reply]:
    """Ask the drafter or the model for one draft.

    A draft after a failed one is sampled, where the model can sample.
    """
    rejected_draft = feedback = ""
    last = memory.last
    if last is not None and last.feedback:
        rejected_draft = last.text_without_reasoning
        feedback = last.feedback
    if parts.drafter is None:
        server: LLM | None = None
        if feedback and isinstance(parts.llm, SupportsSampling):
            server = parts.llm.with_sampling(memory.draft_count)
        return (yield from _ask_model_for_draft(memory, parts, server))
    request = DraftRequest(
        memory.question,
        memory.history,
        memory.evidence,
        rejected_draft=rejected_draft,
        feedback=feedback,
        attempt=memory.draft_count,
        should_resample=bool(feedback),
    )
    messages = request_messages(request)
    drafter_server = DraftServer(parts.drafter, request)
    return (yield from _complete_draft(messages, parts, drafter_server))


def _ask_model_for_draft(
    memory: WorkingMemory, parts: LoopParts, server: LLM | None
) -> Flow[Reply]:
    """Ask by the loop's own prompt; by a plain one once an envelope was copied.

    Raises:
        UnparsableReply: The reply copies an envelope, and the form may not change.
    """
    is_plain = bool(parts.plain_prompts)
    messages = draft_prompt(memory, parts.task, is_plain=is_plain)
    reply = yield from _complete_draft(messages, parts, server)
    parsed_answer = parse_answer(reply.text)
    answer_text = parsed_answer.text_without_reasoning
    if is_plain:
        return reply
    prompt_markers = envelope_markers(messages)
    if not copies_envelope(answer_text, prompt_markers):
        return reply
    error = UnparsableReply("the model copied the prompt's delimiters")
    if parts.plain_prompts is not None:
        raise error
    log_fallback(
        "Augmenter draft",
        error,
        "it is asked once more by a plain prompt; take a larger model, or "
        "plain_prompts=True",
    )
    messages = draft_prompt(memory, parts.task, is_plain=True)
    return (yield from _complete_draft(messages, parts, server))


def _complete_draft(
    messages: tuple[Message, ...], parts: LoopParts, server: LLM | None
) -> Flow[Reply]:
    if parts.wrap_server is not None:
        server = parts.wrap_server(server or parts.llm)
    return (yield from complete(messages, tag="draft", llm=server))


def _with_draft_evidence(
    memory: WorkingMemory, draft_reply: DraftReply, limits: LoopLimits
) -> WorkingMemory:
    """Add the evidence that came with a draft behind the evidence there was.

    A text that an earlier search brought is not added again.
    """
    if not draft_reply.retrieved:
        return memory
    new_counted: tuple[Passage, ...] = ()
    excluded: list[Passage] = []
    for evidence in draft_reply.retrieved:
        counted_passages, excluded_passages = split_evidence(evidence, memory)
        known_passages = (*memory.retrieved, *new_counted)
        new_counted += select_new(known_passages, counted_passages)
        excluded += excluded_passages
    new_excluded = select_excluded(memory, new_counted, excluded)
    topic = f"{memory.question} {draft_reply.text}"
    all_evidence = (*memory.evidence, *new_counted)
    shown_evidence = _within_limit(all_evidence, limits, topic)
    all_excluded = (*memory.excluded_evidence, *new_excluded)
    return replace(
        memory,
        evidence=shown_evidence,
        retrieved=(*memory.retrieved, *new_counted),
        excluded_evidence=all_excluded,
    )


def _within_limit(
    passages: Sequence[Passage], limits: LoopLimits, topic: str
) -> tuple[Passage, ...]:
    """The passages within the token limit, emptied rather than left out; this is logged."""
    shown = blank_over_budget(passages, limits.evidence_tokens, topic)
    if shown != tuple(passages):
        log_fallback(
            "Augmenter",
            "LoopLimits(evidence_tokens=) is less than the evidence given",
            "the judge does not see all of it",
        )
    return shown


def _judge_attempt(
    memory: WorkingMemory, parts: LoopParts, attempt: Attempt
) -> Flow[tuple[WorkingMemory, AnswerVerdict]]:
    """Judge an attempt; a judge that fails is asked once more.

    When it fails twice, the verdict is unknown.

    Raises:
        BudgetExhausted: With the attempt kept in its memory, unjudged.
    """
    for _ in range(2):
        try:
            verdict = yield from parts.utility.assess(memory, attempt.candidate)
            if not isinstance(verdict, AnswerVerdict):
                verdict_type = type(verdict).__name__
                raise TypeError(
                    f"Utility.assess must return an AnswerVerdict, got {verdict_type}"
                )
            judged_verdict = replace(verdict, threshold=parts.limits.threshold)
            return memory, judged_verdict
        except BudgetExceeded as error:
            paid_memory = memory.with_attempt(attempt)
            raise BudgetExhausted(paid_memory, error) from error
        except Exception as error:
            fallback = "it is asked once more, then nothing is known"
            memory = record_failure(memory, "judge", error, fallback)
    _, last_error = memory.failures[-1]
    failure_verdict = _judge_error(f"the judge failed: {last_error}")
    return memory, failure_verdict


def _fit_evidence(
    memory: WorkingMemory,
    old: tuple[Passage, ...],
    new: Sequence[Passage],
    limits: LoopLimits,
) -> WorkingMemory:
    """Show old and new evidence within the token limit.

    When both do not fit, the new evidence gets at least half of the room: otherwise a
    wider search could never change what the model reads.
    """
    token_limit = limits.evidence_tokens
    old_tokens = count_tokens(old)
    new_tokens = count_tokens(new)
    all_tokens = old_tokens + new_tokens
    if all_tokens <= token_limit:
        return replace(memory, evidence=(*old, *new))
    half_room = token_limit // 2
    free_room = token_limit - old_tokens
    new_room = max(half_room, free_room)
    kept_new, dropped_new = truncate_to_budget(new, new_room, memory.question)
    kept_tokens = count_tokens(kept_new)
    old_room = token_limit - kept_tokens
    kept_old, dropped_old = truncate_to_budget(old, old_room, memory.question)
    all_dropped = (*memory.dropped, *dropped_old, *dropped_new)
    return replace(
        memory,
        evidence=(*kept_old, *kept_new),
        dropped=all_dropped,
    )


def _verdict_of_form(question: str, candidate: str) -> AnswerVerdict | None:
    """The verdict on a draft that is no answer by its form; None for any other.

    For utilities that do not look at the form: `Groundedness` does, by `check_flow`.
    """
    parsed = parse_answer(candidate, question)
    verdict = verdict_without_claims(question, candidate, parsed)
    if verdict is None or verdict.kind in ("length", NO_CLAIMS):
        return None
    return verdict


def _judge_error(reason: str) -> AnswerVerdict:
    return AnswerVerdict(kind="judge_error", reason=reason)
