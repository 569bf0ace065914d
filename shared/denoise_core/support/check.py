"""Check an answer against passages: parse it, judge its claims, check its citations.

`check` is the entry; `check_flow` is the same inside another flow. A new kind of judge
goes into `as_judge`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from denoise_core.cancellation import stop_if_abandoned
from denoise_core.errors import InputError
from denoise_core.protocols import LLM
from denoise_core.runtime.effects import Flow
from denoise_core.runtime.flow import run
from denoise_core.support.answers import ParsedAnswer, parse_answer
from denoise_core.support.citation_marks import remove_citations
from denoise_core.support.citing import Citation, find_citations
from denoise_core.support.evidence import EvidenceIndex, content_terms
from denoise_core.support.judges import FunctionJudge
from denoise_core.support.judging import (
    ABSTENTION,
    ABSTENTION_REASON,
    CITATION,
    NO_CLAIMS,
    AnswerClaims,
    AnswerVerdict,
    Claim,
    ClaimVerdict,
    Judge,
    ProviderCitation,
    Quote,
    ask_judge,
)
from denoise_core.support.labels import has_words
from denoise_core.support.quotations import check_quotations
from denoise_core.support.quoting import LLMJudge, locate_difference
from denoise_core.text.facts import Difference, find_differences
from denoise_core.text.facts.comparison import ParsedText
from denoise_core.text.replies import parse_whole_json, strip_fence
from denoise_core.text.words import split_words
from denoise_core.types import Passage

JudgeLike: TypeAlias = Judge | LLM | Callable[..., Any]
"""What `as_judge` accepts."""
NO_JUDGE = "no judge has read it: give a model or any function as judge=, or --llm to the command"
EMPTY_EVIDENCE = AnswerVerdict(
    kind="empty_evidence", reason="there is no evidence to compare it with"
)
_NOTHING_CLOSE = "no sentence of the evidence is close to it"
_MAX_CHARACTERS = 20_000  # of an answer that is checked
# What is in front of the first word of a paragraph or a list item: nothing but brackets.
_LIST_MARK = r"[> \t]*(?:[-*+•]|\d{1,9}[.)])\s"
_BLOCK_START = rf"\n\s*\n|\n(?={_LIST_MARK})"
_BRACKETS = (
    rf"(?:{_LIST_MARK})?"
    r"(?:[ \t#*:>-]|\[[^\]\n]*\]|【[^】\n]*】|\([^\s()]*\))*"  # with a link's address
)
_MIN_SHOWN_SHARE = 0.5  # share of a claim's terms that the closest sentence needs
# Shares of a claim's terms: in the passage that has it, and at most in the cited one.
_MIN_SOURCE_SHARE = 0.7
_MAX_CITED_SHARE = 0.4


def check(
    question: str,
    answer: str,
    passages: Sequence[Passage],
    *,
    judge: JudgeLike | None = None,
    threshold: float = 1.0,
    citations: Sequence[ProviderCitation] = (),
) -> AnswerVerdict:
    """Compare an answer with passages.

    An answer that is empty or claims nothing (a greeting, a question back) never
    passes: its verdict has a ``kind`` that says so. Takes time that grows with the
    evidence.

    Args:
        question: The question it answers.
        answer: The answer's text.
        passages: The evidence; their headers and metadata count too.
        judge: Says of each claim whether it is supported: `LLMJudge`, an LLM (which
            then names evidence), or any function of the question, the evidence and a
            claim.
            Without one the verdict is unknown: each claim has the closest sentence of
            the evidence, and its numbers, dates and names that this sentence lacks.
        threshold: The share of supported claims from which on an answer passes in which
            nothing is contradicted; by default all.
        citations: What the model's provider cites along with the answer's text: as good as
            a bracket where the evidence has the cited text, else a wrong citation.

    Returns:
        The verdict, with one verdict a unit, and what code says of its quotations.

    Raises:
        InputError: For arguments of other types.
    """
    flow = check_flow(question, answer, passages, judge, threshold, citations)
    return run(flow)[0]


def check_flow(
    question: str,
    answer: str,
    passages: Sequence[Passage],
    judge: JudgeLike | None,
    threshold: float = 1.0,
    citations: Sequence[ProviderCitation] = (),
    *,
    is_numbered: bool = True,
) -> Flow[AnswerVerdict]:
    """`check` as a flow: the judge's calls count in the caller's budget and trace.

    ``is_numbered``: see `find_citations`.
    """
    _check_texts(question, answer)
    passages = expect_passages(passages, "passages")
    verdict = yield from _judge_answer(
        question, answer, passages, judge, citations, is_numbered
    )
    quotations = check_quotations(answer, passages, citations, is_numbered=is_numbered)
    return replace(verdict, threshold=threshold, quotations=quotations)


def _judge_answer(
    question: str,
    answer: str,
    passages: Sequence[Passage],
    judge: JudgeLike | None,
    provided: Sequence[ProviderCitation],
    is_numbered: bool,
) -> Flow[AnswerVerdict]:
    passage_ids = [passage.id for passage in passages]
    parsed_answer = parse_answer(answer, question, ids=passage_ids)
    answer_judge = None if judge is None else as_judge(judge)
    has_evidence = any(map(has_words, passages))
    verdict_of_form = verdict_without_claims(question, answer, parsed_answer)
    if verdict_of_form is not None:
        is_left_to_judge = _is_left_to_judge(
            verdict_of_form, parsed_answer, answer_judge
        )
        if not (is_left_to_judge and has_evidence):
            return verdict_of_form
    if not has_evidence:
        return EMPTY_EVIDENCE
    claims = extract_claims(parsed_answer, provided)
    if answer_judge is None:
        return _verdict_without_judge(question, claims, EvidenceIndex(passages))
    verdict = yield from ask_judge(answer_judge, question, claims, passages)
    verdict = replace(verdict, judge=answer_judge.id)
    if verdict_of_form is not None and verdict_of_form.kind == ABSTENTION:
        verdict = _as_abstention(verdict)
    citations = find_citations(answer, passages, provided, is_numbered=is_numbered)
    if not citations or not verdict.claims:
        return verdict
    return _check_citations(verdict, citations, answer, EvidenceIndex(passages))


def _is_left_to_judge(
    verdict_of_form: AnswerVerdict, parsed: ParsedAnswer, judge: Judge | None
) -> bool:
    """Whether a judge is asked about an answer of this form all the same.

    A model says itself what claims nothing; for other judges code does.
    """
    can_judge = isinstance(judge, LLMJudge) or bool(judge and parsed.claims)
    return can_judge and verdict_of_form.kind in (NO_CLAIMS, ABSTENTION)


def _as_abstention(verdict: AnswerVerdict) -> AnswerVerdict:
    """The verdict on an answer that abstains by its form; what it claims may refute it."""
    if verdict.supported is False:  # so is one that wrongly abstains
        return verdict
    return replace(
        verdict, answers_question=None, kind=ABSTENTION, reason=ABSTENTION_REASON
    )


def as_judge(value: Any) -> Judge:
    """Return a judge: a `Judge` itself, an LLM by units, a function by claims.

    Raises:
        InputError: For anything else, such as a model's name.
    """
    is_class = isinstance(value, type)
    if isinstance(value, Judge) and not is_class:
        return value
    if _has_method(value, "invoke") or _has_method(value, "chat"):
        raise InputError(
            "judge: a framework's model judges as LLMJudge(ChatModelLLM(model)) of "
            "langchain_denoise, or LLMJudge(LlamaLLM(model)) of llamaindex_denoise; "
            f"got {type(value).__name__}"
        )
    if _has_method(value, "complete") and not is_class:
        return LLMJudge(value)
    return FunctionJudge(value)


def _has_method(value: Any, name: str) -> bool:
    return callable(getattr(value, name, None))


def extract_claims(
    parsed: ParsedAnswer, provided: Sequence[ProviderCitation] = ()
) -> AnswerClaims:
    """The claims of an answer, as judges get them, with its provider's citations."""
    claims = []
    for unit in parsed.claims:
        claim_text = parsed.answer[unit.start : unit.end]
        standalone_text = unit.standalone_text
        if standalone_text == claim_text:
            standalone_text = ""
        claim = Claim(claim_text, unit.start, unit.end, unit.kind, standalone_text)
        claims.append(claim)
    return AnswerClaims(parsed.answer, tuple(claims), tuple(provided))


