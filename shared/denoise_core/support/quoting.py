"""The model as judge: a verdict on each unit of an answer, with labels of the evidence.

One call an answer. Code cuts the answer into numbered units and the evidence into
labelled sentences; the model says what is meant, code demands a line for each unit and
compares numbers and dates with the sentences named. A unit without a line, and one
without a label, is never supported. `VERSION` changes with every word of the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from denoise_core.errors import InputError
from denoise_core.protocols import LLM, expect_llm
from denoise_core.runtime.effects import Flow, complete
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.support.answers import AnswerUnit, parse_answer
from denoise_core.support.judging import (
    CONTRADICTED,
    NO_CLAIMS,
    WRONG_ABSTENTION,
    AnswerClaims,
    AnswerKind,
    AnswerVerdict,
    Claim,
    ClaimVerdict,
    FlowJudge,
    ProviderCitation,
    Quote,
    Relation,
)
from denoise_core.support.labels import (
    EVIDENCE_SYSTEM,
    LabelledEvidence,
    evidence_prefix,
)
from denoise_core.support.normal_form import find_words
from denoise_core.support.unit_replies import UnitLine, UnitReplies, read_unit_replies
from denoise_core.text.delimit import (
    copies_envelope,
    envelope_markers,
    sanitize_text,
    wrap_in_envelope,
)
from denoise_core.text.facts import Difference, find_differences
from denoise_core.types import Message, Passage, type_name

VERSION = 2
_ANSWER_KINDS = """answers: it gives what was asked for, of the very person, thing, place and time that the question names, whether it is right or wrong; also where there is no question.
off_question: it speaks of another thing instead.
abstains: it says that it cannot answer what was asked, also when it then tells something else; the evidence does not answer it either.
wrongly_abstains: the same, but the evidence does answer what was asked. Give the labels."""  # noqa: E501
TASK = f"""Judge an answer by the evidence, unit by unit. For each numbered unit of the answer write one line: its number, a verdict, and labels of the evidence.

supported: the evidence says all of the unit, in whatever words, of the same person, thing, record, place and time, in the same relation, with the same degree and the same certainty. Give every label that is needed: each number and date of the unit must be in these sentences. A table's row needs its header row too where that names its values.
inferred: no sentence says it, but all of it follows from what the evidence says, by counting, arithmetic or a direct conclusion. Give the labels.
contradicted: the evidence says something that cannot be true together with it, of the same thing: another number, date, name, order, cause or degree; planned where the unit says done; the value of another row or record. Give the labels, then in double quotes the unit's wrong words, as few as say it.
not_stated: the evidence does not say some part of it. Give in double quotes the unit's words that it does not say. A unit with one contradicted part is contradicted, with one part not stated it is not_stated.
unclear: only where the evidence can be read both ways or contradicts itself, and for what the writer says of its own actions ("I have sent it").
no_claim: it says nothing about the world: greetings, offers, questions back, headings, announcements, a table's column names, names of sources, confidence values, and remarks on the evidence itself (what it holds or does not say). A fact about the world inside a remark is a claim.

Read each unit with the question and the units around it: pronouns, short answers, a bare yes or no (the question with that answer), rows under their column names, items under their heading. A guess or hedge ("probably X", "assuming Y is meant, X") claims X.

Last, one line on the answer as a whole:
{_ANSWER_KINDS}

