"""The quoting judge: a model splits an answer into claims and quotes the evidence.

One call an answer. The model says what is meant; code proves that each quote is in a
passage. A claim without a proven quote is never supported. `VERSION` changes with every
word of the prompt.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from denoise_core.errors import UnparsableReply
from denoise_core.protocols import LLM, expect_llm, with_schema
from denoise_core.runtime.effects import Flow, complete
from denoise_core.support.judging import (
    ABSTENTION,
    ABSTENTION_REASON,
    AnswerClaims,
    AnswerVerdict,
    Claim,
    ClaimVerdict,
    FlowJudge,
    Quote,
    Relation,
)
from denoise_core.text.delimit import ENVELOPE_NOTE, wrap_in_envelope
from denoise_core.text.facts import Difference, find_differences
from denoise_core.text.replies import parse_json, strip_reasoning, unparsable_reply
from denoise_core.types import Message, Passage, Span
from denoise_core.weighted_cache import cache_by_bytes

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
RETRY_PROMPT = (
    "The reply below could not be read. Reply with the one JSON object that was asked "
    "for and nothing else."
)
_VERDICTS = ("supported", "contradicted", "not_stated", "unclear")
_TEXT_SCHEMA = {"type": "string"}


def _object_schema(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list_schema(item_schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item_schema}


SCHEMA = _object_schema(
    claims=_list_schema(
        _object_schema(
            words=_TEXT_SCHEMA,
            verdict={"type": "string", "enum": list(_VERDICTS)},
            quotes=_list_schema(
                _object_schema(evidence={"type": "integer"}, text=_TEXT_SCHEMA)
            ),
            wrong=_TEXT_SCHEMA,
            why=_TEXT_SCHEMA,
        )
    ),
    abstains={"type": "boolean"},
    answers_the_question={"type": "boolean"},
)

MIN_QUOTE_WORDS = 3  # fewer only where the quote is a whole line or cell
_MAX_VALUE_CHARACTERS = 120  # of a value of metadata that is read
_MAX_FIELDS = 12
# Metadata of the adapters says where a text is from and how it scored, nothing about
# what it says.
_ADAPTER_KEYS = ("denoise_", "relevance_score")
_MAX_CLAIMS = 200  # of one reply that are read
_MAX_ANSWER_CHARACTERS = 20_000  # shown to the judge


class LLMJudge(FlowJudge):
    """A model that judges by quotes.

    A claim is supported when the model says so and one of its quotes is in a passage,
    compared without regard to white space, quotation marks, dashes, markup and case.
    Where none is, the claim is unknown. Numbers, dates and names of a supported claim
    that none of its quotes has are listed in ``differences``. A reply that cannot be
    read is asked for once more; then the verdict is unknown (``unparsable``).

    Args:
        llm: The model; None is the one that the run is given. It need not be the model
            that drafts.
        strict: Whether a difference makes a supported claim unknown.
        name: The model's name, which becomes part of ``id``.
    """

    def __init__(
        self, llm: LLM | None = None, *, strict: bool = False, name: str = ""
    ) -> None:
        self.llm = None if llm is None else expect_llm(llm)
        self.strict = strict
        self.name = name

    @property
    def id(self) -> str:
        """``quotes``, and of which model when it has a name."""
        return f"quotes by {self.name}" if self.name else "quotes"

    def flow(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> Flow[AnswerVerdict]:
        """Ask the model once, or twice if its first reply cannot be read."""
        if isinstance(claims, AnswerClaims):
            answer = claims.answer
        else:
            answer = "\n".join(claim.text for claim in claims)
        messages = judge_prompt(question, answer, passages)
        llm = self.llm
        if llm is not None:
            llm = with_schema(llm, SCHEMA)
        reply = yield from complete(messages, tag="judge", llm=llm)
        try:
            return self._read_reply(reply.text, question, answer, passages)
        except UnparsableReply:
            # The reply may repeat what a passage ordered, so it gets an envelope too.
            shown_reply = reply.text[:_MAX_ANSWER_CHARACTERS]
            bad_reply = wrap_in_envelope(shown_reply, "reply")
            last_prompt = messages[-1].content
            retry_prompt = f"{last_prompt}\n\n{RETRY_PROMPT}\n{bad_reply}"
            retry_message = Message("user", retry_prompt)
            messages = (*messages[:-1], retry_message)
            reply = yield from complete(messages, tag="judge", llm=llm)
        try:
            return self._read_reply(reply.text, question, answer, passages)
        except UnparsableReply as error:
            return AnswerVerdict(kind="unparsable", reason=str(error), judge=self.id)

    def _read_reply(
        self, reply_text: str, question: str, answer: str, passages: Sequence[Passage]
    ) -> AnswerVerdict:
        """Read a reply as far as its quotes prove it.

        Raises:
            UnparsableReply: If the reply is not the JSON object asked for.
        """
        fields = parse_json(strip_reasoning(reply_text))
        if not isinstance(fields, dict) or not isinstance(fields.get("claims"), list):
            raise unparsable_reply('one JSON object with "claims"', reply_text)
        claims = []
        for claim_fields in fields["claims"][:_MAX_CLAIMS]:
            claim = _read_claim(claim_fields, answer, question, passages, self.strict)
            claims.append(claim)
        abstains = fields.get("abstains")
        answers_question = fields.get("answers_the_question")
        if not isinstance(abstains, bool) or not isinstance(answers_question, bool):
            raise unparsable_reply(
                '"abstains" and "answers_the_question" as true or false', reply_text
            )
        if abstains and not claims:
            return AnswerVerdict(
                kind=ABSTENTION, reason=ABSTENTION_REASON, judge=self.id
            )
        # An answer that abstains and claims something answers in part: its claims are
        # compared with the evidence.
        is_known = question.strip() and not abstains
        return AnswerVerdict.of_claims(
            claims,
            answers_question=answers_question if is_known else None,
            judge=self.id,
        )


def judge_prompt(
    question: str, answer: str, passages: Sequence[Passage]
) -> tuple[Message, ...]:
    """The messages to the judge; evidence is numbered from 1, behind its headers."""
    parts = []
    for number, passage in enumerate(passages, 1):
        evidence_text = passage.text
        header = passage_header(passage)
        if header:
            evidence_text = f"{header}\n{evidence_text}"
        envelope = wrap_in_envelope(evidence_text, f"evidence {number}")
        parts.append(envelope)
    if question.strip():
        parts.append(f"The question:\n{wrap_in_envelope(question, 'question')}")
    shown_answer = wrap_in_envelope(answer[:_MAX_ANSWER_CHARACTERS], "answer")
    parts.append(f"The answer:\n{shown_answer}")
    prompt_text = "\n\n".join(parts)
    return (Message("system", SYSTEM), Message("user", prompt_text))


def passage_header(passage: Passage) -> str:
    """The passage's header, or else the short values of its metadata."""
    if passage.header:
        return passage.header
    parts = []
    for key, value in passage.metadata.items():
        is_value = isinstance(value, (str, int, float)) and not isinstance(value, bool)
        if not is_value or key.startswith(_ADAPTER_KEYS):
            continue
        if 0 < len(str(value)) <= _MAX_VALUE_CHARACTERS:
            parts.append(f"{key}: {value}")
    return "; ".join(parts[:_MAX_FIELDS])


