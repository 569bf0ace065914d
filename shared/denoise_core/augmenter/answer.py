"""The answer of the loop: its text, how far to trust it, why the loop stopped, and how the text is chosen."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from denoise_core._optional import render_html
from denoise_core.augmenter.memory import Attempt, WorkingMemory
from denoise_core.augmenter.policy import LoopLimits
from denoise_core.augmenter.prompts import Task, cited_passages, with_title_line
from denoise_core.augmenter.utility import Utility, utility_name
from denoise_core.result import Trace
from denoise_core.support.answers import parse_answer
from denoise_core.support.check import parse_no_answer
from denoise_core.support.judging import AnswerVerdict
from denoise_core.text.words import content_words, split_words
from denoise_core.types import Passage


class Outcome(StrEnum):
    """How far the text can be trusted, in the judgement of `Answer.judge` and no further."""

    SUPPORTED = (
        "supported"  # the judge found it in the evidence, and an answer to the question
    )
    UNSUPPORTED = "unsupported"  # the judge did not: the best text there was
    UNKNOWN = "unknown"  # nothing could be said: no evidence, a judge that failed or could not tell, not judged
    ABSTAINED = "abstained"  # the evidence does not answer the question, or nothing that held may be sent
    FAILED = "failed"  # infrastructure: there is no draft, or no evidence could be fetched for one


class StopReason(StrEnum):
    """Why the loop ended."""

    PASSED = "passed"
    SENT = "sent"  # the policy chose to send what had not passed
    UNJUDGED = "unjudged"  # ``when`` or the drafter said that this is not to be judged
    JUDGE_UNDECIDED = "not_told"  # the judge could not tell; unknown is not fed back
    ABSTAINED = "abstained"  # the policy or the model found that there is no answer
    NO_EVIDENCE = "no_evidence"
    ATTEMPTS = "attempts"  # LoopLimits.attempts drafts were made
    STEPS = "steps"  # LoopLimits.steps actions were taken
    NO_PROGRESS = "no_progress"  # LoopLimits.patience drafts in a row were no better than the best
    REPEATED_ANSWER = (
        "repeated_answer"  # the model says the same again from the same evidence
    )
    NOT_REPEATABLE = (
        "not_repeatable"  # asking the drafter again would have effects outside
    )
    BUDGET = "budget"  # calls, tokens or money are spent
    DEADLINE = "deadline"  # the budget's seconds are spent
    LLM_ERROR = "llm_error"
    JUDGE_ERROR = "judge_error"
    RETRIEVER_ERROR = "retriever_error"
    POLICY_ERROR = "policy_error"
    NOT_RECORDED = (
        "not_recorded"  # a replay came to a call that the recording does not hold
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one question.

    Attributes:
        text: What to send.
        outcome: How far the text can be trusted.
        stop_reason: Why the loop ended.
        memory: Everything known about the question at the end.
        trace: Every effect and the usage, whether the run went well or not.
        citations: The passages that the text names, in order of first mention.
        judge: The name of what judged.
        closest_evidence: For an answer that is not supported, the evidence closest
            to the question.
        supported_part: The part of the best draft that the judge found supported.
    """

    text: str
    outcome: Outcome
    stop_reason: StopReason
    memory: WorkingMemory
    trace: Trace = field(default_factory=Trace)
    citations: tuple[Passage, ...] = ()
    judge: str = ""
    closest_evidence: tuple[Passage, ...] = ()
    supported_part: str = ""

    def __repr__(self) -> str:
        """Summarise the run in one line."""
        return (
            f"Answer({self.text[:60]!r}: "
            f"{self.outcome.value}, {self.stop_reason.value}, "
            f"{len(self.memory.attempts)} attempts, "
            f"{len(self.memory.evidence)} passages)"
        )

    def _repr_html_(self) -> str | None:
        return render_html("loop", self)

    @property
    def best(self) -> Attempt | None:
        """The attempt that was sent or would have been; None when there was none."""
        return self.memory.best

    @property
    def score(self) -> float | None:
        """Utility of the best attempt; None when there was none."""
        best = self.memory.best
        return best.verdict.score if best else None

    @property
    def verdict(self) -> AnswerVerdict | None:
        """The verdict on the text; None when the text is not the best draft."""
        best = self.memory.best
        if best is None or self.text != best.candidate:
            return None
        return best.verdict

    @property
    def queries(self) -> tuple[str, ...]:
        """Every search that was made, in order."""
        return self.memory.queries


