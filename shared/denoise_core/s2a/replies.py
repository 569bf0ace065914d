"""From requests to what their replies mean for the passages: asked, read, asked again, remembered.

A reply is read by a strict grammar: JSON, also in fences, or one list of numbers and ranges, or NONE. Nothing is
guessed from prose, and words are no numbers: a reply that is neither is asked for once more in the same call, then
part by part. A joint request that the model's side refuses is halved until the part is found that it refuses.
Whether a model can be held to a JSON schema is found by the first call, which is made alone where nobody knows
yet; the adapter remembers it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count, islice
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from denoise_core.errors import (
    BudgetExceeded,
    ContractViolation,
    UnparsableReply,
    is_user_error,
)
from denoise_core.errors import format_error as format_error
from denoise_core.protocols import LLM, supports_schema, with_schema
from denoise_core.runtime.caches import Cache
from denoise_core.runtime.effects import Complete, FailedItem, Flow, batch
from denoise_core.s2a.options import Options
from denoise_core.s2a.pieces import PassageSlice
from denoise_core.s2a.prompts import Prompt, ReplyForm
from denoise_core.text.delimit import sanitize_text, wrap_in_envelope
from denoise_core.text.replies import (
    parse_number_ranges,
    parse_whole_json,
    strip_fence,
    strip_reasoning,
    strip_tag,
)
from denoise_core.types import Message, Reply

Verb = Literal["keep", "drop"]

_TAGS = frozenset(
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
    | {chr(0xFF10 + n): str(n) for n in range(10)}
)
_LIST_LABELS: dict[str, Verb | None] = {
    "answer": None, "pieces": None, "numbers": None, "keep": "keep", "drop": "drop",
}  # fmt: skip
_NONE = ("none", "n/a", "null", "nothing", "empty", "")
_NUMBER_KEYS = {"n", "id", "number", "piece", "index"}
_OTHER_KEYS = {
    "starts",
    "text",
    "reason",
}  # allowed with a number; a verdict or a score is not
_FIRST_LETTERS = 12  # letters and digits of a piece's first words that must agree


@dataclass(frozen=True, slots=True)
class ParsedSelection:
    """Numbers that a reply named, each once, all within ``1..total``, in the reply's order.

    ``verb`` is what it said to do with them, None where it only listed them; ``starts`` the first words that it
    gave with a number. ``others`` are the numbers of its second list, where it parted pieces in two."""

    numbers: tuple[int, ...]
    verb: Verb | None = None
    first_words: Mapping[int, str] = field(default_factory=dict)
    second_list: tuple[int, ...] = ()


def parse_selection(reply: Reply | str, total: int) -> ParsedSelection:
    """The numbers of a reply about ``total`` pieces. Raises `UnparsableReply` for what is not in the grammar."""
    text = reply_text(reply)
    value = parse_whole_json(text)
    return _read_line(text, total) if value is None else _read_json(value, total)


def parse_texts(reply: Reply | str, *names: str) -> tuple[str, ...]:
    """The texts under the labels ``names`` (``Context:``), or in JSON under these keys; "" for NONE.

    A single name ``message`` is a reply without a label. Raises `UnparsableReply` when one is missing.
    """
    text = reply_text(reply)
    value = parse_whole_json(text)
    if isinstance(value, dict):
        texts = _arguments(value)
    elif names == ("message",):
        return (text,)
    elif len(names) == 1 and _is_none(text):
        return ("",)
    else:
        texts = _labelled_texts(text, names)
    contents: list[str] = []
    for name in names:
        content = texts.get(name)
        if not isinstance(content, str):
            raise UnparsableReply(
                f"expected JSON with {names!r} as text; it has {tuple(texts)!r}"
            )
        contents.append("" if _is_none(content) else content.strip())
    return tuple(contents)


def _arguments(value: dict[str, Any]) -> dict[str, Any]:
    """The object itself, or the arguments of the tool call that it describes."""
    arguments = value.get("arguments") or value.get("parameters")
    return arguments if isinstance(arguments, dict) else value


def _labelled_texts(text: str, names: tuple[str, ...]) -> dict[str, str]:
    texts: dict[str, str] = {}
    name = ""
    for line in text.strip("*").split("\n"):
        label, colon, rest = line.partition(":")
        key = label.lstrip(" \t").lower()
        if colon and key in ("context", "question") and len(label) <= len(key) + 3:
            name = key if key not in texts else "a label twice"
            texts[name] = rest
        elif name or line.strip():
            texts[name] = f"{texts.get(name, '')}\n{line}"
    question = texts.get("question", "one line").strip()
    if set(texts) != set(names) or not question or "\n" in question:
        labels = " and ".join(f"{name.capitalize()}:" for name in names)
        raise UnparsableReply(
            f"expected {labels}, nothing before it, and a question on one line"
        )
    return texts


def reply_text(reply: Reply | str) -> str:
    """What the reply says, without a fence or a tag around it.

    Raises `UnparsableReply` for no text, and for a reply that ends before the model is done thinking.
    """
    text = reply if isinstance(reply, str) else reply.text
    if not isinstance(text, str):
        raise UnparsableReply(f"expected a text as reply, got {type(text).__name__}")
    text = strip_fence(strip_tag(strip_reasoning(text), _TAGS))
    if not text:
        raise UnparsableReply("the reply is empty")
    return text


def _read_json(value: Any, total: int) -> ParsedSelection:
    values = _arguments(value) if isinstance(value, dict) else {"": value}
    lists = {
        str(key).lower(): items
        for key, items in values.items()
        if isinstance(items, list)
    }
    if "request" in lists:
        others, _ = _read_items(lists.get("opinion", []), total)
        return ParsedSelection(
            _read_items(lists["request"], total)[0], "keep", second_list=others
        )
    if len(lists) > 1:  # of "keep" and "drop" one may be empty
        lists = {
            key: items
            for key, items in lists.items()
            if items or key not in ("keep", "drop")
        }
    if len(lists) != 1:
        raise UnparsableReply(
            f"expected one list of numbers, got {len(lists)} in {list(values)!r:.80}"
        )
    ((key, items),) = lists.items()
    numbers, starts = _read_items(items, total)
    return ParsedSelection(
        numbers, _LIST_LABELS.get(str(values.get("list", key)).lower()), starts
    )


def _read_items(items: list[Any], total: int) -> tuple[tuple[int, ...], dict[int, str]]:
    """The numbers of a JSON list, and the first words that it gives with them."""
    numbers: list[int] = []
    starts: dict[int, str] = {}
    if len(items) == 1 and isinstance(items[0], str) and _is_none(items[0]):
        return (), starts
    for item in items:
        number, words = item, None
        if isinstance(item, dict):
            keys = item.keys() - _OTHER_KEYS
            number = (
                item[keys.pop()] if len(keys) == 1 and keys <= _NUMBER_KEYS else None
            )
            words = item.get("starts")
        if isinstance(number, bool) or not isinstance(number, (int, str)):
            raise UnparsableReply(f"expected numbers of pieces, got {item!r:.80}")
        listed = str(number).strip(" ,;\n\t")
        chosen = _check_numbers(
            parse_number_ranges(listed) if listed else [], total, listed
        )
        numbers += chosen
        if isinstance(words, str) and len(chosen) == 1:
            starts[chosen[0]] = words
    return tuple(dict.fromkeys(numbers)), starts


def _read_line(text: str, total: int) -> ParsedSelection:
    line = text.translate(_DASHES_AND_DIGITS).strip(" \n\t*#_.").casefold()
    ranges, verb = parse_number_ranges(line), None
    if ranges is None:
        says_none = line.startswith("none") and not any(map(str.isdigit, line))
        if says_none or (line and _is_none(line)):
            return ParsedSelection(())
        items, verb = _split_label(line)
        if items.startswith("[") and items.endswith("]"):
            items = items[1:-1].strip()
        if items == "none":
            return ParsedSelection((), verb)
        ranges = [(1, total)] if items == "all" else parse_number_ranges(items)
    return ParsedSelection(_check_numbers(ranges, total, line), verb)


def _split_label(line: str) -> tuple[str, Verb | None]:
    """The line without ``answer:``, ``keep`` and the like before its numbers, and what the label says to do."""
    rest = line.removeprefix("final ")
    for label, verb in _LIST_LABELS.items():
        items = rest.removeprefix(label)
        if items != rest and (items[:1].isspace() or items.startswith(":")):
            return items.lstrip().removeprefix(":").lstrip(), verb
    return line, None


def _check_numbers(
    ranges: list[tuple[int, int]] | None, total: int, text: str
) -> tuple[int, ...]:
    """Each number of the ranges once. Raises for None, which is other ``text``, and for numbers outside
    ``1..total``."""
    if ranges is None:
        raise UnparsableReply(
            f"expected one line of numbers, or NONE; the reply begins {text[:80]!r}"
        )
    numbers: dict[int, None] = {}
    for first, last in ranges:
        if not 1 <= first <= last <= total:
            raise UnparsableReply(
                f"there are the pieces 1 to {total}, and it names {first}-{last}"
            )
        numbers.update(dict.fromkeys(range(first, last + 1)))
    return tuple(numbers)


def _is_none(text: str) -> bool:
    return text.strip(" .*\"'()[]\n\t").casefold() in _NONE


@dataclass(frozen=True, slots=True)
class SliceRequest:
    """One call: slices of passages, a prompt about them, and the form of the reply.

    ``numbered`` when each piece has its number in the document that the prompt shows, from 1.
    """

    parts: tuple[PassageSlice, ...]
    prompt: Prompt
    form: ReplyForm
    numbered: bool
    question: str = ""

    def messages(self, by_schema: bool) -> tuple[Message, ...]:
        """The prompt for a model that is held to a schema, or for one that writes plain text."""
        question = wrap_in_envelope(self.question, "question")
        return self.prompt.render(
            by_schema=by_schema, question=question, document=self.document
        )

    @property
    def document(self) -> str:
        """What the prompt shows of the slices, in the envelope of text that is not ours."""
        blocks: list[str] = []
        number = 1
        for part in self.parts:
            blocks.append("\n".join(part.lines(number if self.numbered else None)))
            number += len(part.pieces)
        return wrap_in_envelope("\n\n".join(blocks).rstrip())

    @property
    def texts(self) -> list[str]:
        """The text of each numbered piece, number 1 first."""
        return list(chain.from_iterable(part.texts for part in self.parts))

    def divided(self, size: int) -> list[SliceRequest]:
        """The same request about ``size`` parts at a time."""
        return [
            replace(self, parts=self.parts[n : n + size])
            for n in range(0, len(self.parts), size)
        ]


@dataclass(frozen=True, slots=True)
class SliceOutcome:
    """One part after its calls: the pieces to keep (extractive), or the text written for it (rewriting).

    ``kept`` has the index of each kept piece and its place in the reply, 0 for the first. ``question`` is the
    request that a rewritten message makes. ``problem`` is set when the part has to fall back; then there is none
    of them. ``drop_reasons`` say of pieces that the reply named why they are not kept after all. ``calls`` is how
    many were made about it."""

    part: PassageSlice
    kept_places: Mapping[int, int] | None = None
    written_text: str | None = None
    question: str = ""
    notes: tuple[str, ...] = ()
    problem: str | None = None
    error: Exception | None = None
    drop_reasons: Mapping[int, str] = field(default_factory=dict)
    calls: int = 1

    def with_note(self, note: str, calls: int) -> SliceOutcome:
        """The outcome with a note, after so many ``calls`` more."""
        return replace(self, notes=(*self.notes, note), calls=self.calls + calls)


def read_selection(
    request: SliceRequest, reply: Reply, variant: str
) -> list[SliceOutcome]:
    """The outcomes of a reply with numbers; bare ones mean what the variant asks for, save ``auto``.

    Raises `UnparsableReply`, also where first words do not agree.
    """
    total = sum(map(len, map(_PIECES, request.parts)))
    selection = parse_selection(reply, total)
    if (
        variant == "auto" and selection.verb is None
    ):  # also for a bare NONE: none to keep, or none to leave out?
        raise UnparsableReply("expected KEEP or DROP before the numbers")
    if selection.first_words:
        _check_first_words(request, selection.first_words)
    numbers: Iterable[int] = selection.numbers
    default = "drop" if variant == "remove" else "keep"
    if (selection.verb or default) == "drop":
        numbers = sorted(set(range(1, total + 1)).difference(numbers))
    places = dict(zip(numbers, count()))
    outcomes: list[SliceOutcome] = []
    number = 0
    for part in request.parts:
        kept: dict[int, int] = {}
        for index in range(len(part.pieces)):
            number += 1
            if number in places:
                kept[index] = places[number]
        outcomes.append(SliceOutcome(part, kept))
    return outcomes


_PIECES = attrgetter("pieces")


def _check_first_words(request: SliceRequest, starts: Mapping[int, str]) -> None:
    texts = request.texts
    for number, words in starts.items():
        actual, told = _first_letters(texts[number - 1]), _first_letters(words)
        if told and actual and not actual.startswith(told[: len(actual)]):
            raise UnparsableReply(f"piece {number} does not begin with {words[:60]!r}")


def _first_letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))[:_FIRST_LETTERS]


def read_rewriting(
    request: SliceRequest, reply: Reply, names: Sequence[str]
) -> list[SliceOutcome]:
    """The outcome of a written reply with the texts ``names``: a context or a message, and a question.

    Raises `UnparsableReply`, also for a reply far longer than what it was to shorten.
    """
    (part,) = request.parts
    text = reply_text(reply)
    if len(text) > 4 * len(part.text) + 20_000:
        raise UnparsableReply(
            f"a reply of {len(text)} characters for a text of {len(part.text)}"
        )
    marker = request.document.partition("\n")[0].rpartition(" ")[2]
    context, *question = parse_texts(text.replace(marker, ""), *names)
    return [SliceOutcome(part, written_text=context, question="".join(question))]


CORRECTED = "asked again in the same call: the first reply was unreadable"
ALONE = "asked again, alone: the joint replies were unreadable"
HALVED = "asked again with fewer: the joint call was refused"
_SHOWN_CHARACTERS = 2000  # of an unreadable reply, when the model sees it again

_Results: TypeAlias = list[list[SliceOutcome]]


@dataclass(frozen=True, slots=True)
class LLMCaller:
    """Who is asked, and how. ``read`` gives the outcomes of a reply, or raises `UnparsableReply`."""

    llm: LLM
    options: Options
    tag: str
    read: Callable[[SliceRequest, Reply], list[SliceOutcome]]

    def outcomes(self, requests: Sequence[SliceRequest]) -> Flow[list[SliceOutcome]]:
        """The outcomes of all requests. Raises a mistake; anything else becomes the problem of the parts it was
        about."""
        results = yield from self._ask(requests)
        unread: list[int] = []
        for n, outcomes in enumerate(results):
            if _is_unread(outcomes):
                unread.append(n)
        if unread:
            replies = yield from batch(
                tuple(self._correct(requests[n], results[n][0]) for n in unread)
            )
            for n, reply in zip(unread, replies, strict=True):
                results[n] = [
                    o.with_note(CORRECTED, 1) for o in self._read(requests[n], reply)
                ]
            joint = [
                n
                for n in unread
                if _is_unread(results[n]) and len(requests[n].parts) > 1
            ]
            yield from self._divide(
                requests, results, dict.fromkeys(joint, 1), ALONE, 2
            )
        return list(chain.from_iterable(results))

    def _ask(self, requests: Sequence[SliceRequest], depth: int = 0) -> Flow[_Results]:
        """The outcomes of each request; those that were refused are asked again in halves.

        Where halves and their halves are all refused too it is no matter of one part, and they are left as they
        are: ``depth`` counts the rounds since one came through.
        """
        replies: list[Reply | FailedItem] = []
        if (
            len(requests) > 1
            and self.options.use_json_schema
            and supports_schema(self.llm) is None
        ):
            replies = yield from batch((self._call(requests[0]),))
        replies += yield from batch(tuple(map(self._call, requests[len(replies) :])))
        results = list(map(self._read, requests, replies))
        errors: list[Exception | None] = []
        for outcomes in results:
            errors.append(outcomes[0].error)
        if any(errors):
            depth = depth if all(errors) else 0
            halves: dict[int, int] = {}
            for n, request in enumerate(requests):
                if len(request.parts) > 1 and _may_concern_one_part(errors[n], depth):
                    halves[n] = (len(request.parts) + 1) // 2
            yield from self._divide(requests, results, halves, HALVED, 1, depth + 1)
        return results

    def _divide(
        self,
        requests: Sequence[SliceRequest],
        results: _Results,
        sizes: Mapping[int, int],
        note: str,
        calls: int,
        depth: int = 0,
    ) -> Flow[None]:
        """Ask requests again, in place, with so many parts at a time as ``sizes`` has by their indices."""
        divided = {n: requests[n].divided(size) for n, size in sizes.items()}
        if not divided:
            return
        answers = iter(
            (yield from self._ask(list(chain.from_iterable(divided.values())), depth))
        )
        for n, fewer in divided.items():
            outcomes = chain.from_iterable(islice(answers, len(fewer)))
            results[n] = [outcome.with_note(note, calls) for outcome in outcomes]

    def _call(self, request: SliceRequest, turns: tuple[Message, ...] = ()) -> Complete:
        is_held = (
            self.options.use_json_schema and supports_schema(self.llm) is not False
        )
        llm = with_schema(self.llm, request.form.schema) if is_held else self.llm
        if self.options.cache is not None:
            llm = self.options.cache.bind(
                llm, lambda reply: not _is_unread(self._read(request, reply))
            )
        return Complete((*request.messages(is_held), *turns), self.tag, llm)

    def _correct(self, request: SliceRequest, outcome: SliceOutcome) -> Complete:
        """The same call with the reply in it, and one turn that asks for the form alone.

        What was wrong is enclosed: it may quote the reply, and so the document.
        """
        reply = getattr(outcome.error, "reply", "") or "(nothing)"
        correction = (
            f"That could not be read:\n{wrap_in_envelope(str(outcome.problem), 'problem')}\n\n"
            f"Give the same reply again, as JSON and nothing else: {request.form.restated}"
        )
        shown_reply = sanitize_text(reply[:_SHOWN_CHARACTERS])
        return self._call(
            request, (Message("assistant", shown_reply), Message("user", correction))
        )

    def _read(
        self, request: SliceRequest, reply: Reply | FailedItem
    ) -> list[SliceOutcome]:
        error: Exception
        if isinstance(reply, FailedItem):
            error = reply.error
            if is_user_error(error):
                raise error
        else:
            try:
                return self.read(request, reply)
            except UnparsableReply as unparsable:
                unparsable.reply = reply.text if isinstance(reply.text, str) else ""  # type: ignore[attr-defined]
                error = unparsable
        problem = format_error(
            str(error) if isinstance(error, UnparsableReply) else error
        )
        return [
            SliceOutcome(part, problem=problem, error=error) for part in request.parts
        ]


def _is_unread(outcomes: Sequence[SliceOutcome]) -> bool:
    return any(isinstance(outcome.error, UnparsableReply) for outcome in outcomes)


def _may_concern_one_part(error: Exception | None, depth: int) -> bool:
    """Whether a call may have failed for one of the parts in it, ``depth`` rounds after one came through: a status
    says that the request was refused, or there is none and the error is none of the moment."""
    if error is None or isinstance(error, (UnparsableReply, BudgetExceeded)):
        return False
    for place in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            status = getattr(place, name, None)
            if isinstance(status, int):
                return status in (400, 413, 422) and depth < 2
    return depth < 1 and not isinstance(
        error, (TimeoutError, OSError, ContractViolation)
    )


KNOWN = "known from an earlier call"


def selection_key(cache: Cache, query: str, part: PassageSlice, prompt: Prompt) -> str:
    """Where the selection of a part is kept: by the model, the wording, the question, and all that a model sees.

    A list in another order, or with others, asks nothing again. What is kept of a document may depend on the
    others in its call; a known selection is the one made then.
    """
    wording = f"{prompt.name} {prompt.version}\n{prompt.system}\n{prompt.user}\n{prompt.user_json}"
    document = "\n".join(part.lines(1))
    return cache.key(
        (
            Message("system", f"selection: {wording}"),
            Message("user", query),
            Message("user", document),
        )
    )


def look_up_selection(cache: Cache, part: PassageSlice) -> SliceOutcome | None:
    """The outcome of a part that is known. A store that fails knows nothing."""
    text = cache.lookup(part.cache_key)
    if text is None:
        return None
    kept: dict[int, int] = {}
    try:
        for index, place in json.loads(text):
            kept[range(len(part.pieces))[index]] = int(place)
    except (ValueError, TypeError, IndexError):
        return None  # another program's entry
    return SliceOutcome(part, kept, notes=(KNOWN,), calls=0)


def store_selections(cache: Cache, outcomes: Sequence[SliceOutcome]) -> None:
    """Keep what could be read."""
    for outcome in outcomes:
        if outcome.problem is None and outcome.kept_places is not None:
            cache.store_reply(
                outcome.part.cache_key, json.dumps(list(outcome.kept_places.items()))
            )
