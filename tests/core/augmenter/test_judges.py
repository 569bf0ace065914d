"""A judge, model or function, counts where its word is clear; anything else is unknown or an error."""

import pytest
from judging import TEXT, judged, memory

from denoise_core import Reply, run
from denoise_core.augmenter import Augmenter, Outcome
from denoise_core.augmenter.testing import check_loop, scripted
from denoise_core.augmenter.utilities import FunctionUtility, SelfCriticism
from denoise_core.testing import ListRetriever

GOOD = '{"verdict": "supported", "score": 9, "problems": []}'
BAD = '{"verdict": "unsupported", "score": 2, "problems": [{"claim": "1932", "problem": "it was 1928"}]}'


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (GOOD, "pass"),
        (f"```json\n{GOOD}\n```", "pass"),
        (f"<think>No, yes, no</think>\n{GOOD}", "pass"),
        (BAD, "fail"),
        (GOOD.replace("9", "2"), "fail"),
        (GOOD.replace("[]", '[{"claim": "a", "problem": "b"}]'), "fail"),
        (GOOD.replace("supported", "unclear"), "unknown"),
        ("yes", "unknown"),
        ("No - not since yesterday", "unknown"),
        (GOOD.replace("9", "true"), "unknown"),
        (GOOD.replace("9", "99"), "unknown"),
        (GOOD.replace("[]", '["x"]'), "unknown"),
        (GOOD + GOOD, "unknown"),
        ("", "unknown"),
        ("[" * 100_000, "unknown"),
    ],
)
def test_self_criticism_is_parsed_strictly(reply, outcome):
    verdict = run(SelfCriticism(scripted(reply)).assess(memory(TEXT), "It was 1932."))[0]
    assert verdict.outcome == outcome
    assert verdict.outcome == "pass" or verdict.reasons


def test_the_judge_may_be_another_model_than_the_one_that_drafts(passages, question):
    drafter, judge = scripted("In 1925 [1].", "In 1889 [1]."), scripted(BAD, GOOD)
    answer = Augmenter(drafter, ListRetriever(passages), judge=SelfCriticism(judge)).answer(question)
    assert answer.outcome is Outcome.SUPPORTED
    assert (len(drafter.seen), len(judge.seen)) == (2, 2)
    assert '"1932": it was 1928' in drafter.seen[1][-1].content


def test_any_function_is_a_utility(passages, question):
    seen = []

    def score(asked, evidence, candidate):
        seen.append((asked, list(evidence), candidate))
        return 0.9 if "1889" in candidate else 0.1

    answer = check_loop(
        lambda: Augmenter(scripted("1925", "1889"), ListRetriever(passages), judge=FunctionUtility(score)),
        question,
    )
    assert (answer.text, answer.outcome) == ("1889", Outcome.SUPPORTED)
    assert seen[0] == (question, [p.text for p in passages], "1925")
    assert [e.tag for e in answer.trace.events].count("judge") == 2


@pytest.mark.parametrize(
    ("value", "outcome"), [(None, "unknown"), (float("nan"), "unknown"), (True, "pass"), (0, "fail")]
)
def test_a_function_that_cannot_say_is_unknown(value, outcome):
    assert judged("x", TEXT, utility=FunctionUtility(lambda *_: value)).outcome == outcome


@pytest.mark.parametrize("value", [7, -1.0, float("inf"), "high"])
def test_a_function_that_returns_no_score_is_an_error(value):
    with pytest.raises(ValueError, match=r"judge|convert"):
        judged("x", TEXT, utility=FunctionUtility(lambda *_: value))


def test_replies_of_a_judge_count_as_calls(passages, question):
    from denoise_core import Budget

    utility = FunctionUtility(lambda *_: 0.0)
    answer = Augmenter(
        scripted(Reply("a"), Reply("b")), ListRetriever(passages), judge=utility, budget=Budget(calls=4)
    ).answer(question)
    assert len([e for e in answer.trace.events if e.error is None]) == 4