NO_ANSWER = "No answer can be given: {why}."
_NO_DRAFT_REASONS = {
    StopReason.BUDGET: "the budget was spent before there was one",
    StopReason.DEADLINE: "the time was up before there was one",
    StopReason.NOT_RECORDED: "the recording holds none",
}
_UNKNOWN_REASONS = {
    "judge_error": StopReason.JUDGE_ERROR,
    "unjudged": StopReason.UNJUDGED,
    "empty_evidence": StopReason.NO_EVIDENCE,
}
_PART_NAMES = {
    "draft": "the writing of a draft",
    "search": "the search",
    "self_ask": "the question whether to search",
    "policy": "the policy",
}
_QUERIES_SHOWN = 3
_CLOSEST_COUNT = 2
_QUOTE_CHARACTERS = 200
_BARE_WORDS = 3  # an abstention of so few words is replaced by a sentence


def finish_answer(
    memory: WorkingMemory,
    stop_reason: StopReason,
    limits: LoopLimits,
    task: Task,
    utility: Utility,
) -> Answer:
    """Choose the text to send and the outcome it earns.

    A last draft that says it does not know is believed, also after drafts that failed.
    Where nothing was written, the text says why in a sentence.

    Args:
        memory: Everything known at the end.
        stop_reason: Why the loop ended.
        limits: Says what to send when no draft passed.
        task: Holds the words of an abstention.
        utility: What judged.

    Returns:
        The answer, without its trace.
    """
    best = memory.best
    supported_part = "" if best is None else supported_text(best)
    text, outcome, final_reason = _choose_text(
        memory, stop_reason, limits, task, supported_part
    )
    citations: tuple[Passage, ...] = ()
    if best is not None and text == best.candidate:
        citations = cited_passages(text, best.evidence)
    is_supported = outcome is Outcome.SUPPORTED
    return Answer(
        text,
        outcome,
        final_reason,
        memory,
        citations=citations,
        judge=utility_name(utility),
        closest_evidence=() if is_supported else closest_passages(memory),
        supported_part=supported_part,
    )


def _choose_text(
    memory: WorkingMemory,
    stop_reason: StopReason,
    limits: LoopLimits,
    task: Task,
    supported_part: str,
) -> tuple[str, Outcome, StopReason]:
    """The text to send, its outcome, and the reason to report."""
    best = memory.best
    last = memory.last
    if best is not None and best.verdict.passed:
        return best.candidate, Outcome.SUPPORTED, StopReason.PASSED
    if last is not None and last.is_abstention:
        text = abstention_text(memory, task, supported_part, last.candidate)
        return text, Outcome.ABSTAINED, StopReason.ABSTAINED
    if stop_reason is StopReason.ABSTAINED:
        if not (memory.evidence or memory.attempts):
            stop_reason = StopReason.NO_EVIDENCE
        text = abstention_text(memory, task, supported_part)
        return text, Outcome.ABSTAINED, stop_reason
    if best is None:
        reason_text = _NO_DRAFT_REASONS.get(stop_reason) or _describe_last_failure(
            memory
        )
        return NO_ANSWER.format(why=reason_text), Outcome.FAILED, stop_reason
    if not best.candidate:
        text = NO_ANSWER.format(why="the model wrote nothing")
        return text, Outcome.FAILED, stop_reason
    is_unknown = best.verdict.outcome == "unknown"
    if is_unknown and stop_reason in (StopReason.SENT, StopReason.NOT_REPEATABLE):
        kind = best.verdict.kind
        stop_reason = _UNKNOWN_REASONS.get(kind, StopReason.JUDGE_UNDECIDED)
    if stop_reason is not StopReason.UNJUDGED and limits.unsupported == "abstain":
        text = abstention_text(memory, task, supported_part)
        return text, Outcome.ABSTAINED, stop_reason
    outcome = Outcome.UNKNOWN if is_unknown else Outcome.UNSUPPORTED
    return best.candidate, outcome, stop_reason


