"""Hold an answer against passages: it is parsed, its claims are judged, its citations held to the quotes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from denoise_core.errors import InputError
from denoise_core.running.effects import Flow
from denoise_core.running.flow import run
from denoise_core.support.abstention import ABSTAINS, abstains
from denoise_core.support.answers import Parsed, parse
from denoise_core.support.citing import Citation, cited, uncited
from denoise_core.support.evidence import Evidence, terms_of
from denoise_core.support.hold import SPEAKS, Words, speaks
from denoise_core.support.judging import Claim, Claims, Judge, Judged, asked, expect_judge
from denoise_core.support.result import NOTHING, Check
from denoise_core.text.facts import Difference
from denoise_core.text.facts.reading import Reading, standing
from denoise_core.text.language import language_of
from denoise_core.text.lexemes import lexemes
from denoise_core.types import Passage

_LONGEST = 20_000  # characters of an answer that are checked
_SHORT = 8  # words that a short answer has beside the question's
_HALF = 0.5  # what a claim counts in the score of which nothing is known
_BEARS, _BARELY = 0.7, 0.4  # shares of a claim's words in the passage that bears it, and in the one that it cites


def check(question: str, answer: str, passages: Sequence[Passage], *, judge: Judge | None = None) -> Check:
    """Hold ``answer`` to ``question`` against ``passages``; their headers and metadata count as evidence.

    ``judge`` says of each claim whether it is supported, with its quotes (`denoise_core.support.quoting.LLMJudge`
    asks a model). Without one, code says what differs; it never says "supported".

    What claims nothing (a greeting, a question back) passes as not applicable. Raises `InputError` for texts that
    are no strings. Time grows with the evidence.
    """
    return run(checking(question, answer, passages, judge or Words()))[0]


def checking(question: str, answer: str, passages: Sequence[Passage], judge: Judge) -> Flow[Check]:
    """`check` as a flow: what a judge asks for is in the budget and the trace of who runs it."""
    _refuse(question, answer, passages)
    expect_judge(judge)
    ids = [p.id for p in passages]
    parsed = parse(answer, question, ids=ids)
    nothing = _says_nothing(question, answer, parsed)
    if nothing:
        return nothing
    if not any(p.text.strip() or p.header.strip() for p in passages):
        return Check(None, None, 0.0, (), "empty_evidence", "there is no evidence to hold it against")
    judgement = yield from asked(judge, question, claims_of(parsed, passages), passages)
    if judgement.abstains:
        return Check(None, None, 0.0, judgement.claims, "abstention", ABSTAINS, judge.id)
    if not judgement.claims:
        if judgement.kind in ("", "empty"):
            return Check(None, None, 1.0, (), NOTHING, "it claims nothing", judge.id)
        return Check(None, judgement.answers, 0.0, (), judgement.kind, judgement.why, judge.id)
    claims = tuple(_known(c) for c in judgement.claims)
    claims = _held_to_citations(parsed, claims, passages, Evidence(passages))
    return _together(claims, judgement.answers, judge.id)


def claims_of(parsed: Parsed, passages: Sequence[Passage] = ()) -> Claims:
    """What an answer claims, as judges are asked."""
    resolved = {(c.start, c.end): c for c in cited(parsed.answer, passages)}
    return Claims(
        parsed.reply if parsed.reply == parsed.answer else parsed.answer,
        tuple(
            Claim(
                parsed.answer[p.start : p.end],
                p.start,
                p.end,
                p.kind,
                p.said if p.said != parsed.answer[p.start : p.end] else "",
                tuple(resolved[x] for x in p.citations if x in resolved),
            )
            for p in parsed.claims
        ),
    )


def one_value(question: str, claim: Claim) -> bool:
    """Beside the question's words the claim has few, and one value at most: a reader finds one span, which proves
    no other."""
    language = language_of(question, "en")
    asked = Reading.of(question, language)
    said = Reading.of(claim.whole, language)
    values = [f for f in said.facts if not f.doubtful and not standing(f, asked.facts)]
    return len(values) <= 1 and len(said.stems - asked.stems) <= _SHORT


def _refuse(question: str, answer: str, passages: Sequence[Passage]) -> None:
    if not isinstance(question, str) or not isinstance(answer, str):
        wrong = type(answer).__name__ if isinstance(question, str) else type(question).__name__
        raise InputError(
            f"check: expected question and answer as str, got {wrong}; pass a model's reply as its text"
        )
    if isinstance(passages, str) or any(not isinstance(p, Passage) for p in passages):
        raise InputError("check: expected passages as a list of Passage(text, id)")


def _says_nothing(question: str, answer: str, parsed: Parsed) -> Check | None:
    if len(answer) > _LONGEST:
        why = f"the answer has {len(answer)} characters; at most {_LONGEST} are checked"
        return Check(False, None, 0.0, (), "length", why)
    reply = parsed.reply
    words = [x.lower for x in lexemes(uncited(reply)) if x.shape != "mark"]
    if not words:
        return Check(None, False, 0.0, (), "empty", "the answer is empty")
    said = [x.lower for x in lexemes(question) if x.shape != "mark"]
    if words == said:
        return Check(None, False, 0.0, (), "question", "the answer only repeats the question")
    if abstains(reply):
        return Check(None, None, 0.0, (), "abstention", ABSTAINS)
    if not parsed.claims:
        return Check(None, None, 1.0, (), NOTHING, "it claims nothing")
    return None


def _known(claim: Judged) -> Judged:
    """What its writer did or does is unknown, whoever judges it, unless the evidence says otherwise."""
    beyond = claim.supported is False and claim.kind != "contradicted" and speaks(claim.text)
    return replace(claim, supported=None, kind="beyond", why=SPEAKS) if beyond else claim


def _held_to_citations(
    parsed: Parsed, claims: Sequence[Judged], passages: Sequence[Passage], evidence: Evidence
) -> tuple[Judged, ...]:
    """Claims with what their citations lack: a passage that was not given, or one that does not bear the claim."""
    citations = cited(parsed.answer, passages)
    if not citations:
        return tuple(claims)
    ends = [*(c.start for c in claims[1:]), len(parsed.answer)]
    out = []
    for claim, until in zip(claims, ends, strict=True):
        mine = [c for c in citations if claim.start <= c.start < max(until, claim.end)]
        out.append(_cited(claim, mine, evidence) if mine and claim.supported is not False else claim)
    return tuple(out)


def _cited(claim: Judged, citations: Sequence[Citation], evidence: Evidence) -> Judged:
    first = citations[0]
    unknown = [name for c in citations for name in c.unknown]
    if unknown:
        why = f"it cites {', '.join(unknown)}, which was not given"
        said = Difference("citation", ", ".join(unknown), "", first.start, first.end)
        return replace(claim, supported=False, differs=(*claim.differs, said), kind="citation", why=why)
    ids = {i for c in citations for i in c.ids}
    bearing = [q.span.passage_id for q in claim.quotes]
    if not bearing or ids & set(bearing):
        return claim
    said_terms = terms_of(claim.text, evidence.language)
    share, _ = evidence.nearest(said_terms, frozenset(n for n, i in enumerate(evidence.ids) if i in ids))
    best, _ = evidence.nearest(said_terms)
    if share > _BARELY or best < _BEARS:
        return claim
    number = evidence.ids.index(bearing[0]) + 1 if bearing[0] in evidence.ids else 0
    why = f"it stands in [{number}], not in the passage that it cites"
    said = Difference("citation", ", ".join(ids), f"[{number}]", first.start, first.end)
    return replace(claim, supported=False, differs=(*claim.differs, said), kind="citation", why=why)


def _together(claims: tuple[Judged, ...], answers: bool | None, judge: str) -> Check:
    worth = [(c.probability if c.probability is not None else 1.0) if c.supported else 0.0 for c in claims]
    worth = [w if c.supported is not None else _HALF for w, c in zip(worth, claims, strict=True)]
    score = round(sum(worth) / len(worth), 6)
    bad = next((c for c in claims if c.supported is False), None)
    unsure = next((c for c in claims if c.supported is None), None)
    if bad:
        return Check(False, answers, min(score, 0.4), claims, bad.kind, f"{bad.text!r}: {bad.why}", judge)
    if answers is False:
        supported = None if unsure else True
        why = "it does not answer the question"
        return Check(supported, False, min(score, 0.45), claims, "off_question", why, judge)
    if unsure:
        return Check(None, answers, min(score, 0.6), claims, unsure.kind, f"{unsure.text!r}: {unsure.why}", judge)
    return Check(True, answers, score, claims, judge=judge)
