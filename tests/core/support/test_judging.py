"""The protocol of judging: any judge is asked as a flow, and what it says comes back as it was said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from denoise_core.errors import InputError
from denoise_core.running.effects import Flow
from denoise_core.running.flow import arun, run
from denoise_core.support.judging import (
    Claim,
    Claims,
    FlowJudge,
    Judged,
    Judgement,
    Quote,
    asked,
    expect_judge,
)
from denoise_core.text.facts import Difference
from denoise_core.types import Passage, Span

PASSAGES = (Passage("The tower was completed in 1889.", "p"),)
CLAIMS = Claims("It was built in 1890.", (Claim("It was built in 1890.", 0, 21),))
SAID = Judged(
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


class Own:
    id = "own"

    def judge(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> tuple[Judged, ...]:
        return tuple(SAID for _ in claims)

    async def ajudge(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> tuple[Judged, ...]:
        return self.judge(question, claims, passages)


class Flowing(FlowJudge):
    def flow(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> Flow[Judgement]:
        return (yield from asked(Own(), question, claims, passages))


@pytest.mark.parametrize("judge", [Own(), Flowing()])
def test_a_judge_is_asked_as_a_flow_with_both_drivers_and_stands_in_the_trace(judge: Own | Flowing) -> None:
    found, trace = run(asked(judge, "When?", CLAIMS, PASSAGES))
    other, _ = asyncio.run(arun(asked(judge, "When?", CLAIMS, PASSAGES)))
    assert found == other == Judgement((SAID,))
    assert [e.tag for e in trace.events] == ["judge"]
    assert tuple(judge.judge("When?", CLAIMS, PASSAGES)) == (SAID,)


def test_a_judgement_survives_json_with_every_field() -> None:
    said = Judgement((SAID,), True, False, "kind", "why")
    assert Judgement.from_json(json.loads(json.dumps(said.as_json()))) == said


def test_what_is_no_judge_is_refused_with_what_to_write() -> None:
    for wrong in (len, Own, "name", 0.5):
        with pytest.raises(InputError, match=r"judges\.function"):
            expect_judge(wrong)
    judge = Own()
    assert expect_judge(judge) is judge


def test_a_judge_that_gives_something_else_is_a_mistake_that_is_raised() -> None:
    class Wrong(Own):
        def judge(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> object:  # type: ignore[override]
            return 0.5

    with pytest.raises(InputError, match="sequence of Judged"):
        run(asked(Wrong(), "When?", CLAIMS, PASSAGES))


def test_a_probability_outside_0_to_1_is_refused() -> None:
    with pytest.raises(InputError):
        Judged("x", 0, 1, True, 1.5)
