"""What a reply says, and what that means for the passages it was asked about.

It is read by a strict grammar: JSON, also in fences, or one list of numbers and ranges, or NONE. Nothing is
guessed from prose: what is neither is asked for once more (`calling`). Words are no numbers. What is stripped
beforehand is no part of what a model says: thinking aloud, control tokens, emphasis.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from denoise_core.errors import UnparsableReply, said
from denoise_core.s2a.asks import Ask, Part
from denoise_core.text.replies import number_ranges
from denoise_core.types import Reply, Span

Verb = Literal["keep", "drop"]

# What stands before one of these is thought.
_THOUGHT = ("</think>", "</thinking>", "</reasoning>", "<|channel|>final<|message|>")
_CONTROL = re.compile(r"<\|[a-z_]{1,24}\|>|</s>\Z|\[/?INST\]")
_WRAPPED = re.compile(r"\A<([a-z_]{2,20})>(.*)</\1>\Z|\A`{3,}[a-z]{0,9}\s*\n(.*?)\n?`{3,}\Z", re.DOTALL)
_LISTED = {"answer": None, "pieces": None, "numbers": None, "keep": "keep", "drop": "drop"}
_LABEL = re.compile(r"^[ \t]{0,3}(Context|Question):[ \t]{0,9}", re.MULTILINE | re.IGNORECASE)
_FIRST = 12  # letters and digits of a piece's first words that must agree
_NUMBER = ("n", "id", "number", "piece", "index")
_BESIDE = {"starts", "text", "reason"}  # what may stand with a number; a verdict or a score may not


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
    """The numbers of a reply about ``count`` pieces. Raises `UnparsableReply` for what the grammar does not
    have."""
    text = said_by(reply)
    found = _json(text)
    if found is None:
        return _listed(text, count)
    return _of_json(found, count)


def written(reply: Reply | str, *names: str) -> tuple[str, ...]:
    """The texts under the labels ``names`` (``Context:``), or in JSON under these keys; "" for NONE.

    A single name ``message`` is a reply without a label. Raises `UnparsableReply` when one is missing.
    """
    text = said_by(reply)
    found = _json(text)
    if isinstance(found, dict):
        return _of_keys(found, names)
    if names == ("message",):
        if not text:
            raise UnparsableReply("the reply is empty")
        return (text,)
    if text and len(names) == 1 and _is_none(text):
        return ("",)
    return _of_labels(text, names)


def _of_keys(found: dict[str, Any], names: tuple[str, ...]) -> tuple[str, ...]:
    found = found.get("arguments") or found.get("parameters") or found
    if not all(isinstance(found.get(name), str) for name in names):
        raise UnparsableReply(f"expected JSON with {_and(names)} as text; it has {_and(tuple(map(str, found)))}")
    return tuple(_unless_none(found[name]) for name in names)


def _of_labels(text: str, names: tuple[str, ...]) -> tuple[str, ...]:
    parts = _LABEL.split(text.strip("*"))
    given = {label.lower(): body for label, body in zip(parts[1::2], parts[2::2], strict=True)}
    if parts[0].strip() or len(parts) != 1 + 2 * len(names) or set(given) != set(names):
        raise UnparsableReply(f"expected {_and(tuple(f'{n.capitalize()}:' for n in names))} and nothing before it")
    question = given.get("question", "one line").strip()
    if not question or "\n" in question:
        raise UnparsableReply("expected the request on one line behind 'Question:', and nothing after it")
    return tuple(_unless_none(given[name]) for name in names)


def said_by(reply: Reply | str) -> str:
    """The reply without thinking and control tokens. Raises `UnparsableReply` for no text and for endless
    thought."""
    text = reply if isinstance(reply, str) else reply.text
    if not isinstance(text, str):
        raise UnparsableReply(f"expected a text as reply, got {type(text).__name__}")
    for end in _THOUGHT:
        text = text.rpartition(end)[2]
    text = _CONTROL.sub("", text).strip()
    if text.startswith(("<think", "<reasoning")):
        raise UnparsableReply("the reply ends before the model is done thinking")
    while wrapped := _WRAPPED.match(text):
        text = (wrapped[2] or wrapped[3] or "").strip()
    return text


def _json(text: str) -> Any:
    """The JSON value that the text is, None where it is none."""
    if not text.startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _of_json(found: Any, count: int) -> Named:
    if isinstance(found, dict):
        found = found.get("arguments") or found.get("parameters") or found
    if isinstance(found, list):
        found = {"": found}
    if not isinstance(found, dict):
        raise UnparsableReply(f"expected a list of numbers, got {found!r:.80}")
    lists = {str(key).lower(): value for key, value in found.items() if isinstance(value, list)}
    if "request" in lists:
        numbers, _ = _items(lists["request"], count)
        others, _ = _items(lists.get("opinion", []), count)
        return Named(numbers, "keep", others=others)
    if {"keep", "drop"} <= set(lists):
        lists = {key: value for key, value in lists.items() if key not in ("keep", "drop") or value}
    if len(lists) != 1:
        raise UnparsableReply(f"expected one list of numbers, got {len(lists)} in {list(found)!r:.80}")
    ((key, value),) = lists.items()
    told = str(found.get("list", key)).lower()
    numbers, starts = _items(value, count)
    return Named(numbers, told if told in ("keep", "drop") else None, starts)  # type: ignore[arg-type]


def _items(values: list[Any], count: int) -> tuple[tuple[int, ...], tuple[tuple[int, str], ...]]:
    numbers: dict[int, None] = {}
    starts: dict[int, str] = {}
    for value in values:
        first = value
        if isinstance(value, dict):
            first = next((value[k] for k in _NUMBER if k in value), None)
            if len(set(value) - _BESIDE) > 1:
                first = None
        if isinstance(first, str) and _is_none(first) and len(values) == 1:
            return (), ()
        if isinstance(first, bool) or not isinstance(first, (int, str)):
            raise UnparsableReply(f"expected numbers of pieces, got {value!r:.80}")
        own = _ranges(str(first), count)
        numbers.update(dict.fromkeys(own))
        if isinstance(value, dict) and isinstance(value.get("starts"), str) and len(own) == 1:
            starts[own[0]] = value["starts"]
    return tuple(numbers), tuple(starts.items())


def _listed(text: str, count: int) -> Named:
    bare = text.translate(_FOLDED).strip(" \n\t*#_.")
    told = bare.casefold()
    if (told.startswith("none") and not any(c.isdigit() for c in told)) or (told and _is_none(told)):
        return Named(())
    items, verb = _without_label(told)
    if items.startswith("[") and items.endswith("]"):
        items = items[1:-1]
    if items == "all":
        return Named(tuple(range(1, count + 1)), verb)
    if items == "none":
        return Named((), verb)
    ranges = number_ranges(items.strip())
    if not ranges:
        raise UnparsableReply(f"expected one line of numbers, or NONE; the reply begins {text.strip()[:80]!r}")
    return Named(_within(ranges, count), verb)


def _without_label(line: str) -> tuple[str, Verb | None]:
    """The line without ``answer:``, ``keep`` and the like before its numbers, and what the label says to do."""
    rest = line.removeprefix("final ")
    for label, verb in _LISTED.items():
        if rest.startswith(label):
            items = rest.removeprefix(label)
            if items[:1].isspace() or items.startswith(":"):
                return items.lstrip().removeprefix(":").lstrip(), verb  # type: ignore[return-value]
    return line, None


def _ranges(text: str, count: int) -> tuple[int, ...]:
    """The numbers of one JSON value. Raises for other text, and for numbers outside ``1..count``."""
    items = text.strip(" ,;\n\t")
    if not items:
        return ()
    ranges = number_ranges(items)
    if ranges is None:
        raise UnparsableReply(f"expected numbers and ranges, got {text[:80]!r}")
    return _within(ranges, count)


def _within(ranges: list[tuple[int, int]], count: int) -> tuple[int, ...]:
    """Each number of the ranges once, in order. Raises for numbers outside ``1..count``."""
    chosen: dict[int, None] = {}
    for first, last in ranges:
        if not 1 <= first <= last <= count:
            named_range = f"{first}" if first == last else f"{first}-{last}"
            raise UnparsableReply(f"there are the pieces 1 to {count}, and it names {named_range}")
        chosen.update(dict.fromkeys(range(first, last + 1)))
    return tuple(chosen)


def _is_none(text: str) -> bool:
    return text.strip(" .*\"'()[]\n\t").casefold() in ("none", "n/a", "null", "nothing", "empty", "")


def _unless_none(text: str) -> str:
    return "" if _is_none(text) else text.strip()


def _and(names: tuple[str, ...]) -> str:
    return " and ".join(map(repr, names))


_FOLDED = str.maketrans(
    dict.fromkeys("‐‑‒–—−~～－", "-") | dict.fromkeys("、，", ",") | {chr(0xFF10 + n): str(n) for n in range(10)}
)


MEANS: dict[str, Verb] = {"select": "keep", "remove": "drop", "auto": "keep"}
"""What bare numbers mean in a reply to a variant; ``auto`` names its list, see `selection`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One part after its calls: the spans to keep (extractive), or the text written for it (rewriting).

    ``order`` is the place of each kept piece in the reply, 0 for the first. ``problem`` is set when the part has
    to fall back; then it has neither. ``over`` says of pieces that the reply named why they are not kept after
    all. ``calls`` is how many were made about it."""

    part: Part
    kept: tuple[Span, ...] | None = None
    written: str | None = None
    notes: tuple[str, ...] = ()
    problem: str | None = None
    error: Exception | None = None
    order: dict[Span, int] = field(default_factory=dict)
    over: dict[Span, str] = field(default_factory=dict)
    calls: int = 1


def failed(ask: Ask, error: Exception) -> list[Outcome]:
    """The outcomes of a call that brought nothing."""
    why = said(str(error) if isinstance(error, UnparsableReply) else error)
    return [Outcome(part, problem=why, error=error) for part in ask.parts]


def selection(ask: Ask, reply: Reply, variant: str) -> list[Outcome]:
    """The outcomes of a reply with numbers. Raises `UnparsableReply`, also where first words do not agree."""
    pieces = ask.pieces
    found = named(reply, len(pieces))
    if variant == "auto" and found.verb is None:  # also for a bare NONE: none to keep, or none to leave out?
        raise UnparsableReply("expected KEEP or DROP before the numbers")
    _agree(ask, found)
    keep = found.numbers
    if (found.verb or MEANS[variant]) == "drop":
        keep = tuple(n for n in range(1, len(pieces) + 1) if n not in set(found.numbers))
    order = {pieces[n - 1]: place for place, n in enumerate(keep)}
    return [Outcome(part, kept=tuple(s for s in order if s in set(part.spans)), order=order) for part in ask.parts]


def _agree(ask: Ask, found: Named) -> None:
    """Raises `UnparsableReply` for first words that are not those of the piece with their number."""
    pieces = ask.pieces
    for number, starts in found.starts:
        own, told = _letters(ask.text(pieces[number - 1])), _letters(starts)
        if told and own and not own.startswith(told[: len(own)]):
            raise UnparsableReply(f"piece {number} does not begin with {starts[:60]!r}")


def _letters(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())[:_FIRST]


def rewriting(ask: Ask, reply: Reply, *, single: bool = False) -> list[Outcome]:
    """The outcome of a written reply; ``single`` is one without a label.

    Raises `UnparsableReply`, also for a reply far longer than what it was to shorten.
    """
    text = _bounded(ask, reply)
    return [Outcome(ask.parts[0], written=written(text, "message" if single else "context")[0])]


def parted(ask: Ask, reply: Reply) -> tuple[str, str]:
    """The facts and the request that a message was parted in. Raises `UnparsableReply`."""
    context, question = written(_bounded(ask, reply), "context", "question")
    return context, question


def _bounded(ask: Ask, reply: Reply) -> str:
    text = said_by(reply)
    if len(text) > 4 * ask.size + 20_000:
        raise UnparsableReply(f"a reply of {len(text)} characters for a text of {ask.size}")
    return text.replace(ask.marker, "")
