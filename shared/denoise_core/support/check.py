"""Check an answer against passages: parse it, judge its claims, check its citations.

`check` is the entry; `check_flow` is the same inside another flow. A new kind of judge
goes into `as_judge`.
"""

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
    AnswerClaims,
    AnswerVerdict,
    Claim,
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
"""What `as_judge` accepts."""
NO_JUDGE = "no judge has read it: give judge=, a model (LLMJudge) or any function"
_MAX_CHARACTERS = 20_000  # of an answer that is checked
_MIN_SHOWN_SHARE = 0.5  # share of a claim's terms that the closest sentence needs
# Shares of a claim's terms: in the passage that has it, and at most in the cited one.
_MIN_SOURCE_SHARE, _MAX_CITED_SHARE = 0.7, 0.4


def check(
    question: str,
    answer: str,
    passages: Sequence[Passage],
    *,
    judge: JudgeLike | None = None,
) -> AnswerVerdict:
    """Compare an answer with passages.

    An answer that claims nothing (a greeting, a question back) passes as not
    applicable. Takes time that grows with the evidence.

    Args:
        question: The question it answers.
        answer: The answer's text.
        passages: The evidence; their headers and metadata count too.
        judge: Says of each claim whether it is supported: `LLMJudge`, an LLM (which
            then quotes), or any function of the question, the evidence and a claim.
            Without one the verdict is unknown: each claim has the closest sentence of
            the evidence, and its numbers, dates and names that the evidence lacks.

    Returns:
        The verdict, with one verdict a claim.

    Raises:
        InputError: For arguments of other types.
    """
    return run(check_flow(question, answer, passages, judge))[0]


def check_flow(
    question: str, answer: str, passages: Sequence[Passage], judge: JudgeLike | None
) -> Flow[AnswerVerdict]:
    """`check` as a flow: the judge's calls count in the caller's budget and trace."""
    _check_types(question, answer, passages)
    parsed = parse_answer(answer, question, ids=[p.id for p in passages])
    verdict = verdict_without_claims(question, answer, parsed)
    if verdict is not None:
        return verdict
    if not any(p.text.strip() or p.header.strip() for p in passages):
        reason = "there is no evidence to compare it with"
        return AnswerVerdict(kind="empty_evidence", reason=reason)
    claims = extract_claims(parsed, passages)
    if judge is None:
        return _verdict_without_judge(question, claims, EvidenceIndex(passages))
    answer_judge = as_judge(judge)
    verdict = yield from ask_judge(answer_judge, question, claims, passages)
    verdict = replace(verdict, judge=answer_judge.id)
    citations = find_citations(answer, passages)
    if not citations or not verdict.claims:
        return verdict
    return _check_citations(verdict, citations, len(answer), EvidenceIndex(passages))


def as_judge(value: Any, name: str = "judge") -> Judge:
    """Return a judge: a `Judge` itself, an LLM by its quotes, a function by claims.

    Args:
        value: What judges.
        name: The argument's name, for errors.

    Raises:
        InputError: For anything else, such as a model's name.
    """
    if isinstance(value, Judge) and not isinstance(value, type):
        return value
    if callable(getattr(value, "invoke", None)) or callable(
        getattr(value, "chat", None)
    ):
        raise InputError(
            f"{name}: a framework's model judges as LLMJudge(ChatModelLLM(model)) of "
            "langchain_denoise, or LLMJudge(LlamaLLM(model)) of llamaindex_denoise; "
            f"got {type(value).__name__}"
        )
    if callable(getattr(value, "complete", None)) and not isinstance(value, type):
        return LLMJudge(value)
    return FunctionJudge(value)


def extract_claims(
    parsed: ParsedAnswer, passages: Sequence[Passage] = ()
) -> AnswerClaims:
    """The claims of an answer, as judges get them."""
    citations = find_citations(parsed.answer, passages)
    by_range = {(citation.start, citation.end): citation for citation in citations}
    claims = []
    for unit in parsed.claims:
        text = parsed.answer[unit.start : unit.end]
        standalone_text = unit.standalone_text
        own_citations = [by_range[c] for c in unit.citations if c in by_range]
        claims.append(
            Claim(
                text,
                unit.start,
                unit.end,
                unit.kind,
                standalone_text if standalone_text != text else "",
                tuple(own_citations),
            )
        )
    return AnswerClaims(parsed.answer, tuple(claims))


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """An answer that says by its form that there is none.

    ``nearest`` is what the evidence says that comes closest.
    """

    nearest: str = ""


def parse_no_answer(answer: str) -> NoAnswer | None:
    """Read an answer that is a JSON object without an answer; None for every other.

    The object has ``"answered": false``, which the loop asks its drafts for, or an
    ``"answer"`` that is null.

    >>> parse_no_answer('{"answered": false, "nearest": "its height"}')
    NoAnswer(nearest='its height')
    >>> parse_no_answer("He is unknown.")
    """
    try:
        fields = parse_json(answer) if "{" in answer else None
    except UnparsableReply:
        return None
    if not isinstance(fields, Mapping):
        return None
    has_null_answer = "answer" in fields and fields["answer"] is None
    if fields.get("answered") is False or has_null_answer:
        nearest = fields.get("nearest")
        return NoAnswer(nearest if isinstance(nearest, str) else "")
    return None


