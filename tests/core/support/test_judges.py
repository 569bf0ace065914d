"""The field's judges by name and by function: tiny random models of each shape, and what other packages return."""

import asyncio
import math
from types import SimpleNamespace

import pytest
from field_judges import SHAPES, RagasMetric

from denoise_core import InputError, Passage
from denoise_core.support import judges
from denoise_core.support.check import as_judge
from denoise_core.support.judges import FunctionJudge
from denoise_core.support.judging import Claim, AnswerClaims

ANSWER = "the tower has floors. it was completed."
CLAIMS = AnswerClaims(
    ANSWER, (Claim("the tower has floors.", 0, 21), Claim("it was completed.", 22, 39))
)
PASSAGES = (
    Passage("the tower was completed.", "a", header="tower"),
    Passage("it has three floors. " * 40 + "the tower was completed.", "b"),
)
QUESTION = "it has three?"


def test_a_decision_model_judges_each_claim():
    seen = []

    def decide(asked):
        seen.append(asked["state"])
        return {
            "grounded": {
                "noul": 0.9
                if "floors" in asked["state"].rpartition("BEGIN draft")[2]
                else 0.2
            }
        }

    found = judges.decision_judge(decide).judge(QUESTION, CLAIMS, PASSAGES[:1])
    assert [j.supported for j in found.claims] == [True, False]
    assert len(seen) == 2


@pytest.mark.parametrize("shape", SHAPES)
def test_a_function_is_asked_claim_by_claim_both_ways(shape):
    judge = judges.function_judge(SHAPES[shape], name=shape)
    found = judge.judge(QUESTION, CLAIMS, PASSAGES)
    assert [j.supported for j in found.claims] == [True, False]
    assert [(j.start, j.end) for j in found.claims] == [(0, 21), (22, 39)]
    assert found.claims[1].reason
    assert asyncio.run(judge.ajudge(QUESTION, CLAIMS, PASSAGES)) == found

    async def inside_a_loop():
        return judge.judge(QUESTION, CLAIMS, PASSAGES)

    assert asyncio.run(inside_a_loop()) == found


def test_what_cannot_say_is_unknown_and_what_is_no_verdict_is_refused():
    for nothing in (
        None,
        math.nan,
        {"score": None},
        SimpleNamespace(score=None, invalid_result=True),
    ):
        found = judges.function_judge(lambda q, e, c, n=nothing: n).judge(
            "", CLAIMS[:1], PASSAGES
        )
        assert found.supported is None
    for wrong in ("yes", 5, -0.1, object()):
        with pytest.raises(InputError):
            judges.function_judge(lambda q, e, c, w=wrong: w).judge(
                "", CLAIMS[:1], PASSAGES
            )
    found = judges.function_judge(lambda q, e, c: 4, best=5).judge(
        "", CLAIMS[:1], PASSAGES
    )
    assert found.claims[0].probability == 0.8


def test_once_a_claim_failed_no_other_is_begun_both_ways():
    asked = []

    def gone(question, evidence, claim):
        asked.append(claim)
        raise OSError("gone")

    judge = FunctionJudge(gone, limit=1)
    claims = [Claim("In 1889.", 0, 8), Claim("In 1890.", 9, 17)]
    with pytest.raises(OSError, match="gone"):
        judge.judge("When?", claims, [])
    with pytest.raises(OSError, match="gone"):
        asyncio.run(judge.ajudge("When?", claims, []))
    assert asked == ["In 1889."] * 2


def test_slips_are_refused_with_what_to_write():
    for wrong in ("vectara/model", RagasMetric, None, 3):
        with pytest.raises(InputError, match="expected a function or an evaluator"):
            judges.function_judge(wrong)
    own = judges.function_judge(lambda q, e, c: 1.0)
    assert as_judge(own) is own
