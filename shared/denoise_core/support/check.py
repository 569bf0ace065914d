"""Hold an answer against passages: what of it they support, what differs, and whether it answers the question."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from denoise_core.errors import InputError
from denoise_core.support.abstention import abstains
from denoise_core.support.citing import Citation, cited
from denoise_core.support.claims import Part, opens_with, parts
from denoise_core.support.coverage import Asked
from denoise_core.support.evidence import Evidence
from denoise_core.support.hold import hold
from denoise_core.support.meaning import Embed, Meaning
from denoise_core.support.question import Reader, fit_of, of_kind, off, yes_or_no
from denoise_core.support.result import Check, Claim
from denoise_core.text.facts import Difference
from denoise_core.text.facts.reading import Reading
from denoise_core.text.language import language_of
from denoise_core.text.lexemes import lexemes
from denoise_core.types import Passage

COVERAGE = 0.5  # share of a claim's words, by weight, that its window must say
_SEVERAL = 3  # claims of an answer, from which on one may be weaker when all together are not
_WEAK = 0.6  # share of the coverage that such a claim must have
_BEHIND = 0.5  # more than this above its weakest claim no answer scores
_LOW = 0.6  # of its score has an answer that does not pass
READER = -13.0  # log-probability of span and window below which the reader says that it does not answer
_SLOPE = 0.4
_LONGEST = 20_000  # characters of an answer that are checked
_LONG = 25  # words of an answer that a reader of spans does not judge
_SPOKEN = ("en", "")  # languages that the reader reads


def check(
    question: str,
    answer: str,
    passages: Sequence[Passage],
    reader: Reader | None = None,
    *,
    embed: Embed | None = None,
    coverage: float = COVERAGE,
    least: float = READER,
) -> Check:
    """Hold ``answer`` to ``question`` against ``passages``; their headers (`Passage.headed`) count as evidence.

    Each claim is held against windows of one to three sentences of one passage, and of several together: at least
    ``coverage`` of its words must stand in one, and no number, date, name, negation or opposite may differ there.
    A claim with a citation is held against the passages that it cites. ``reader`` says whether what stands there
    answers an English question: one that finds it, with a log-probability below ``least``, vetoes it. ``embed``
    (texts to vectors) finds a claim of which no fact differs in other words; see `Meaning`.

    Nothing passes that says nothing: an empty answer, a refusal, a bare yes or no, the question again. Raises
    `InputError` for texts that are no strings and a ``coverage`` outside 0 to 1. Time grows with the evidence.
    """
    _refuse(question, answer, passages, coverage)
    nothing = _says_nothing(question, answer)
    if nothing:
        return nothing
    evidence = Evidence(passages)
    if not evidence.sentences and not any(evidence.heads):
        return Check(None, None, 0.0, (), "empty_evidence", "there is no evidence to hold it against")
    named = cited(answer, passages)
    language = language_of(answer, evidence.language)
    found = parts(answer, named, language)
    if not found:
        if opens_with(answer):
            return Check(None, None, 0.0, (), "bare", "a bare yes or no cannot be held against evidence")
        return Check(None, None, 0.0, (), "empty", "the answer claims nothing")
    read = Reading.of(question, language_of(question, evidence.language))
    asked = Asked(read, frozenset(w.stem for w in read.words))
    each = coverage if len(found) < _SEVERAL else coverage * _WEAK
    claims = tuple(_shown(_held(p, asked, evidence, each)) for p in found)
    if embed is not None:
        meaning = Meaning(embed, evidence)
        claims = tuple(c if p.citations else meaning.held(c, asked) for c, p in zip(claims, found, strict=True))
    answers, fits = _answers(question, found, claims, passages, reader, least)
    if fits is None and answers is not False and not yes_or_no(question) and off(claims, asked, evidence):
        answers = False
    return _together(claims, coverage, answers, fits)


def _refuse(question: str, answer: str, passages: Sequence[Passage], coverage: float) -> None:
    if not isinstance(question, str) or not isinstance(answer, str):
        wrong = type(answer).__name__ if isinstance(question, str) else type(question).__name__
        raise InputError(
            f"check: expected question and answer as str, got {wrong}; pass a model's reply as its text"
        )
    if isinstance(passages, str) or any(not isinstance(p, Passage) for p in passages):
        raise InputError("check: expected passages as a list of Passage(text, id)")
    if not 0.0 <= coverage <= 1.0:
        raise InputError(f"coverage={coverage}: expected a share from 0 to 1")


def _says_nothing(question: str, answer: str) -> Check | None:
    if len(answer) > _LONGEST:
        return Check(
            False,
            None,
            0.0,
            (),
            "length",
            f"the answer has {len(answer)} characters; at most {_LONGEST} are checked",
        )
    words = [x.lower for x in lexemes(answer) if x.shape != "mark"]
    if not words:
        return Check(None, False, 0.0, (), "empty", "the answer is empty")
    if abstains(answer):
        return Check(None, None, 0.0, (), "abstention", "the answer says that it does not know")
    said = [x.lower for x in lexemes(question) if x.shape != "mark"]
    if words == said or (answer.strip().endswith(("?", "؟", "？")) and set(words) <= set(said)):
        return Check(None, False, 0.0, (), "question", "the answer only repeats the question")
    return None


def _held(part: Part, asked: Asked, evidence: Evidence, coverage: float) -> Claim:
    found = hold(part.text, part.start, asked, evidence, coverage)
    unknown = [(c, name) for c in part.citations for name in c.unknown]
    if unknown:
        named = ", ".join(name for _, name in unknown)
        return _miscited(found, unknown[0][0], f"cites {named}, which was not given", evidence)
    ids = {i for c in part.citations for i in c.ids}
    if not ids or not found.supported:
        return found
    among = frozenset(n for n, i in enumerate(evidence.ids) if i in ids)
    there = hold(part.text, part.start, asked, evidence, coverage, among)
    if there.supported:
        return there
    return _miscited(found, part.citations[0], "stands in another passage than the one that it cites", evidence)


def _shown(claim: Claim) -> Claim:
    """Its text without the blanks that stand for what was left out."""
    return replace(claim, text=re.sub(r"\s{1,9}([.,;:!?])", r"\1", " ".join(claim.text.split())))


def _miscited(claim: Claim, citation: Citation, why: str, evidence: Evidence) -> Claim:
    where = ", ".join(citation.ids) or "nothing"
    said = Difference("citation", why, where, citation.start, citation.end)
    return replace(
        claim, supported=False, score=claim.score / 2, differences=(*claim.differences, said), why=f"it {why}"
    )


def _answers(
    question: str,
    found: Sequence[Part],
    claims: Sequence[Claim],
    passages: Sequence[Passage],
    reader: Reader | None,
    least: float,
) -> tuple[bool | None, float | None]:
    """Whether it answers, and how sure the reader is, 0 to 1 (None without one)."""
    if not question.strip():
        return None, None
    kind = of_kind(question, [Reading.of(p.text, language_of(p.text, language_of(question))) for p in found])
    if reader is None or language_of(question, "en") not in _SPOKEN or yes_or_no(question):
        return kind, None
    fit = fit_of(reader, question, [" ".join(p.text.split()) for p in found], claims, passages)
    if fit is None:
        return kind, None  # in words of its own: the reader knows spans
    sure = 1 / (1 + math.exp(min(50.0, _SLOPE * (least - fit))))
    if fit < least and sum(len(p.text.split()) for p in found) > _LONG:
        return kind, None
    return fit >= least and kind is not False, sure


def _together(claims: tuple[Claim, ...], coverage: float, answers: bool | None, fits: float | None) -> Check:
    mean = sum(c.score for c in claims) / len(claims)
    score = min(mean, *(c.score + _BEHIND for c in claims))  # one claim without support is not made up for
    if fits is not None:
        score = min(score, fits)
    score = round(min(1.0, max(0.0, score)), 6)
    low = round(score * _LOW, 6)
    bad = next((c for c in claims if c.supported is False), None)
    unsure = next((c for c in claims if c.supported is None), None)
    if bad:
        kind = bad.differences[0].kind if bad.differences else "unsupported"
        return Check(False, answers, low, claims, kind, f"{bad.text!r}: {bad.why}")
    if unsure:
        kind = "conflict" if unsure.differences else "language"
        return Check(None, answers, low, claims, kind, f"{unsure.text!r}: {unsure.why}")
    if len(claims) >= _SEVERAL and mean < coverage:
        weak = min(claims, key=lambda c: c.score)
        why = f"the passages say too little of it, least of {weak.text!r}"
        claims = tuple(replace(c, supported=False, why=why) if c.score < coverage else c for c in claims)
        return Check(False, answers, low, claims, "unsupported", why)
    if answers is False:
        why = "the passages say it, but it does not answer the question"
        return Check(True, False, low, claims, "off_question", why)
    return Check(True, answers, score, claims)
