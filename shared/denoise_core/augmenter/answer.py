"""What the loop hands back: an answer, how far it can be trusted, why the loop stopped, and how it is chosen."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from denoise_core._optional import render_html
from denoise_core.augmenter.drafting.repair import holds_in
from denoise_core.augmenter.memory import Attempt, WorkingMemory
from denoise_core.augmenter.policy import LoopLimits
from denoise_core.augmenter.prompts import Task, cited_passages, with_title_line
from denoise_core.augmenter.utility import Utility, utility_name
from denoise_core.result import Trace
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
    """``citations`` are the passages the text names, in order of first mention; ``trace`` holds every
    effect, and with it the usage, whether the run went well or not. ``judge`` is the name of what judged.

    ``queries``, ``closest_evidence`` and ``supported_part`` say what an answer that is not supported can still tell: the searches
    made, the evidence nearest to the question, and the part of the best draft that holds.
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
        """One line, whatever the run was."""
        return (
            f"Answer({self.text[:60]!r}: {self.outcome.value}, {self.stop_reason.value}, "
            f"{len(self.memory.attempts)} attempts, {len(self.memory.evidence)} passages)"
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
        """The verdict on the text, with each claim and its quotes; None where another text was judged."""
        best = self.memory.best
        return (
            best.verdict if best is not None and self.text == best.candidate else None
        )

    @property
    def queries(self) -> tuple[str, ...]:
        """Every search that was made, in order."""
        return self.memory.queries


NO_ANSWER = "No answer can be given: {why}."
_WHY = {
    StopReason.BUDGET: "the budget was spent before there was one",
    StopReason.DEADLINE: "the time was up before there was one",
    StopReason.NOT_RECORDED: "the recording holds none",
}
_UNKNOWN = {
    "judge_error": StopReason.JUDGE_ERROR,
    "unjudged": StopReason.UNJUDGED,
    "empty_evidence": StopReason.NO_EVIDENCE,
}
_PARTS = {
    "draft": "the writing of a draft",
    "search": "the search",
    "self_ask": "the question whether to search",
    "policy": "the policy",
}
_SHOWN = 3  # searches named in an abstention
_NEAREST = 2
_QUOTED = 200  # characters of the nearest evidence
_BARE = 3  # words; an abstention no longer than this is replaced by a sentence


def finish_answer(
    memory: WorkingMemory,
    stop: StopReason,
    limits: LoopLimits,
    task: Task,
    utility: Utility,
) -> Answer:
    """The best attempt under the outcome it earns.

    A model that says at last that it does not know is believed, also after drafts that did not hold. Where nothing
    was written the answer says why in a sentence.
    """
    judge = utility_name(utility)
    best, last = memory.best, memory.last

    def sent(text: str, outcome: Outcome, why: StopReason, holds: str = "") -> Answer:
        shown = best is not None and text == best.candidate
        cited = cited_passages(text, best.evidence) if best and shown else ()
        near = () if outcome is Outcome.SUPPORTED else closest_passages(memory)
        return Answer(
            text,
            outcome,
            why,
            memory,
            citations=cited,
            judge=judge,
            closest_evidence=near,
            supported_part=holds,
        )

    if best is not None and best.verdict.passed:
        return sent(
            best.candidate, Outcome.SUPPORTED, StopReason.PASSED, best.candidate
        )
    holds = holds_in(best) if best is not None else ""
    if last is not None and last.is_abstention:
        return sent(
            abstention_text(memory, task, holds, last.candidate),
            Outcome.ABSTAINED,
            StopReason.ABSTAINED,
            holds,
        )
    if stop is StopReason.ABSTAINED:
        why = stop if memory.evidence or memory.attempts else StopReason.NO_EVIDENCE
        return sent(abstention_text(memory, task, holds), Outcome.ABSTAINED, why, holds)
    if best is None or not best.candidate:
        empty = best is not None and not best.candidate
        why_not = (
            "the model wrote nothing" if empty else _WHY.get(stop) or _failed(memory)
        )
        return sent(NO_ANSWER.format(why=why_not), Outcome.FAILED, stop, holds)
    unknown = best.verdict.outcome == "unknown"
    if unknown and stop in (StopReason.SENT, StopReason.NOT_REPEATABLE):
        stop = _UNKNOWN.get(best.verdict.kind, StopReason.JUDGE_UNDECIDED)
    if stop is not StopReason.UNJUDGED and limits.unsupported == "abstain":
        return sent(
            abstention_text(memory, task, holds), Outcome.ABSTAINED, stop, holds
        )
    return sent(
        best.candidate, Outcome.UNKNOWN if unknown else Outcome.UNSUPPORTED, stop, holds
    )


def abstention_text(
    memory: WorkingMemory, task: Task, holds: str, said: str = ""
) -> str:
    """A sentence that says there is no answer (the model's own, when it wrote one), what was looked for, the
    nearest evidence, and what part of a draft holds."""
    mark = parse_no_answer(said)
    lines = [
        said
        if mark is None and len(split_words(said)) > _BARE
        else task.abstention_text
    ]
    if mark is not None and mark.nearest:
        lines.append(f"Nearest to it: {' '.join(mark.nearest.split())[:_QUOTED]}")
    if memory.queries:
        shown = "; ".join(
            f"\u201c{' '.join(q.split())[:_QUOTED]}\u201d"
            for q in memory.queries[:_SHOWN]
        )
        lines.append(f"Looked for: {shown}.")
    near = closest_passages(memory)
    if near:
        lines.append(
            f"Nearest evidence: \u201c{_quoted(with_title_line(near[0]))}\u201d"
        )
    if holds:
        lines.append(f"What holds of a draft: {holds}")
    return "\n".join(lines)


def closest_passages(memory: WorkingMemory) -> tuple[Passage, ...]:
    """The two passages of the evidence that share most words with the question, the earlier first among equals;
    none that shares no word."""
    asked = frozenset(content_words(memory.question))
    shared = {
        p.id: len(asked.intersection(content_words(with_title_line(p))))
        for p in memory.evidence
    }
    order = sorted(
        (p for p in memory.evidence if shared[p.id]), key=lambda p: -shared[p.id]
    )
    return tuple(order[:_NEAREST])


def _failed(memory: WorkingMemory) -> str:
    """The part that failed last, with its error's class: the message is for the record, it may quote anything."""
    what, error = next(
        (f for f in reversed(memory.failures) if f[0] in _PARTS), ("", "")
    )
    return (
        f"{_PARTS[what]} failed ({error.partition(':')[0]})"
        if what
        else "there is no draft"
    )


def _quoted(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _QUOTED else text[:_QUOTED].rsplit(" ", 1)[0] + " …"
