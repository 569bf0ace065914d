"""Verdicts follow from the claims and survive JSON; any judge is asked as a flow, and its verdict comes back."""

import asyncio
import json
from dataclasses import replace

import pytest

from denoise_core.errors import InputError
from denoise_core.runtime.flow import arun, run
from denoise_core.support.judging import (
    NO_CLAIMS,
    AnswerClaims,
    AnswerVerdict,
    Claim,
    ClaimVerdict,
    FlowJudge,
    Quote,
    ask_judge,
)
from denoise_core.text.facts import Difference
from denoise_core.types import Passage, Span

PASSAGES = (Passage("The tower was completed in 1889.", "p"),)
CLAIMS = AnswerClaims("It was built in 1890.", (Claim("It was built in 1890.", 0, 21),))
FAILED = ClaimVerdict(
    "It was built in 1890.",
    0,
    21,
    False,
    0.1,
    (Quote(Span("p", 27, 31), "1889", "contradicts"),),
    (Difference("date", "1890", "1889", 16, 20, 27, 31),),
    "date",
    "another year",
)
HELD = ClaimVerdict(
    "It was completed.",
    22,
    39,
    True,
    0.9,
    (Quote(Span("p", 0, 23), "The tower was completed"),),
)
CONTRADICTED = replace(FAILED, kind="contradicted")
NOT_STATED = replace(FAILED, kind="not_stated")
NOTHING = ClaimVerdict("Hello!", 52, 58, None, kind="no_claim")
UNSURE = ClaimVerdict(
    "It is tall.", 40, 51, None, kind="unclear", reason="it can be read both ways"
)


@pytest.mark.parametrize(
    ("claims", "answers", "outcome", "kinds", "score"),
    [
        ([HELD], None, "pass", set(), 0.9),
        ([HELD], False, "fail", {"off_question"}, 0.45),
        ([HELD, UNSURE], True, "unknown", {"unclear"}, 0.6),
        ([HELD, NOT_STATED], True, "partial", {"not_stated"}, 0.45),
        ([HELD, FAILED], True, "fail", {"date"}, 0.45),
        ([UNSURE, NOT_STATED], True, "unknown", {"not_stated"}, 0.0),
        ([HELD, CONTRADICTED], True, "fail", {"contradicted"}, 0.4),
        ([FAILED, FAILED], True, "fail", {"date"}, 0.0),
        ([UNSURE, FAILED], False, "fail", {"date", "off_question"}, 0.0),
        ([NOTHING, HELD], True, "pass", set(), 0.9),
        ([NOTHING, NOTHING], True, "unknown", {"no_claim"}, 0.0),
    ],
)
def test_the_verdict_on_an_answer_follows_from_its_claims(
    claims, answers, outcome, kinds, score
):
    verdict = AnswerVerdict.of_claims(claims, answers_question=answers)
    assert (verdict.outcome, verdict.kinds, verdict.score) == (outcome, kinds, score)
    assert verdict.passed == (outcome == "pass") == (not verdict.reasons)
    assert AnswerVerdict.from_json(json.loads(json.dumps(verdict.as_json()))) == verdict


def test_a_threshold_passes_what_is_not_stated_and_never_what_is_contradicted():
    for claims, share in (([HELD, FAILED], 0.5), ([HELD, HELD, UNSURE], 2 / 3)):
        verdict = AnswerVerdict.of_claims(claims)
        assert verdict.supported_share == share
        assert replace(verdict, threshold=share).passed
        assert not replace(verdict, threshold=share + 0.01).passed
    for kind in ("contradicted", "citation"):
        claims = [HELD, replace(FAILED, kind=kind)]
        assert not replace(AnswerVerdict.of_claims(claims), threshold=0.1).passed
    contradicted = AnswerVerdict.of_claims([HELD, HELD, CONTRADICTED])
    nothing = AnswerVerdict.of_claims([NOTHING])
    assert not replace(contradicted, threshold=0.0).passed
    assert not replace(nothing, threshold=0.0).passed


@pytest.mark.parametrize("supported", [False, None])
def test_units_alone_never_pass_what_the_judge_of_the_whole_does_not(supported):
    verdict = AnswerVerdict(
        supported,
        0.9,
        (HELD, HELD),
        kind="unsafe",
        reason="why",
    )
    for threshold in (0.0, 0.5, 1.0):
        assert not replace(verdict, threshold=threshold).passed
    assert verdict.outcome == ("unknown" if supported is None else "fail")
    assert verdict.reasons == ("why",)


def test_each_quote_of_a_supported_claim_counts_once():
    verdict = AnswerVerdict.of_claims([HELD, HELD, FAILED])
    assert [quote.span for quote in verdict.quotes] == [Span("p", 0, 23)]


def test_what_claims_nothing_passes_not_and_findings_of_the_whole_have_no_words():
    assert AnswerVerdict.of_claims([]).kind == NO_CLAIMS
    assert not AnswerVerdict.of_claims([]).passed
    copied = replace(
        AnswerVerdict.of_claims([FAILED]), kind="copy", reason="it is a copy"
    )
    assert [f.text for f in copied.findings] == [FAILED.text, ""]


@pytest.mark.parametrize("score", [-0.1, 1.1, float("inf"), None, "1"])
def test_numbers_outside_0_to_1_are_refused(score):
    with pytest.raises(InputError, match="from 0 to 1"):
        AnswerVerdict(False, score)
    if score is not None and score != "1":
        with pytest.raises(InputError, match="0 to 1"):
            ClaimVerdict("x", 0, 1, True, score)


def test_a_score_that_is_not_a_number_is_never_a_pass():
    for units in ((HELD,), (HELD, UNSURE)):
        assert not AnswerVerdict(True, float("nan"), units, threshold=0.5).passed
    verdict = AnswerVerdict(True, float("nan"))
    assert (verdict.outcome, verdict.score, verdict.passed) == ("unknown", 0.0, False)
    assert "not a number" in verdict.reasons[0]


class Own:
    id = "own"

    def judge(self, question, claims, passages):
        return AnswerVerdict.of_claims([FAILED for _ in claims])

    async def ajudge(self, question, claims, passages):
        return self.judge(question, claims, passages)


class Flowing(FlowJudge):
    def flow(self, question, claims, passages):
        return (yield from ask_judge(Own(), question, claims, passages))


@pytest.mark.parametrize("judge", [Own(), Flowing()])
def test_a_judge_is_asked_as_a_flow_with_both_drivers_and_is_in_the_trace(judge):
    verdict, trace = run(ask_judge(judge, "When?", CLAIMS, PASSAGES))
    other, _ = asyncio.run(arun(ask_judge(judge, "When?", CLAIMS, PASSAGES)))
    assert (
        verdict
        == other
        == judge.judge("When?", CLAIMS, PASSAGES)
        == AnswerVerdict.of_claims([FAILED])
    )
    assert [event.tag for event in trace.events] == ["judge"]


def test_a_judge_that_gives_something_else_is_a_mistake_that_is_raised():
    class Wrong(Own):
        def judge(self, question, claims, passages):
            return 0.5

    with pytest.raises(InputError, match="expected an AnswerVerdict"):
        run(ask_judge(Wrong(), "When?", CLAIMS, PASSAGES))
