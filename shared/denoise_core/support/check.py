"""Compare an answer with passages: it is parsed, its claims are judged, its citations compared with the quotes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from denoise_core.errors import InputError, UnparsableReply
from denoise_core.protocols import LLM
from denoise_core.runtime.effects import Flow
from denoise_core.runtime.flow import run
from denoise_core.support.answers import ParsedAnswer, parse_answer
from denoise_core.support.citing import Citation, find_citations, remove_citations
from denoise_core.support.evidence import EvidenceIndex, content_terms
from denoise_core.support.judges import FunctionJudge
from denoise_core.support.judging import (
    ABSTENTION,
    ABSTENTION_REASON,
    NO_CLAIMS,
    AnswerVerdict,
    Claim,
    AnswerClaims,
    ClaimVerdict,
    Judge,
    ask_judge,
)
from denoise_core.support.quoting import LLMJudge
from denoise_core.text.facts import Difference, find_differences
from denoise_core.text.replies import parse_json
from denoise_core.text.words import split_words
from denoise_core.types import Passage

JudgeLike: TypeAlias = Judge | LLM | Callable[..., Any]
"""What `as_judge` takes."""
NO_JUDGE = "no judge has read it: give judge=, a model (LLMJudge) or any function"
_LONGEST = 20_000  # characters of an answer that are checked
NEAR = 0.5  # share of a claim's words from which on a sentence is shown as the nearest
_BEARS, _BARELY = (
    0.7,
    0.4,
)  # shares of a claim's words in the passage that bears it, and in the one that it cites


def check(
    question: str,
    answer: str,
    passages: Sequence[Passage],
    *,
    judge: JudgeLike | None = None,
) -> AnswerVerdict:
    """Compare ``answer`` with ``passages``, for ``question``; their headers and metadata count as evidence.

    ``judge`` says of each claim whether it is supported, with its quotes: `LLMJudge`, an LLM (which then quotes),
    or any function of the question, the evidence and a claim. Without one each claim has the nearest sentence of
    the evidence, and its numbers, dates and names that the evidence does not have; its verdict is unknown.

    What claims nothing (a greeting, a question back) passes as not applicable. Raises `InputError` for texts that
    are no strings. Time grows with the evidence.
    """
    return run(check_flow(question, answer, passages, judge))[0]


def check_flow(
    question: str, answer: str, passages: Sequence[Passage], judge: JudgeLike | None
) -> Flow[AnswerVerdict]:
    """`check` as a flow: what a judge asks for is in the budget and the trace of who runs it."""
    _refuse_other_types(question, answer, passages)
    parsed = parse_answer(answer, question, ids=[p.id for p in passages])
    nothing = verdict_without_claims(question, answer, parsed)
    if nothing is not None:
        return nothing
    if not any(p.text.strip() or p.header.strip() for p in passages):
        return AnswerVerdict(
            kind="empty_evidence", reason="there is no evidence to compare it with"
        )
    claims = extract_claims(parsed, passages)
    if judge is None:
        return _unjudged(question, claims, EvidenceIndex(passages))
    asked = as_judge(judge)
    verdict = yield from ask_judge(asked, question, claims, passages)
    verdict = replace(verdict, judge=asked.id)
    citations = find_citations(answer, passages)
    if not citations or not verdict.claims:
        return verdict
    return _with_citations(verdict, citations, len(answer), EvidenceIndex(passages))


def as_judge(value: Any, name: str = "judge") -> Judge:
    """Whatever judges, as a judge: a `Judge` as it is, an LLM by its quotes, a function claim by claim. Raises
    `InputError` for anything else, a model's name among them, and says what to write."""
    if isinstance(value, Judge) and not isinstance(value, type):
        return value
    if callable(getattr(value, "invoke", None)) or callable(
        getattr(value, "chat", None)
    ):
        raise InputError(
            f"{name}: a framework's model judges as LLMJudge(ChatModelLLM(model)) of langchain_denoise, or "
            f"LLMJudge(LlamaLLM(model)) of llamaindex_denoise; got {type(value).__name__}"
        )
    if callable(getattr(value, "complete", None)) and not isinstance(value, type):
        return LLMJudge(value)
    return FunctionJudge(value)


def extract_claims(
    parsed: ParsedAnswer, passages: Sequence[Passage] = ()
) -> AnswerClaims:
    """What an answer claims, as judges are asked."""
    resolved = {(c.start, c.end): c for c in find_citations(parsed.answer, passages)}
    claims = []
    for piece in parsed.claims:
        text = parsed.answer[piece.start : piece.end]
        reads = piece.standalone_text if piece.standalone_text != text else ""
        citations = tuple(
            resolved[place] for place in piece.citations if place in resolved
        )
        claims.append(Claim(text, piece.start, piece.end, piece.kind, reads, citations))
    return AnswerClaims(parsed.answer, tuple(claims))


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """An answer that says by its form that there is none: ``nearest`` is what of the evidence comes nearest."""

    nearest: str = ""


def parse_no_answer(answer: str) -> NoAnswer | None:
    """What an answer says that is an object with ``"answered": false``, which the loop asks its drafts for, or
    with an ``"answer"`` that is null; None for every other.

    >>> parse_no_answer('{"answered": false, "nearest": "its height"}'), parse_no_answer("He is unknown.")
    (NoAnswer(nearest='its height'), None)
    """
    try:
        fields = parse_json(answer) if "{" in answer else None
    except UnparsableReply:
        return None
    if not isinstance(fields, Mapping):
        return None
    if fields.get("answered") is False or (
        "answer" in fields and fields["answer"] is None
    ):
        nearest = fields.get("nearest")
        return NoAnswer(nearest if isinstance(nearest, str) else "")
    return None


