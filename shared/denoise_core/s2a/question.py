"""Divide a person's words into what is asked and what is opinion.

The words are cut into clauses, of which the model names some. What is left is the
person's own words. Nothing here reads meaning: the model says which clauses are the
request, and the code checks that something is still asked, in whose words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from denoise_core.errors import UnparsableReply
from denoise_core.protocols import LLM
from denoise_core.runtime.effects import Flow
from denoise_core.s2a.options import OnError, Options
from denoise_core.s2a.pieces import PassageSlice, split_pieces
from denoise_core.s2a.prompts import REQUEST_FORM
from denoise_core.s2a.replies import (
    LLMCaller,
    ReplyRecord,
    SliceOutcome,
    SliceRequest,
    parse_selection,
)
from denoise_core.spans import passage_spans, tile_spans
from denoise_core.text.lexemes import tokenize_text
from denoise_core.types import Passage, Reply, Span

MESSAGE_ID = "message"
"""The passage id that spans of a person's words carry."""

# Words, or twice as many ideographs, on each side of a comma where a clause is cut.
_MIN_CLAUSE_WORDS = 4
_CONTRAST_MARK = r"[,，]\s?(?:but|aber|mais|pero|ma|mas|maar|но)\s|[,，]但"
_CLAUSE_BOUNDARY = re.compile(
    rf"{_CONTRAST_MARK}|[,;:，；：、]\s{{0,9}}|\s[–—-]\s|(?<=[?？؟])\s{{0,9}}(?=\S)",
    re.IGNORECASE,
)
_SENTENCE_HALVES = re.compile(
    rf"{_CONTRAST_MARK}|[;:；：]\s|\s[–—-]\s|[?？؟]\s{{0,9}}\S", re.IGNORECASE
)
_TAG_QUESTION = re.compile(
    r"(?P<before>[^?]{0,2000}\S)\s(?P<be>is|are|was|were)\s(?P<claimed>[^?,]{1,200}),"
    r"\s(?:right|correct|no|yes|true|isn't it|aren't they)\s?\?",
    re.IGNORECASE,
)
_MARKS = " ,;:–—"
_TO_BE = re.compile(r"\b(?:is|are|was|were)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NeutralQuestion:
    """The question to go on with.

    Attributes:
        text: The question.
        note: Why it is the person's own although it was to be cleared.
        kept: The clauses that it consists of.
    """

    text: str
    note: str | None = None
    kept: tuple[Span, ...] = ()


def split_clauses(text: str, *, language: str = "en") -> tuple[Span, ...]:
    """Return spans that tile the text.

    Sentences are cut again at commas, colons and dashes with a clause on each side.
    """
    clause_edges = [0]
    message = Passage(text, MESSAGE_ID)
    sentences = split_pieces(message, language=language)
    for sentence in sentences:
        boundary_matches = _CLAUSE_BOUNDARY.finditer(text, sentence.start, sentence.end)
        boundaries = list(boundary_matches)
        next_starts = [boundary.start() for boundary in boundaries[1:]]
        next_starts.append(sentence.end)
        for boundary, next_start in zip(boundaries, next_starts):
            boundary_start = boundary.start()
            boundary_end = boundary.end()
            mark = text[boundary_start - 1 : boundary_end]
            last_edge = clause_edges[-1]
            text_before = text[last_edge:boundary_start]
            text_after = text[boundary_end:next_start]
            word_counts = map(_word_count, (text_before, text_after))
            fewest_words = min(word_counts)
            has_clauses = fewest_words >= _MIN_CLAUSE_WORDS
            is_edge = has_clauses or _asks(mark)
            if is_edge and boundary_end < sentence.end:
                clause_edges.append(boundary_end)
        clause_edges.append(sentence.end)
    text_length = len(text)
    clauses = tile_spans(clause_edges, 0, text_length)
    return passage_spans(MESSAGE_ID, clauses)


def open_tag_question(text: str) -> str:
    """Turn "X is Y, right?" into "X is …?" if that is all, and Y is a name or number.

    >>> open_tag_question("The capital of Kazakhstan is Almaty, correct?")
    'The capital of Kazakhstan is …?'
    """
    tag_match = _TAG_QUESTION.fullmatch(text.strip())
    if tag_match is None or not _is_name(tag_match["claimed"]):
        return text
    statement, _, _ = text.rpartition(",")
    if len(_TO_BE.findall(statement)) != 1:
        return text
    return f"{tag_match['before']} {tag_match['be']} …?"


def _is_name(text: str) -> bool:
    """Whether this is a name or a number, of one word or two."""
    first_character = text[:1]
    is_capitalized = first_character.isupper() or first_character.isdigit()
    return is_capitalized and len(text.split()) <= 2


def same_question(
    asked_text: str, cleared_text: str, *, language: str = "en"
) -> str | None:
    """Return why a cleared question may not ask for the same; None if it is proved to.

    Proved is what consists of the person's own words: whole sentences of
    ``asked_text``, with all that ask. Two questions in different words are never
    proved, however alike they are.

    >>> same_question("How tall is the tower? I think 200 m.", "How tall is the tower?")
    >>> same_question("How tall is the tower? I think 200 m.", "Is the tower 200 m tall?")
    "it is not the person's own words"
    """
    cleared_words = _comparable_words(cleared_text)
    opened_text = open_tag_question(asked_text)
    proved_forms = map(_comparable_words, (asked_text, opened_text))
    if cleared_words in proved_forms:
        return None
    other_words = cleared_words
    has_question = False
    omits_question = False
    message = Passage(asked_text, MESSAGE_ID)
    sentence_spans = split_pieces(message, language=language)
    for span in sentence_spans:
        sentence = asked_text[span.start : span.end]
        sentence_words = _comparable_words(sentence)
        word_count = len(sentence_words)
        next_words = other_words[:word_count]
        is_question = _asks(sentence)
        has_question |= is_question
        if sentence_words and next_words == sentence_words:
            other_words = other_words[word_count:]
        else:
            omits_question |= is_question
    if other_words or not cleared_words:
        return "it is not the person's own words"
    if omits_question or not has_question:
        return "it may leave out a part of what was asked"
    return None


def neutralize_question(
    llm: LLM,
    query: str,
    options: Options,
    *,
    on_error: OnError,
    record: ReplyRecord,
) -> Flow[NeutralQuestion]:
    """Return the question without opinion, after one call that sees no passage.

    The call is made only for two sentences, or two halves with a "but" or a dash
    between them. A single question with commas in it is asked as it is; a call would
    find nothing to clear. User errors raise, and what failed under ``"raise"``.
    """
    if not options.neutralize_question:
        return NeutralQuestion(query)
    message = Passage(query, MESSAGE_ID)
    sentences = split_pieces(message, language=options.language)
    has_halves = len(sentences) > 1 or _SENTENCE_HALVES.search(query) is not None
    clause_spans = split_clauses(query, language=options.language)
    if not has_halves or len(clause_spans) < 2:
        opened_question = open_tag_question(query)
        return NeutralQuestion(opened_question)
    return (
        yield from choose_clauses(
            llm, query, clause_spans, options, on_error=on_error, record=record
        )
    )


def choose_clauses(
    llm: LLM,
    text: str,
    clause_spans: tuple[Span, ...],
    options: Options,
    *,
    on_error: OnError,
    record: ReplyRecord,
) -> Flow[NeutralQuestion]:
    """Return the clauses of a text that a model names as the request."""
    message = Passage(text, MESSAGE_ID)
    passage_slice = PassageSlice(message, clause_spans, window=options.max_characters)
    request = SliceRequest(
        parts=(passage_slice,),
        prompt=options.prompts.question,
        form=REQUEST_FORM,
        is_numbered=True,
    )
    llm_caller = LLMCaller(
        llm=llm,
        options=options,
        tag="s2a.question",
        read_reply=_read_request,
        record=record,
    )
    ((slice_outcome,),) = yield from llm_caller.ask([request])
    if slice_outcome.error is not None and on_error == "raise":
        raise slice_outcome.error
    kept_spans = tuple(clause_spans[index] for index in slice_outcome.kept_places)
    clause_texts = [text[span.start : span.end] for span in kept_spans]
    question = "".join(clause_texts)
    problem = slice_outcome.problem
    if problem is None and not kept_spans:
        problem = "no part of it was named"
    omits_question = _asks(text) and not _asks(question)
    if problem is None and omits_question:
        problem = "no part that asks was named"
    if problem is not None:
        note = f"the question was kept as it is: {problem}"
        return NeutralQuestion(text, note, clause_spans)
    question = question.rstrip(_MARKS + "-").lstrip(_MARKS)
    # A bullet or a dash; the minus of a number stays.
    question = question.removeprefix("- ").lstrip(_MARKS)
    opened_question = open_tag_question(question)
    return NeutralQuestion(opened_question, None, kept_spans)


def _read_request(request: SliceRequest, reply: Reply) -> list[SliceOutcome]:
    """Return the clauses named as the request, and those not named: in doubt, keep."""
    (passage_slice,) = request.parts
    piece_count = len(passage_slice.pieces)
    selection = parse_selection(reply.text, piece_count)
    # A piece in both lists is ambiguous, and guessing could drop a part of the request.
    request_numbers = set(selection.numbers)
    opinion_numbers = set(selection.opinion_numbers)
    if request_numbers & opinion_numbers:
        raise UnparsableReply("a piece is named as request and as opinion")
    if request_numbers and opinion_numbers:
        all_numbers = set(range(1, piece_count + 1))
        request_numbers = all_numbers - opinion_numbers
    kept_places: dict[int, int] = {}
    for piece_number in sorted(request_numbers):
        kept_places[piece_number - 1] = len(kept_places)
    outcome = SliceOutcome(passage_slice, kept_places)
    return [outcome]


def _asks(text: str) -> bool:
    """Whether a text has a question mark."""
    return any(mark in text for mark in "?？؟")


def _word_count(text: str) -> float:
    """Return the number of words; two ideographs count as one."""
    count = 0.0
    for lexeme in tokenize_text(text):
        if lexeme.kind == "ideograph":
            count += 0.5
        elif lexeme.kind != "mark":
            count += 1
    return count


def _comparable_words(text: str) -> list[str]:
    return [
        lexeme.folded_text
        for lexeme in tokenize_text(text)
        if lexeme.kind != "mark" or lexeme.text in "…%$€£"
    ]
