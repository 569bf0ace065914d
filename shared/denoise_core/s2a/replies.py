"""Call the model about passages and read its replies.

A reply is read by a strict grammar: the JSON of the prompt's schema, also in fences, or
one list of numbers and ranges, or NONE, and behind it whether the pieces answer the
question. Nothing is guessed from prose. A reply that is neither is asked for once more
in the same call; then its passages follow ``on_error``. A joint request that the
model's side refuses is made again for each passage alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from time import monotonic
from typing import Any, Literal, TypeAlias, get_args

from denoise_core.errors import UnparsableReply, format_error, is_user_error
from denoise_core.protocols import LLM, supports_schema, with_schema
from denoise_core.runtime.effects import Complete, FailedItem, Flow, batch
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.s2a.alignment import WrittenSentence
from denoise_core.s2a.options import Options
from denoise_core.s2a.pieces import PassageSlice
from denoise_core.s2a.prompts import Prompt, ReplyForm
from denoise_core.text.delimit import copies_envelope, sanitize_text
from denoise_core.text.replies import (
    parse_number_ranges,
    parse_whole_json,
    strip_fence,
    strip_reasoning,
)
from denoise_core.types import Message, Reply

Answered = Literal["yes", "partly", "no"]

_DASHES = str.maketrans("–—", "--")
_ANSWERED_WORDS: dict[str, Answered] = {word: word for word in get_args(Answered)}
_MARKUP = " \n\t*#_.:\"'"
_NONE_WORDS = ("none", "n/a", "null", "nothing", "empty", "")
_LIST_KEYS = {"keep", "request", "opinion", "answered"}
_LABEL = re.compile(
    r"^[ \t*]{0,3}(context|question)\*{0,2}:"
    # Bold marks after the colon belong to a label that opens with them.
    r"(?:(?<=\*context:)\*{1,2}|(?<=\*question:)\*{1,2})?",
    re.IGNORECASE | re.M,
)
_ALL_BOLD = re.compile(
    r"\A(\*{1,3})(?!\*|(?:context|question)(?:\1|:\1))(.*)\1\Z",
    re.IGNORECASE | re.DOTALL,
)
_FIRST_LETTERS = 12  # letters and digits of a piece's first words that must agree


@dataclass(frozen=True, slots=True)
class ParsedSelection:
    """Piece numbers that a reply selected.

    Attributes:
        numbers: Each once, from 1, in the reply's order.
        first_words: The first words that it gives with a number.
        opinion_numbers: Those that it calls opinion, if it divides the pieces in two.
        answered: Whether it says that the pieces answer the question; None if it does not
            say.
    """

    numbers: tuple[int, ...]
    first_words: Mapping[int, str] = field(default_factory=dict)
    opinion_numbers: tuple[int, ...] = ()
    answered: Answered | None = None


def parse_selection(reply_text: str, piece_count: int) -> ParsedSelection:
    """Return the numbers of a reply about so many pieces.

    Raises:
        UnparsableReply: For what is not in the grammar.
    """
    reply_part = clean_reply_text(reply_text).replace("\r\n", "\n")
    value = parse_whole_json(reply_part)
    if value is not None:
        return _parse_json_selection(value, piece_count)
    number_text, answered = _split_answered(reply_part)
    line = number_text.translate(_DASHES).strip(_MARKUP).casefold()
    # "None are irrelevant" keeps everything: only a whole sentence says NONE.
    first_sentence = line.partition(".")[0]
    if first_sentence == "none" and not any(map(str.isdigit, line)):
        return ParsedSelection((), answered=answered)
    number_ranges = parse_number_ranges(line)
    if number_ranges is None:
        raise UnparsableReply(
            f"expected one line of numbers, or NONE; the reply begins {line[:80]!r}"
        )
    numbers: list[int] = []
    for first, last in number_ranges:
        if not 1 <= first <= last <= piece_count:
            raise _no_such_piece(f"{first}-{last}", piece_count)
        numbers += range(first, last + 1)
    return ParsedSelection(tuple(dict.fromkeys(numbers)), answered=answered)


def _no_such_piece(named: object, piece_count: int) -> UnparsableReply:
    return UnparsableReply(
        f"there are the pieces 1 to {piece_count}, and it names {named!r:.80}"
    )


def _split_answered(reply_part: str) -> tuple[str, Answered | None]:
    """Return a reply without ``ANSWERED: ...`` at its end, and what that says."""
    number_text, _, stated_word = reply_part.casefold().rpartition("answered")
    answered = _read_answered(stated_word)
    if answered is not None and number_text:
        return number_text, answered
    return reply_part, None


def _read_answered(stated_word: Any) -> Answered | None:
    """Return whether pieces answer a question; None for anything but the three words."""
    word = str(stated_word).strip(_MARKUP).casefold()
    return _ANSWERED_WORDS.get(word)


def _parse_json_selection(value: Any, piece_count: int) -> ParsedSelection:
    fields = value if isinstance(value, dict) else {"keep": value}
    list_key = "request" if "request" in fields else "keep"
    if not fields.keys() <= _LIST_KEYS or list_key not in fields:
        raise UnparsableReply(f"expected a list 'keep', got {list(fields)!r:.80}")
    numbers, first_words = _parse_items(fields[list_key], piece_count)
    opinion_numbers, _ = _parse_items(fields.get("opinion", []), piece_count)
    answered = _read_answered(fields.get("answered"))
    return ParsedSelection(numbers, first_words, opinion_numbers, answered)


def _parse_items(
    list_items: Any, piece_count: int
) -> tuple[tuple[int, ...], dict[int, str]]:
    """Return the numbers of a JSON list, and the first words that it gives with them."""
    if not isinstance(list_items, list):
        raise UnparsableReply(f"expected a list of numbers, got {list_items!r:.80}")
    first_words = {}
    piece_numbers = []
    for list_item in list_items:
        number = list_item
        is_object = isinstance(list_item, dict)
        if is_object and list_item.keys() <= {"n", "starts"}:
            number = list_item.get("n")
        if type(number) is not int or not 1 <= number <= piece_count:
            raise _no_such_piece(list_item, piece_count)
        piece_numbers.append(number)
        if is_object and "starts" in list_item:
            first_words[number] = str(list_item["starts"])
    return tuple(dict.fromkeys(piece_numbers)), first_words


def parse_texts(reply_text: str, *label_names: str) -> tuple[str, ...]:
    """Return the texts under labels (``Context:``), or in JSON under these keys.

    A text is "" for NONE. A single name ``message`` means a reply without a label.

    Raises:
        UnparsableReply: If a text is missing.
    """
    reply_part = clean_reply_text(reply_text)
    value = parse_whole_json(reply_part)
    if isinstance(value, dict):
        texts = value
    elif label_names == ("message",):
        return (reply_part,)
    elif len(label_names) == 1 and _is_none(reply_part):
        return ("",)
    else:
        texts = _parse_labels(reply_part)
    contents = []
    has_these_labels = texts.keys() == set(label_names)
    for label_name in label_names:
        content = texts.get(label_name)
        if not isinstance(content, str) or not has_these_labels:
            labels = [f"{name.capitalize()}:" for name in label_names]
            expected = " and ".join(labels)
            raise UnparsableReply(f"expected {expected}, or JSON with these keys")
        if _is_none(content):
            content = ""
        contents.append(content.strip())
    return tuple(contents)


def _parse_labels(reply_part: str) -> dict[str, str]:
    """Return the text after each label; a label begins a line, and a question is one.

    Raises:
        UnparsableReply: For text before the first label, and for a label twice.
    """
    before, *labelled_parts = _LABEL.split(_ALL_BOLD.sub(r"\2", reply_part))
    names = [name.lower() for name in labelled_parts[::2]]
    label_texts = labelled_parts[1::2]
    texts = dict(zip(names, label_texts, strict=True))
    question = texts.get("question", "one line").strip()
    has_one_question = question and "\n" not in question
    if before.strip() or len(texts) < len(names) or not has_one_question:
        raise UnparsableReply(
            "expected Context: or Question:, each once, nothing before it, and a "
            "question on one line"
        )
    return texts


def _is_none(reply_part: str) -> bool:
    return reply_part.strip(f"{_MARKUP}()[]").casefold() in _NONE_WORDS


def clean_reply_text(reply_text: str) -> str:
    """Return what the reply says, without a fence around it.

    Raises:
        UnparsableReply: For no text, for a reply that copies the lines around a
            document, and for one that ends before the model is done thinking.
    """
    reply_part = strip_reasoning(reply_text)
    reply_part = strip_fence(reply_part)
    if not reply_part:
        raise UnparsableReply("the reply is empty")
    if copies_envelope(reply_part):
        raise UnparsableReply("the reply copies the lines around the text")
    return reply_part


@dataclass(frozen=True, slots=True)
class SliceRequest:
    """One call: slices of passages, a prompt about them, and the form of the reply.

    ``is_numbered`` says that the prompt shows each piece with its number, from 1.
    """

    parts: tuple[PassageSlice, ...]
    prompt: Prompt
    form: ReplyForm
    is_numbered: bool
    question: str = ""

    def messages(self, by_schema: bool) -> tuple[Message, ...]:
        """The prompt for a model that is held to a schema, or for one that writes plain text."""
        question = self.prompt.enclose(self.question, "question")
        return self.prompt.render(
            by_schema=by_schema, question=question, document=self.document
        )

    @property
    def document(self) -> str:
        """What the prompt shows of the slices, in the envelope of untrusted text."""
        blocks = []
        piece_number = 1
        for passage_slice in self.parts:
            first_number = piece_number if self.is_numbered else None
            lines = passage_slice.lines(first_number)
            blocks.append("\n".join(lines))
            piece_number += len(passage_slice.pieces)
        document = "\n\n".join(blocks)
        return self.prompt.enclose(document.rstrip())

    @property
    def piece_texts(self) -> list[str]:
        """The text of each numbered piece, number 1 first."""
        piece_texts = []
        for passage_slice in self.parts:
            piece_texts += passage_slice.piece_texts
        return piece_texts


@dataclass(frozen=True, slots=True)
class SliceOutcome:
    """One slice after its calls.

    Attributes:
        part: The slice.
        kept_places: By index of a kept piece its place in the reply, from 0.
        written_text: What a rewriting variant wrote.
        sentences: The same, sentence by sentence.
        question: The request that a rewritten message makes.
        error: Why the slice falls back to the policy.
        drop_reasons: Why pieces that the reply named are not kept after all.
        answered: Whether the model says that the slice's kept pieces, with the others of
            its call, answer the question; None if it did not say.
    """

    part: PassageSlice
    kept_places: Mapping[int, int] = field(default_factory=dict)
    written_text: str | None = None
    sentences: tuple[WrittenSentence, ...] = ()
    question: str = ""
    error: Exception | None = None
    drop_reasons: Mapping[int, str] = field(default_factory=dict)
    answered: Answered | None = None

    @property
    def problem(self) -> str | None:
        """The error on one line, without secrets; None without one."""
        if self.error is None:
            return None
        is_reply = isinstance(self.error, UnparsableReply)
        return format_error(str(self.error) if is_reply else self.error)


def read_selection(request: SliceRequest, reply: Reply) -> list[SliceOutcome]:
    """Return the outcomes of a reply with the numbers of pieces to keep.

    Raises:
        UnparsableReply: Also if first words do not agree, and if no piece is kept and
            yet the pieces answer the question.
    """
    piece_texts = request.piece_texts
    selection = parse_selection(reply.text, len(piece_texts))
    for piece_number, stated_words in selection.first_words.items():
        actual_letters = _first_letters(piece_texts[piece_number - 1])
        stated_letters = _first_letters(stated_words)[: len(actual_letters)]
        if not actual_letters.startswith(stated_letters):
            raise UnparsableReply(
                f"piece {piece_number} does not begin with {stated_words[:60]!r}"
            )
    reply_places = dict(zip(selection.numbers, count()))
    if not reply_places and selection.answered not in (None, "no"):
        raise UnparsableReply("it keeps no piece, and says that the pieces answer")
    outcomes = []
    piece_number = 0
    for passage_slice in request.parts:
        kept_places = {}
        for index in range(len(passage_slice.pieces)):
            piece_number += 1
            if piece_number in reply_places:
                kept_places[index] = reply_places[piece_number]
        answered = selection.answered
        if answered is not None and not kept_places:
            answered = "no"
        outcome = SliceOutcome(passage_slice, kept_places, answered=answered)
        outcomes.append(outcome)
    return outcomes


def _first_letters(reply_part: str) -> str:
    folded_text = reply_part.casefold()
    letters = "".join(filter(str.isalnum, folded_text))
    return letters[:_FIRST_LETTERS]


def read_rewriting(
    request: SliceRequest, reply: Reply, label_names: Sequence[str]
) -> list[SliceOutcome]:
    """Return the outcome of a written reply: a context or a message, and a question.

    Raises:
        UnparsableReply: Also for a reply far longer than what it was to shorten.
    """
    (passage_slice,) = request.parts
    reply_part = clean_reply_text(reply.text)
    max_characters = 4 * len(passage_slice.text) + 20_000
    if len(reply_part) > max_characters:
        raise UnparsableReply(
            f"a reply of {len(reply_part)} characters for a text of {len(passage_slice.text)}"
        )
    if request.prompt.is_enclosed:
        # A model may copy the envelope's marker; it is no part of the text.
        first_line = request.document.partition("\n")[0]
        marker = first_line.rpartition(" ")[2]
        reply_part = reply_part.replace(marker, "")
    context, *question = parse_texts(reply_part, *label_names)
    return [
        SliceOutcome(passage_slice, written_text=context, question="".join(question))
    ]


ReplyReader: TypeAlias = Callable[[SliceRequest, Reply], list[SliceOutcome]]

_SHOWN_CHARACTERS = 2000  # of an unreadable reply, when the model sees it again
MAX_UNREADABLE = 3  # replies of a model of which none could be read yet
RETRY_SECONDS = 60.0  # until a model that was given up is asked again
GIVEN_UP = (
    "this model's replies could not be read, so it is not asked for a minute: take a "
    "larger model, Options(prompts=PLAIN_PROMPTS), or default_denoiser(), which asks none"
)


@dataclass(slots=True)
class ReplyRecord:
    """Whether replies of one denoiser's model could be read so far.

    A model of which nothing was read in `MAX_UNREADABLE` replies is given up for
    `RETRY_SECONDS`: a server may have answered with a page about an outage.
    """

    is_readable: bool = False
    unreadable_count: int = 0
    given_up_until: float = 0.0

    @property
    def is_given_up(self) -> bool:
        """Whether the model is not to be asked now."""
        return monotonic() < self.given_up_until

    def count_reply(self, error: Exception | None) -> None:
        """Count a reply; a call that failed says nothing about a model."""
        if error is None:
            self.is_readable = True
            self.unreadable_count = 0
        elif isinstance(error, UnparsableReply) and not self.is_readable:
            self.unreadable_count += 1
        if self.unreadable_count >= MAX_UNREADABLE:
            self.unreadable_count = 0
            self.given_up_until = monotonic() + RETRY_SECONDS
            log_fallback("S2A", GIVEN_UP, "the model is not asked for a minute")


@dataclass(frozen=True, slots=True)
class LLMCaller:
    """Sends requests to a model and turns the replies into outcomes.

    ``read_reply`` returns the outcomes of a reply, or raises `UnparsableReply`.
    """

    llm: LLM
    options: Options
    tag: str
    read_reply: ReplyReader
    record: ReplyRecord

    def ask(self, requests: Sequence[SliceRequest]) -> Flow[list[list[SliceOutcome]]]:
        """Return the outcomes of each call about the requests.

        Of a model of which nothing is known the first request is made alone, and so are
        further ones while nothing could be read. User errors raise; anything else
        becomes the error of the slices that it was about.
        """
        results: list[list[SliceOutcome]] = []
        open_requests = list(requests)
        while open_requests and not self.record.is_given_up:
            is_known = self.record.is_readable and supports_schema(self.llm) is not None
            has_unreadable = self.record.unreadable_count > 0
            request_count = len(open_requests)
            if has_unreadable or not (is_known or results):
                request_count = 1
            results += yield from self._ask_together(open_requests[:request_count])
            open_requests = open_requests[request_count:]
        for request in open_requests:
            results.append(_fail_request(request, UnparsableReply(GIVEN_UP)))
        return results

    def _ask_together(
        self, requests: Sequence[SliceRequest]
    ) -> Flow[list[list[SliceOutcome]]]:
        """Return the outcomes of requests made at once, and again where that may help."""
        calls = tuple(map(self._make_call, requests))
        replies = yield from batch(calls)
        results = list(map(self._read_reply, requests, replies))
        unread_indices = []
        for index, outcomes in enumerate(results):
            if isinstance(outcomes[0].error, UnparsableReply):
                unread_indices.append(index)
        if unread_indices and not self.record.is_given_up:
            corrections = []
            for index in unread_indices:
                problem = str(results[index][0].problem)
                call = self._ask_again(requests[index], replies[index], problem)
                corrections.append(call)
            new_replies = yield from batch(tuple(corrections))
            for index, reply in zip(unread_indices, new_replies, strict=True):
                results[index] = self._read_reply(requests[index], reply)
        final_results = []
        for request, outcomes in zip(requests, results, strict=True):
            has_several_parts = len(request.parts) > 1
            if has_several_parts and _is_refused(outcomes[0].error):
                single_requests = []
                for part in request.parts:
                    single_request = replace(request, parts=(part,))
                    single_requests.append(single_request)
                final_results += yield from self._ask_alone(single_requests)
            else:
                final_results.append(outcomes)
        return final_results

    def _ask_alone(
        self, requests: Sequence[SliceRequest]
    ) -> Flow[list[list[SliceOutcome]]]:
        """Return the outcomes of passages whose joint request was refused.

        If the first two are refused too, it is not for one of them: the others fail.
        """
        results = yield from self._ask_together(requests[:2])
        if all(_is_refused(outcomes[0].error) for outcomes in results):
            for request in requests[2:]:
                results.append([replace(results[0][0], part=request.parts[0])])
            return results
        return [*results, *(yield from self._ask_together(requests[2:]))]

    def _make_call(
        self, request: SliceRequest, extra_messages: tuple[Message, ...] = ()
    ) -> Complete:
        llm = self.llm
        is_held = supports_schema(llm) is not False
        if is_held:
            llm = with_schema(llm, request.form.schema)
        if self.options.cache is not None:
            llm = self.options.cache.bind(
                llm, lambda reply: self._can_read(request, reply)
            )
        messages = (*request.messages(is_held), *extra_messages)
        return Complete(messages, self.tag, llm)

    def _ask_again(
        self, request: SliceRequest, reply: Reply | FailedItem, problem: str
    ) -> Complete:
        """Return the call with the reply in it, and one turn that asks for the form.

        What was wrong is enclosed: it may quote the reply, and so the document.
        """
        correction = (
            f"That could not be read:\n{request.prompt.enclose(problem, 'problem')}\n\n"
            f"Give the same reply again, as JSON and nothing else: {request.form.restated}"
        )
        reply_text = "" if isinstance(reply, FailedItem) else reply.text
        shown_reply = sanitize_text(reply_text[:_SHOWN_CHARACTERS] or "(nothing)")
        extra_messages = (
            Message("assistant", shown_reply),
            Message("user", correction),
        )
        return self._make_call(request, extra_messages)

    def _can_read(self, request: SliceRequest, reply: Reply) -> bool:
        try:
            self.read_reply(request, reply)
        except UnparsableReply:
            return False
        return True

    def _read_reply(
        self, request: SliceRequest, reply: Reply | FailedItem
    ) -> list[SliceOutcome]:
        """Return the outcomes of a reply, which is counted, or of a failed call."""
        if isinstance(reply, FailedItem):
            if is_user_error(reply.error):
                raise reply.error
            outcomes = _fail_request(request, reply.error)
        else:
            try:
                outcomes = self.read_reply(request, reply)
            except UnparsableReply as error:
                outcomes = _fail_request(request, error)
        self.record.count_reply(outcomes[0].error)
        return outcomes


def _fail_request(request: SliceRequest, error: Exception) -> list[SliceOutcome]:
    return [SliceOutcome(part, error=error) for part in request.parts]


def _is_refused(error: Exception | None) -> bool:
    """Whether the model's side refused a request, perhaps for one of its passages."""
    for source in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            if getattr(source, name, None) in (400, 413, 422):
                return True
    return False