def has_no_answer(answer: str) -> bool:
    """Whether an answer is a JSON object that says by its form that there is none.

    It has an ``"answer"`` that is null, or ``"answered": false``, and there is no text
    around it but a fence.

    >>> has_no_answer('{"answer": null}'), has_no_answer("He is unknown.")
    (True, False)
    """
    if "{" not in answer:
        return False
    fields = parse_whole_json(strip_fence(answer))
    if not isinstance(fields, Mapping):
        return False
    has_null_answer = "answer" in fields and fields["answer"] is None
    return has_null_answer or fields.get("answered") is False


def verdict_without_claims(
    question: str, answer: str, parsed: ParsedAnswer
) -> AnswerVerdict | None:
    """The verdict on an answer that needs no judge; None for every other."""
    if len(answer) > _MAX_CHARACTERS:
        reason = (
            f"the answer has {len(answer)} characters; "
            f"at most {_MAX_CHARACTERS} are checked"
        )
        return AnswerVerdict(kind="length", reason=reason)
    text_sent = parsed.text_without_reasoning
    answer_words = split_words(remove_citations(text_sent))
    if not answer_words and not _has_symbol(text_sent):
        reason = "the answer is empty"
        return AnswerVerdict(answers_question=False, kind="empty", reason=reason)
    if answer_words and answer_words == split_words(question):
        reason = "the answer only repeats the question"
        return AnswerVerdict(answers_question=False, kind="question", reason=reason)
    if has_no_answer(text_sent):
        return AnswerVerdict(kind=ABSTENTION, reason=ABSTENTION_REASON)
    if not parsed.claims:
        return AnswerVerdict(kind=NO_CLAIMS, reason="it claims nothing")
    return None


