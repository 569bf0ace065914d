"""One protocol of judging: by it everything that judges is asked, and in it everything answers.

A judge is given a question, the claims of an answer and the passages, and says of each claim whether the passages
support it, with the words on which that rests as exact places. `asked` asks any judge as a flow, so that budget,
time limit, trace and replay hold for it as for a model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, TypeVar, overload, runtime_checkable

from denoise_core.errors import InputError, UnparsableReply
from denoise_core.running.effects import Flow, complete
from denoise_core.running.flow import arun, run
from denoise_core.support.citing import Citation
from denoise_core.text.facts.fact import Difference
from denoise_core.types import Message, Passage, Reply, Span, Usage

T = TypeVar("T")
Relation = Literal["supports", "contradicts"]
"""What a quote does to a claim."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Characters ``[start, end)`` of an answer that claim something; ``text`` are those characters.

    ``reads`` is how the claim reads by itself, where its characters do not say it: a table cell with row and
    column, a yes or no with its question. ``kind`` is ``claim``, or says what it is instead (``not_applicable``,
    ``code``, ``quotation`` ...). ``citations`` stand in it or right behind it.
    """

    text: str
    start: int
    end: int
    kind: str = "claim"
    reads: str = ""
    citations: tuple[Citation, ...] = ()

    @property
    def whole(self) -> str:
        """What a judge holds against the evidence."""
        return self.reads or self.text


class _Claimwise(Sequence[T]):
    """What stands in ``claims``, in order."""

    __slots__ = ()
    claims: tuple[T, ...]

    def __len__(self) -> int:
        return len(self.claims)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[T]: ...
    def __getitem__(self, at: int | slice) -> T | Sequence[T]:
        return self.claims[at]


@dataclass(frozen=True, slots=True)
class Claims(_Claimwise[Claim]):
    """The claims of one answer, in order, with the ``answer`` itself: a judge may cut it anew."""

    answer: str
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True, slots=True)
class Quote:
    """Words of a passage that bear on a claim, at ``span``: characters of the passage's text, exactly."""

    span: Span
    text: str
    relation: Relation = "supports"


@dataclass(frozen=True, slots=True)
class Judged:
    """What a judge says of one claim, the characters ``[start, end)`` of the answer.

    ``supported`` is None where it cannot tell; ``probability`` that the passages support the claim, 0 to 1, from
    judges that have one. ``quotes`` bear on it, best first. ``differs`` is what of the claim they do not say, with
    places in the *answer* (``source_start`` and ``source_end`` in the first quote's passage, None where it says
    nothing in its place). ``kind`` is a short name of what is wrong that a program can test, ``why`` says it in
    words; both are '' for a claim that is supported.
    """

    text: str
    start: int
    end: int
    supported: bool | None
    probability: float | None = None
    quotes: tuple[Quote, ...] = ()
    differs: tuple[Difference, ...] = ()
    kind: str = ""
    why: str = ""

    def __post_init__(self) -> None:
        if self.probability is not None and not 0.0 <= self.probability <= 1.0:
            raise InputError(f"Judged(probability={self.probability!r}): expected 0 to 1, or None")


@dataclass(frozen=True, slots=True)
class Judgement(_Claimwise[Judged]):
    """What a judge says of an answer: its claims in order, and of the whole what it knows.

    ``answers``: whether the answer answers what was asked, right or wrong. ``abstains``: whether it declines to.
    None means that the judge does not say. ``why`` is the reason, with its short name ``kind``, where nothing
    could be said at all.
    """

    claims: tuple[Judged, ...] = ()
    answers: bool | None = None
    abstains: bool | None = None
    kind: str = ""
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        """Plain values, which `from_json` reads."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Judgement:
        """The judgement that `as_json` wrote. Raises `UnparsableReply` for anything else."""
        try:
            claims = tuple(_judged_from(c) for c in data["claims"])
            return Judgement(claims, data["answers"], data["abstains"], data["kind"], data["why"])
        except (KeyError, TypeError, ValueError) as error:
            raise UnparsableReply(f"no judgement as `Judgement.as_json` writes it: {error!r}") from error


@runtime_checkable
class Judge(Protocol):
    """Judges claims. ``id`` names it in answers, traces and records."""

    @property
    def id(self) -> str:
        """What it is called, with the settings that change its verdicts."""
        ...

    def judge(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> Sequence[Judged]:
        """One `Judged` for each claim, in order. A judge that cuts the answer itself (``claims.answer``) gives the
        claims that it found."""
        ...

    async def ajudge(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> Sequence[Judged]:
        """The same without blocking the event loop."""
        ...


class FlowJudge:
    """A judge written as a flow: `judge` and `ajudge` are the same `flow`, driven two ways."""

    @property
    def id(self) -> str:
        """What it is called."""
        return type(self).__name__

    def flow(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> Flow[Judgement]:
        """The judgement; asks for what it needs."""
        raise NotImplementedError

    def judge(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> Judgement:
        return run(self.flow(question, claims, passages))[0]

    async def ajudge(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> Judgement:
        """As `judge`, without blocking the event loop."""
        return (await arun(self.flow(question, claims, passages)))[0]


def asked(judge: Judge, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> Flow[Judgement]:
    """Any judge as a flow. One that is not written as a flow is an effect, so that it is counted, timed, recorded
    and replayed. Raises `InputError` for a judge that gives something else than `Judged`."""
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
        said = json.loads(reply.text)
    except ValueError as error:
        raise UnparsableReply(f"expected a judgement from {judge.id}, got {reply.text[:80]!r}") from error
    return Judgement.from_json(said)


def expect_judge(value: object, name: str = "judge") -> Judge:
    """``value`` as it is. Raises `InputError` when it is no `Judge`, and says what to write instead."""
    if not isinstance(value, type) and isinstance(value, Judge) and isinstance(value.id, str):
        return value
    raise InputError(
        f"{name}: expected a judge (id, judge(question, claims, passages), ajudge(...)), "
        f"got {type(value).__name__}; a model that follows "
        "instructions is LLMJudge(llm), a function judges.function(f), a Hugging Face model judges.model(name)"
    )


@dataclass(frozen=True)
class _JudgeServer:
    """A judge with what it is asked in the place of an LLM. It uses no tokens that anybody could count."""

    judge: Judge
    question: str
    claims: Sequence[Claim]
    passages: Sequence[Passage] = field(repr=False)

    def complete(self, messages: Sequence[Message]) -> Reply:
        return _reply(self.judge, self.judge.judge(self.question, self.claims, self.passages))

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return _reply(self.judge, await self.judge.ajudge(self.question, self.claims, self.passages))


def _reply(judge: Judge, found: object) -> Reply:
    if not isinstance(found, Sequence) or not all(isinstance(j, Judged) for j in found):
        raise InputError(f"the judge {judge.id} gave {type(found).__name__}; expected a sequence of Judged")
    judgement = found if isinstance(found, Judgement) else Judgement(tuple(found))
    return Reply(json.dumps(judgement.as_json(), ensure_ascii=False), Usage(0, 0))


def _judged_from(data: Mapping[str, Any]) -> Judged:
    quotes = tuple(Quote(Span(**q["span"]), q["text"], q["relation"]) for q in data["quotes"])
    differs = tuple(Difference(**d) for d in data["differs"])
    return Judged(**{**data, "quotes": quotes, "differs": differs})
