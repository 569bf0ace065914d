"""Read a model's reply: tolerant of its manners, strict about its content.

Thinking blocks, code fences, JSON, Markdown and small talk around a well-formed line are seen through. What
cannot be read is an `UnparsableReply`; nothing is ever guessed from prose that happens to hold digits.
Every function is linear in the length of the reply.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from denoise_core.errors import UnparsableReply

Verb = Literal["keep", "drop"]

_THOUGHTS = ("think", "thinking", "thought", "reasoning", "scratchpad")
_LABEL = re.compile(
    r"[\s>#*_`-]{0,8}(?:(?:unbiased|neutral|relevant|remaining|rewritten|cleaned|the|final) ){0,3}"
    r"(context|question)[*_`]{0,3}\s{0,2}[:：][*_`]{0,3}[ \t]*",
    re.IGNORECASE,
)
_NOTHING = frozenset({"none", "nothing", "n/a", "(none)", "[none]", "empty", "no relevant text"})
_TOKEN = re.compile(r"\d+|[^\W\d_]+|[^\w\s]|_|\n")
_RANGE = frozenset("-–—‐−~～") | {"to", "through", "until", "bis"}
_FILLER = frozenset(",;:.、，；。،[](){}<>#*`_&+/|\"'：") | {
    *("and", "the", "are", "is", "sentence", "sentences", "piece", "pieces", "number", "numbers", "no", "nos"),
    *("answer", "reply", "line", "lines", "item", "items", "und", "et", "y", "e"),
}
_BRACKETS = frozenset("()[]{}*`_")
_KEEP = frozenset({"keep", "kept", "select", "selected", "needed", "relevant"})
_DROP = frozenset({"drop", "dropped", "remove", "removed", "irrelevant", "out", "leave"})


@dataclass(frozen=True, slots=True)
class Fields:
    """The two fields of a rewriting reply. ``context`` is "" when the model said that nothing is left."""

    context: str
    question: str | None


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers that a reply named, each once and in order, all within ``1..count``.

    ``verb`` is what the reply itself said to do with them, None if it only listed them. ``repeated`` were
    named more than once, ``unknown`` lie outside; a range is cut to what exists.
    """

    chosen: tuple[int, ...]
    verb: Verb | None = None
    repeated: tuple[int, ...] = ()
    unknown: tuple[str, ...] = ()


def clean(text: str) -> str:
    """The reply without thinking blocks and without a code fence around the whole of it."""
    for tag in _THOUGHTS:
        text = _without_block(text, f"<{tag}>", f"</{tag}>")
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and len(text) >= 6:
        first, _, rest = text[3:-3].partition("\n")
        # The opening line may carry a language name; without a line break the fence holds the text itself.
        text = (rest if not first.strip() or first.strip().isalnum() else text[3:-3]) if rest else first
    return text.strip()


def fields(reply: str) -> Fields:
    """The context and the question of a two-field reply; a missing question is None.

    The last question label counts, because the text itself may hold such lines.
    Raises `UnparsableReply` when there is no context field.
    """
    text = clean(reply)
    data = _json(text)
    if isinstance(data, dict):
        named = {str(k).lower(): v for k, v in data.items()}
        context, question = named.get("context"), named.get("question")
        if isinstance(context, str):
            return Fields(_something(context), _asked(question if isinstance(question, str) else None))
        raise _unparsable("no field 'context' that is a text", reply)
    start: int | None = None
    first_end = question_at = question_end = -1
    at = 0
    for line in text.splitlines(keepends=True):
        label = _LABEL.match(line)
        if label:
            if label[1].lower() == "context" and start is None:
                start, first_end = at, at + label.end()
            elif label[1].lower() == "question" and start is not None:
                question_at, question_end = at, at + label.end()
        at += len(line)
    if start is None:
        raise _unparsable("no line 'Context:'", reply)
    if question_at < 0:
        return Fields(_something(text[first_end:]), None)
    return Fields(_something(text[first_end:question_at]), _asked(text[question_end:]))


def message(reply: str) -> str:
    """An unpartitioned rewrite. Raises `UnparsableReply` when it is empty."""
    text = clean(reply)
    if not text:
        raise _unparsable("an empty reply", reply)
    return text