def _has_symbol(text: str) -> bool:
    """Whether a text has a symbol, such as an emoji or a sign of mathematics."""
    categories = map(unicodedata.category, text)
    return any(category in ("So", "Sm", "Sc") for category in categories)


def expect_passages(value: Any, name: str) -> tuple[Passage, ...]:
    """Return the passages of a list or any other iterable.

    Raises:
        InputError: For anything else; ``name`` is the argument.
    """
    if isinstance(value, (str, Passage)) or not isinstance(value, Iterable):
        raise InputError(
            f"{name}: expected a list of Passages, got a {type(value).__name__}"
        )
    passages = tuple(value)
    for passage in passages:
        if not isinstance(passage, Passage):
            raise InputError(
                f"{name}: expected Passages, got a {type(passage).__name__}"
            )
    return passages


def _check_texts(*texts: str) -> None:
    for text in texts:
        if not isinstance(text, str):
            raise InputError(
                "check: expected question and answer as str, got "
                f"{type(text).__name__}; pass a model's reply as its text"
            )


def _verdict_without_judge(
    question: str, claims: AnswerClaims, evidence: EvidenceIndex
) -> AnswerVerdict:
    """Show what code can show of each claim: never a verdict.

    Words that are close to each other need not say the same.
    """
    claim_verdicts = []
    for claim in claims:
        stop_if_abandoned()
        claim_verdict = _compare_claim(question, claim, evidence)
        claim_verdicts.append(claim_verdict)
    answer_verdict = AnswerVerdict.of_claims(claim_verdicts)
    return replace(answer_verdict, kind="no_judge", reason=NO_JUDGE)