def verdict_without_claims(
    question: str, answer: str, parsed: ParsedAnswer
) -> AnswerVerdict | None:
    """The verdict on an answer that needs no judge; None for every other."""
    if len(answer) > _MAX_CHARACTERS:
        reason = (
            f"the answer has {len(answer)} characters; "
            f"at most {_MAX_CHARACTERS} are checked"
        )
        return AnswerVerdict(False, kind="length", reason=reason)
    answer_words = split_words(remove_citations(parsed.text_without_reasoning))
    if not answer_words:
        reason = "the answer is empty"
        return AnswerVerdict(answers_question=False, kind="empty", reason=reason)
    if answer_words == split_words(question):
        reason = "the answer only repeats the question"
        return AnswerVerdict(answers_question=False, kind="question", reason=reason)
    if parse_no_answer(parsed.text_without_reasoning) is not None:
        return AnswerVerdict(kind=ABSTENTION, reason=ABSTENTION_REASON)
    if not parsed.claims:
        return AnswerVerdict(score=1.0, kind=NO_CLAIMS, reason="it claims nothing")
    return None


def _check_types(question: str, answer: str, passages: Sequence[Passage]) -> None:
    for text in (question, answer):
        if not isinstance(text, str):
            raise InputError(
                "check: expected question and answer as str, got "
                f"{type(text).__name__}; pass a model's reply as its text"
            )
    if isinstance(passages, str) or any(not isinstance(p, Passage) for p in passages):
        raise InputError("check: expected passages as a list of Passage(text, id)")


def _verdict_without_judge(
    question: str, claims: AnswerClaims, evidence: EvidenceIndex
) -> AnswerVerdict:
    """Show what code can show of each claim: never a verdict.

    Words that are close to each other need not say the same.
    """
    verdicts = [_compare_claim(question, claim, evidence) for claim in claims]
    return replace(AnswerVerdict.of_claims(verdicts), kind="no_judge", reason=NO_JUDGE)


def _compare_claim(
    question: str, claim: Claim, evidence: EvidenceIndex
) -> ClaimVerdict:
    """Quote a claim word for word from a passage, else the closest sentence."""
    quote = evidence.find_quotation(claim.text)
    if quote is None:
        terms = content_terms(claim.full_text, evidence.language)
        new_terms = terms - content_terms(question, evidence.language)
        share, sentence = evidence.closest_sentence(new_terms or terms)
        if sentence is not None and share >= _MIN_SHOWN_SHARE:
            quote = evidence.to_quote(sentence)
    differences = find_differences(
        claim.full_text, evidence.text, known_text=question, language=evidence.language
    )
    located = tuple(_locate_in_answer(item, claim) for item in differences)
    return ClaimVerdict(
        claim.text,
        claim.start,
        claim.end,
        supported=None,
        quotes=() if quote is None else (quote,),
        differences=located,
        kind="no_judge",
        reason="; ".join(map(str, located)) or NO_JUDGE,
    )


def _locate_in_answer(difference: Difference, claim: Claim) -> Difference:
    """Give a difference its offsets in the answer, else those of the whole claim.

    The offsets in the evidence are left out: it is several passages.
    """
    words = difference.claimed_text
    start, end = claim.start, claim.end
    position = claim.text.find(words)
    if position >= 0:
        start = claim.start + position
        end = start + len(words)
    return Difference(difference.kind, words, difference.source_text, start, end)


def _check_citations(
    verdict: AnswerVerdict,
    citations: Sequence[Citation],
    answer_length: int,
    evidence: EvidenceIndex,
) -> AnswerVerdict:
    """Refute claims whose citations do not support them.

    A citation fails when its passage was not given, or when another passage has the
    claim.
    """
    claims = list(verdict.claims)
    next_starts = [*(claim.start for claim in claims[1:]), answer_length]
    for number, claim in enumerate(verdict.claims):
        end = max(next_starts[number], claim.end)
        own_citations = [c for c in citations if claim.start <= c.start < end]
        if own_citations and claim.supported is not False:
            claims[number] = _check_claim_citations(claim, own_citations, evidence)
    if claims == list(verdict.claims):
        return verdict
    return AnswerVerdict.of_claims(
        claims, answers_question=verdict.answers_question, judge=verdict.judge
    )


def _check_claim_citations(
    claim: ClaimVerdict, citations: Sequence[Citation], evidence: EvidenceIndex
) -> ClaimVerdict:
    unknown_names: list[str] = []
    cited_ids: list[str] = []
    for citation in citations:
        unknown_names += citation.unknown
        cited_ids += citation.ids
    if unknown_names:
        names = ", ".join(unknown_names)
        reason = f"it cites {names}, which was not given"
        return _refute_citation(claim, citations[0], names, "", reason)
    quoted_ids = [quote.span.passage_id for quote in claim.quotes]
    if not quoted_ids or set(cited_ids) & set(quoted_ids):
        return claim
    terms = content_terms(claim.text, evidence.language)
    cited_indexes = frozenset(
        index for index, name in enumerate(evidence.ids) if name in cited_ids
    )
    cited_share, _ = evidence.closest_sentence(terms, cited_indexes)
    best_share, _ = evidence.closest_sentence(terms)
    if cited_share > _MAX_CITED_SHARE or best_share < _MIN_SOURCE_SHARE:
        return claim
    source_id = quoted_ids[0]
    number = evidence.ids.index(source_id) + 1 if source_id in evidence.ids else 0
    reason = f"it is in [{number}], not in the passage that it cites"
    names = ", ".join(dict.fromkeys(cited_ids))
    return _refute_citation(claim, citations[0], names, f"[{number}]", reason)


def _refute_citation(
    claim: ClaimVerdict,
    citation: Citation,
    cited_names: str,
    right_name: str,
    reason: str,
) -> ClaimVerdict:
    difference = Difference(
        "citation", cited_names, right_name, citation.start, citation.end
    )
    return replace(
        claim,
        supported=False,
        differences=(*claim.differences, difference),
        kind="citation",
        reason=reason,
    )
