"""Every run of the loop ends, for a reason that has a name, and what was paid for until then is sent."""

import pytest
from augmenter_doubles import RIGHT, WRONG, Down, Scores, check_loop, scripted

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
from denoise_core.augmenter.utility import without_effects
from denoise_core.errors import is_user_error
from denoise_core.support.quoting import LLMJudge
from denoise_core.testing import FunctionLLM, ListRetriever


class Script:
    """A policy that is a list of actions."""

    def __init__(self, *actions):
        self.actions = actions

    def choose(self, memory):
        return self.actions[min(len(memory.actions), len(self.actions) - 1)]


def test_drafts_that_bring_nothing_end_the_loop(passages, question):
    limits = LoopLimits(attempts=10, patience=2)
    utility = Scores(a=0.5, b=0.4, c=0.4, d=0.95)
    answer = check_loop(
        lambda: Augmenter(
            scripted("a", "b", "c", "d"),
            ListRetriever(passages),
            judge=utility,
            limits=limits,
        ),
        question,
    )
    assert (answer.text, answer.stop_reason) == ("a", StopReason.NO_PROGRESS)
    assert len(answer.memory.attempts) == 3


def test_the_same_answer_from_the_same_evidence_ends_the_loop(passages, question):
    limits = LoopLimits(attempts=10, patience=10)
    answer = check_loop(
        lambda: Augmenter(
            scripted(WRONG, WRONG.upper()), ListRetriever(passages), limits=limits
        ),
        question,
    )
    assert answer.stop_reason is StopReason.REPEATED_ANSWER
    assert len(answer.memory.attempts) == 2


@pytest.mark.parametrize("calls", range(7))
def test_a_budget_of_calls_is_never_passed_and_what_was_paid_for_is_sent(
    passages, question, calls
):
    draft_calls = []

    def say(messages):
        draft_calls.append(messages)
        return "ab"[len(draft_calls) % 2] * len(draft_calls)

    utility = Scores(**{c * n: n / 10 for c in "ab" for n in range(9)})
    retriever = ListRetriever(passages)
    answer = Augmenter(
        FunctionLLM(say),
        retriever,
        judge=utility,
        budget=Budget(calls=calls),
        limits=LoopLimits(attempts=9),
        policy=Rules(widen=False),
    ).answer(question)
    assert len(draft_calls) + len(retriever.queries) == calls
    assert answer.stop_reason is StopReason.BUDGET
    assert answer.outcome is (Outcome.UNSUPPORTED if calls > 1 else Outcome.FAILED)
    if calls > 1:
        assert answer.text == "ab"[(calls - 1) % 2] * (calls - 1)
    else:
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


def test_a_policy_may_send_or_abstain_early(passages, question):
    sent_answer = check_loop(
        lambda: Augmenter(
            scripted(WRONG),
            ListRetriever(passages),
            policy=Script(Search(), Draft(), Send()),
        ),
        question,
    )
    assert (sent_answer.outcome, sent_answer.stop_reason) == (
        Outcome.UNSUPPORTED,
        StopReason.SENT,
    )
    shy = check_loop(
        lambda: Augmenter(
            scripted(WRONG), ListRetriever(passages), policy=Script(Search(), Abstain())
        ),
        question,
    )
    assert (shy.outcome, shy.stop_reason) == (Outcome.ABSTAINED, StopReason.ABSTAINED)


@pytest.mark.parametrize("text", ["", " \n"])
def test_where_the_model_writes_nothing_a_sentence_says_so(passages, question, text):
    answer = check_loop(
        lambda: Augmenter(scripted(text), ListRetriever(passages)), question
    )
    assert answer.outcome is Outcome.FAILED
    assert answer.text == "No answer can be given: the model wrote nothing."
    assert answer.verdict is None
