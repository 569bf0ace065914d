"""One protocol of judging: by it everything that judges is asked.

A judge is given a question, the claims of an answer and the passages, and says of each claim whether the passages
support it, with the words on which that rests as exact places. `ask_judge` asks any judge as a flow, so that
budget, time limit, trace and replay count it like a model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from denoise_core.errors import InputError, UnparsableReply
from denoise_core.running.effects import Flow, complete
from denoise_core.running.flow import arun, run
from denoise_core.support.verdicts import AnswerVerdict, Claim
from denoise_core.types import Message, Passage, Reply, Usage


@runtime_checkable
class Judge(Protocol):
    """Judges claims. ``id`` names it in answers, traces and records."""

    @property
    def id(self) -> str:
        """What it is called, with the settings that change its verdicts."""
        ...

    def judge(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> AnswerVerdict:
        """One `ClaimVerdict` for each claim, in order, in `AnswerVerdict.of_claims`. A judge that cuts the answer
        itself (``claims.answer``) gives the claims that it found."""
        ...

    async def ajudge(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> AnswerVerdict:
        """The same without blocking the event loop."""
        ...


class FlowJudge:
    """A judge written as a flow: `judge` and `ajudge` are the same `flow`, driven two ways."""

    @property
    def id(self) -> str:
        """What it is called."""
        return type(self).__name__

    def flow(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> Flow[AnswerVerdict]:
        """The verdict; asks for what it needs."""
        raise NotImplementedError

    def judge(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> AnswerVerdict:
        return run(self.flow(question, claims, passages))[0]

    async def ajudge(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> AnswerVerdict:
        """As `judge`, without blocking the event loop."""
        return (await arun(self.flow(question, claims, passages)))[0]


def ask_judge(
    judge: Judge, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
) -> Flow[AnswerVerdict]:
    """Any judge as a flow. One that is not written as a flow is an effect, so that it is counted, timed, recorded
    and replayed. Raises `InputError` for a judge that gives something else than an `AnswerVerdict`."""
    if isinstance(judge, FlowJudge):
        return (yield from judge.flow(question, claims, passages))
    shown = {
        "question": question,
        "claims": [c.whole for c in claims],
        "passages": [p.headed for p in passages],
    }
    message = Message("user", json.dumps(shown, ensure_ascii=False))
    server = _JudgeServer(judge, question, claims, passages)
    reply = yield from complete((message,), tag="judge", llm=server)
    try:
        return AnswerVerdict.from_json(json.loads(reply.text))
    except ValueError as error:  # a recorded reply that is none
        raise UnparsableReply(f"expected a verdict from {judge.id}, got {reply.text[:80]!r}") from error


def expect_judge(value: object, name: str = "judge") -> Judge:
    """``value`` as it is. Raises `InputError` when it is no `Judge`, and says what to write instead."""
    if not isinstance(value, type) and isinstance(value, Judge) and isinstance(value.id, str):
        return value
    raise InputError(
        f"{name}: expected a judge (id, judge(question, claims, passages), ajudge(...)), "
        f"got {type(value).__name__}; a model that follows "
        "instructions is LLMJudge(llm), any function is judges.function(f)"
    )


@dataclass(frozen=True)
class _JudgeServer:
    """A judge with what it is asked, where an LLM is expected. It uses no tokens that anybody could count."""

    judge: Judge
    question: str
    claims: Sequence[Claim]
    passages: Sequence[Passage] = field(repr=False)

    def complete(self, messages: Sequence[Message]) -> Reply:
        return _reply(self.judge, self.judge.judge(self.question, self.claims, self.passages))

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return _reply(self.judge, await self.judge.ajudge(self.question, self.claims, self.passages))


def _reply(judge: Judge, verdict: object) -> Reply:
    if not isinstance(verdict, AnswerVerdict):
        raise InputError(f"the judge {judge.id} gave {type(verdict).__name__}; expected an AnswerVerdict")
    return Reply(json.dumps(verdict.as_json(), ensure_ascii=False), Usage(0, 0))
