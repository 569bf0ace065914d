"""One protocol of judging: what is asked, who answers, and the answer: one verdict a claim, one for the whole.

A judge is given a question, the claims of an answer and the passages, and says of each claim whether the passages
support it, with the words on which that rests as exact places. `ask_judge` asks any judge as a flow, so that
budget, time limit, trace and replay count it like a model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, overload, runtime_checkable

from denoise_core.errors import InputError, UnparsableReply
from denoise_core.jsonable import from_jsonable, to_jsonable
from denoise_core.runtime.effects import Flow, complete
from denoise_core.runtime.flow import arun, run
from denoise_core.support.citing import Citation
from denoise_core.text.facts.fact import Difference
from denoise_core.types import Message, Passage, Reply, Span, Usage

Relation = Literal["supports", "contradicts"]
"""What a quote does to a claim."""
VerdictOutcome = Literal["pass", "fail", "unknown"]
NO_CLAIMS = "not_applicable"
ABSTENTION = "abstention"
ABSTENTION_REASON = "the answer says that it does not know"
_HALF = 0.5  # what a claim counts in the score of which nothing is known
# The highest score of an answer that is not supported, does not answer the question, or is unknown.
_UNSUPPORTED_MOST, _OFF_QUESTION_MOST, _UNKNOWN_MOST = 0.4, 0.45, 0.6


@dataclass(frozen=True, slots=True)
class Claim:
    """Characters ``[start, end)`` of an answer that claim something; ``text`` are those characters.

    ``standalone_text`` is how the claim reads by itself, where its characters do not say it: a table cell with row and
    column, a yes or no with its question. ``kind`` is ``claim``, or says what it is instead (``code``, ``cell``,
    ``field`` ...). ``citations`` are the citations in it or right behind it.
    """

    text: str
    start: int
    end: int
    kind: str = "claim"
    standalone_text: str = ""
    citations: tuple[Citation, ...] = ()

    @property
    def full_text(self) -> str:
        """What a judge compares with the evidence."""
        return self.standalone_text or self.text


@dataclass(frozen=True, slots=True)
class AnswerClaims(Sequence[Claim]):
    """The claims of one answer, in order, with the ``answer`` itself: a judge may cut it anew."""

    answer: str
    claims: tuple[Claim, ...] = ()

    def __len__(self) -> int:
        return len(self.claims)

    @overload
    def __getitem__(self, at: int) -> Claim: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Claim]: ...
    def __getitem__(self, at: int | slice) -> Claim | Sequence[Claim]:
        return self.claims[at]


@dataclass(frozen=True, slots=True)
class Quote:
    """Words of a passage that bear on a claim, at ``span``: characters of the passage's text, exactly."""

    span: Span
    text: str
    relation: Relation = "supports"


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """What a judge says of one claim, the characters ``[start, end)`` of the answer.

    ``supported`` is None where the judge cannot tell; ``probability`` that the passages support the claim, 0 to 1,
    from judges that have one. ``quotes`` bear on it, best first. ``differences`` are what of the claim the quotes
    do not say, with places in the *answer* (``source_start`` and ``source_end`` in the first quote's passage, None
    where it says nothing of the kind). ``kind`` is a short name of what is wrong that a program can test,
    ``reason`` says it in words; both are '' for a claim that is supported.
    """

    text: str
    start: int
    end: int
    supported: bool | None
    probability: float | None = None
    quotes: tuple[Quote, ...] = ()
    differences: tuple[Difference, ...] = ()
    kind: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        if self.probability is not None and not 0.0 <= self.probability <= 1.0:
            raise InputError(
                f"ClaimVerdict(probability={self.probability!r}): expected 0 to 1, or None"
            )

    @property
    def passage_id(self) -> str | None:
        """The passage of the best quote; None without quotes."""
        return self.quotes[0].span.passage_id if self.quotes else None


