"""The protocol of judges: what they are asked, and their verdicts.

A judge gets a question, the claims of an answer and the passages. It says of each claim
whether the passages support it, with the exact words on which that rests. `ask_judge`
asks any judge as a flow, so that budget, time limit, trace and replay treat it like a
model. A new judge implements `Judge`, or extends `FlowJudge`.
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
from denoise_core.text.facts.fact import Difference
from denoise_core.types import Message, Passage, Reply, Span, Usage

Relation = Literal["supports", "contradicts", "nearest"]
"""Whether a quote supports or contradicts a claim."""
VerdictOutcome = Literal["pass", "partial", "fail", "unknown"]
AnswerKind = Literal["answers", "off_question", "abstains", "wrongly_abstains", ""]
"""What an answer does with its question, in a judge's word; "" where it has none."""
NO_CLAIMS = "no_claim"
CONTRADICTED = "contradicted"
NOT_STATED = "not_stated"
CITATION = "citation"
ABSTENTION = "abstention"
ABSTENTION_REASON = "the answer says that it does not know"
WRONG_ABSTENTION = "wrong_abstention"
ANSWER_NOT_JUDGED = "answer_not_judged"
_INVALID_SCORE = "invalid_score"
_UNKNOWN_FIELDS: Mapping[str, object] = {  # of a verdict whose score is not a number
    "supported": None,
    "answers_question": None,
    "score": 0.0,
    "kind": _INVALID_SCORE,
    "reason": "the judge's score is not a number",
}
# Kinds of an answer or a unit with which no share of supported claims passes.
_NEVER_PASSING_KINDS = frozenset(
    (CONTRADICTED, CITATION, ANSWER_NOT_JUDGED, _INVALID_SCORE)
)
_UNKNOWN_SCORE = 0.5  # of an answer of which nothing is known
# The highest score of an answer that is contradicted, does not answer the question, or
# is unknown.
_MAX_CONTRADICTED = 0.4
_MAX_OFF_QUESTION = 0.45
_MAX_UNKNOWN = 0.6


@dataclass(frozen=True, slots=True)
class Claim:
    """Characters ``[start, end)`` of an answer that claim something.

    Attributes:
        text: Those characters.
        start: First character in the answer.
        end: Character after the last.
        kind: ``claim``, or what it is instead (``code``, ``cell``, ``field`` ...).
        standalone_text: The claim as it reads alone, where its characters do not say
            it: a table cell with row and column, a yes or no with its question.
    """

    text: str
    start: int
    end: int
    kind: str = "claim"
    standalone_text: str = ""

    @property
    def full_text(self) -> str:
        """The text that a judge compares with the evidence."""
        return self.standalone_text or self.text


@dataclass(frozen=True, slots=True)
class ProviderCitation:
    """``[start, end)`` of the answer rests on ``cited_text``, says the model's provider.

    Such a citation comes along with the answer's text, not as a bracket in it.
    """

    start: int
    end: int
    cited_text: str


@dataclass(frozen=True, slots=True)
class AnswerClaims(Sequence[Claim]):
    """The claims of one answer, in order, with the answer.

    A judge may split the answer into other claims. ``citations`` are those that came
    along with its text.
    """

    answer: str
    claims: tuple[Claim, ...] = ()
    citations: tuple[ProviderCitation, ...] = ()

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
    """Words of a passage about a claim; ``span`` is their exact range in its text.

    ``nearest`` is what shares most words with the claim, where no judge has read it.
    """

    span: Span
    text: str
    relation: Relation = "supports"


QuotationStatus = Literal["verbatim", "misattributed", "stitched", "nowhere"]


