"""Every run of the loop ends, for a reason that has a name, and what was paid for until then is sent."""

import pytest
from augmenter_doubles import RIGHT, WRONG, Down, Scores, Script, check_loop, scripted

from denoise_core import Budget
from denoise_core.augmenter import (
    Augmenter,
    Consolidator,
    LoopLimits,
    Outcome,
    Rules,
    StopReason,
)
from denoise_core.augmenter.actions import Abstain, Draft, Search, Send
from denoise_core.augmenter.prompts import QUESTION_ANSWERING
from denoise_core.augmenter.utility import without_effects
from denoise_core.errors import is_user_error
from denoise_core.support.quoting import LLMJudge
from denoise_core.testing import ListRetriever


@pytest.mark.parametrize(
    ("drafts", "reason", "count"),
    [
        ("abcd", StopReason.NO_PROGRESS, 3),
        ("aA", StopReason.REPEATED_ANSWER, 2),
        ("dcba", StopReason.ATTEMPTS, 4),
    ],
)
def test_drafts_that_bring_nothing_end_the_loop(
    passages, question, drafts, reason, count
):
    scores = Scores(a=0.5, A=0.5, b=0.4, c=0.4, d=0.3)
    if reason is StopReason.ATTEMPTS:
        scores = Scores(a=0.6, b=0.5, c=0.4, d=0.3)
    limits = LoopLimits(attempts=4, patience=2)

    def make():
        sources = ListRetriever(passages)
        return Augmenter(
            scripted(*drafts),
            sources,
            judge=scores,
            limits=limits,
        )

    answer = check_loop(make, question)
    assert (answer.text, answer.stop_reason) == ("a", reason)
    assert answer.score == max(scores.scores.values())
    assert len(answer.memory.attempts) == count


@pytest.mark.parametrize("calls", range(5))
def test_a_budget_of_calls_is_never_passed_and_what_was_paid_for_is_sent(
    passages, question, calls
):
    drafts = ("d", "dd", "ddd", "dddd")
    model = scripted(*drafts)
    retriever = ListRetriever(passages)
    scores = {draft: len(draft) / 10 for draft in drafts}
    answer = Augmenter(
        model,
        retriever,
        judge=Scores(**scores),
        budget=Budget(calls=calls),
        limits=LoopLimits(attempts=9),
        policy=Rules(widen=False),
    ).answer(question)
    assert len(model.received_messages) + len(retriever.queries) == calls
    assert answer.stop_reason is StopReason.BUDGET
    if calls > 1:
        assert answer.outcome is Outcome.UNSUPPORTED
        assert answer.text == drafts[calls - 2]
    else:
        assert answer.outcome is Outcome.FAILED
        assert "budget" in answer.text


def test_a_candidate_whose_judge_could_not_be_paid_is_still_sent(passages, question):
    answer = check_loop(
        lambda: Augmenter(
            scripted(RIGHT),
            ListRetriever(passages),
            judge=LLMJudge(),
            budget=Budget(calls=2),
        ),
        question,
    )
    assert (answer.text, answer.outcome, answer.stop_reason) == (
        RIGHT,
        Outcome.UNKNOWN,
        StopReason.BUDGET,
    )
    assert answer.memory.attempts[0].verdict.outcome == "unknown"


@pytest.mark.parametrize(
    ("judge", "budget", "outcome", "reason"),
    [
        (OSError("down"), None, Outcome.UNKNOWN, StopReason.JUDGE_ERROR),
        ("1 unclear", None, Outcome.UNKNOWN, StopReason.JUDGE_UNDECIDED),
        ("1 unclear", Budget(calls=2), Outcome.UNKNOWN, StopReason.BUDGET),
        (
            "1 not_stated\nanswers",
            None,
            Outcome.ABSTAINED,
            StopReason.REPEATED_ANSWER,
        ),
        ("1 no_claim\nabstains", None, Outcome.ABSTAINED, StopReason.ABSTAINED),
    ],
)
def test_a_draft_withheld_because_its_judge_failed_is_no_abstention(
    passages, question, judge, budget, outcome, reason
):
    """Its outcome was that of a model that says it does not know."""
    answer = check_loop(
        lambda: Augmenter(
            scripted("It was in 1889, they say."),
            ListRetriever(passages),
            judge=LLMJudge(scripted(judge)),
            budget=budget,
            limits=LoopLimits(unsupported="abstain"),
        ),
        question,
    )
    assert (answer.outcome, answer.stop_reason) == (outcome, reason)
    is_withheld = answer.text == QUESTION_ANSWERING.abstention_text
    assert is_withheld is (reason is not StopReason.ABSTAINED)