Write these lines and nothing else, as in this example of five units:
1 supported 1.2 3.1
2 contradicted 1.4 "in 1899"
3 not_stated "and twins"
4 inferred 2.1 2.2
5 no_claim
answers"""  # noqa: E501
ANSWER_TASK = f"""Judge an answer by the evidence, as a whole. Write one line and nothing else:
{_ANSWER_KINDS}"""
"""The task where only the last line of `TASK` is asked for."""
_AGAIN = (
    "No line could be read for some units. Write the lines of these units and the last "
    "line, in the form above: "
)
_LONG = "The answer is long. "
_PART = "Now judge only the units "
_NUMERAL = re.compile(r"[0-9]+(?:[.,][0-9]+)*")
MAX_UNITS = 40  # of one call
_MISSING_REASON = "the judge's reply says nothing of it"
_REASONS = {
    "contradicted": "the evidence says otherwise",
    "not_stated": "the evidence does not say this",
    "unclear": "the evidence can be read both ways",
}


class LLMJudge(FlowJudge):
    """A model that judges each unit of an answer and names sentences of the evidence.

    A unit is supported when the model says so, names at least one sentence, and these
    sentences or their header have each of the unit's numbers and dates; else it is
    unknown (``unproven``, ``differs``). Names that are neither there nor in the question
    are listed in ``differences``. Of an inferred unit nothing is compared: no sentence
    has the result of counting or arithmetic. Units without a readable line are asked for once more, then they
    are ``not_judged``; so is a missing last line, then the answer is unknown
    (``answer_not_judged``). Answers of more than `MAX_UNITS` units take several calls.

    Args:
        llm: The model; None is the one that the run is given. It need not be the model
            that drafts.
        name: The model's name, which becomes part of ``id``.
    """

    def __init__(self, llm: LLM | None = None, *, name: str = "") -> None:
        self.llm = None if llm is None else expect_llm(llm)
        self.name = name

    @property
    def id(self) -> str:
        """``units``, and by which model when it has a name."""
        return f"units by {self.name}" if self.name else "units"

    def flow(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> Flow[AnswerVerdict]:
        """Ask the model once for each part of the answer, then for what is missing."""
        if not isinstance(claims, AnswerClaims):
            raise InputError(
                f"LLMJudge reads a whole answer: expected AnswerClaims, got {type_name(claims)}"
            )
        answer = claims.answer
        passage_ids = [passage.id for passage in passages]
        units = parse_answer(answer, question, ids=passage_ids).shown_units
        evidence = LabelledEvidence(passages)
        all_numbers = range(1, len(units) + 1)
        known_lines = self.known_lines(answer, units, claims.citations, evidence)
        replies = UnitReplies(dict(known_lines))
        open_numbers = [number for number in all_numbers if number not in known_lines]
        parts = [
            open_numbers[first : first + MAX_UNITS]
            for first in range(0, len(open_numbers), MAX_UNITS)
        ]
        for numbers in parts:
            request = ""
            if len(numbers) < len(units):
                request = f"{_PART}{_name_numbers(numbers)}."
            if len(parts) > 1:
                request = f"{_LONG}{request}"
            messages = unit_prompt(question, units, evidence, request)
            yield from self._read_lines(messages, numbers, replies)
        shown_evidence = evidence
        if known_lines and not open_numbers:
            shown_evidence = _named_evidence(known_lines, evidence)
        calls = len(parts)
        calls += yield from self._ask_again(question, units, replies, shown_evidence)
        if len(replies.lines) < len(units):
            log_fallback(
                "LLMJudge",
                "its replies could not be read",
                "what they do not judge is unknown",
            )
        if shown_evidence is not evidence:
            replies.labels = ()  # of evidence that is numbered anew
        verdict = combine_replies(question, answer, units, replies, evidence)
        return replace(verdict, judge=self.id, calls=calls)

    def _ask_again(
        self,
        question: str,
        units: Sequence[AnswerUnit],
        replies: UnitReplies,
        evidence: LabelledEvidence,
    ) -> Flow[int]:
        """Ask once for what the replies do not say; return the number of calls."""
        all_numbers = range(1, len(units) + 1)
        missing = [number for number in all_numbers if number not in replies.lines]
        if missing:
            request = _AGAIN + ", ".join(map(str, missing))
            messages = unit_prompt(question, units, evidence, request)
            yield from self._read_lines(messages, missing, replies)
            return 1
        if replies.answer_kind or not question.strip() or not units:
            return 0
        messages = unit_prompt(question, units, evidence, task=ANSWER_TASK)
        yield from self._read_lines(messages, (), replies)
        return 1

    def _read_lines(
        self,
        messages: tuple[Message, ...],
        numbers: Sequence[int],
        replies: UnitReplies,
    ) -> Flow[None]:
        """Ask the model, and add what can be read of its reply to ``replies``."""
        reply = yield from complete(messages, tag="judge", llm=self.llm)
        if copies_envelope(reply.text, envelope_markers(messages)):
            return  # an echo of the prompt, whose example has verdicts
        new_replies = read_unit_replies(reply.text, numbers)
        for number, line in new_replies.lines.items():
            replies.add_line(number, line)
        if new_replies.answer_kind:
            replies.add_answer_kind(new_replies.answer_kind, new_replies.labels)

    def known_lines(
        self,
        answer: str,
        units: Sequence[AnswerUnit],
        provided: Sequence[ProviderCitation],
        evidence: LabelledEvidence,
    ) -> Mapping[int, UnitLine]:
        """The lines of units that the model is not asked about; here of none."""
        return {}


def unit_prompt(
    question: str,
    units: Sequence[AnswerUnit],
    evidence: LabelledEvidence,
    request: str = "",
    task: str = TASK,
) -> tuple[Message, ...]:
    """The messages to the judge: evidence, question, task, units, and a last request.

    What changes least comes first, so that a provider's prefix cache serves the rest.
    """
    lines = []
    for number, unit in enumerate(units, 1):
        # Sanitized alone: behind its number a line would hide its look.
        shown_text = sanitize_text(unit.shown_text)
        lines.append(f"{number}: {shown_text}")
    envelope = wrap_in_envelope("\n".join(lines), "answer")
    parts = [evidence_prefix(evidence, question), task, f"The answer:\n{envelope}"]
    if request:
        parts.append(request)
    return (Message("system", EVIDENCE_SYSTEM), Message("user", "\n\n".join(parts)))


def _named_evidence(
    lines: Mapping[int, UnitLine], evidence: LabelledEvidence
) -> LabelledEvidence:
    """The passages that the lines name, whole, with their headers; numbered anew."""
    named_labels: list[str] = []
    for line in lines.values():
        named_labels += line.labels
    named_ids = {evidence.sentences[label].passage_id for label in named_labels}
    named_passages = [p for p in evidence.passages if p.id in named_ids]
    return LabelledEvidence(named_passages)


def _name_numbers(numbers: Sequence[int]) -> str:
    first = numbers[0]
    last = numbers[-1]
    if last - first == len(numbers) - 1 > 0:
        return f"{first} to {last}"
    return ", ".join(map(str, numbers))


def combine_replies(
    question: str,
    answer: str,
    units: Sequence[AnswerUnit],
    replies: UnitReplies,
    evidence: LabelledEvidence,
) -> AnswerVerdict:
    """The verdict on an answer from what could be read of the replies about it."""
    unit_verdicts = []
    for number, unit in enumerate(units, 1):
        line = replies.lines.get(number)
        unit_verdict = judge_unit(question, answer, unit, line, evidence)
        unit_verdicts.append(unit_verdict)
    answer_kind: AnswerKind = replies.answer_kind
    if answer_kind == "off_question" and not question.strip():
        answer_kind = ""
    answering_quotes = _quotes(evidence, replies.labels, "supports")
    if answer_kind == "wrongly_abstains" and not answering_quotes:
        answer_kind = "abstains"
    verdict = AnswerVerdict.of_claims(unit_verdicts, answer_kind=answer_kind)
    is_unknown = bool(question.strip()) and not answer_kind
    if is_unknown and verdict.claims and verdict.supported is not False:
        return verdict.without_answer_kind()
    if verdict.kind == WRONG_ABSTENTION:
        answering_text = " ".join(quote.text for quote in answering_quotes)
        reason = f"{verdict.reason}: {answering_text!r}"
        return replace(verdict, reason=reason)
    return verdict


def judge_unit(
    question: str,
    answer: str,
    unit: AnswerUnit,
    line: UnitLine | None,
    evidence: LabelledEvidence,
) -> ClaimVerdict:
    """The verdict on one unit: the model's line, as far as code proves it."""
    text = answer[unit.start : unit.end]
    verdict = ClaimVerdict(text, unit.start, unit.end, None)
    if line is None:
        return replace(verdict, kind="not_judged", reason=_MISSING_REASON)
    if line.verdict == "no_claim":
        return replace(verdict, kind=NO_CLAIMS)
    labels = [label for label in line.labels if label in evidence.sentences]
    if line.verdict in ("supported", "inferred"):
        quotes = _quotes(evidence, labels, "supports")
        verdict = replace(verdict, quotes=quotes)
        if line.verdict == "inferred" and labels:
            return replace(verdict, supported=True, kind="inferred")
        return _prove_supported(verdict, unit.shown_text, labels, question, evidence)
    kind: str = line.verdict
    if kind == CONTRADICTED and not labels:
        kind = "not_stated"
    quotes = ()
    if kind == CONTRADICTED:
        quotes = _quotes(evidence, labels, "contradicts")
    reason = _REASONS[kind]
    if quotes:
        reason = f"{reason}: {quotes[0].text!r}"
    return replace(
        verdict,
        supported=None if kind == "unclear" else False,
        quotes=quotes,
        differences=(_wrong_words(verdict, kind, line.words, quotes),),
        kind=kind,
        reason=reason,
    )


