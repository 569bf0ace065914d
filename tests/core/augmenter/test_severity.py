"""What is contradicted is written again; what is only not stated is sent as written, and marked."""

import pytest
from augmenter_doubles import check_loop
from judging import replying

from denoise_core.augmenter import Outcome, StopReason

RIGHT = "It was completed in 1889."
BEYOND = "It has a lift."
REFUSAL = "I could not find when the tower was completed."


def test_a_draft_with_something_not_stated_is_sent_as_written_and_marked(run_loop):
    text = f"{RIGHT} {BEYOND}\n"
    reply = '1 supported 1.1\n2 not_stated "a lift"\nanswers'
    answer = run_loop(text, judge=replying(reply))
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


def test_a_contradicted_draft_is_written_again_and_never_sent_for_an_unjudged_one(
    build_loop, question
):
    for second_reply, outcome in (
        ("1 supported 1.1\nanswers", Outcome.SUPPORTED),
        (OSError("the judge is down"), Outcome.UNKNOWN),
    ):

        def make(second_reply=second_reply):
            judge = replying('1 contradicted 1.1 "1925"\nanswers', second_reply)
            return build_loop("It was completed in 1925.", RIGHT, judge=judge)

        answer = check_loop(make, question)
        assert (answer.text, answer.outcome) == (RIGHT, outcome)


@pytest.mark.parametrize("refusal", [REFUSAL, '{"answer": null}'])
def test_a_refusal_that_the_evidence_answers_is_written_again(
    build_loop, passages, question, refusal
):
    """The paper's table 6: the first response declines although the knowledge answers."""
    judge = replying("1 no_claim\nwrongly_abstains 1.1", "1 supported 1.1\nanswers")
    loop = build_loop(refusal, RIGHT, judge=judge)
    answer = loop.answer(question)
    assert (answer.text, answer.outcome) == (RIGHT, Outcome.SUPPORTED)
    assert passages[0].text in loop.llm.received_messages[1][-1].content
    tags = [event.tag for event in answer.trace.events]
    assert tags == ["search", "draft", "judge", "draft", "judge"]


def test_a_falsehood_that_begins_with_we_is_judged(run_loop):
    judge = replying('1 contradicted 1.1 "no tower"\nanswers')
    answer = run_loop("We have no tower.", judge=judge)
    assert answer.outcome is Outcome.UNSUPPORTED
