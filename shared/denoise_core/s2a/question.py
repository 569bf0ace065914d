"""A person's words, parted in what is asked and what is opinion: cut into clauses, of which the model names some.

What is left is the person's own words. Nothing here reads meaning: the model says which clauses are the request,
and the code sees that every clause was named, that something was asked before and is after, and whose words they
are."""

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
    SliceOutcome,
    SliceRequest,
    parse_selection,
)
from denoise_core.text.lexemes import tokenize_text
from denoise_core.types import Passage, Reply, Span

MESSAGE_ID = "message"
"""The passage id that spans of a person's words carry."""

_LEAST = 4  # words, or twice as many ideographs, that each side of a comma must have to be cut there
_BUT = r"[,，]\s?(?:but|aber|mais|pero|ma|mas|maar|но)\s|[,，]但"
_CUT = re.compile(
    rf"{_BUT}|[,;:，；：、]\s{{0,9}}|\s[–—-]\s|(?<=[?？؟])\s{{0,9}}(?=\S)",
    re.IGNORECASE,
)
_HALVES = re.compile(rf"{_BUT}|[;:；：]\s|\s[–—-]\s|[?？؟]\s{{0,9}}\S", re.IGNORECASE)
_ASKS = re.compile(r"[?？؟]")
_TAG = re.compile(
    r"(?P<before>[^?]{0,2000}\S)\s(?P<be>is|are|was|were)\s[^?,]{1,200},"
    r"\s(?:right|correct|no|yes|true|isn't it|aren't they)\s?\?",
    re.IGNORECASE,
)
_BE = re.compile(r"\b(?:is|are|was|were)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NeutralQuestion:
    """The question to go on with, ``kept`` of its characters; ``note`` says why it is the person's own although it
    was to be cleared."""

    text: str
    note: str | None = None
    kept: tuple[Span, ...] = ()


def split_clauses(text: str, *, language: str = "en") -> tuple[Span, ...]:
    """Spans that tile ``text``: its sentences, cut again at commas, colons and dashes with a clause on each
    side."""
    edges = [0]
    for sentence in split_pieces(Passage(text, MESSAGE_ID), language=language):
        cuts = list(_CUT.finditer(text, sentence.start, sentence.end))
        for cut, following in itertools.zip_longest(cuts, cuts[1:]):
            before = text[edges[-1] : cut.start()]
            after = text[cut.end() : following.start() if following else sentence.end]
            is_question_end = _ASKS.search(text[cut.start() - 1 : cut.end()])
            if cut.end() < sentence.end and (
                is_question_end or min(_size(before), _size(after)) >= _LEAST
            ):
                edges.append(cut.end())
        edges.append(sentence.end)
    return tuple(
        Span(MESSAGE_ID, start, end)
        for start, end in itertools.pairwise(sorted(set(edges)))
    )


def open_tag_question(text: str) -> str:
    """ "X is Y, right?" as "X is …?", where it is the whole text and has one such verb; else the text as it is.

    >>> open_tag_question("The capital of Kazakhstan is Almaty, correct?")
    'The capital of Kazakhstan is …?'
    """
    found = _TAG.fullmatch(text.strip())
    if found is None or len(_BE.findall(text.rpartition(",")[0])) != 1:
        return text
    return f"{found['before']} {found['be']} …?"


def same_question(asked: str, cleared: str, *, language: str = "en") -> str | None:
    """Why ``cleared`` may not ask for the same thing as ``asked``; None where it is proved to.

    Proved is what is the person's own words: whole sentences of ``asked``, all that ask among them. Of two
    questions in different words it says that it does not know, however alike they are.

    >>> same_question("How tall is the tower? I think 200 m.", "How tall is the tower?")
    >>> same_question("How tall is the tower? I think 200 m.", "Is the tower 200 m tall?")
    "it is not the person's own words"
    """
    if _words(cleared) in (_words(asked), _words(open_tag_question(asked))):
        return None
    own = [
        asked[s.start : s.end]
        for s in split_pieces(Passage(asked, MESSAGE_ID), language=language)
    ]
    wanted, at = _words(cleared), 0
    left: list[str] = []
    for sentence in own:
        said = _words(sentence)
        if said and wanted[at : at + len(said)] == said:
            at += len(said)
        else:
            left.append(sentence)
    if not wanted or at < len(wanted):
        return "it is not the person's own words"
    if any(_ASKS.search(s) for s in left) or not any(_ASKS.search(s) for s in own):
        return "it may leave out a part of what was asked"
    return None


def neutralize_question(
    llm: LLM, query: str, options: Options, *, on_error: OnError
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
        and _HALVES.search(query) is None
    ):
        return NeutralQuestion(open_tag_question(query))
    spans = split_clauses(query, language=options.language)
    if len(spans) < 2:
        return NeutralQuestion(open_tag_question(query))
    return (yield from choose_clauses(llm, query, spans, options, on_error=on_error))


def choose_clauses(
    llm: LLM, text: str, spans: tuple[Span, ...], options: Options, *, on_error: OnError
) -> Flow[NeutralQuestion]:
    """The clauses of ``text`` that a model names as the request."""
    part = PassageSlice(Passage(text, MESSAGE_ID), spans, window=options.max_characters)
    request = SliceRequest(
        (part,), options.prompts.question, REQUEST_FORM, numbered=True
    )
    (outcome,) = yield from LLMCaller(
        llm, options, "s2a.question", _read_request
    ).outcomes([request])
    if outcome.error is not None and (
        on_error == "raise" or is_user_error(outcome.error)
    ):
        raise outcome.error
    kept = tuple(spans[index] for index in outcome.kept_places or ())
    problem = outcome.problem
    if problem is None and not kept:
        problem = "no part of it was named"
    if problem is None and _asks(text, spans) and not _asks(text, kept):
        problem = "no part that asks was named"
    if problem is not None:
        return NeutralQuestion(
            text, f"the question was kept as it is: {problem}", spans
        )
    question = "".join(text[s.start : s.end] for s in kept).strip(" ,;:–—-")
    return NeutralQuestion(open_tag_question(question), None, kept)


def _read_request(request: SliceRequest, reply: Reply) -> list[SliceOutcome]:
    """The clauses named as the request, and those not named at all: when in doubt, keep."""
    (part,) = request.parts
    total = len(part.pieces)
    selection = parse_selection(reply, total)
    if set(selection.numbers) & set(selection.second_list):
        raise UnparsableReply("a piece is named as request and as opinion")
    kept: dict[int, int] = {}
    for number in range(1, total + 1):
        is_request = (
            number not in selection.second_list
            if selection.second_list
            else number in selection.numbers
        )
        if selection.numbers and is_request:
            kept[number - 1] = len(kept)
    return [SliceOutcome(part, kept)]


def _asks(text: str, spans: tuple[Span, ...]) -> bool:
    return any(_ASKS.search(text[s.start : s.end]) for s in spans)


def _size(text: str) -> float:
    return sum(
        0.5 if x.kind == "ideograph" else 1.0
        for x in tokenize_text(text)
        if x.kind != "mark"
    )


def _words(text: str) -> list[str]:
    return [
        x.folded_text
        for x in tokenize_text(text)
        if x.kind != "mark" or x.text in "…%$€£"
    ]