@dataclass(frozen=True, slots=True)
class Quotation:
    """A quotation or citation of an answer, and where its words are.

    Attributes:
        text: Its characters in the answer, without the marks.
        start: First character in the answer.
        end: Character after the last.
        status: ``verbatim``; ``misattributed`` where another passage than the cited one
            has it; ``stitched`` from pieces that are not together in the evidence; the
            last one where no passage has it.
        spans: The words in the passages; of a stitched quotation, its pieces.
    """

    text: str
    start: int
    end: int
    status: QuotationStatus
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """A judge's verdict on one unit, the characters ``[start, end)`` of the answer.

    Attributes:
        text: The unit's characters.
        start: First character in the answer.
        end: Character after the last.
        supported: Whether the passages support it; None when the judge cannot tell, and
            for a unit that claims nothing.
        probability: The probability that they do, 0 to 1, from judges that have one.
        quotes: Words of the evidence about it, best first.
        differences: What of the claim the quotes do not say, or, without quotes, no
            passage; with offsets in the *answer*. ``source_start`` and ``source_end``
            are offsets in the first quote's passage, None where it says nothing of the
            kind.
        kind: "" or ``inferred`` for a supported claim, ``no_claim``, or a short name
            for what is wrong: ``contradicted``, ``not_stated``, ``unclear``,
            ``differs``, ``not_judged`` ...
        reason: The same in words.
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
    def is_claim(self) -> bool:
        """Whether the unit says something that can be right or wrong."""
        return self.kind != NO_CLAIMS

    @property
    def passage_id(self) -> str | None:
        """The passage of the best quote; None without quotes."""
        if not self.quotes:
            return None
        best_quote = self.quotes[0]
        return best_quote.span.passage_id


@dataclass(frozen=True, slots=True)
class AnswerVerdict:
    """A judge's verdict on an answer.

    A refuted unit fails the answer, unless a model says that the evidence does not
    state it, which only lowers the score, the share of supported units; ``threshold``
    says what share passes in which nothing is contradicted. A score that is NaN makes
    the verdict unknown: it cannot be compared.

    Attributes:
        supported: True when every claim is supported; False when one is refuted, more
            than as not stated, or all are; None when that is unknown, and between the two.
        score: From 0 to 1, higher is better.
        units: One verdict a unit of the answer; in JSON ``claims``.
        answers_question: Whether it answers the question; None when unknown.
        kind: A short name for why not every claim passes: ``no_claim`` where nothing is
            claimed (a greeting, a question back), ``empty``, ``abstention``,
            ``wrong_abstention`` (the evidence answers), ``question``,
            ``empty_evidence``, ``length``, ``off_question``, ``answer_not_judged``
            (whether it answers was asked and not said), ``no_judge``, or the kind of
            the unit that decides.
        reason: The same in words, "" when every claim is supported.
        judge: The id of the judge.
        threshold: The share of supported claims that passes; 1 is all of them.
        calls: How often a model was asked for it, 0 where that is not counted.
        quotations: What code says of the answer's quotations (`check_quotations`).

    Raises:
        InputError: For a score or a threshold outside [0, 1].
    """

    supported: bool | None = None
    score: float = 0.0
    units: tuple[ClaimVerdict, ...] = field(default=(), metadata={"json": "claims"})
    answers_question: bool | None = None
    kind: str = ""
    reason: str = ""
    judge: str = ""
    threshold: float = 1.0
    calls: int = 0
    quotations: tuple[Quotation, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.score, float) and math.isnan(self.score):
            for name, value in _UNKNOWN_FIELDS.items():
                # The class is frozen: its fields can only be set so.
                object.__setattr__(self, name, value)
        for name in ("score", "threshold"):
            value = getattr(self, name)
            is_number = isinstance(value, (int, float))
            if not is_number or not 0.0 <= value <= 1.0:
                raise InputError(
                    f"AnswerVerdict {name} {value!r}: expected a number from 0 to 1"
                )

    @staticmethod
    def of_claims(
        units: Sequence[ClaimVerdict],
        *,
        answer_kind: AnswerKind = "",
        answers_question: bool | None = None,
        judge: str = "",
        calls: int = 0,
    ) -> AnswerVerdict:
        """Combine the verdicts on the units by what is worst.

        Args:
            units: In order.
            answer_kind: What the answer does with its question.
            answers_question: The same, from judges that know no more.
            judge: The judge's id.
            calls: Calls of a model.
        """
        verdict = AnswerVerdict(
            units=tuple(units),
            answers_question=_ANSWERS_QUESTION.get(answer_kind, answers_question),
            judge=judge,
            calls=calls,
        )
        claims = verdict.claims
        if answer_kind == "wrongly_abstains":
            reason = "it does not answer, although the evidence does"
            return replace(
                verdict, supported=False, kind=WRONG_ABSTENTION, reason=reason
            )
        supported = _combine_support(claims)
        says_unknown = answer_kind == "abstains"
        if says_unknown and supported is None:
            return replace(verdict, kind=ABSTENTION, reason=ABSTENTION_REASON)
        if not claims:
            return replace(verdict, kind=NO_CLAIMS, reason="it claims nothing")
        worst = min(claims, key=_severity_rank)
        is_off_question = verdict.answers_question is False
        if is_off_question and worst.kind != CONTRADICTED:
            kind = "off_question"
            reason = "it does not answer the question"
        elif worst.supported is not True:
            kind = worst.kind
            reason = f"{worst.text!r}: {worst.reason}"
        elif says_unknown:  # in part: what it does claim is supported
            kind = ABSTENTION
            reason = ABSTENTION_REASON
        else:
            kind = reason = ""
        score = _score_claims(claims, worst, is_off_question=is_off_question)
        return replace(
            verdict, supported=supported, score=score, kind=kind, reason=reason
        )

    def without_answer_kind(self) -> AnswerVerdict:
        """The verdict where the judge did not say whether it answers: unknown."""
        reason = "the judge did not say whether it answers the question"
        if all(claim.kind == "not_judged" for claim in self.claims):
            reason = "the judge's reply could not be read"
        return replace(
            self,
            supported=None,
            score=min(self.score, _MAX_UNKNOWN),
            kind=ANSWER_NOT_JUDGED,
            reason=reason,
        )

    @property
    def claims(self) -> tuple[ClaimVerdict, ...]:
        """The units that claim something."""
        return tuple(unit for unit in self.units if unit.is_claim)

    @property
    def supported_share(self) -> float:
        """The share of the claims that are supported; 0 without claims."""
        claims = self.claims
        supported_count = sum(claim.supported is True for claim in claims)
        if claims:
            return supported_count / len(claims)
        return 0.0

    @property
    def passed(self) -> bool:
        """Whether the passages support enough of it: `threshold`.

        An answer that is contradicted or cites wrongly, is known not to answer the
        question, or claims nothing does not pass. One that says it does not know passes
        when it claims something, and all of that is supported.
        """
        if self.answers_question is False:
            return False
        if self.supported is True:
            return True
        if self.abstains:
            return False
        kinds = {self.kind, *(claim.kind for claim in self.claims)}
        if not kinds.isdisjoint(_NEVER_PASSING_KINDS):
            return False
        # All claims are supported, and the judge had another reason not to pass it.
        if self.supported_share == 1.0:
            return False
        return 0.0 < self.supported_share >= self.threshold

    @property
    def outcome(self) -> VerdictOutcome:
        """``pass``, ``partial``, ``fail`` or ``unknown``.

        Partial: a claim is not stated, another is supported, none is refuted otherwise.
        """
        if self.passed:
            return "pass"
        if self.supported is False or self.answers_question is False:
            return "fail"
        values = {claim.supported for claim in self.claims}
        return "partial" if values >= {True, False} else "unknown"

    @property
    def abstains(self) -> bool:
        """Whether the answer says that it does not know."""
        return self.kind in (ABSTENTION, WRONG_ABSTENTION)

    @property
    def findings(self) -> tuple[ClaimVerdict, ...]:
        """What is wrong: the claims that are refuted; none when it passed.

        What is wrong with the whole answer is a finding with an empty text.
        """
        if self.passed:
            return ()
        refuted = tuple(c for c in self.claims if c.supported is False)
        if not self.kind or any(c.kind == self.kind for c in refuted):
            return refuted
        whole_answer = ClaimVerdict(
            "", 0, 0, self.supported, kind=self.kind, reason=self.reason
        )
        return (*refuted, whole_answer)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Its findings in words."""
        reasons = []
        for finding in self.findings:
            reason = finding.reason or "the evidence does not say this"
            reasons.append(reason)
        return tuple(reasons)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of its findings."""
        return frozenset(finding.kind for finding in self.findings)

    @property
    def quotes(self) -> tuple[Quote, ...]:
        """The supporting quotes of the supported claims, each once."""
        by_span = {}
        for claim in self.claims:
            if not claim.supported:
                continue
            for quote in claim.quotes:
                if quote.relation == "supports":
                    by_span[quote.span] = quote
        return tuple(by_span.values())

    def as_json(self) -> dict[str, Any]:
        """Plain values, tuples as lists, which `from_json` reads."""
        values: dict[str, Any] = to_jsonable(self)
        return values

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> AnswerVerdict:
        """Read what `as_json` wrote.

        Raises:
            InputError: For anything else.
        """
        try:
            verdict: AnswerVerdict = from_jsonable(AnswerVerdict, data)
            return verdict
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"not a verdict as AnswerVerdict.as_json() writes it: {error!r}"
            ) from error


_ANSWERS_QUESTION: Mapping[str, bool | None] = {
    "answers": True,
    "off_question": False,
    "abstains": None,
    "wrongly_abstains": False,
}


def _combine_support(claims: Sequence[ClaimVerdict]) -> bool | None:
    """True when all claims are supported; False when one is refuted, or all not stated."""
    values = {claim.supported for claim in claims}
    refuted_kinds = {claim.kind for claim in claims if claim.supported is False}
    if refuted_kinds - {NOT_STATED} or values == {False}:
        return False
    return True if values == {True} else None


def _severity_rank(claim: ClaimVerdict) -> int:
    """0 for the worst: contradicted, then unsupported, then unknown, then supported."""
    if claim.kind == CONTRADICTED:
        return 0
    if claim.supported is False:
        return 1
    return 2 if claim.supported is None else 3


def _score_claims(
    claims: Sequence[ClaimVerdict], worst: ClaimVerdict, *, is_off_question: bool
) -> float:
    """The mean score of the claims, bounded by what is wrong with the answer."""
    score = round(sum(map(_claim_score, claims)) / len(claims), 6)
    if worst.kind == CONTRADICTED:
        return min(score, _MAX_CONTRADICTED)
    if is_off_question:
        return min(score, _MAX_OFF_QUESTION)
    if worst.supported is None:
        known_count = sum(claim.supported is not None for claim in claims)
        unknown_share = 1 - known_count / len(claims)
        return min(score + _UNKNOWN_SCORE * unknown_share, _MAX_UNKNOWN)
    return score


def _claim_score(claim: ClaimVerdict) -> float:
    if not claim.supported:
        return 0.0
    if claim.probability is None:
        return 1.0
    return claim.probability


@runtime_checkable
class Judge(Protocol):
    """Judges claims; ``id`` names it in answers, traces and records."""

    @property
    def id(self) -> str:
        """Its name, with the settings that change its verdicts."""
        ...

    def judge(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> AnswerVerdict:
        """Judge the claims.

        Returns one `ClaimVerdict` for each claim, in order, in
        `AnswerVerdict.of_claims`. A judge that splits ``claims.answer`` itself returns
        its own claims.
        """
        ...

    async def ajudge(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> AnswerVerdict:
        """Judge without blocking the event loop."""
        ...


class FlowJudge:
    """A judge written as a flow, which `judge` and `ajudge` run."""

    @property
    def id(self) -> str:
        """Its name."""
        return type(self).__name__

    def flow(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> Flow[AnswerVerdict]:
        """Judge the claims; yields the calls it needs."""
        raise NotImplementedError

    def judge(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> AnswerVerdict:
        """Judge the claims."""
        return run(self.flow(question, claims, passages))[0]

    async def ajudge(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> AnswerVerdict:
        """Judge without blocking the event loop."""
        return (await arun(self.flow(question, claims, passages)))[0]


def ask_judge(
    judge: Judge, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
) -> Flow[AnswerVerdict]:
    """Ask any judge as a flow.

    A judge that is not a flow becomes an effect, so that it is counted, timed, recorded
    and replayed.

    Raises:
        InputError: When the judge returns something else than an `AnswerVerdict`.
    """
    if isinstance(judge, FlowJudge):
        return (yield from judge.flow(question, claims, passages))
    payload = {
        "question": question,
        "claims": [claim.full_text for claim in claims],
        "passages": [p.text_with_header for p in passages],
    }
    message = Message("user", json.dumps(payload, ensure_ascii=False))
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
    """A judge and what it is asked, as an LLM. It uses no tokens that could be counted."""

    judge: Judge
    question: str
    claims: Sequence[Claim]
    passages: Sequence[Passage] = field(repr=False)

    def complete(self, messages: Sequence[Message]) -> Reply:
        verdict = self.judge.judge(self.question, self.claims, self.passages)
        return _reply(self.judge, verdict)

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        verdict = await self.judge.ajudge(self.question, self.claims, self.passages)
        return _reply(self.judge, verdict)


def _reply(judge: Judge, verdict: object) -> Reply:
    if not isinstance(verdict, AnswerVerdict):
        raise InputError(
            f"the judge {judge.id} gave {type(verdict).__name__}; expected an AnswerVerdict"
        )
    verdict_json = json.dumps(verdict.as_json(), ensure_ascii=False)
    return Reply(verdict_json, Usage(0, 0))
