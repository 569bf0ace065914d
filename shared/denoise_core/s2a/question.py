"""A person's words, parted in what is asked and what is opinion: cut into clauses, of which the model names some.

What is left is the person's own words. Nothing here reads meaning: the model says which clauses are the request,
and the code sees that every clause was named, that something was asked before and is after, and whose words they
are.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from denoise_core.errors import UnparsableReply, is_user_error
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
from denoise_core.text.lexemes import tokenize_text
from denoise_core.types import Passage, Reply, Span

MESSAGE_ID = "message"
"""The passage id that spans of a person's words carry."""

_MIN_CLAUSE_WORDS = 4  # words, or twice as many ideographs, that each side of a comma must have to be cut there
_CONTRAST_MARK = r"[,，]\s?(?:but|aber|mais|pero|ma|mas|maar|но)\s|[,，]但"
_CLAUSE_BOUNDARY = re.compile(
    rf"{_CONTRAST_MARK}|[,;:，；：、]\s{{0,9}}|\s[–—-]\s|(?<=[?？؟])\s{{0,9}}(?=\S)",
    re.IGNORECASE,
)
_SENTENCE_HALVES = re.compile(
    rf"{_CONTRAST_MARK}|[;:；：]\s|\s[–—-]\s|[?？؟]\s{{0,9}}\S", re.IGNORECASE
)
_QUESTION_MARK = re.compile(r"[?？؟]")
_TAG_QUESTION = re.compile(
    r"(?P<before>[^?]{0,2000}\S)\s(?P<be>is|are|was|were)\s[^?,]{1,200},"
    r"\s(?:right|correct|no|yes|true|isn't it|aren't they)\s?\?",
    re.IGNORECASE,
)
_TO_BE = re.compile(r"\b(?:is|are|was|were)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NeutralQuestion:
    """The question to go on with, ``kept_spans`` of its characters; ``note`` says why it is the person's own
    although it
    was to be cleared.
    """

    text: str
    note: str | None = None
    kept: tuple[Span, ...] = ()


def split_clauses(text: str, *, language: str = "en") -> tuple[Span, ...]:
    """Spans that tile ``text``: its sentences, cut again at commas, colons and dashes with a clause on each
    side.
    """
    clause_edges = [0]
    for sentence in split_pieces(Passage(text, MESSAGE_ID), language=language):
        boundaries = list(_CLAUSE_BOUNDARY.finditer(text, sentence.start, sentence.end))
        for boundary, next_boundary in itertools.zip_longest(
            boundaries, boundaries[1:]
        ):
            text_before = text[clause_edges[-1] : boundary.start()]
            text_after = text[
                boundary.end() : next_boundary.start()
                if next_boundary
                else sentence.end
            ]
            is_question_end = _QUESTION_MARK.search(
                text[boundary.start() - 1 : boundary.end()]
            )
            if boundary.end() < sentence.end and (
                is_question_end
                or min(_word_count(text_before), _word_count(text_after))
                >= _MIN_CLAUSE_WORDS
            ):
                clause_edges.append(boundary.end())
        clause_edges.append(sentence.end)
    return tuple(
        Span(MESSAGE_ID, start, end)
        for start, end in itertools.pairwise(sorted(set(clause_edges)))
    )


def open_tag_question(text: str) -> str:
    """Turn "X is Y, right?" into "X is …?" if that is the whole text, with one such verb.

    >>> open_tag_question("The capital of Kazakhstan is Almaty, correct?")
    'The capital of Kazakhstan is …?'
    """
    tag_match = _TAG_QUESTION.fullmatch(text.strip())
    if tag_match is None or len(_TO_BE.findall(text.rpartition(",")[0])) != 1:
        return text
    return f"{tag_match['before']} {tag_match['be']} …?"


def same_question(
    asked_text: str, cleared_text: str, *, language: str = "en"
) -> str | None:
    """Why ``cleared_text`` may not ask for the same thing as ``asked_text``; None where it is proved to.

    Proved is what is the person's own words: whole sentences of ``asked_text``, all that ask among them. Of two
    questions in different words it says that it does not know, however alike they are.

    >>> same_question("How tall is the tower? I think 200 m.", "How tall is the tower?")
    >>> same_question("How tall is the tower? I think 200 m.", "Is the tower 200 m tall?")
    "it is not the person's own words"
    """
    if _comparable_words(cleared_text) in (
        _comparable_words(asked_text),
        _comparable_words(open_tag_question(asked_text)),
    ):
        return None
    asked_sentences = [
        asked_text[span.start : span.end]
        for span in split_pieces(Passage(asked_text, MESSAGE_ID), language=language)
    ]
    cleared_words = _comparable_words(cleared_text)
    word_position = 0
    omitted_sentences: list[str] = []
    for sentence in asked_sentences:
        sentence_words = _comparable_words(sentence)
        if (
            sentence_words
            and cleared_words[word_position : word_position + len(sentence_words)]
            == sentence_words
        ):
            word_position += len(sentence_words)
        else:
            omitted_sentences.append(sentence)
    if not cleared_words or word_position < len(cleared_words):
        return "it is not the person's own words"
    if any(_QUESTION_MARK.search(span) for span in omitted_sentences) or not any(
        _QUESTION_MARK.search(span) for span in asked_sentences
    ):
        return "it may leave out a part of what was asked"
    return None


def neutralize_question(
    llm: LLM,
    query: str,
    options: Options,
    *,
    on_error: OnError,
    record: ReplyRecord | None = None,
) -> Flow[NeutralQuestion]:
    """The question without opinion: one call that sees no passage.

    None is made where the words can be no more than a request: for it they hold two sentences, or two halves
    with a but or a dash between. A single question with commas in it is asked as it is; a call for it would find
    nothing to clear. Raises a mistake, and what failed under ``"raise"``.
    """
    if not options.neutralize_question:
        return NeutralQuestion(query)
    if (
        len(split_pieces(Passage(query, MESSAGE_ID), language=options.language)) < 2
        and _SENTENCE_HALVES.search(query) is None
    ):
        return NeutralQuestion(open_tag_question(query))
    clause_spans = split_clauses(query, language=options.language)
    if len(clause_spans) < 2:
        return NeutralQuestion(open_tag_question(query))
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
    record: ReplyRecord | None = None,
) -> Flow[NeutralQuestion]:
    """The clauses of ``text`` that a model names as the request."""
    passage_slice = PassageSlice(
        Passage(text, MESSAGE_ID), clause_spans, window=options.max_characters
    )
    request = SliceRequest(
        (passage_slice,), options.prompts.question, REQUEST_FORM, is_numbered=True
    )
    (slice_outcome,) = yield from LLMCaller(
        llm, options, "s2a.question", _read_request, record or ReplyRecord()
    ).outcomes([request])
    if slice_outcome.error is not None and (
        on_error == "raise" or is_user_error(slice_outcome.error)
    ):
        raise slice_outcome.error
    kept_spans = tuple(clause_spans[index] for index in slice_outcome.kept_places or ())
    failure_reason = slice_outcome.problem
    if failure_reason is None and not kept_spans:
        failure_reason = "no part of it was named"
    if (
        failure_reason is None
        and _contains_question(text, clause_spans)
        and not _contains_question(text, kept_spans)
    ):
        failure_reason = "no part that asks was named"
    if failure_reason is not None:
        return NeutralQuestion(
            text, f"the question was kept as it is: {failure_reason}", clause_spans
        )
    question = "".join(text[span.start : span.end] for span in kept_spans).strip(
        " ,;:–—-"
    )
    return NeutralQuestion(open_tag_question(question), None, kept_spans)