def supported_text(attempt: Attempt) -> str:
    """The claims of an attempt that no finding is about; all of one that passed.

    Empty when the verdict is unknown or a finding is about the whole answer.
    """
    candidate = attempt.candidate
    verdict = attempt.verdict
    if verdict.passed:
        return candidate
    if verdict.outcome != "fail" or not verdict.findings:
        return ""
    claims = parse_answer(candidate).claims
    rejected_starts: set[int] = set()
    for finding in verdict.findings:
        first_matches = [
            claim.start
            for claim in claims
            if claim.start < finding.end and finding.start < claim.end
        ]
        if not first_matches:
            return ""
        rejected_starts.update(first_matches)
    supported_claims = [
        candidate[claim.start : claim.end]
        for claim in claims
        if claim.start not in rejected_starts
    ]
    return " ".join(supported_claims)


def abstention_text(
    memory: WorkingMemory, task: Task, supported_part: str, draft_text: str = ""
) -> str:
    """Say that there is no answer, what was searched, and what comes closest.

    Args:
        memory: Everything known at the end.
        task: Its ``abstention_text`` is the sentence used when the model wrote none.
        supported_part: The part of the best draft that is supported, or "".
        draft_text: The draft in which the model abstains, or "".
    """
    no_answer = parse_no_answer(draft_text)
    has_sentence = no_answer is None and len(split_words(draft_text)) > _BARE_WORDS
    lines = [draft_text if has_sentence else task.abstention_text]
    if no_answer is not None and no_answer.nearest_sentence:
        hint = " ".join(no_answer.nearest_sentence.split())
        lines.append(f"Nearest to it: {hint[:_QUOTE_CHARACTERS]}")
    if memory.queries:
        shown_queries = "; ".join(
            f"\u201c{' '.join(query.split())[:_QUOTE_CHARACTERS]}\u201d"
            for query in memory.queries[:_QUERIES_SHOWN]
        )
        lines.append(f"Looked for: {shown_queries}.")
    closest = closest_passages(memory)
    if closest:
        quote = _shorten_excerpt(with_title_line(closest[0]))
        lines.append(f"Nearest evidence: \u201c{quote}\u201d")
    if supported_part:
        lines.append(f"What holds of a draft: {supported_part}")
    return "\n".join(lines)


def closest_passages(memory: WorkingMemory) -> tuple[Passage, ...]:
    """The two passages of the evidence that share most words with the question.

    Equals keep their order; a passage that shares no word is left out.
    """
    question_words = frozenset(content_words(memory.question))
    shared_counts: dict[str, int] = {}
    for passage in memory.evidence:
        passage_words = content_words(with_title_line(passage))
        shared_counts[passage.id] = len(question_words.intersection(passage_words))
    related = [p for p in memory.evidence if shared_counts[p.id]]
    related.sort(key=lambda passage: -shared_counts[passage.id])
    return tuple(related[:_CLOSEST_COUNT])


def _describe_last_failure(memory: WorkingMemory) -> str:
    """Name the part that failed last and its error's class.

    The message stays in the record: it may quote anything.
    """
    for part, error in reversed(memory.failures):
        if part in _PART_NAMES:
            return f"{_PART_NAMES[part]} failed ({error.partition(':')[0]})"
    return "there is no draft"


def _shorten_excerpt(text: str) -> str:
    """The text on one line, cut at a word when it is long."""
    text = " ".join(text.split())
    if len(text) <= _QUOTE_CHARACTERS:
        return text
    return text[:_QUOTE_CHARACTERS].rsplit(" ", 1)[0] + " …"