def _read_claim(
    value: object,
    answer: str,
    question: str,
    passages: Sequence[Passage],
    strict: bool,
) -> ClaimVerdict:
    """One claim of a reply: its words located in the answer, its quotes in passages."""
    fields = value if isinstance(value, Mapping) else {}
    words = fields.get("words")
    verdict = fields.get("verdict")
    quotes = fields.get("quotes") or []
    is_valid = isinstance(words, str) and isinstance(quotes, list)
    if not is_valid or verdict not in _VERDICTS:
        expected = 'claims with "words", a "verdict" of the four and "quotes"'
        raise unparsable_reply(expected, str(value)[:80])
    # The whole answer where the words are not the answer's.
    start, end = _find_words(str(words), answer) or (0, len(answer))
    relation: Relation = "contradicts" if verdict == "contradicted" else "supports"
    located: list[Quote] = []
    for quote in quotes:
        located += _locate_quote_parts(quote, passages, relation)
    claim = ClaimVerdict(answer[start:end], start, end, None, quotes=tuple(located))
    if verdict == "supported":
        return _prove_supported(claim, question, passages, strict)
    contradiction = located[0] if verdict == "contradicted" and located else None
    wrong = fields.get("wrong")
    reason_text = fields.get("why")
    wrong_words = wrong if isinstance(wrong, str) else ""
    difference = _wrong_words(claim, wrong_words, str(verdict), contradiction)
    reason = " ".join(reason_text.split()) if isinstance(reason_text, str) else ""
    return replace(
        claim,
        supported=None if verdict == "unclear" else False,
        differences=(difference,),
        kind=str(verdict),
        reason=reason or _DEFAULT_REASONS[str(verdict)],
    )