def _read_request(request: SliceRequest, reply: Reply) -> list[SliceOutcome]:
    """The clauses named as the request, and those not named at all: when in doubt, keep."""
    (passage_slice,) = request.parts
    piece_count = len(passage_slice.pieces)
    selection = parse_selection(reply, piece_count)
    # A piece in both lists is ambiguous, and guessing could drop a part of the request.
    if set(selection.numbers) & set(selection.second_list):
        raise UnparsableReply("a piece is named as request and as opinion")
    kept_places: dict[int, int] = {}
    for piece_number in range(1, piece_count + 1):
        is_request = (
            piece_number not in selection.second_list
            if selection.second_list
            else piece_number in selection.numbers
        )
        if selection.numbers and is_request:
            kept_places[piece_number - 1] = len(kept_places)
    return [SliceOutcome(passage_slice, kept_places)]


def _contains_question(text: str, clause_spans: tuple[Span, ...]) -> bool:
    return any(
        _QUESTION_MARK.search(text[span.start : span.end]) for span in clause_spans
    )


def _word_count(text: str) -> float:
    return sum(
        0.5 if lexeme.kind == "ideograph" else 1.0
        for lexeme in tokenize_text(text)
        if lexeme.kind != "mark"
    )


def _comparable_words(text: str) -> list[str]:
    return [
        lexeme.folded_text
        for lexeme in tokenize_text(text)
        if lexeme.kind != "mark" or lexeme.text in "…%$€£"
    ]
