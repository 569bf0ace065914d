"""What is contradicted is written again; what is only not stated is sent as written, and marked."""

import pytest
from augmenter_doubles import check_loop, scripted

from denoise_core.augmenter import Augmenter, LoopLimits, Outcome, StopReason
from denoise_core.support.quoting import LLMJudge
from denoise_core.testing import FunctionLLM, ListRetriever

RIGHT = "It was completed in 1889."
BEYOND = "It has a lift."
REFUSAL = "I could not find when the tower was completed."


def judge_of(*replies):
    """The judge of the product, whose model gives these replies in turn."""
    return LLMJudge(scripted(*replies))


def test_a_draft_with_something_not_stated_is_sent_as_written_and_marked(
    passages, question
):
    text = f"{RIGHT} {BEYOND}\n"
    reply = '1 supported 1.1\n2 not_stated "a lift"\nanswers'
    answer = check_loop(
        lambda: Augmenter(
            scripted(text), ListRetriever(passages), judge=judge_of(reply)
        ),
        question,
    )
    assert (answer.text, answer.outcome, answer.stop_reason) == (
        text,
        Outcome.PARTLY_SUPPORTED,
        StopReason.SENT,
    )
    assert answer.score == 0.5
    assert [(text[u.start : u.end], u.supported) for u in answer.units] == [
        (RIGHT, True),
        (BEYOND, False),
    ]
    assert [event.tag for event in answer.trace.events].count("draft") == 1


@pytest.mark.parametrize(
    ("threshold", "outcome"),
    [(0.5, Outcome.SUPPORTED), (0.6, Outcome.PARTLY_SUPPORTED)],
)
def test_the_threshold_decides_what_share_passes(
    passages, question, threshold, outcome
):
    judge = judge_of("1 supported 1.1\n2 not_stated\nanswers")
    loop = Augmenter(
        scripted(f"{RIGHT} {BEYOND}"),
        ListRetriever(passages),
        judge=judge,
        limits=LoopLimits(threshold=threshold),
    )
    assert loop.answer(question).outcome is outcome


def test_a_contradicted_draft_is_written_again_and_never_sent_for_an_unjudged_one(
    passages, question
):
    for second_reply, outcome in (
        ("1 supported 1.1\nanswers", Outcome.SUPPORTED),
        (OSError("the judge is down"), Outcome.UNKNOWN),
    ):

        def make(second_reply=second_reply):
            judge = judge_of('1 contradicted 1.1 "1925"\nanswers', second_reply)
            drafts = scripted("It was completed in 1925.", RIGHT)
            return Augmenter(drafts, ListRetriever(passages), judge=judge)

        answer = check_loop(make, question)
        assert (answer.text, answer.outcome) == (RIGHT, outcome)


@pytest.mark.parametrize("refusal", [REFUSAL, '{"answer": null}'])
def test_a_refusal_that_the_evidence_answers_is_written_again(
    passages, question, refusal
):
    """The paper's table 6: the first response declines although the knowledge answers."""
    drafter = scripted(refusal, RIGHT)
    replies = ("1 no_claim\nwrongly_abstains 1.1", "1 supported 1.1\nanswers")
    answer = Augmenter(
        drafter, ListRetriever(passages), judge=judge_of(*replies)
    ).answer(question)
    assert (answer.text, answer.outcome) == (RIGHT, Outcome.SUPPORTED)
    assert passages[0].text in drafter.received_messages[1][-1].content
    tags = [event.tag for event in answer.trace.events]
    assert tags == ["search", "draft", "judge", "draft", "judge"]


def test_a_falsehood_that_begins_with_we_is_judged(passages, question):
    judge = FunctionLLM(lambda messages: '1 contradicted 1.1 "no tower"\nanswers')
    loop = Augmenter(
        scripted("We have no tower."), ListRetriever(passages), judge=judge
    )
    assert loop.answer(question).outcome is Outcome.UNSUPPORTED
    assert judge.received_messages