def _prove_supported(
    claim: ClaimVerdict, question: str, passages: Sequence[Passage], strict: bool
) -> ClaimVerdict:
    """The verdict on a claim that the model calls supported."""
    if not claim.quotes:
        reason = "the judge's quote is in no passage"
        return replace(claim, kind="unproven", reason=reason)
    differences = _facts_beyond_quotes(claim, question, passages)
    if differences and strict:
        first = differences[0]
        return replace(
            claim, differences=differences, kind=first.kind, reason=str(first)
        )
    return replace(claim, supported=True, differences=differences)


def _wrong_words(
    claim: ClaimVerdict, wrong_words: str, verdict: str, contradiction: Quote | None
) -> Difference:
    """The words of the claim that the model calls wrong, else the whole claim."""
    word_range = None
    if wrong_words.strip():
        word_range = _find_words(wrong_words, claim.text)
    start, end = word_range or (0, len(claim.text))
    words = claim.text[start:end]
    start += claim.start
    end += claim.start
    if contradiction is None:
        return Difference(verdict, words, "", start, end)
    source = contradiction.span
    text = contradiction.text
    return Difference(verdict, words, text, start, end, source.start, source.end)


_DEFAULT_REASONS = {
    "contradicted": "the evidence says otherwise",
    "not_stated": "the evidence does not say this",
    "unclear": "the evidence can be read both ways",
}


def _locate_quote_parts(
    value: object, passages: Sequence[Passage], relation: Relation
) -> list[Quote]:
    """Locate a quote in the passage that it names, or in the first that has it.

    An ellipsis separates parts: each must be long enough and in the same passage.
    """
    fields = value if isinstance(value, Mapping) else {}
    text = fields.get("text")
    number = fields.get("evidence", fields.get("passage"))
    if not isinstance(text, str):
        return []
    candidates = list(passages)
    if isinstance(number, int) and 0 < number <= len(passages):
        named = passages[number - 1]
        candidates = [named, *(p for p in passages if p != named)]
    text = text.replace("...", "\u2026").replace("[\u2026]", "\u2026")
    parts = []
    for part in text.split("\u2026"):
        stripped_part = part.strip()
        if stripped_part:
            parts.append(stripped_part)
    if not parts:
        return []
    for passage in candidates:
        found_quotes = []
        for part in parts:
            quote = locate_quote(part, passage)
            if quote is not None:
                found_quotes.append(replace(quote, relation=relation))
        if len(found_quotes) == len(parts):
            return found_quotes
    return []


