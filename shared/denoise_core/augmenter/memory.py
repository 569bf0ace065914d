"""Working memory: everything known about one question so far.

It is immutable; each step returns a new one. It holds the paper's six-tuple (section
2.1): question q, evidence e, candidates o with their utility u and feedback f (one
`Attempt` each), dialogue history h. It also holds what was searched, what a denoiser
left out, which actions were taken and what failed, so that a policy can decide from
the memory alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from denoise_core.augmenter.actions import Action
from denoise_core.errors import format_error
from denoise_core.support.answers import parse_answer
from denoise_core.support.judging import (
    AnswerVerdict,
    ProviderCitation,
    VerdictOutcome,
)
from denoise_core.types import Drop, Message, Passage


@dataclass(frozen=True, slots=True)
class Attempt:
    """One draft with its verdict.

    Attributes:
        candidate: The draft's text, exactly as it was written.
        verdict: What the judge says of it.
        feedback: What the next draft must change; "" where the draft did not fail.
        evidence: All that was retrieved before the draft, in the order shown to the
            model; the judge compares the draft with it.
        draft: Number of the draft, from 0.
        fields: The draft as structured output, None for plain text.
        origin: What the drafter's adapter attached; neither compared nor recorded.
        citations: What the model's provider cites along with the text.
        evidence_is_numbered: Whether a number in brackets counts the evidence; see
            `DraftReply`.
    """

    candidate: str
    verdict: AnswerVerdict
    feedback: str = ""
    evidence: tuple[Passage, ...] = ()
    draft: int = 0
    fields: Mapping[str, Any] | None = None
    origin: Any = field(default=None, compare=False, repr=False)
    citations: tuple[ProviderCitation, ...] = ()
    evidence_is_numbered: bool = True

    @property
    def is_abstention(self) -> bool:
        """Whether the candidate says that it does not know."""
        is_unrefuted = self.verdict.outcome in ("pass", "unknown")
        return is_unrefuted and self.verdict.abstains

    @property
    def has_text(self) -> bool:
        """Whether it says anything, besides reasoning, or is an object."""
        if self.verdict.kind == "empty":
            return False
        return self.fields is not None or bool(self.candidate.strip())

    @property
    def text_without_reasoning(self) -> str:
        """What a prompt shows of it, and where its citations are."""
        parsed_answer = parse_answer(self.candidate)
        answer_text = parsed_answer.text_without_reasoning
        return answer_text.strip()


@dataclass(frozen=True, slots=True)
class WorkingMemory:
    """The state of one question (LLM-Augmenter, section 2.1).

    Attributes:
        question: The question.
        evidence: The passages shown to the model and the judge.
        attempts: The drafts so far, in order.
        history: The conversation before the question.
        retrieved: All passages that searches and drafters brought.
        dropped: Ranges that a denoiser or the token limit left out; they can be
            restored.
        queries: Every query searched, in order.
        actions: Every action taken, in order.
        failures: Effects that failed, as ``(what, "Type: message")``. A ``"source"``
            is one of several: the others brought something.
        excluded_evidence: Passages that do not count: written by a user or a model,
            an echo of a query, found by a search for a rejected draft.
        searchable: Whether there is anything to search.
        drafter_brings_evidence: Whether the drafter may bring evidence with a draft.
        draft_citations: What the provider cites along with the last draft, for its judge.
        evidence_is_numbered: Whether a number in brackets in the last draft counts the
            evidence, for its judge.
    """

    question: str
    evidence: tuple[Passage, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    history: tuple[Message, ...] = ()
    retrieved: tuple[Passage, ...] = ()
    dropped: tuple[Drop, ...] = ()
    queries: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()
    excluded_evidence: tuple[Passage, ...] = ()
    searchable: bool = True
    drafter_brings_evidence: bool = False
    draft_citations: tuple[ProviderCitation, ...] = ()
    evidence_is_numbered: bool = True

    def with_action(self, action: Action) -> WorkingMemory:
        """Return a memory with one more action."""
        all_actions = (*self.actions, action)
        return replace(self, actions=all_actions)

    def with_attempt(self, attempt: Attempt) -> WorkingMemory:
        """Return a memory with one more attempt."""
        all_attempts = (*self.attempts, attempt)
        return replace(self, attempts=all_attempts)

    def with_failure(self, what: str, error: BaseException) -> WorkingMemory:
        """Return a memory with one more failure; secrets in the error are masked."""
        masked_error = format_error(error)
        new_failure = (what, masked_error)
        all_failures = (*self.failures, new_failure)
        return replace(self, failures=all_failures)

    @property
    def user_turns(self) -> tuple[str, ...]:
        """What the user said before the question, in order."""
        user_messages = [turn for turn in self.history if turn.role == "user"]
        return tuple(message.content for message in user_messages)

    @property
    def last(self) -> Attempt | None:
        """The latest attempt; None before the first."""
        return self.attempts[-1] if self.attempts else None

    @property
    def best(self) -> Attempt | None:
        """The attempt to send; see `attempt_rank`. The earliest of equals."""
        return best_attempt(self.attempts)

    @property
    def draft_count(self) -> int:
        """How many drafts were written."""
        return len(self.attempts)

    @property
    def repeats(self) -> bool:
        """Whether the last draft equals an earlier one from the same evidence."""
        if not self.attempts:
            return False
        *earlier_attempts, last = self.attempts
        last_text = normalized_text(last.text_without_reasoning)
        for attempt in earlier_attempts:
            attempt_text = normalized_text(attempt.text_without_reasoning)
            is_same_text = attempt_text == last_text
            if is_same_text and attempt.evidence == last.evidence:
                return True
        return False

    def attempts_since_best(self) -> int:
        """How many attempts have been made since the best one."""
        best = self.best
        latest_first = reversed(self.attempts)
        for distance, attempt in enumerate(latest_first):
            if attempt is best:
                return distance
        return 0


def best_attempt(attempts: Sequence[Attempt]) -> Attempt | None:
    """The attempt to send; None without any.

    A last draft that says it does not know is believed, unless an earlier one is
    supported in part; else the highest `attempt_rank`, the earliest of equals.
    """
    best = max(attempts, key=attempt_rank, default=None)
    if best is None or best.verdict.outcome in ("pass", "partial"):
        return best
    last_attempt = attempts[-1]
    if last_attempt.is_abstention:
        return last_attempt
    return best


def attempt_rank(attempt: Attempt) -> tuple[bool, int, float]:
    """The key that attempts are compared by.

    Any text ranks above an empty one; then supported, partly supported, not judged,
    abstaining, refuted; last the score. The score cannot say the second: a refuted
    draft and one that was not judged both have 0.0.
    """
    verdict = attempt.verdict
    support_rank = _SUPPORT_RANKS[verdict.outcome]
    if verdict.abstains and not verdict.passed:
        support_rank = _ABSTENTION_RANK
    return attempt.has_text, support_rank, verdict.score


_SUPPORT_RANKS: Mapping[VerdictOutcome, int] = {
    "pass": 4,
    "partial": 3,
    "unknown": 2,
    "fail": 0,
}
_ABSTENTION_RANK = 1


def normalized_text(text: str) -> str:
    """Fold case and white space, so that equal texts compare equal."""
    folded_text = text.casefold()
    folded_words = folded_text.split()
    return " ".join(folded_words)