def numbers(reply: str, count: int) -> Numbers:
    """The numbers that a reply names, of pieces ``1..count``.

    Looked for in JSON (``[1, 3]`` or ``{"keep": [1, 3]}``), in the reply as a whole, and then in its last
    and its first line. Raises `UnparsableReply` when none of them is a plain list, or when no number exists.
    """
    text = clean(reply)
    lines = [line for line in text.splitlines() if line.strip()]
    found = _json_numbers(_json(text), count)
    for candidate in [text, *lines[-1:], *lines[:1]]:
        found = found or _listed(candidate, count)
    if found is None:
        raise _unparsable("expected numbers such as '2, 5-7', or NONE", reply)
    if found.unknown and not found.chosen:
        raise _unparsable(f"only numbers outside 1..{count}", reply)
    return found


def _without_block(text: str, opening: str, closing: str) -> str:
    lowered = text.lower()
    if len(lowered) != len(text):  # a character whose lower case is longer: positions would not agree
        lowered = text
    kept: list[str] = []
    at = 0
    if closing in lowered and (opening not in lowered or lowered.find(closing) < lowered.find(opening)):
        at = lowered.find(closing) + len(closing)  # the template had already opened the block
    while (start := lowered.find(opening, at)) >= 0:
        kept.append(text[at:start])
        end = lowered.find(closing, start)
        if end < 0:
            return "".join(kept)
        at = end + len(closing)
    return "".join(kept) + text[at:]


def _json(text: str) -> Any:
    if not text.startswith(("{", "[")):
        return None
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _json_numbers(data: Any, count: int) -> Numbers | None:
    verb: Verb | None = None
    if isinstance(data, dict):
        lists = [(str(k).lower(), v) for k, v in data.items() if isinstance(v, list)]
        if len(lists) != 1:
            return None
        key, data = lists[0]
        verb = "keep" if key in _KEEP else "drop" if key in _DROP else None
    if not isinstance(data, list):
        return None
    ranges: list[tuple[int, int]] = []
    for item in data:
        if isinstance(item, int) and not isinstance(item, bool):
            ranges.append((item, item))
        elif isinstance(item, str) and (inner := _listed(item, count)):
            ranges += [(n, n) for n in inner.chosen] + [(int(u), int(u)) for u in inner.unknown if u.isdigit()]
        else:
            return None
    return _collect(ranges, count, verb)


def _listed(text: str, count: int) -> Numbers | None:
    """The list in ``text``, or None when it holds any word that a plain list would not."""
    verb: Verb | None = None
    ranges: list[tuple[int, int]] = []
    everything = nothing = pending = after_number = False
    for token in _TOKEN.findall(text):
        word = token.lower()
        if token[0].isdecimal():
            number = int(token) if len(token) <= 9 else 10**9
            if pending and ranges:
                ranges[-1] = (ranges[-1][0], number)
            else:
                ranges.append((number, number))
            pending, after_number = False, True
            continue
        if token in _BRACKETS:
            continue
        if word in _RANGE:
            pending = after_number  # a dash elsewhere begins a list item
        elif token == "\n":
            pending = False
        elif word in _KEEP or word in _DROP:
            said: Verb = "keep" if word in _KEEP else "drop"
            if verb not in (None, said):
                return None
            verb = said
        elif word == "all" or word == "everything":
            everything = True
        elif word in ("none", "nothing"):
            nothing = True
        elif word not in _FILLER:
            return None
        after_number = False
    if everything + nothing + bool(ranges) != 1 and not (text.strip() == "[]" and not ranges):
        return None
    if everything:
        ranges = [(1, count)]
    return _collect(ranges, count, verb)


def _collect(ranges: Iterable[tuple[int, int]], count: int, verb: Verb | None) -> Numbers:
    steps = [0] * (count + 2)  # +1 where a range begins, -1 after it ends: their sums say how often each is named
    unknown: list[str] = []
    for a, b in ranges:
        low, high = min(a, b), max(a, b)
        if low < 1 or high > count:
            unknown.append(str(a) if a == b else f"{a}-{b}")
        low, high = max(low, 1), min(high, count)
        if low <= high:
            steps[low] += 1
            steps[high + 1] -= 1
    times = list(itertools.accumulate(steps))
    chosen = tuple(n for n in range(1, count + 1) if times[n])
    repeated = tuple(n for n in chosen if times[n] > 1)
    return Numbers(chosen, verb, repeated, tuple(dict.fromkeys(unknown)))


def _something(text: str) -> str:
    text = text.strip()
    return "" if text.strip(".!() \n").lower() in _NOTHING else text


def _asked(text: str | None) -> str | None:
    return (text or "").strip() or None


def _unparsable(expected: str, reply: str) -> UnparsableReply:
    begins = reply.strip()[:80]
    return UnparsableReply(f"{expected}; the reply begins {begins!r}" if begins else "the reply is empty")