@dataclass(frozen=True, slots=True)
class AnswerVerdict:
    """What is said of an answer, in [0, 1] by its ``score``: higher is better.

    ``supported``: every claim is (True), some claim is not (False), or it cannot be said (None).
    ``answers_question``: whether it answers what was asked, None for unknown. ``reason`` says in words why it does
    not pass, '' when it does; ``kind`` is a short name for it: ``not_applicable`` where nothing is claimed (a
    greeting, a question back), ``empty``, ``abstention``, ``question``, ``empty_evidence``, ``length``,
    ``off_question``, ``no_judge``, or the kind of the claim that decides. ``judge`` is the id of what judged.

    A score that is NaN makes any verdict unknown: it cannot be compared. Raises `InputError` for a score outside
    [0, 1].
    """

    supported: bool | None = None
    score: float = 0.0
    claims: tuple[ClaimVerdict, ...] = ()
    answers_question: bool | None = None
    kind: str = ""
    reason: str = ""
    judge: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.score, float) and math.isnan(self.score):
            object.__setattr__(self, "supported", None)
            object.__setattr__(self, "answers_question", None)
            object.__setattr__(self, "score", 0.0)
            object.__setattr__(self, "kind", "judge_unsure")
            object.__setattr__(self, "reason", "the judge's score is not a number")
        if not isinstance(self.score, (int, float)) or not 0.0 <= self.score <= 1.0:
            raise InputError(
                f"AnswerVerdict score {self.score!r}: expected a number from 0 to 1"
            )

    @staticmethod
    def of_claims(
        claims: Sequence[ClaimVerdict],
        *,
        answers_question: bool | None = None,
        judge: str = "",
    ) -> AnswerVerdict:
        """The verdict that follows from those on the claims: supported when all of them are."""
        if not claims:
            return AnswerVerdict(
                score=1.0, kind=NO_CLAIMS, reason="it claims nothing", judge=judge
            )
        whole = AnswerVerdict(
            claims=tuple(claims), answers_question=answers_question, judge=judge
        )
        score = round(sum(map(_worth, claims)) / len(claims), 6)
        failed = next((c for c in claims if c.supported is False), None)
        unsure = next((c for c in claims if c.supported is None), None)
        if failed is not None:
            reason = f"{failed.text!r}: {failed.reason}"
            most = min(score, _UNSUPPORTED_MOST)
            return replace(
                whole, supported=False, score=most, kind=failed.kind, reason=reason
            )
        if answers_question is False:
            supported = None if unsure else True
            most = min(score, _OFF_QUESTION_MOST)
            reason = "it does not answer the question"
            return replace(
                whole,
                supported=supported,
                score=most,
                kind="off_question",
                reason=reason,
            )
        if unsure is not None:
            reason = f"{unsure.text!r}: {unsure.reason}"
            return replace(
                whole, score=min(score, _UNKNOWN_MOST), kind=unsure.kind, reason=reason
            )
        return replace(whole, supported=True, score=score)

    @property
    def passed(self) -> bool:
        """The passages support it and nothing says that it answers another question, or it claims nothing."""
        return self.kind == NO_CLAIMS or (
            self.supported is True and self.answers_question is not False
        )

    @property
    def outcome(self) -> VerdictOutcome:
        """``pass``, ``fail``, or ``unknown`` where nothing could be said: that is never a pass."""
        if self.passed:
            return "pass"
        return (
            "fail"
            if self.supported is False or self.answers_question is False
            else "unknown"
        )

    @property
    def abstains(self) -> bool:
        """The answer says that it does not know."""
        return self.kind == ABSTENTION

    @property
    def findings(self) -> tuple[ClaimVerdict, ...]:
        """What speaks against it: the claims that are not supported, and, with an empty text, what is wrong with
        the whole; none when it passed."""
        if self.passed:
            return ()
        failed = tuple(c for c in self.claims if c.supported is False)
        if not self.kind or any(c.kind == self.kind for c in failed):
            return failed
        return (
            *failed,
            ClaimVerdict("", 0, 0, self.supported, kind=self.kind, reason=self.reason),
        )

    @property
    def reasons(self) -> tuple[str, ...]:
        """Its findings in words."""
        return tuple(
            f.reason or "the evidence does not say this" for f in self.findings
        )

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of its findings."""
        return frozenset(f.kind for f in self.findings)

    @property
    def quotes(self) -> tuple[Quote, ...]:
        """What the supported claims rest on, each quote once."""
        supporting = [
            q
            for c in self.claims
            if c.supported
            for q in c.quotes
            if q.relation == "supports"
        ]
        return tuple({q.span: q for q in supporting}.values())

    def missing_quotes(self, passages: Sequence[Passage]) -> tuple[str, ...]:
        """Which of its `quotes` are no longer in the passages, in words; none when all are. Asks no model."""
        texts = {p.id: p.text for p in passages}
        missing = []
        for quote in self.quotes:
            span = quote.span
            text = texts.get(span.passage_id)
            if text is None:
                missing.append(f"the passage {span.passage_id!r} is not there")
            elif text[span.start : span.end] != quote.text:
                place = f"{span.passage_id!r}, characters {span.start} to {span.end}"
                missing.append(f"{place}: not {quote.text[:80]!r}")
        return tuple(missing)

    def as_json(self) -> dict[str, Any]:
        """Plain values, tuples as lists, which `from_json` reads."""
        values: dict[str, Any] = to_jsonable(self)
        return values

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> AnswerVerdict:
        """The verdict that `as_json` wrote. Raises `InputError` for anything else."""
        try:
            verdict: AnswerVerdict = from_jsonable(AnswerVerdict, data)
            return verdict
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"not a verdict as AnswerVerdict.as_json() writes it: {error!r}"
            ) from error


def _worth(claim: ClaimVerdict) -> float:
    if claim.supported is None:
        return _HALF
    if not claim.supported:
        return 0.0
    return 1.0 if claim.probability is None else claim.probability


@runtime_checkable
class Judge(Protocol):
    """Judges claims. ``id`` names it in answers, traces and records."""

    @property
    def id(self) -> str:
        """What it is called, with the settings that change its verdicts."""
        ...

    def judge(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> AnswerVerdict:
        """One `ClaimVerdict` for each claim, in order, in `AnswerVerdict.of_claims`. A judge that cuts the answer
        itself (``claims.answer``) gives the claims that it found."""
        ...

    async def ajudge(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> AnswerVerdict:
        """The same without blocking the event loop."""
        ...


class FlowJudge:
    """A judge written as a flow: `judge` and `ajudge` are the same `flow`, driven two ways."""

    @property
    def id(self) -> str:
        """What it is called."""
        return type(self).__name__

    def flow(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> Flow[AnswerVerdict]:
        """The verdict; asks for what it needs."""
        raise NotImplementedError

    def judge(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> AnswerVerdict:
        return run(self.flow(question, claims, passages))[0]

    async def ajudge(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> AnswerVerdict:
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
        "claims": [c.full_text for c in claims],
        "passages": [p.text_with_header for p in passages],
    }
    message = Message("user", json.dumps(shown, ensure_ascii=False))
    server = _JudgeServer(judge, question, claims, passages)
    reply = yield from complete((message,), tag="judge", llm=server)
    try:
        return AnswerVerdict.from_json(json.loads(reply.text))
    except ValueError as error:  # a recorded reply that is none
        raise UnparsableReply(
            f"expected a verdict from {judge.id}, got {reply.text[:80]!r}"
        ) from error


@dataclass(frozen=True)
class _JudgeServer:
    """A judge with what it is asked, where an LLM is expected. It uses no tokens that anybody could count."""

    judge: Judge
    question: str
    claims: Sequence[Claim]
    passages: Sequence[Passage] = field(repr=False)

    def complete(self, messages: Sequence[Message]) -> Reply:
        return _reply(
            self.judge, self.judge.judge(self.question, self.claims, self.passages)
        )

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return _reply(
            self.judge,
            await self.judge.ajudge(self.question, self.claims, self.passages),
        )


def _reply(judge: Judge, verdict: object) -> Reply:
    if not isinstance(verdict, AnswerVerdict):
        raise InputError(
            f"the judge {judge.id} gave {type(verdict).__name__}; expected an AnswerVerdict"
        )
    return Reply(json.dumps(verdict.as_json(), ensure_ascii=False), Usage(0, 0))
