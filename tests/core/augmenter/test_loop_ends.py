"""Every run of the loop ends, for a reason that has a name, and what was paid for until then is sent."""

import pytest
from augmenter_doubles import RIGHT, WRONG, Scores, Script, check_loop, scripted
from faults import Faulty, faults_of
from judging import replying

from denoise_core import Budget
from denoise_core.augmenter import (
    Augmenter,
    Consolidator,
    LoopLimits,
    Outcome,
    Rules,
    StopReason,
)
from denoise_core.augmenter.actions import Search
from denoise_core.augmenter.prompts import QUESTION_ANSWERING
from denoise_core.augmenter.utility import without_effects
from denoise_core.errors import is_user_error
from denoise_core.support.quoting import LLMJudge


@pytest.mark.parametrize(
    ("drafts", "reason", "count"),
    [
        ("abcd", StopReason.NO_PROGRESS, 3),
        ("aA", StopReason.REPEATED_ANSWER, 2),
        ("dcba", StopReason.ATTEMPTS, 4),
    ],
)
def test_drafts_that_bring_nothing_end_the_loop(run_loop, drafts, reason, count):
    scores = Scores(a=0.6, A=0.6, b=0.5, c=0.4, d=0.3)
    limits = LoopLimits(attempts=4, patience=2)
    answer = run_loop(*drafts, judge=scores, limits=limits)
    assert (answer.text, answer.stop_reason, answer.score) == ("a", reason, 0.6)
    assert len(answer.memory.attempts) == count


@pytest.mark.parametrize("calls", range(5))
def test_a_budget_of_calls_is_never_passed_and_what_was_paid_for_is_sent(
    build_loop, question, calls
):
    drafts = "abcd"
    loop = build_loop(
        *drafts,
        judge=Scores(a=0.1, b=0.2, c=0.3, d=0.4),
        budget=Budget(calls=calls),
        limits=LoopLimits(attempts=9),
        policy=Rules(widen=False),
    )
    answer = loop.answer(question)
    (retriever,) = loop.consolidator.sources
    assert len(loop.llm.received_messages) + len(retriever.queries) == calls
    assert answer.stop_reason is StopReason.BUDGET
    if calls > 1:
        assert answer.outcome is Outcome.UNSUPPORTED
        assert answer.text == drafts[calls - 2]
    else:
        assert answer.outcome is Outcome.FAILED
        assert "budget" in answer.text


def test_a_candidate_whose_judge_could_not_be_paid_is_still_sent(run_loop):
    answer = run_loop(RIGHT, judge=LLMJudge(), budget=Budget(calls=2))
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
    run_loop, judge, budget, outcome, reason
):
    """Its outcome was that of a model that says it does not know."""
    answer = run_loop(
        "It was in 1889, they say.",
        judge=replying(judge),
        budget=budget,
        limits=LoopLimits(unsupported="abstain"),
    )
    assert (answer.outcome, answer.stop_reason) == (outcome, reason)
    is_withheld = answer.text == QUESTION_ANSWERING.abstention_text
    assert is_withheld is (reason is not StopReason.ABSTAINED)


DOWN = Faulty(faults_of("any")["raises a lost connection"])
BROKEN = Faulty(faults_of("any")["raises a division"])


def test_failing_parts_end_in_a_named_reason(run_loop, question):
    answers = {
        StopReason.RETRIEVER_ERROR: check_loop(
            lambda: Augmenter(scripted(RIGHT), Consolidator([DOWN, DOWN])), question
        ),
        StopReason.LLM_ERROR: run_loop(OSError("down")),
        StopReason.JUDGE_ERROR: run_loop(*"abc", judge=BROKEN),
        StopReason.POLICY_ERROR: run_loop(RIGHT, policy=BROKEN),
    }
    for reason, answer in answers.items():
        is_unknown = reason is StopReason.JUDGE_ERROR
        outcome = Outcome.UNKNOWN if is_unknown else Outcome.FAILED
        assert (answer.stop_reason, answer.outcome) == (reason, outcome)
        assert answer.memory.failures
    text = answers[StopReason.RETRIEVER_ERROR].text
    assert "the search failed (ConnectionResetError)" in text


def test_feedback_that_fails_does_not_end_the_loop(run_loop):
    answer = run_loop(WRONG, RIGHT, feedback=DOWN)
    assert answer.text == RIGHT
    assert answer.memory.failures == (("feedback", "ConnectionResetError: gone"),)


def test_mistakes_are_raised_whoever_makes_them(build_loop, question):
    class Wrong:
        def assess(self, memory, candidate):
            return without_effects("yes")

        def write(self, memory, candidate, verdict):
            raise TypeError("feedback")

    for loop, message in (
        (
            build_loop(RIGHT, policy=Script("draft")),
            "must return an Action, got str",
        ),
        (build_loop(RIGHT, judge=Wrong()), "must return an AnswerVerdict, got str"),
        (build_loop(WRONG, feedback=Wrong()), "feedback"),
        (build_loop(PermissionError("no key")), "no key"),
    ):
        with pytest.raises(Exception, match=message) as raised:
            loop.answer(question)
        assert is_user_error(raised.value)


def test_no_policy_can_loop_for_ever(run_loop):
    answer = run_loop(RIGHT, policy=Script(Search()))
    assert answer.stop_reason is StopReason.STEPS
    assert len(answer.memory.actions) == LoopLimits().steps