def _compare_claim(
    question: str, claim: Claim, evidence: EvidenceIndex
) -> ClaimVerdict:
    """Compare a claim's facts with the closest sentence, which is shown.

    A number that only another sentence has says nothing of this claim. Where no
    sentence is close, the reason says so, and the differences are what no passage has.
    """
    claim_terms = content_terms(claim.full_text, evidence.language)
    question_terms = content_terms(question, evidence.language)
    new_terms = claim_terms - question_terms
    term_share, label = evidence.closest_sentence(
        new_terms or claim_terms, other_terms=claim_terms
    )
    quote = evidence.evidence.quote(label, "nearest")
    quotes: tuple[Quote, ...] = ()
    reasons = [_NOTHING_CLOSE]
    if quote is not None and term_share >= _MIN_SHOWN_SHARE:
        quotes = (quote,)
        reasons = []
        source: str | ParsedText = evidence.evidence.source_text([label])
    else:
        source = evidence.parsed_text
    differences = find_differences(
        claim.full_text, source, known_text=question, language=evidence.language
    )
    claim_differences = []
    for difference in differences:
        if not quotes:  # a sentence that is not close has nothing instead
            difference = replace(difference, source_text="")
        claim_difference = locate_difference(difference, claim.text, claim.start)
        claim_differences.append(claim_difference)
    reasons += map(str, claim_differences)
    return ClaimVerdict(
        claim.text,
        claim.start,
        claim.end,
        supported=None,
        quotes=quotes,
        differences=tuple(claim_differences),
        kind="no_judge",
        reason="; ".join(reasons) or NO_JUDGE,
    )


def _check_citations(
    verdict: AnswerVerdict,
    citations: Sequence[Citation],
    answer: str,
    evidence: EvidenceIndex,
) -> AnswerVerdict:
    """Refute claims whose citations do not support them.

    A citation fails when its passage was not given, or when another passage has the
    claim.
    """
    units = list(verdict.units)
    citation_starts = []
    end = 0
    for unit in units:
        citation_starts.append(_citations_start(answer, end, unit.start))
        end = unit.end
    citation_starts.append(len(answer))
    for number, unit in enumerate(verdict.units):
        start = citation_starts[number]
        end = max(citation_starts[number + 1], unit.end)
        own_citations = []
        for citation in citations:
            if start < citation.end and citation.start < end:
                own_citations.append(citation)
        if own_citations and unit.is_claim and unit.supported is not False:
            units[number] = _check_claim_citations(unit, own_citations, evidence)
    if verdict.outcome == "fail" or units == list(verdict.units):
        return replace(verdict, units=tuple(units))
    refuted_verdict = AnswerVerdict.of_claims(
        units, answers_question=verdict.answers_question, judge=verdict.judge
    )
    return replace(refuted_verdict, calls=verdict.calls)


def _citations_start(answer: str, end: int, start: int) -> int:
    """Where the citations of the unit at ``start`` begin, behind one up to ``end``.

    Brackets between two units are the first one's, but the second one's where they
    begin its paragraph or list item.
    """
    *text_before, opening = re.split(_BLOCK_START, answer[end:start])
    if (text_before or not end) and re.fullmatch(_BRACKETS, opening):
        return start - len(opening)
    return start


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
    all_ids = [quote.span.passage_id for quote in claim.quotes]
    quoted_ids = [passage_id for passage_id in all_ids if passage_id in evidence.ids]
    if not quoted_ids or not set(cited_ids).isdisjoint(quoted_ids):
        return claim
    claim_terms = content_terms(claim.text, evidence.language)
    cited_share, _ = evidence.closest_sentence(claim_terms, cited_ids)
    best_share, _ = evidence.closest_sentence(claim_terms)
    if cited_share > _MAX_CITED_SHARE or best_share < _MIN_SOURCE_SHARE:
        return claim
    source_name = f"[{evidence.ids.index(quoted_ids[0]) + 1}]"
    reason = f"it is in {source_name}, not in the passage that it cites"
    cited_names = ", ".join(dict.fromkeys(cited_ids))
    return _refute_citation(claim, citations[0], cited_names, source_name, reason)


def _refute_citation(
    claim: ClaimVerdict,
    citation: Citation,
    cited_names: str,
    right_name: str,
    reason: str,
) -> ClaimVerdict:
    difference = Difference(
        CITATION, cited_names, right_name, citation.start, citation.end
    )
    return replace(
        claim,
        supported=False,
        differences=(*claim.differences, difference),
        kind=CITATION,
        reason=reason,
    )