def test_failing_parts_end_in_a_named_reason(passages, question):
    class BrokenUtility:
        def assess(self, memory, candidate):
            raise ZeroDivisionError("judge")

    class BrokenPolicy:
        def choose(self, memory):
            raise KeyError("policy")

    good = ListRetriever(passages)
    cases = [
        (
            lambda: Augmenter(scripted(RIGHT), Consolidator([Down(), Down()])),
            StopReason.RETRIEVER_ERROR,
            Outcome.FAILED,
        ),
        (
            lambda: Augmenter(scripted(OSError("down")), good),
            StopReason.LLM_ERROR,
            Outcome.FAILED,
        ),
        (
            lambda: Augmenter(scripted("a", "b", "c"), good, judge=BrokenUtility()),
            StopReason.JUDGE_ERROR,
            Outcome.UNKNOWN,
        ),
        (
            lambda: Augmenter(scripted(RIGHT), good, policy=BrokenPolicy()),
            StopReason.POLICY_ERROR,
            Outcome.FAILED,
        ),
    ]
    for make, reason, outcome in cases:
        answer = check_loop(make, question)
        assert (answer.stop_reason, answer.outcome) == (reason, outcome)
        assert answer.memory.failures
        if reason is StopReason.RETRIEVER_ERROR:
            assert "the search failed (OSError)" in answer.text


def test_feedback_that_fails_does_not_end_the_loop(passages, question):
    class Down:
        def write(self, memory, candidate, verdict):
            raise OSError("down")

    answer = check_loop(
        lambda: Augmenter(
            scripted(WRONG, RIGHT), ListRetriever(passages), feedback=Down()
        ),
        question,
    )
    assert answer.text == RIGHT
    assert answer.memory.failures == (("feedback", "OSError: down"),)


def test_mistakes_are_raised_whoever_makes_them(passages, question):
    class Wrong:
        def assess(self, memory, candidate):
            return without_effects("yes")

        def write(self, memory, candidate, verdict):
            raise TypeError("feedback")

    good = ListRetriever(passages)
    for make, message in (
        (
            lambda: Augmenter(scripted(RIGHT), good, policy=Script("draft")),
            "must return an Action, got str",
        ),
        (
            lambda: Augmenter(scripted(RIGHT), good, judge=Wrong()),
            "must return an AnswerVerdict, got str",
        ),
        (lambda: Augmenter(scripted(WRONG), good, feedback=Wrong()), "feedback"),
        (lambda: Augmenter(scripted(PermissionError("no key")), good), "no key"),
    ):
        with pytest.raises(Exception, match=message) as raised:
            make().answer(question)
        assert is_user_error(raised.value)


def test_no_policy_can_loop_for_ever(passages, question):
    answer = check_loop(
        lambda: Augmenter(
            scripted(RIGHT), ListRetriever(passages), policy=Script(Search())
        ),
        question,
    )
    assert answer.stop_reason is StopReason.STEPS
    assert len(answer.memory.actions) == LoopLimits().steps


@pytest.mark.parametrize(
    ("actions", "outcome", "reason"),
    [
        ([Search(), Draft(), Send()], Outcome.UNSUPPORTED, StopReason.SENT),
        ([Search(), Abstain()], Outcome.ABSTAINED, StopReason.ABSTAINED),
        ([Search(), Draft(), Abstain()], Outcome.ABSTAINED, StopReason.ABSTAINED),
        ([Abstain()], Outcome.ABSTAINED, StopReason.NO_EVIDENCE),
    ],
)
def test_a_policy_may_send_or_abstain_early(
    passages, question, actions, outcome, reason
):
    def make():
        policy = Script(*actions)
        return Augmenter(
            scripted(WRONG),
            ListRetriever(passages),
            policy=policy,
        )

    answer = check_loop(make, question)
    assert (answer.outcome, answer.stop_reason) == (outcome, reason)
    assert (answer.text == WRONG) is (reason is StopReason.SENT)
