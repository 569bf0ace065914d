"""Functions as judges: what they return, how they are called, and a decision model."""

import asyncio
import math

import pytest

from denoise_core import InputError, Passage
from denoise_core.support import judges
from denoise_core.support.check import as_judge
from denoise_core.support.judges import read_verdict
from denoise_core.support.judging import AnswerClaims, Claim

ANSWER = "the tower has floors. it was completed."
CLAIMS = AnswerClaims(
    ANSWER, (Claim("the tower has floors.", 0, 21), Claim("it was completed.", 22, 39))
)
PASSAGES = (
    Passage("the tower was completed.", "a", header="tower"),
    Passage("it has three floors. " * 40 + "the tower was completed.", "b"),
)
QUESTION = "it has three?"


def says_floors(question, evidence, claim):
    assert question == QUESTION
    assert evidence == [passage.text_with_header for passage in PASSAGES]
    return 0.9 if "floors" in claim else 0.1


async def says_floors_later(question, evidence, claim):
    await asyncio.sleep(0)
    return "floors" in claim, ["no", "floors"]


class SaysFloors:
    async def __call__(self, claim, question):
        assert question == QUESTION
        return "floors" in claim


FUNCTIONS = {
    "a number": says_floors,
    "async with a reason": says_floors_later,
    "an object, called by name": SaysFloors(),
    "by place": lambda q, e, c, floors="floors": float(floors in c),
    "a coroutine of a plain function": lambda *args: says_floors_later(*args),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_judges_claim_by_claim_both_ways(name):
    judge = judges.function_judge(FUNCTIONS[name], name=name)
    verdict = judge.judge(QUESTION, CLAIMS, PASSAGES)
    assert [claim.supported for claim in verdict.claims] == [True, False]
    assert [(claim.start, claim.end) for claim in verdict.claims] == [(0, 21), (22, 39)]
    assert verdict.claims[1].reason
    assert asyncio.run(judge.ajudge(QUESTION, CLAIMS, PASSAGES)) == verdict

    async def judge_inside_a_loop():
        return judge.judge(QUESTION, CLAIMS, PASSAGES)

    assert asyncio.run(judge_inside_a_loop()) == verdict


def test_cannot_say_is_unknown_and_any_other_value_is_refused():
    def judge_first_claim(value, **settings):
        judge = judges.function_judge(
            lambda question, evidence, claim: value, **settings
        )
        return judge.judge("", CLAIMS[:1], PASSAGES)

    for value in (None, math.nan, (None, "not clear\nat all")):
        assert judge_first_claim(value).supported is None
    assert judge_first_claim(value).claims[0].reason == "not clear at all"
    for value in ("yes", 5, -0.1, object(), {"score": 1.0}, ()):
        with pytest.raises(InputError, match="expected a"):
            judge_first_claim(value)
    assert judge_first_claim(4, best=5).claims[0].probability == 0.8


@pytest.mark.parametrize("value", [(0.9, "because", "more"), (0.9,), [1, 2, 3], []])
def test_what_is_no_pair_is_refused(value):
    with pytest.raises(InputError, match="a pair of one and a reason"):
        read_verdict(value)


def test_a_function_reads_what_the_metadata_of_an_empty_passage_says():
    judge = judges.function_judge(lambda evidence: "completed: 1889" in evidence)
    passages = [Passage("", "a", None, {"completed": 1889}), Passage(" ", "b")]
    assert judge.judge("", CLAIMS[:1], passages).passed


def test_slips_are_refused_with_what_to_write():
    for wrong in ("vectara/model", SaysFloors, object(), None, 3):
        with pytest.raises(InputError, match="expected a function of question"):
            as_judge(wrong)
    judge = judges.function_judge(lambda question, evidence, claim: 1.0)
    assert as_judge(judge) is judge