def verdict_without_claims(
    question: str, answer: str, parsed: ParsedAnswer
) -> AnswerVerdict | None:
    """The verdict on an answer that no judge need be asked about; None for every other."""
    if len(answer) > _LONGEST:
        why = f"the answer has {len(answer)} characters; at most {_LONGEST} are checked"
        return AnswerVerdict(False, kind="length", reason=why)
    answer_words = split_words(remove_citations(parsed.text_without_reasoning))
    if not answer_words:
        return AnswerVerdict(
            answers_question=False, kind="empty", reason="the answer is empty"
        )
    if answer_words == split_words(question):
        reason = "the answer only repeats the question"
        return AnswerVerdict(answers_question=False, kind="question", reason=reason)
    if parse_no_answer(parsed.text_without_reasoning) is not None:
        return AnswerVerdict(kind=ABSTENTION, reason=ABSTENTION_REASON)
    if not parsed.claims:
        return AnswerVerdict(score=1.0, kind=NO_CLAIMS, reason="it claims nothing")
    return None


def _refuse_other_types(
    question: str, answer: str, passages: Sequence[Passage]
) -> None:
    if not isinstance(question, str) or not isinstance(answer, str):
        wrong = (
            type(answer).__name__
            if isinstance(question, str)
            else type(question).__name__
        )
        raise InputError(
            f"check: expected question and answer as str, got {wrong}; pass a model's reply as its text"
        )
    if isinstance(passages, str) or any(not isinstance(p, Passage) for p in passages):
        raise InputError("check: expected passages as a list of Passage(text, id)")


def _unjudged(
    question: str, claims: AnswerClaims, evidence: EvidenceIndex
) -> AnswerVerdict:
    """Each claim with what code can show of it: never a verdict. That the same words are near each other does not
    mean that the same is said."""
    verdicts = [_shown(question, claim, evidence) for claim in claims]
    return replace(AnswerVerdict.of_claims(verdicts), kind="no_judge", reason=NO_JUDGE)


def _shown(question: str, claim: Claim, evidence: EvidenceIndex) -> ClaimVerdict:
    """A claim with its words as they stand in a passage, else with the sentence that has most of them."""
    asked, terms = (
        content_terms(question, evidence.language),
        content_terms(claim.full_text, evidence.language),
    )
    quote = evidence.quotation(claim.text)
    share, sentence = evidence.nearest(terms - asked or terms)
    if quote is None and sentence is not None and share >= NEAR:
        quote = evidence.quote(sentence)
    beyond = find_differences(
        claim.full_text, evidence.text, known_text=question, language=evidence.language
    )
    placed = tuple(_placed(d, claim) for d in beyond)
    reason = "; ".join(map(str, placed)) or NO_JUDGE
    quotes = () if quote is None else (quote,)
    return ClaimVerdict(
        claim.text,
        claim.start,
        claim.end,
        None,
        None,
        quotes,
        placed,
        "no_judge",
        reason,
    )


def _placed(difference: Difference, claim: Claim) -> Difference:
    """With places in the answer: of its words in the claim's characters, else of the whole claim. The place in
    the evidence, which is several passages, is left out."""
    at = claim.text.find(difference.claimed_text)
    start, end = (
        (claim.start + at, claim.start + at + len(difference.claimed_text))
        if at >= 0
        else (claim.start, claim.end)
    )
    return Difference(
        difference.kind, difference.claimed_text, difference.source_text, start, end
    )


def _with_citations(
    verdict: AnswerVerdict,
    citations: Sequence[Citation],
    length: int,
    evidence: EvidenceIndex,
) -> AnswerVerdict:
    """With what the citations of its claims lack: a passage that was not given, or one that does not bear the
    claim."""
    claims = list(verdict.claims)
    ends = [*(c.start for c in claims[1:]), length]
    for n, (claim, end) in enumerate(zip(claims, ends, strict=True)):
        own = [c for c in citations if claim.start <= c.start < max(end, claim.end)]
        if own and claim.supported is not False:
            claims[n] = _with_own_citations(claim, own, evidence)
    if claims == list(verdict.claims):
        return verdict
    return AnswerVerdict.of_claims(
        claims, answers_question=verdict.answers_question, judge=verdict.judge
    )


def _with_own_citations(
    claim: ClaimVerdict, citations: Sequence[Citation], evidence: EvidenceIndex
) -> ClaimVerdict:
    unknown = [name for c in citations for name in c.unknown]
    if unknown:
        names = ", ".join(unknown)
        return _miscited(
            claim, citations[0], names, "", f"it cites {names}, which was not given"
        )
    ids = {i for c in citations for i in c.ids}
    bearing = [q.span.passage_id for q in claim.quotes]
    if not bearing or ids & set(bearing):
        return claim
    terms = content_terms(claim.text, evidence.language)
    share, _ = evidence.nearest(
        terms, frozenset(n for n, i in enumerate(evidence.ids) if i in ids)
    )
    best, _ = evidence.nearest(terms)
    if share > _BARELY or best < _BEARS:
        return claim
    number = evidence.ids.index(bearing[0]) + 1 if bearing[0] in evidence.ids else 0
    reason = f"it is in [{number}], not in the passage that it cites"
    return _miscited(claim, citations[0], ", ".join(ids), f"[{number}]", reason)


def _miscited(
    claim: ClaimVerdict, citation: Citation, names: str, instead: str, reason: str
) -> ClaimVerdict:
    difference = Difference("citation", names, instead, citation.start, citation.end)
    differences = (*claim.differences, difference)
    return replace(
        claim, supported=False, differences=differences, kind="citation", reason=reason
    )