def _quotes(
    evidence: LabelledEvidence, labels: Sequence[str], relation: Relation
) -> tuple[Quote, ...]:
    """The words under the labels, each once."""
    quotes = [evidence.quote(label, relation) for label in dict.fromkeys(labels)]
    return tuple(quote for quote in quotes if quote is not None)


def _prove_supported(
    verdict: ClaimVerdict,
    shown_text: str,
    labels: Sequence[str],
    question: str,
    evidence: LabelledEvidence,
) -> ClaimVerdict:
    """The verdict on a unit that the model calls supported by these labels."""
    if not labels:
        reason = "the judge names no sentence of the evidence"
        return replace(verdict, kind="unproven", reason=reason)
    source_text = evidence.source_text(labels)
    differences = find_differences(shown_text, source_text, known_text=question)
    located_differences = []
    for difference in differences:
        located_difference = locate_difference(difference, verdict.text, verdict.start)
        located_differences.append(located_difference)
    verdict = replace(verdict, differences=tuple(located_differences))
    for difference in differences:
        if _is_decisive(difference, shown_text, source_text):
            return replace(verdict, kind="differs", reason=str(difference))
    return replace(verdict, supported=True)


def _is_decisive(difference: Difference, shown_text: str, source_text: str) -> bool:
    """Whether a difference outweighs the model's verdict: a date, or digits.

    Names differ in form, and number words and ordinals ("the two", "at first") are
    often not a quantity. Digits decide unless the source has the same numeral, alone
    or as a cell of a row: ``28,12`` has 12. A numeral counts as a whole: "v4.7.1",
    which is read as "v4" and 7.1, is the source's 4.7.1.
    """
    if difference.kind != "number":
        return difference.kind == "date"
    source_numerals = set(_NUMERAL.findall(source_text))
    source_numerals.update(re.findall(r"[0-9.]+", source_text))
    for match in _NUMERAL.finditer(shown_text):
        is_claimed = difference.start < match.end() and match.start() < difference.end
        if is_claimed and match[0] not in source_numerals:
            return True
    return False


def _wrong_words(
    verdict: ClaimVerdict, kind: str, words: str, quotes: Sequence[Quote]
) -> Difference:
    """The words of a unit that the model calls wrong, else the whole unit."""
    first, last = find_words(words, verdict.text) or (0, len(verdict.text))
    difference = Difference(
        kind, verdict.text[first:last], "", verdict.start + first, verdict.start + last
    )
    if not quotes:
        return difference
    best_quote = quotes[0]
    return replace(
        difference,
        source_text=best_quote.text,
        source_start=best_quote.span.start,
        source_end=best_quote.span.end,
    )


def locate_difference(difference: Difference, text: str, start: int) -> Difference:
    """Give a difference its offsets in the answer, else those of the whole unit.

    Offsets in the evidence are left out: it is several sentences.

    Args:
        difference: Between the unit and the evidence.
        text: The unit's characters.
        start: The first of them in the answer.
    """
    words = difference.claimed_text
    first, last = difference.start, difference.end
    if text[first:last] != words:  # the claim was read with words of others
        first, last = find_words(words, text) or (0, len(text))
    return Difference(
        difference.kind, words, difference.source_text, start + first, start + last
    )
