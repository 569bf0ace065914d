"""From requests to what their replies mean for the passages: asked, read, asked again, remembered.

A reply is read by a strict grammar: JSON, also in fences, or one list of numbers and ranges, or NONE. Nothing is
guessed from prose, and words are no numbers: a reply that is neither is asked for once more in the same call, then
part by part. A joint request that the model's side refuses is halved until the part is found that it refuses.
Whether a model can be held to a JSON schema is found by the first call, which is made alone where nobody knows
yet; the adapter remembers it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from denoise_core.errors import BrokenLaw, BudgetExceeded, UnparsableReply, is_mistake
from denoise_core.errors import said as format_error
from denoise_core.protocols import LLM, by_schema, held_to_schema
from denoise_core.running.caches.cache import Cache
from denoise_core.running.effects import Complete, Failed, Flow, batch
from denoise_core.s2a.pieces import PassageSlice
from denoise_core.s2a.prompts import Prompt, Request
from denoise_core.text.delimit import envelope, shown
from denoise_core.text.replies import json_value, number_ranges, said, unfenced, unwrapped
from denoise_core.types import Message, Reply

Verb = Literal["keep", "drop"]

_TAGS = frozenset(("context", "drop", "keep", "list", "message", "numbers", "pieces", "question", "tool_call"))
_DASHES_AND_DIGITS = str.maketrans(
    dict.fromkeys("‐‑‒–—−~～－", "-") | dict.fromkeys("、，", ",") | {chr(0xFF10 + n): str(n) for n in range(10)}
)
_LIST_LABELS: dict[str, Verb | None] = {
    "answer": None, "pieces": None, "numbers": None, "keep": "keep", "drop": "drop",
}  # fmt: skip
_NONE = ("none", "n/a", "null", "nothing", "empty", "")
_NUMBER_KEYS = ("n", "id", "number", "piece", "index")
_OTHER_KEYS = {"starts", "text", "reason"}  # allowed with a number; a verdict or a score is not
_FIRST_LETTERS = 12  # letters and digits of a piece's first words that must agree


@dataclass(frozen=True, slots=True)
class Named:
    """Numbers that a reply named, each once, all within ``1..count``, in the reply's order.

    ``verb`` is what it said to do with them, None where it only listed them; ``starts`` the first words that it
    gave with a number. ``others`` are the numbers of its second list, where it parted pieces in two."""

    numbers: tuple[int, ...]
    verb: Verb | None = None
    starts: tuple[tuple[int, str], ...] = ()
    others: tuple[int, ...] = ()


def named(reply: Reply | str, count: int) -> Named:
    """The numbers of a reply about ``count`` pieces. Raises `UnparsableReply` for what is not in the grammar."""
    text = reply_text(reply)
    value = json_value(text)
    return _read_line(text, count) if value is None else _read_json(value, count)


def written(reply: Reply | str, *names: str) -> tuple[str, ...]:
    """The texts under the labels ``names`` (``Context:``), or in JSON under these keys; "" for NONE.

    A single name ``message`` is a reply without a label. Raises `UnparsableReply` when one is missing.
    """
    text = reply_text(reply)
    value = json_value(text)
    if isinstance(value, dict):
        texts = value.get("arguments") or value.get("parameters") or value
        if not all(isinstance(texts.get(name), str) for name in names):
            raise UnparsableReply(f"expected JSON with the texts {names!r}; it has {tuple(texts)!r}")
    elif names == ("message",):
        if not text:
            raise UnparsableReply("the reply is empty")
        return (text,)
    elif text and len(names) == 1 and _is_none(text):
        return ("",)
    else:
        texts = _labelled_texts(text, names)
    return tuple("" if _is_none(texts[name]) else texts[name].strip() for name in names)


def _labelled_texts(text: str, names: tuple[str, ...]) -> dict[str, str]:
    texts: dict[str, str] = {}
    name = ""
    for line in text.strip("*").split("\n"):
        label, colon, rest = line.partition(":")
        key = label.lstrip(" \t").lower()
        if colon and key in ("context", "question") and len(label) <= len(key) + 3:
            if key in texts:
                raise UnparsableReply(f"expected {key.capitalize()}: once")
            name = key
            texts[name] = rest
        elif name:
            texts[name] += "\n" + line
        elif line.strip():
            break
    if set(texts) != set(names):
        labels = " and ".join(f"{name.capitalize()}:" for name in names)
        raise UnparsableReply(f"expected {labels} and nothing before it")
    question = texts.get("question", "one line").strip()
    if not question or "\n" in question:
        raise UnparsableReply("expected the request on one line behind 'Question:', and nothing after it")
    return texts


def reply_text(reply: Reply | str) -> str:
    """What the reply says, without a fence or a tag around it.

    Raises `UnparsableReply` for no text, and for a reply that ends before the model is done thinking.
    """
    text = reply if isinstance(reply, str) else reply.text
    if not isinstance(text, str):
        raise UnparsableReply(f"expected a text as reply, got {type(text).__name__}")
    return unfenced(unwrapped(said(text), _TAGS))


def _read_json(value: Any, count: int) -> Named:
    if isinstance(value, dict):
        value = value.get("arguments") or value.get("parameters") or value
    if isinstance(value, list):
        value = {"": value}
    if not isinstance(value, dict):
        raise UnparsableReply(f"expected a list of numbers, got {value!r:.80}")
    lists = {str(key).lower(): items for key, items in value.items() if isinstance(items, list)}
    if "request" in lists:
        numbers, _ = _read_items(lists["request"], count)
        others, _ = _read_items(lists.get("opinion", []), count)
        return Named(numbers, "keep", others=others)
    if len(lists) > 1:  # of "keep" and "drop" one may be empty
        lists = {key: items for key, items in lists.items() if items or key not in ("keep", "drop")}
    if len(lists) != 1:
        raise UnparsableReply(f"expected one list of numbers, got {len(lists)} in {list(value)!r:.80}")
    ((key, items),) = lists.items()
    numbers, starts = _read_items(items, count)
    return Named(numbers, _LIST_LABELS.get(str(value.get("list", key)).lower()), starts)


def _read_items(items: list[Any], count: int) -> tuple[tuple[int, ...], tuple[tuple[int, str], ...]]:
    """The numbers of a JSON list, and the first words that it gives with them."""
    numbers: dict[int, None] = {}
    starts: dict[int, str] = {}
    if len(items) == 1 and isinstance(items[0], str) and _is_none(items[0]):
        return (), ()
    for item in items:
        number = item
        if isinstance(item, dict):
            keys = [key for key in _NUMBER_KEYS if key in item]
            is_plain = bool(keys) and len(item.keys() - _OTHER_KEYS) == 1
            number = item[keys[0]] if is_plain else None
        if isinstance(number, bool) or not isinstance(number, (int, str)):
            raise UnparsableReply(f"expected numbers of pieces, got {item!r:.80}")
        chosen = _read_numbers(str(number).strip(" ,;\n\t"), count)
        numbers.update(dict.fromkeys(chosen))
        if isinstance(item, dict) and isinstance(item.get("starts"), str) and len(chosen) == 1:
            starts[chosen[0]] = item["starts"]
    return tuple(numbers), tuple(starts.items())


def _read_line(text: str, count: int) -> Named:
    line = text.translate(_DASHES_AND_DIGITS).strip(" \n\t*#_.").casefold()
    says_none = line.startswith("none") and not any(map(str.isdigit, line))
    if says_none or (line and _is_none(line)):
        return Named(())
    items, verb = _split_label(line)
    if items.startswith("[") and items.endswith("]"):
        items = items[1:-1]
    items = items.strip()
    if items == "none":
        return Named((), verb)
    if items == "all":
        return Named(tuple(range(1, count + 1)), verb)
    if not items:
        raise UnparsableReply("expected one line of numbers, or NONE; the reply is empty")
    return Named(_read_numbers(items, count), verb)


def _split_label(line: str) -> tuple[str, Verb | None]:
    """The line without ``answer:``, ``keep`` and the like before its numbers, and what the label says to do."""
    rest = line.removeprefix("final ")
    for label, verb in _LIST_LABELS.items():
        items = rest.removeprefix(label)
        if items != rest and (items[:1].isspace() or items.startswith(":")):
            return items.lstrip().removeprefix(":").lstrip(), verb
    return line, None


def _read_numbers(text: str, count: int) -> tuple[int, ...]:
    """Each number that a text lists, once. Raises for other text, and for numbers outside ``1..count``."""
    ranges = number_ranges(text) if text else []
    if ranges is None:
        raise UnparsableReply(f"expected one line of numbers, or NONE; it is {text[:80]!r}")
    numbers: dict[int, None] = {}
    for first, last in ranges:
        if not 1 <= first <= last <= count:
            name = first if first == last else f"{first}-{last}"
            raise UnparsableReply(f"there are the pieces 1 to {count}, and it names {name}")
        numbers.update(dict.fromkeys(range(first, last + 1)))
    return tuple(numbers)


def _is_none(text: str) -> bool:
    return text.strip(" .*\"'()[]\n\t").casefold() in _NONE


@dataclass(frozen=True, slots=True)
class PartOutcome:
    """One part after its calls: the pieces to keep (extractive), or the text written for it (rewriting).

    ``kept`` has the index of each kept piece and its place in the reply, 0 for the first. ``problem`` is set when
    the part has to fall back; then there is neither. ``drop_reasons`` say of pieces that the reply named why they
    are not kept after all. ``calls`` is how many were made about it."""

    part: PassageSlice
    kept: Mapping[int, int] | None = None
    written: str | None = None
    notes: tuple[str, ...] = ()
    problem: str | None = None
    error: Exception | None = None
    drop_reasons: Mapping[int, str] = field(default_factory=dict)
    calls: int = 1


KEEPS: dict[str, Verb] = {"select": "keep", "remove": "drop", "auto": "keep"}
"""What bare numbers mean in a reply to a variant; ``auto`` names its list, see `read_selection`."""


def read_selection(request: Request, reply: Reply, variant: str) -> list[PartOutcome]:
    """The outcomes of a reply with numbers. Raises `UnparsableReply`, also where first words do not agree."""
    pieces = request.pieces
    selection = named(reply, len(pieces))
    if variant == "auto" and selection.verb is None:  # also for a bare NONE: none to keep, or none to leave out?
        raise UnparsableReply("expected KEEP or DROP before the numbers")
    if selection.starts:
        _check_first_words(request, selection)
    numbers: Sequence[int] = selection.numbers
    if (selection.verb or KEEPS[variant]) == "drop":
        numbers = sorted(set(range(1, len(pieces) + 1)) - set(numbers))
    places = {number: place for place, number in enumerate(numbers)}
    outcomes: list[PartOutcome] = []
    number = 0
    for part in request.parts:
        kept: dict[int, int] = {}
        for index in range(len(part.pieces)):
            number += 1
            if number in places:
                kept[index] = places[number]
        outcomes.append(PartOutcome(part, kept))
    return outcomes


def _check_first_words(request: Request, selection: Named) -> None:
    texts: list[str] = []
    for part in request.parts:
        texts += [part.passage.text[piece.start : piece.end] for piece in part.pieces]
    for number, starts in selection.starts:
        actual, told = _first_letters(texts[number - 1]), _first_letters(starts)
        if told and actual and not actual.startswith(told[: len(actual)]):
            raise UnparsableReply(f"piece {number} does not begin with {starts[:60]!r}")


def _first_letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))[:_FIRST_LETTERS]


def read_rewriting(request: Request, reply: Reply, *, single: bool = False) -> list[PartOutcome]:
    """The outcome of a written reply; ``single`` is one without a label.

    Raises `UnparsableReply`, also for a reply far longer than what it was to shorten.
    """
    (text,) = written(_bounded(request, reply), "message" if single else "context")
    return [PartOutcome(request.parts[0], written=text)]


def split_message(request: Request, reply: Reply) -> tuple[str, str]:
    """The facts and the request that a message was split into. Raises `UnparsableReply`."""
    context, question = written(_bounded(request, reply), "context", "question")
    return context, question


def _bounded(request: Request, reply: Reply) -> str:
    text = reply_text(reply)
    if len(text) > 4 * request.size + 20_000:
        raise UnparsableReply(f"a reply of {len(text)} characters for a text of {request.size}")
    marker = request.document.partition("\n")[0].rpartition(" ")[2]
    return text.replace(marker, "")


CORRECTED = "asked again in the same call: the first reply was unreadable"
ALONE = "asked again, alone: the joint replies were unreadable"
HALVED = "asked again with fewer: the joint call was refused"
_SHOWN_CHARACTERS = 2000  # of an unreadable reply, when the model sees it again


@dataclass(frozen=True, slots=True)
class LLMCaller:
    """Who is asked, and how. ``read`` gives the outcomes of a reply, or raises `UnparsableReply`."""

    llm: LLM
    tag: str
    read: Callable[[Request, Reply], list[PartOutcome]]
    structured: bool = True
    cache: Cache | None = None

    def outcomes(self, requests: Sequence[Request]) -> Flow[list[PartOutcome]]:
        """The outcomes of all requests. Raises a mistake; anything else becomes the problem of the parts it was
        about."""
        results = yield from self._ask_once(requests)
        yield from self._halve_refused(requests, results)
        unread = [n for n, outcomes in enumerate(results) if _is_unread(outcomes)]
        if unread:
            yield from self._correct(requests, results, unread)
        return [outcome for outcomes in results for outcome in outcomes]

    def _ask_once(self, requests: Sequence[Request]) -> Flow[list[list[PartOutcome]]]:
        replies: list[Reply | Failed] = []
        if len(requests) > 1 and self.structured and by_schema(self.llm) is None:
            replies = yield from batch((self._call(requests[0]),))
        if len(replies) < len(requests):
            replies += yield from batch(tuple(map(self._call, requests[len(replies) :])))
        return list(map(self._read, requests, replies))

    def _halve_refused(
        self, requests: Sequence[Request], results: list[list[PartOutcome]], depth: int = 0
    ) -> Flow[None]:
        """Ask again in halves what was refused, in place. Where halves and their halves are all refused too it is
        no matter of one part, and they are left as they are."""
        if any(outcome.problem is None for outcomes in results for outcome in outcomes):
            depth = 0
        refused: list[int] = []
        halves: list[Request] = []
        for n, request in enumerate(requests):
            middle = len(request.parts) // 2
            if middle and _may_concern_one_part(results[n][0].error, depth):
                refused.append(n)
                halves += [request.about(request.parts[:middle]), request.about(request.parts[middle:])]
        if not halves:
            return
        again = yield from self._ask_once(halves)
        yield from self._halve_refused(halves, again, depth + 1)
        for place, n in enumerate(refused):
            both = [*again[2 * place], *again[2 * place + 1]]
            results[n] = [replace(o, notes=(*o.notes, HALVED), calls=o.calls + 1) for o in both]

    def _correct(
        self, requests: Sequence[Request], results: list[list[PartOutcome]], unread: list[int]
    ) -> Flow[None]:
        """Ask for unreadable replies once more in the same call, then part by part, in place."""
        calls = tuple(self._corrective_call(requests[n], results[n][0]) for n in unread)
        replies = yield from batch(calls)
        singles: list[Request] = []
        for n, reply in zip(unread, replies, strict=True):
            results[n] = _with_note(self._read(requests[n], reply), CORRECTED, calls=2)
            if _is_unread(results[n]) and len(requests[n].parts) > 1:
                singles += [requests[n].about((part,)) for part in requests[n].parts]
        if not singles:
            return
        answers = iter((yield from self._ask_once(singles)))
        for n in unread:
            if _is_unread(results[n]) and len(requests[n].parts) > 1:
                results[n] = _with_note([next(answers)[0] for _ in requests[n].parts], ALONE, calls=3)

    def _call(self, request: Request, turns: tuple[Message, ...] = ()) -> Complete:
        is_held = self.structured and by_schema(self.llm) is not False
        llm = held_to_schema(self.llm, request.form.schema) if is_held else self.llm
        if self.cache is not None:
            llm = self.cache.bind(llm, lambda reply: not _is_unread(self._read(request, reply)))
        return Complete((*request.messages(is_held), *turns), self.tag, llm)

    def _corrective_call(self, request: Request, outcome: PartOutcome) -> Complete:
        """The same call with the reply in it, and one turn that asks for the form alone.

        What was wrong is enclosed: it may quote the reply, and so the document.
        """
        reply = getattr(outcome.error, "reply", "") or "(nothing)"
        correction = (
            f"That could not be read:\n{envelope(str(outcome.problem), 'problem')}\n\n"
            f"Give the same reply again, as JSON and nothing else: {request.form.restated}"
        )
        shown_reply = shown(reply[:_SHOWN_CHARACTERS])
        return self._call(request, (Message("assistant", shown_reply), Message("user", correction)))

    def _read(self, request: Request, reply: Reply | Failed) -> list[PartOutcome]:
        error: Exception
        if isinstance(reply, Failed):
            error = reply.error
            if is_mistake(error):
                raise error
        else:
            try:
                return self.read(request, reply)
            except UnparsableReply as unparsable:
                unparsable.reply = reply.text if isinstance(reply.text, str) else ""  # type: ignore[attr-defined]
                error = unparsable
        problem = format_error(str(error) if isinstance(error, UnparsableReply) else error)
        return [PartOutcome(part, problem=problem, error=error) for part in request.parts]


def _is_unread(outcomes: Sequence[PartOutcome]) -> bool:
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
    return depth < 1 and not isinstance(error, (TimeoutError, OSError, BrokenLaw))


def _with_note(outcomes: list[PartOutcome], note: str, *, calls: int) -> list[PartOutcome]:
    return [replace(outcome, notes=(*outcome.notes, note), calls=calls) for outcome in outcomes]


KNOWN = "known from an earlier call"


def selection_key(cache: Cache, query: str, part: PassageSlice, prompt: Prompt) -> str:
    """Where the selection of a part is kept: by the model, the wording, the question, and all that a model sees.

    A list in another order, or with others, asks nothing again. What is kept of a document may depend on the
    others in its call; a known selection is the one made then.
    """
    wording = f"{prompt.name} {prompt.version}\n{prompt.system}\n{prompt.user}\n{prompt.held}"
    document = "\n".join(part.lines(1))
    return cache.key(
        (Message("system", f"selection: {wording}"), Message("user", query), Message("user", document))
    )


def look_up_selection(cache: Cache, part: PassageSlice) -> PartOutcome | None:
    """The outcome of a part that is known. A store that fails knows nothing."""
    text = cache.known(part.cache_key)
    if text is None:
        return None
    kept: dict[int, int] = {}
    try:
        for index, place in json.loads(text):
            kept[range(len(part.pieces))[index]] = int(place)
    except (ValueError, TypeError, IndexError):
        return None  # another program's entry
    return PartOutcome(part, kept, notes=(KNOWN,), calls=0)


def store_selections(cache: Cache, outcomes: Sequence[PartOutcome]) -> None:
    """Keep what could be read."""
    for outcome in outcomes:
        if outcome.problem is None and outcome.kept is not None:
            cache.keep(outcome.part.cache_key, json.dumps(list(outcome.kept.items())))