def locate_quote(quote: str, passage: Passage) -> Quote | None:
    """Locate the words of a quote in the passage's text.

    None where they are not there, or are fewer than three and no whole line or cell.
    """
    text = passage.text
    span = _find_words(quote, text)
    if span is None:
        return None
    start, end = span
    if _count_words(text[start:end]) < MIN_QUOTE_WORDS:
        before = text[:start].rstrip(" \t\"'*_")[-1:]
        after = text[end:].lstrip(" \t\"'*_")[:1]
        if before not in _CELL_EDGES or after not in _CELL_EDGES:
            return None
    quote_span = Span(passage.id, start, end)
    return Quote(quote_span, text[start:end])


_CELL_EDGES = "\n|,;:<>{}[]."  # the empty string, an edge of the text, is in it too


def _count_words(text: str) -> int:
    """Words; of scripts without spaces, characters."""
    count = 0
    for word in re.findall(r"\w+", text):
        count += len(word) if ord(word[0]) >= 0x2E80 else 1
    return count


def _find_words(words: str, text: str) -> tuple[int, int] | None:
    """The range of ``text`` that has the words: exactly, else in normalized form."""
    exact_words = words.strip()
    start = _find_whole_words(exact_words, text)
    if start is not None:
        return start, start + len(exact_words)
    normalized, offsets = _normalize(text)
    normalized_words = _normalize(words)[0].strip(" .,;:")
    start = _find_whole_words(normalized_words, normalized)
    if start is None:
        return None
    return offsets[start], offsets[start + len(normalized_words) - 1] + 1


def _find_whole_words(words: str, text: str) -> int | None:
    """The first position of ``words`` that does not begin or end inside a word."""
    position = text.find(words) if words else -1
    while position >= 0:
        end = position + len(words)
        if not (_is_inside_word(text, position) or _is_inside_word(text, end)):
            return position
        position = text.find(words, position + 1)
    return None


def _is_inside_word(text: str, position: int) -> bool:
    """Whether the characters around a position belong to one word.

    Scripts without spaces have no such words.
    """
    if not 0 < position < len(text):
        return False
    before = text[position - 1]
    after = text[position]
    return before.isalnum() and after.isalnum() and max(before, after) < "\u2e80"


_EQUIVALENT = str.maketrans(
    dict.fromkeys("‐‑‒–—―−", "-")
    | dict.fromkeys("\"'“”„‟«»‘’‚‛`*_~#|>\\\u00ad\u200b", " ")
)


@cache_by_bytes("folded texts", 16 * 2**20, bytes_per_character=40)
def _normalize(text: str) -> tuple[str, tuple[int, ...]]:
    """Fold case, white space, quotation marks and markup.

    Returns:
        The folded text, and for each of its characters the offset in the text.
    """
    characters: list[str] = []
    offsets: list[int] = []
    for offset, character in enumerate(text.translate(_EQUIVALENT)):
        for folded in unicodedata.normalize("NFKC", character).casefold():
            if not folded.isspace():
                characters.append(folded)
                offsets.append(offset)
            elif not characters or characters[-1] != " ":
                characters.append(" ")
                offsets.append(offset)
    return "".join(characters), tuple(offsets)


def _facts_beyond_quotes(
    claim: ClaimVerdict, question: str, passages: Sequence[Passage]
) -> tuple[Difference, ...]:
    """Numbers, dates and names of a claim that its quotes and the question lack."""
    quoted_ids = {quote.span.passage_id for quote in claim.quotes}
    source_texts = []
    for passage in passages:
        if passage.id not in quoted_ids:
            continue
        header = passage_header(passage)
        if header:
            source_texts.append(header)
    source_texts += [quote.text for quote in claim.quotes]
    joined_source = "\n".join(source_texts)
    differences = find_differences(claim.text, joined_source, known_text=question)
    # The source joins several quotes: offsets in it mean nothing, and are left out.
    claim_differences = []
    for difference in differences:
        claim_difference = Difference(
            difference.kind,
            difference.claimed_text,
            difference.source_text,
            difference.start + claim.start,
            difference.end + claim.start,
        )
        claim_differences.append(claim_difference)
    return tuple(claim_differences)
