"""Call the model about passages, parse its replies, retry and cache them.

A reply is read by a strict grammar: JSON, also in fences, or one list of numbers and
ranges, or NONE, and behind it whether the pieces answer the question. Nothing is guessed
from prose, and words are no numbers: a reply that is neither is asked for once more in
the same call, then part by part. A joint request that the model's side refuses is halved
until the part is found that it refuses. The first call, made alone if nobody knows yet,
finds whether a model can be held to a JSON schema; the adapter remembers it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count, islice
from time import monotonic
from typing import Any, Literal, TypeAlias, get_args

from denoise_core.errors import (
    BudgetExceeded,
    ContractViolation,
    UnparsableReply,
    is_user_error,
)
from denoise_core.errors import format_error as format_error
from denoise_core.protocols import LLM, supports_schema, with_schema
from denoise_core.runtime.effects import Complete, FailedItem, Flow, batch
from denoise_core.s2a.options import Options
from denoise_core.s2a.pieces import PassageSlice
from denoise_core.s2a.prompts import Prompt, ReplyForm
from denoise_core.text.delimit import copies_envelope, sanitize_text
from denoise_core.text.replies import (
    parse_number_ranges,
    parse_whole_json,
    strip_fence,
    strip_reasoning,
    strip_tag,
)
from denoise_core.types import Message, Reply

ListVerb = Literal["keep", "drop"]
Answered = Literal["yes", "partly", "no"]

_REPLY_TAGS = frozenset(
    (
        "context",
        "drop",
        "keep",
        "list",
        "message",
        "numbers",
        "pieces",
        "question",
        "tool_call",
    )
)
_DASHES_AND_DIGITS = str.maketrans(
    dict.fromkeys("‐‑‒–—−~～－", "-")
    | dict.fromkeys("、，", ",")
    | {chr(0xFF10 + digit): str(digit) for digit in range(10)}
)
_LIST_LABELS: dict[str, ListVerb | None] = {
    "answer": None, "pieces": None, "numbers": None, "keep": "keep", "drop": "drop",
}  # fmt: skip
_ANSWERED_WORDS: dict[str, Answered] = {word: word for word in get_args(Answered)}
_MARKUP = " \n\t*#_.:\"'"
_NONE_WORDS = ("none", "n/a", "null", "nothing", "empty", "")
_NUMBER_KEYS = {"n", "id", "number", "piece", "index"}
# Allowed with a number; a verdict or a score is not.
_OTHER_KEYS = {"starts", "text", "reason"}
_FIRST_LETTERS = 12  # letters and digits of a piece's first words that must agree


@dataclass(frozen=True, slots=True)
class ParsedSelection:
    """Piece numbers that a reply selected.

    Attributes:
        numbers: Each once, from 1, in the reply's order.
        verb: What the reply says to do with them; None if it only lists them.
        first_words: The first words that it gives with a number.
        opinion_numbers: Those that it calls opinion, if it divides the pieces in two.
        answered: Whether it says that the pieces answer the question; None if it does not
            say.
    """

    numbers: tuple[int, ...]
    verb: ListVerb | None = None
    first_words: Mapping[int, str] = field(default_factory=dict)
    opinion_numbers: tuple[int, ...] = ()
    answered: Answered | None = None


def parse_selection(reply: Reply | str, piece_count: int) -> ParsedSelection:
    """Return the numbers of a reply about so many pieces.

    Raises:
        UnparsableReply: For what is not in the grammar.
    """
    reply_part = clean_reply_text(reply)
    value = parse_whole_json(reply_part)
    if value is not None:
        return _parse_json_selection(value, piece_count)
    number_text, answered = _split_answered(reply_part)
    selection = _parse_line(number_text, piece_count)
    return replace(selection, answered=answered)


def parse_texts(reply: Reply | str, *label_names: str) -> tuple[str, ...]:
    """Return the texts under labels (``Context:``), or in JSON under these keys.

    A text is "" for NONE. A single name ``message`` means a reply without a label.

    Raises:
        UnparsableReply: If a text is missing.
    """
    reply_part = clean_reply_text(reply)
    value = parse_whole_json(reply_part)
    if isinstance(value, dict):
        texts = _call_arguments(value)
    elif label_names == ("message",):
        return (reply_part,)
    elif len(label_names) == 1 and _is_none(reply_part):
        return ("",)
    else:
        texts = _parse_labels(reply_part, label_names)
    contents: list[str] = []
    for label_name in label_names:
        content = texts.get(label_name)
        if not isinstance(content, str):
            raise UnparsableReply(
                f"expected JSON with {label_names!r} as text; it has {tuple(texts)!r}"
            )
        if _is_none(content):
            content = ""
        contents.append(content.strip())
    return tuple(contents)


def _call_arguments(value: dict[str, Any]) -> dict[str, Any]:
    """Return the object, or the arguments of the tool call that it describes."""
    arguments = value.get("arguments") or value.get("parameters")
    if isinstance(arguments, dict):
        return arguments
    return value


def _parse_labels(reply_part: str, label_names: tuple[str, ...]) -> dict[str, str]:
    """Return the text after each label; a label begins a line."""
    texts: dict[str, str] = {}
    label_name = ""
    for line in reply_part.strip("*").split("\n"):
        label, colon, unlabelled_line = line.partition(":")
        key = label.lstrip(" \t").lower()
        has_label = colon and key in ("context", "question")
        if has_label and len(label) <= len(key) + 3:
            label_name = key
            if key in texts:
                label_name = "a label twice"
            texts[label_name] = unlabelled_line
        elif label_name or line.strip():
            text_before = texts.get(label_name, "")
            texts[label_name] = f"{text_before}\n{line}"
    question = texts.get("question", "one line")
    question = question.strip()
    has_one_question = question and "\n" not in question
    if set(texts) != set(label_names) or not has_one_question:
        labels = " and ".join(f"{name.capitalize()}:" for name in label_names)
        raise UnparsableReply(
            f"expected {labels}, nothing before it, and a question on one line"
        )
    return texts


def clean_reply_text(reply: Reply | str) -> str:
    """Return what the reply says, without a fence or a tag around it.

    Raises:
        UnparsableReply: For no text, for a reply that copies the lines around a
            document, and for one that ends before the model is done thinking.
    """
    reply_part = reply if isinstance(reply, str) else reply.text
    if not isinstance(reply_part, str):
        raise UnparsableReply(
            f"expected a text as reply, got {type(reply_part).__name__}"
        )
    reply_part = strip_reasoning(reply_part)
    reply_part = strip_tag(reply_part, _REPLY_TAGS)
    reply_part = strip_fence(reply_part)
    if not reply_part:
        raise UnparsableReply("the reply is empty")
    if copies_envelope(reply_part):
        raise UnparsableReply("the reply copies the lines around the text")
    return reply_part


def _parse_json_selection(value: Any, piece_count: int) -> ParsedSelection:
    values = {"": value}
    if isinstance(value, dict):
        values = _call_arguments(value)
    number_lists: dict[str, list[Any]] = {}
    for key, items in values.items():
        if isinstance(items, list):
            number_lists[str(key).lower()] = items
    if "request" in number_lists:
        numbers, _ = _parse_items(number_lists["request"], piece_count)
        opinion_items = number_lists.get("opinion", [])
        opinion_numbers, _ = _parse_items(opinion_items, piece_count)
        return ParsedSelection(numbers, "keep", opinion_numbers=opinion_numbers)
    if len(number_lists) > 1:  # of "keep" and "drop" one may be empty
        for key in ("keep", "drop"):
            if number_lists.get(key) == []:
                del number_lists[key]
    if len(number_lists) != 1:
        raise UnparsableReply(
            f"expected one list of numbers, got {len(number_lists)} in {list(values)!r:.80}"
        )
    ((list_key, list_items),) = number_lists.items()
    piece_numbers, first_words = _parse_items(list_items, piece_count)
    return ParsedSelection(
        piece_numbers,
        _LIST_LABELS.get(list_key),
        first_words,
        answered=read_answered(values.get("answered")),
    )


def _parse_items(
    list_items: list[Any], piece_count: int
) -> tuple[tuple[int, ...], dict[int, str]]:
    """Return the numbers of a JSON list, and the first words that it gives with them."""
    piece_numbers: list[int] = []
    first_words: dict[int, str] = {}
    has_one_text = len(list_items) == 1 and isinstance(list_items[0], str)
    if has_one_text and _is_none(list_items[0]):
        return (), first_words
    for list_item in list_items:
        piece_number = list_item
        stated_words = None
        if isinstance(list_item, dict):
            keys = list_item.keys() - _OTHER_KEYS
            has_one_number = len(keys) == 1 and keys <= _NUMBER_KEYS
            piece_number = None
            if has_one_number:
                piece_number = list_item[keys.pop()]
            stated_words = list_item.get("starts")
        if isinstance(piece_number, bool) or not isinstance(piece_number, int | str):
            raise UnparsableReply(f"expected numbers of pieces, got {list_item!r:.80}")
        listed_text = str(piece_number).strip(" ,;\n\t")
        number_ranges = parse_number_ranges(listed_text) if listed_text else []
        item_numbers = _check_numbers(number_ranges, piece_count, listed_text)
        piece_numbers += item_numbers
        if isinstance(stated_words, str) and len(item_numbers) == 1:
            first_words[item_numbers[0]] = stated_words
    return tuple(dict.fromkeys(piece_numbers)), first_words


def _parse_line(reply_part: str, piece_count: int) -> ParsedSelection:
    line = reply_part.translate(_DASHES_AND_DIGITS)
    line = line.strip(" \n\t*#_.")
    line = line.casefold()
    number_ranges = parse_number_ranges(line)
    list_verb = None
    if number_ranges is None:
        has_digits = any(map(str.isdigit, line))
        says_none = line.startswith("none") and not has_digits
        if says_none or (line and _is_none(line)):
            return ParsedSelection(())
        list_items, list_verb = _split_label(line)
        if list_items == "none":
            return ParsedSelection((), list_verb)
        number_ranges = [(1, piece_count)]
        if list_items != "all":
            number_ranges = parse_number_ranges(list_items)
    return ParsedSelection(_check_numbers(number_ranges, piece_count, line), list_verb)


def _split_answered(reply_part: str) -> tuple[str, Answered | None]:
    """Return a reply without ``ANSWERED: ...`` at its end, and what that says."""
    number_text, _, stated_word = reply_part.casefold().rpartition("answered")
    answered = read_answered(stated_word)
    if answered is not None and number_text:
        return number_text, answered
    return reply_part, None


def read_answered(stated_word: Any) -> Answered | None:
    """Return whether pieces answer a question; None for anything but the three words."""
    word = str(stated_word).strip(_MARKUP).casefold()
    return _ANSWERED_WORDS.get(word)


def _split_label(line: str) -> tuple[str, ListVerb | None]:
    """Return a line without its label, such as ``keep:``, and what the label says."""
    short_line = line.removeprefix("final ")
    for list_label, list_verb in _LIST_LABELS.items():
        list_items = short_line.removeprefix(list_label)
        is_label_end = list_items[:1].isspace() or list_items.startswith(":")
        if list_items != short_line and is_label_end:
            list_items = list_items.lstrip().removeprefix(":")
            return list_items.lstrip(), list_verb
    return line, None


def _check_numbers(
    number_ranges: list[tuple[int, int]] | None, piece_count: int, reply_part: str
) -> tuple[int, ...]:
    """Return each number of the ranges once.

    Raises:
        UnparsableReply: For None, which is what else a reply says, and for numbers
            outside ``1..piece_count``.
    """
    if number_ranges is None:
        raise UnparsableReply(
            f"expected one line of numbers, or NONE; the reply begins {reply_part[:80]!r}"
        )
    piece_numbers: dict[int, None] = {}
    for first, last in number_ranges:
        if not 1 <= first <= last <= piece_count:
            raise UnparsableReply(
                f"there are the pieces 1 to {piece_count}, and it names {first}-{last}"
            )
        number_range = range(first, last + 1)
        piece_numbers.update(dict.fromkeys(number_range))
    return tuple(piece_numbers)


def _is_none(reply_part: str) -> bool:
    return reply_part.strip(" .*\"'()[]\n\t").casefold() in _NONE_WORDS


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
        blocks: list[str] = []
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
        piece_texts: list[str] = []
        for passage_slice in self.parts:
            piece_texts += passage_slice.piece_texts
        return piece_texts

    def divide(self, size: int) -> list[SliceRequest]:
        """Return the same request about ``size`` parts at a time."""
        requests = []
        for start in range(0, len(self.parts), size):
            parts = self.parts[start : start + size]
            requests.append(replace(self, parts=parts))
        return requests


@dataclass(frozen=True, slots=True)
class SliceOutcome:
    """One slice after its calls.

    Attributes:
        part: The slice.
        kept_places: By index of a kept piece its place in the reply, from 0; None if
            the reply was written text, or could not be read.
        written_text: What a rewriting variant wrote.
        question: The request that a rewritten message makes.
        notes: What was unusual and did not lose the reply.
        problem: Why the slice falls back to the policy.
        error: What was raised.
        drop_reasons: Why pieces that the reply named are not kept after all.
        calls: Calls that were made about it.
        answered: Whether the model says that the slice's kept pieces, with the others of
            its call, answer the question; None if it did not say.
    """

    part: PassageSlice
    kept_places: Mapping[int, int] | None = None
    written_text: str | None = None
    question: str = ""
    notes: tuple[str, ...] = ()
    problem: str | None = None
    error: Exception | None = None
    drop_reasons: Mapping[int, str] = field(default_factory=dict)
    calls: int = 1
    answered: Answered | None = None

    def with_note(self, note: str, calls: int) -> SliceOutcome:
        """Return the outcome with a note, after so many further calls."""
        notes = (*self.notes, note)
        call_count = self.calls + calls
        return replace(self, notes=notes, calls=call_count)


def read_selection(request: SliceRequest, reply: Reply) -> list[SliceOutcome]:
    """Return the outcomes of a reply with numbers, which are kept unless it says to drop them.

    Raises:
        UnparsableReply: Also if first words do not agree, and if no piece is kept and
            yet the pieces answer the question.
    """
    piece_count = len(request.piece_texts)
    selection = parse_selection(reply, piece_count)
    if selection.first_words:
        _check_first_words(request, selection.first_words)
    piece_numbers: Iterable[int] = selection.numbers
    if selection.verb == "drop":
        all_numbers = set(range(1, piece_count + 1))
        other_numbers = all_numbers.difference(piece_numbers)
        piece_numbers = sorted(other_numbers)
    reply_places = dict(zip(piece_numbers, count()))
    if not reply_places and selection.answered not in (None, "no"):
        raise UnparsableReply("it keeps no piece, and says that the pieces answer")
    outcomes: list[SliceOutcome] = []
    piece_number = 0
    for passage_slice in request.parts:
        kept_places: dict[int, int] = {}
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


def _check_first_words(request: SliceRequest, first_words: Mapping[int, str]) -> None:
    texts = request.piece_texts
    for piece_number, stated_words in first_words.items():
        actual_letters = _first_letters(texts[piece_number - 1])
        stated_letters = _first_letters(stated_words)[: len(actual_letters)]
        if not actual_letters.startswith(stated_letters):
            raise UnparsableReply(
                f"piece {piece_number} does not begin with {stated_words[:60]!r}"
            )


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
    reply_part = clean_reply_text(reply)
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

CORRECTED_NOTE = "asked again in the same call: the first reply was unreadable"
ALONE_NOTE = "asked again, alone: the joint replies were unreadable"
HALVED_NOTE = "asked again with fewer: the joint call was refused"
_SHOWN_CHARACTERS = 2000  # of an unreadable reply, when the model sees it again

_RequestOutcomes: TypeAlias = list[list[SliceOutcome]]

MAX_UNREADABLE = 3  # replies of a model of which none could be read yet
RETRY_SECONDS = 60.0  # until a model that was given up is asked once more
GIVEN_UP = (
    "this model's replies could not be read, so it is asked once a minute: take a larger model, "
    "Options(prompts=PLAIN_PROMPTS), or default_denoiser(), which asks none"
)
logger = logging.getLogger("denoise_core")


@dataclass(slots=True)
class ReplyRecord:
    """Whether replies of one denoiser's model could be read so far.

    A model of which nothing was read in `MAX_UNREADABLE` replies is given up, which is
    logged once. The replies are to several requests if there are several.
    """

    is_readable: bool = False
    unreadable_count: int = 0
    given_up_at: float | None = None
    is_told: bool = False

    def allows_asking(self) -> bool:
        """Whether to ask the model; one that was given up, once in `RETRY_SECONDS`.

        A server may have answered with a page about an outage.
        """
        if self.given_up_at is None:
            return True
        if monotonic() - self.given_up_at < RETRY_SECONDS:
            return False
        self.given_up_at = None
        self.unreadable_count = MAX_UNREADABLE - 1
        return True

    @property
    def is_doubtful(self) -> bool:
        """Whether one more unreadable reply is the last."""
        return not self.is_readable and self.unreadable_count >= MAX_UNREADABLE - 1

    @property
    def is_unreadable(self) -> bool:
        """Whether enough was asked, and nothing could be read."""
        return not self.is_readable and self.unreadable_count >= MAX_UNREADABLE

    def count_replies(self, results: _RequestOutcomes) -> None:
        """Count the replies behind these outcomes; calls that failed say nothing about a model."""
        for outcomes in results:
            if _is_unread(outcomes):
                self.unreadable_count += 1
            elif outcomes[0].error is None:
                self.is_readable = True

    def give_up(self) -> None:
        """Stop asking for `RETRY_SECONDS`."""
        if self.given_up_at is None:
            self.given_up_at = monotonic()
            if not self.is_told:
                self.is_told = True
                logger.warning("S2A: %s", GIVEN_UP)


@dataclass(frozen=True, slots=True)
class LLMCaller:
    """Sends requests to a model and turns the replies into outcomes.

    ``read_reply`` returns the outcomes of a reply, or raises `UnparsableReply`.
    """

    llm: LLM
    options: Options
    tag: str
    read_reply: ReplyReader
    record: ReplyRecord = field(default_factory=ReplyRecord)

    def outcomes(self, requests: Sequence[SliceRequest]) -> Flow[list[SliceOutcome]]:
        """Return the outcomes of all requests.

        User errors raise; anything else becomes the problem of the parts it was about.
        """
        record = self.record
        if not record.allows_asking():
            return list(chain.from_iterable(map(_give_up_request, requests)))
        if not record.is_readable and len(requests) > MAX_UNREADABLE:
            outcomes = yield from self.outcomes(requests[:1])
            ask_others = self.outcomes
            if not record.is_readable and not _is_unread(outcomes):
                # The call failed, which says nothing about the model.
                ask_others = self._ask_all
            return outcomes + (yield from ask_others(requests[1:]))
        return (yield from self._ask_all(requests))

    def _ask_all(self, requests: Sequence[SliceRequest]) -> Flow[list[SliceOutcome]]:
        """Return the outcomes of all requests, asked at once, and again if unread."""
        record = self.record
        results = yield from self._ask_requests(requests)
        unread_indices = []
        for n, request_outcomes in enumerate(results):
            if _is_unread(request_outcomes):
                unread_indices.append(n)
        if unread_indices and not record.is_doubtful:
            yield from self._ask_unread(requests, results, unread_indices)
        if record.is_unreadable:
            record.give_up()
        return list(chain.from_iterable(results))

    def _ask_unread(
        self,
        requests: Sequence[SliceRequest],
        results: _RequestOutcomes,
        unread_indices: Sequence[int],
    ) -> Flow[None]:
        """Ask again, in place, for what could not be read: in the same call, then part by part."""
        calls = []
        for n in unread_indices:
            outcome, *_ = results[n]
            call = self._ask_correction(requests[n], outcome)
            calls.append(call)
        replies = yield from batch(tuple(calls))
        part_counts = {}
        for n, reply in zip(unread_indices, replies, strict=True):
            outcomes = self._read_outcomes(requests[n], reply)
            results[n] = [outcome.with_note(CORRECTED_NOTE, 1) for outcome in outcomes]
            if _is_unread(outcomes) and len(outcomes) > 1:
                part_counts[n] = 1
        new_results = [results[n] for n in unread_indices]
        self.record.count_replies(new_results)
        yield from self._ask_divided(
            requests,
            results,
            part_counts,
            ALONE_NOTE,
            2,
        )

    def _ask_requests(
        self, requests: Sequence[SliceRequest], retry_depth: int = 0
    ) -> Flow[_RequestOutcomes]:
        """Return the outcomes of each request; refused ones are asked again in halves.

        If halves and their halves are all refused too, it is no matter of one part, and
        they are left as they are.

        Args:
            requests: What to ask.
            retry_depth: Rounds since a call came through.
        """
        is_schema_unknown = supports_schema(self.llm) is None
        first_count = len(requests)
        if is_schema_unknown or self.record.is_doubtful:
            first_count = 1
        results = yield from self._call_all(requests[:first_count])
        other_requests = requests[first_count:]
        if other_requests and self.record.is_unreadable:
            return results + list(map(_give_up_request, other_requests))
        results += yield from self._call_all(other_requests)
        errors = [outcomes[0].error for outcomes in results]
        if not all(errors):
            retry_depth = 0
        half_sizes: dict[int, int] = {}
        for n, request in enumerate(requests):
            part_count = len(request.parts)
            if part_count > 1 and _may_concern_one_part(errors[n], retry_depth):
                half_sizes[n] = (part_count + 1) // 2
        yield from self._ask_divided(
            requests,
            results,
            half_sizes,
            HALVED_NOTE,
            1,
            retry_depth + 1,
        )
        return results

    def _call_all(self, requests: Sequence[SliceRequest]) -> Flow[_RequestOutcomes]:
        """Return the outcomes of each request after one call, and count the replies."""
        if not requests:
            return []
        calls = tuple(map(self._make_call, requests))
        replies = yield from batch(calls)
        results = list(map(self._read_outcomes, requests, replies))
        self.record.count_replies(results)
        return results

    def _ask_divided(
        self,
        requests: Sequence[SliceRequest],
        results: _RequestOutcomes,
        slice_counts: Mapping[int, int],
        note: str,
        calls: int,
        retry_depth: int = 0,
    ) -> Flow[None]:
        """Ask requests again, in place, about fewer parts at a time.

        Args:
            requests: All requests.
            results: Their outcomes, which change.
            slice_counts: By the index of each request to ask again, its parts a call.
            note: What the outcomes say about it.
            calls: Calls made about each part before.
            retry_depth: Rounds since a call came through.
        """
        divided_requests: list[SliceRequest] = []
        for n, size in slice_counts.items():
            divided_requests += requests[n].divide(size)
        if not divided_requests:
            return
        new_results = yield from self._ask_requests(divided_requests, retry_depth)
        new_outcomes = chain.from_iterable(new_results)
        for n in slice_counts:
            part_count = len(requests[n].parts)
            outcomes = islice(new_outcomes, part_count)
            results[n] = [outcome.with_note(note, calls) for outcome in outcomes]

    def _make_call(
        self, request: SliceRequest, extra_messages: tuple[Message, ...] = ()
    ) -> Complete:
        llm = self.llm
        options = self.options
        is_held = supports_schema(llm) is not False
        if is_held:
            llm = with_schema(llm, request.form.schema)
        if options.cache is not None:
            llm = options.cache.bind(
                llm, lambda reply: not _is_unread(self._read_outcomes(request, reply))
            )
        messages = (*request.messages(is_held), *extra_messages)
        return Complete(messages, self.tag, llm)

    def _ask_correction(self, request: SliceRequest, outcome: SliceOutcome) -> Complete:
        """Return the call with the reply in it, and one turn that asks for the form.

        What was wrong is enclosed: it may quote the reply, and so the document.
        """
        reply = getattr(outcome.error, "reply", "") or "(nothing)"
        correction = (
            f"That could not be read:\n{request.prompt.enclose(str(outcome.problem), 'problem')}\n\n"
            f"Give the same reply again, as JSON and nothing else: {request.form.restated}"
        )
        shown_reply = sanitize_text(reply[:_SHOWN_CHARACTERS])
        extra_messages = (
            Message("assistant", shown_reply),
            Message("user", correction),
        )
        return self._make_call(request, extra_messages)

    def _read_outcomes(
        self, request: SliceRequest, reply: Reply | FailedItem
    ) -> list[SliceOutcome]:
        call_error: Exception
        if isinstance(reply, FailedItem):
            call_error = reply.error
            if is_user_error(call_error):
                raise call_error
        else:
            try:
                return self.read_reply(request, reply)
            except UnparsableReply as unparsable:
                unparsable.reply = reply.text if isinstance(reply.text, str) else ""  # type: ignore[attr-defined]
                call_error = unparsable
        problem = format_error(
            str(call_error) if isinstance(call_error, UnparsableReply) else call_error
        )
        return [
            SliceOutcome(passage_slice, problem=problem, error=call_error)
            for passage_slice in request.parts
        ]


def _give_up_request(request: SliceRequest) -> list[SliceOutcome]:
    error = UnparsableReply(GIVEN_UP)
    return [
        SliceOutcome(
            passage_slice,
            problem=GIVEN_UP,
            error=error,
            calls=0,
        )
        for passage_slice in request.parts
    ]


def _is_unread(outcomes: Sequence[SliceOutcome]) -> bool:
    for outcome in outcomes:
        call_error = outcome.error
        if isinstance(call_error, UnparsableReply):
            return True
    return False


def _may_concern_one_part(call_error: Exception | None, retry_depth: int) -> bool:
    """Whether a call may have failed for one of the parts in it.

    A status says that the request was refused, or there is none and the error does not
    depend on the moment. ``retry_depth`` counts the rounds since a call came through.
    """
    if call_error is None:
        return False
    if isinstance(call_error, (UnparsableReply, BudgetExceeded)):
        return False
    for reply_place in (call_error, getattr(call_error, "response", None)):
        for label_name in ("status_code", "status", "code"):
            http_status = getattr(reply_place, label_name, None)
            if isinstance(http_status, int):
                return http_status in (400, 413, 422) and retry_depth < 2
    return retry_depth < 1 and not isinstance(
        call_error, (TimeoutError, OSError, ContractViolation)
    )
