"""The quoting judge: a model cuts an answer into claims and quotes what each rests on, and code proves the quotes.

One call an answer. A claim is supported only with words that stand in a passage: the model says what is meant, the
places say that it is there. The prompt changes its `VERSION` with every word of it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from denoise_core.errors import UnparsableReply
from denoise_core.protocols import LLM, expect_llm, with_schema
from denoise_core.runtime.effects import Flow, complete
from denoise_core.support.judging import (
    ABSTENTION,
    ABSTENTION_REASON,
    AnswerVerdict,
    Claim,
    AnswerClaims,
    ClaimVerdict,
    FlowJudge,
    Quote,
)
from denoise_core.text.delimit import ENVELOPE_NOTE, wrap_in_envelope
from denoise_core.text.facts import Difference, find_differences
from denoise_core.text.replies import parse_json, strip_reasoning, unparsable_reply
from denoise_core.types import Message, Passage, Span

VERSION = 1
SYSTEM = f"""You check an answer against evidence. {ENVELOPE_NOTE}

First cut the answer into claims: the pieces that say something about the world and can be true or false by themselves.
- "words" are the claim's own words in the answer, copied exactly: one unbroken piece, a sentence or a part of one. Cut where one part could be wrong while the other is right.
- A bare "Yes" or "No" is a claim: the question with that answer. A "Yes" or "No" with a sentence that says the same is one claim with it.
- A row of a table, a field of JSON, a list item is a claim, read with its column, name or heading; copy the row or the field with its value. Read pronouns and short answers from the question and from what stands before.
- A guess or hedge ("probably X", "assuming Y is meant, X") claims X.
- Leave no statement out: what is said twice is a claim each time.
- No claims: greetings, offers, questions back, reasoning in think tags, numbers of sources, confidence values, and remarks on the evidence itself (what it holds, or that it does not say something). A fact about the world inside a remark is a claim.

Then give each claim a verdict, by the evidence alone; what you know yourself does not count:
- "supported": the evidence says all of it, in whatever words, or all of it follows directly from what the evidence says, also by counting or simple arithmetic. The evidence must say it of the same person, thing, record, place and time, in the same relation, with the same degree and the same certainty.
- "contradicted": the evidence says something that cannot be true together with it, of the same thing: another number, date, name, order, cause or degree; planned where the claim says done; the value of another row or record.
- "not_stated": the evidence does not say it. One unsupported part makes the whole claim unsupported; where one part is contradicted and another not stated, it is contradicted.
- "unclear": only where the evidence can be read both ways or contradicts itself on this point, and for what the writer says of its own actions ("I have sent it").

"quotes" are the words of the evidence on which a "supported" or "contradicted" rests, copied exactly as they stand there: each one unbroken sentence or part of one of at least three words, or one row of a table; up to three, with the number of their evidence. A row that means nothing without its header: quote the header as well. All parts of a supported claim must be covered by its quotes. No quotes for the others.
"wrong" are, for a claim that is not supported, the words in it that are contradicted or not stated, copied exactly, as few as say it; "" for a supported one.
"why" says for a claim that is not supported what the evidence says instead, in at most fifteen words; "" for a supported one.

"abstains": true when the answer says that it cannot answer what was asked, also when it then tells something else.
"answers_the_question": true when the answer gives what was asked for, of the very person, thing, place and time that the question names, whether it is right or wrong; false when it speaks of another or abstains. Without a question: true.

Reply with one JSON object and nothing else:
{{"claims": [{{"words": "...", "verdict": "supported | contradicted | not_stated | unclear", "quotes": [{{"evidence": 1, "text": "..."}}], "wrong": "", "why": ""}}], "abstains": false, "answers_the_question": true}}"""  # noqa: E501
RETRY_PROMPT = "The reply below could not be read. Reply with the one JSON object that was asked for and nothing else."
_VERDICTS = ("supported", "contradicted", "not_stated", "unclear")
_TEXT = {"type": "string"}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


SCHEMA = _object(
    claims=_list(
        _object(
            words=_TEXT,
            verdict={"type": "string", "enum": list(_VERDICTS)},
            quotes=_list(_object(evidence={"type": "integer"}, text=_TEXT)),
            wrong=_TEXT,
            why=_TEXT,
        )
    ),
    abstains={"type": "boolean"},
    answers_the_question={"type": "boolean"},
)

MIN_QUOTE_WORDS = 3  # of a quote, at least; less only where it is a whole line or cell
_SHORT = 120  # characters of a value of metadata that is read
_FIELDS = 12
# Metadata that the adapters write says where a text is from and how it scored, nothing about what it says.
_OWN_KEYS = ("denoise_", "relevance_score")
_MOST = 200  # claims of one reply that are read
_LONGEST = 20_000  # characters of an answer that are shown


class LLMJudge(FlowJudge):
    """Judges by quotes of ``llm``, which need not be the model that drafts (None: the one that the run is given).

    A claim is supported when the model says so and a quote that it gives stands in a passage: exactly, or but for
    white space, quotation marks, dashes, markup and case. Where none does, nothing is known. Numbers, dates and
    names of a supported claim that stand in none of its quotes are named in ``differences``; ``strict`` makes them
    unknown. A reply that cannot be read is asked for once more; then nothing is known (``unparsable``). ``name``
    is put into ``id``.
    """

    def __init__(
        self, llm: LLM | None = None, *, strict: bool = False, name: str = ""
    ) -> None:
        self.llm = None if llm is None else expect_llm(llm)
        self.strict = strict
        self.name = name

    @property
    def id(self) -> str:
        """``quotes``, and of which model when it was named."""
        return f"quotes by {self.name}" if self.name else "quotes"

    def flow(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> Flow[AnswerVerdict]:
        answer = (
            claims.answer
            if isinstance(claims, AnswerClaims)
            else "\n".join(c.text for c in claims)
        )
        messages = judge_prompt(question, answer, passages)
        llm = None if self.llm is None else with_schema(self.llm, SCHEMA)
        reply = yield from complete(messages, tag="judge", llm=llm)
        try:
            return self._read(reply.text, question, answer, passages)
        except UnparsableReply:
            # The reply may repeat what a passage told it to say, so it stands in an envelope as that does.
            again = f"{messages[-1].content}\n\n{RETRY_PROMPT}\n{wrap_in_envelope(reply.text[:_LONGEST], 'reply')}"
            reply = yield from complete(
                (*messages[:-1], Message("user", again)), tag="judge", llm=llm
            )
        try:
            return self._read(reply.text, question, answer, passages)
        except UnparsableReply as error:
            return AnswerVerdict(kind="unparsable", reason=str(error), judge=self.id)

    def _read(
        self, reply: str, question: str, answer: str, passages: Sequence[Passage]
    ) -> AnswerVerdict:
        """What a reply says, as far as it is proven. Raises `UnparsableReply` unless it is what was asked for."""
        data = parse_json(strip_reasoning(reply))
        if not isinstance(data, dict) or not isinstance(data.get("claims"), list):
            raise unparsable_reply('one JSON object with "claims"', reply)
        claims = [
            _claim_verdict(c, answer, question, passages, self.strict)
            for c in data["claims"][:_MOST]
        ]
        abstains, answers = data.get("abstains"), data.get("answers_the_question")
        if not isinstance(abstains, bool) or not isinstance(answers, bool):
            raise unparsable_reply(
                '"abstains" and "answers_the_question" as true or false', reply
            )
        if abstains and not claims:
            return AnswerVerdict(
                kind=ABSTENTION, reason=ABSTENTION_REASON, judge=self.id
            )
        # One that abstains and claims something answers in part: what it does say is compared with the evidence.
        known = None if abstains or not question.strip() else answers
        return AnswerVerdict.of_claims(claims, answers_question=known, judge=self.id)


def judge_prompt(
    question: str, answer: str, passages: Sequence[Passage]
) -> tuple[Message, ...]:
    """The messages that ask; evidence is numbered from 1, each piece behind its header."""
    parts = []
    for n, passage in enumerate(passages, 1):
        header = passage_header(passage)
        text = f"{header}\n{passage.text}" if header else passage.text
        parts.append(wrap_in_envelope(text, f"evidence {n}"))
    if question.strip():
        parts.append(f"The question:\n{wrap_in_envelope(question, 'question')}")
    parts.append(f"The answer:\n{wrap_in_envelope(answer[:_LONGEST], 'answer')}")
    return (Message("system", SYSTEM), Message("user", "\n\n".join(parts)))


def passage_header(passage: Passage) -> str:
    """What is read with a passage: its header, or else the short values of its metadata."""
    if passage.header:
        return passage.header
    named = [
        f"{key}: {value}"
        for key, value in passage.metadata.items()
        if isinstance(value, (str, int, float))
        and not isinstance(value, bool)
        and 0 < len(str(value)) <= _SHORT
        if not key.startswith(_OWN_KEYS)
    ]
    return "; ".join(named[:_FIELDS])


def _claim_verdict(
    told: object, answer: str, question: str, passages: Sequence[Passage], strict: bool
) -> ClaimVerdict:
    """One claim of a reply: its words at their place in the answer, its quotes at theirs in the passages."""
    fields = told if isinstance(told, Mapping) else {}
    words, verdict = fields.get("words"), fields.get("verdict")
    quotes = fields.get("quotes") or []
    if (
        not isinstance(words, str)
        or verdict not in _VERDICTS
        or not isinstance(quotes, list)
    ):
        raise unparsable_reply(
            'claims with "words", a "verdict" of the four and "quotes"', str(told)[:80]
        )
    start, end = _find_words(words, answer) or (
        0,
        len(answer),
    )  # the whole where its words are not the answer's
    relation = "contradicts" if verdict == "contradicted" else "supports"
    proven = tuple(
        q for quote in quotes for q in _located_quotes(quote, passages, relation)
    )
    claim = ClaimVerdict(answer[start:end], start, end, None, quotes=proven)
    if verdict == "supported":
        return _supported(claim, question, passages, strict)
    wrong, why = fields.get("wrong"), fields.get("why")
    reason = " ".join(why.split()) if isinstance(why, str) else ""
    contradicting = proven[0] if verdict == "contradicted" and proven else None
    difference = _unsupported_words(
        claim, wrong if isinstance(wrong, str) else "", verdict, contradicting
    )
    supported = None if verdict == "unclear" else False
    reason = reason or _REASONS[verdict]
    return replace(
        claim,
        supported=supported,
        differences=(difference,),
        kind=verdict,
        reason=reason,
    )


def _supported(
    claim: ClaimVerdict, question: str, passages: Sequence[Passage], strict: bool
) -> ClaimVerdict:
    """A claim that the model calls supported: as far as its quotes are found and say its numbers, dates and
    names."""
    if not claim.quotes:
        return replace(
            claim, kind="unproven", reason="the judge's quote is in no passage"
        )
    differences = _beyond_quotes(claim, question, passages)
    if differences and strict:
        first = differences[0]
        return replace(
            claim, differences=differences, kind=first.kind, reason=str(first)
        )
    return replace(claim, supported=True, differences=differences)


def _unsupported_words(
    claim: ClaimVerdict, wrong: str, verdict: str, quote: Quote | None
) -> Difference:
    """The words of the claim that the model calls wrong, else the whole claim, and the quote that contradicts
    them."""
    start, end = (_find_words(wrong, claim.text) if wrong.strip() else None) or (
        0,
        len(claim.text),
    )
    words, at = claim.text[start:end], claim.start + start
    if quote is None:
        return Difference(verdict, words, "", at, at + len(words))
    return Difference(
        verdict,
        words,
        quote.text,
        at,
        at + len(words),
        quote.span.start,
        quote.span.end,
    )


_REASONS = {
    "contradicted": "the evidence says otherwise",
    "not_stated": "the evidence does not say this",
    "unclear": "the evidence can be read both ways",
}


def _located_quotes(
    said: object, passages: Sequence[Passage], relation: Any
) -> list[Quote]:
    """A quote at its place: in the passage that it names, or in the first other one where it stands. An ellipsis
    parts it; each part must be long enough and stand there."""
    fields = said if isinstance(said, Mapping) else {}
    text, number = fields.get("text"), fields.get("evidence", fields.get("passage"))
    if not isinstance(text, str):
        return []
    named = (
        [passages[number - 1]]
        if isinstance(number, int) and 0 < number <= len(passages)
        else []
    )
    shortened = text.replace("...", "\u2026").replace("[\u2026]", "\u2026")
    parts = [part.strip() for part in shortened.split("\u2026") if part.strip()]
    for passage in [*named, *(p for p in passages if p not in named)]:
        found = [locate_quote(p, passage) for p in parts]
        if found and all(found):
            return [Quote(q.span, q.text, relation) for q in found if q is not None]
    return []


def locate_quote(quote: str, passage: Passage) -> Quote | None:
    """Where the words of a quote stand in the passage's text; None where they do not, or where they are fewer than
    three and no whole line or cell."""
    found = _find_words(quote, passage.text)
    if found is None:
        return None
    start, end = found
    text = passage.text
    if _count_words(text[start:end]) < MIN_QUOTE_WORDS:
        before, after = text[:start].rstrip(" \t\"'*_"), text[end:].lstrip(" \t\"'*_")
        if (before and before[-1] not in _EDGES) or (after and after[0] not in _EDGES):
            return None
    return Quote(Span(passage.id, start, end), text[start:end])


_EDGES = "\n|,;:<>{}[]."


def _count_words(text: str) -> int:
    """Words; of scripts without spaces, characters."""
    return sum(len(w) if ord(w[0]) >= 0x2E80 else 1 for w in re.findall(r"\w+", text))


def _find_words(words: str, text: str) -> tuple[int, int] | None:
    """The characters of ``text`` that are ``words``: exactly, else but for what `_normalized` leaves out."""
    wanted = words.strip()
    at = text.find(wanted) if wanted else -1
    while at >= 0:
        if not (_is_inside_word(text, at) or _is_inside_word(text, at + len(wanted))):
            return at, at + len(wanted)
        at = text.find(wanted, at + 1)
    folded, places = _normalized(text)
    wanted = _normalized(words)[0].strip(" .,;:")
    at = folded.find(wanted) if wanted else -1
    while at >= 0:
        last = at + len(wanted)
        if not (_is_inside_word(folded, at) or _is_inside_word(folded, last)):
            return places[at], places[last - 1] + 1
        at = folded.find(wanted, at + 1)
    return None


def _is_inside_word(text: str, at: int) -> bool:
    """The place is within a word."""
    if not 0 < at < len(text):
        return False
    one, two = text[at - 1], text[at]
    return one.isalnum() and two.isalnum() and max(ord(one), ord(two)) < 0x2E80


_EQUIVALENT = str.maketrans(
    dict.fromkeys("‐‑‒–—―−", "-")
    | dict.fromkeys("\"'“”„‟«»‘’‚‛`*_~#|>\\\u00ad\u200b", " ")
)


@lru_cache(maxsize=256)
def _normalized(text: str) -> tuple[str, tuple[int, ...]]:
    """The text in small letters with one blank for any white space, quotation marks and markup, and for each
    character its place in the text."""
    out: list[str] = []
    places: list[int] = []
    for at, character in enumerate(text.translate(_EQUIVALENT)):
        for c in unicodedata.normalize("NFKC", character).casefold():
            if c.isspace():
                if out and out[-1] == " ":
                    continue
                c = " "
            out.append(c)
            places.append(at)
    return "".join(out), tuple(places)


def _beyond_quotes(
    claim: ClaimVerdict, question: str, passages: Sequence[Passage]
) -> tuple[Difference, ...]:
    """Numbers, dates and names of a claim that neither its quotes nor their headers nor the question say."""
    quoted = {q.span.passage_id for q in claim.quotes}
    headers = [passage_header(p) for p in passages if p.id in quoted]
    source = "\n".join([*(h for h in headers if h), *(q.text for q in claim.quotes)])
    beyond = find_differences(claim.text, source, known_text=question)
    # The places in what was put together from several quotes say nothing.
    return tuple(
        Difference(
            d.kind,
            d.claimed_text,
            d.source_text,
            d.start + claim.start,
            d.end + claim.start,
        )
        for d in beyond
    )
