"""What a reply means for the passages it was asked about."""

from __future__ import annotations

import re
from dataclasses import dataclass

from denoise_core.errors import UnparsableReply
from denoise_core.s2a.alignment.gate import asks
from denoise_core.s2a.asks import Ask, Part
from denoise_core.s2a.replies import parse
from denoise_core.s2a.units import units
from denoise_core.types import Passage, Span

_HEADING = re.compile(r"[ \t*#]{0,4}\[document (\d{1,6})\][*:]{0,3}[ \t]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One part after its call: the spans to keep (extractive), or the text written for it (rewriting).

    ``problem`` is set when the part has to fall back; then neither of the others is.
    """

    part: Part
    kept: tuple[Span, ...] | None = None
    written: str | None = None
    notes: tuple[str, ...] = ()
    problem: str | None = None
    error: Exception | None = None


def failed(ask: Ask, error: Exception) -> list[Outcome]:
    why = str(error) if isinstance(error, UnparsableReply) else f"{type(error).__name__}: {error}"
    return [Outcome(part, problem=why, error=error) for part in ask.parts]


def selection(ask: Ask, reply: str, *, verb: parse.Verb | None) -> list[Outcome]:
    """The outcomes of a numbers reply. ``verb`` is what bare numbers mean; None: the reply must say.

    Raises `UnparsableReply`.
    """
    pieces = ask.pieces
    found = parse.numbers(reply.replace(ask.marker, ""), len(pieces))
    said = found.verb or verb
    if said is None and found.chosen:
        raise UnparsableReply(f"expected KEEP or DROP before the numbers; the reply begins {reply.strip()[:80]!r}")
    keep = set(found.chosen) if said != "drop" else set(range(1, len(pieces) + 1)) - set(found.chosen)
    notes = []
    if found.unknown:
        notes.append(f"numbers outside 1..{len(pieces)} were ignored: {', '.join(found.unknown[:10])}")
    if found.repeated:
        notes.append(f"numbers named more than once: {', '.join(map(str, found.repeated[:10]))}")
    if ask.marker in reply:
        notes.append("the reply held the marker of its call")
    outcomes = []
    number = 0
    for part in ask.parts:
        chosen = tuple(span for n, span in enumerate(part.spans, number + 1) if n in keep)
        number += len(part.spans)
        outcomes.append(Outcome(part, kept=chosen, notes=tuple(notes)))
    return outcomes


def rewriting(ask: Ask, reply: str, *, single: bool = False) -> tuple[list[Outcome], str | None]:
    """The outcomes of a written reply, and the question it gave; ``single`` is one without fields.

    Raises `UnparsableReply`, also for a reply far longer than what it was to shorten.
    """
    longest = 4 * ask.size + 2000
    if len(reply) > longest:
        raise UnparsableReply(f"a reply of {len(reply)} characters for a text of {ask.size}")
    cleared = reply.replace(ask.marker, "")
    found = _message(ask, cleared) if single else parse.fields(cleared)
    texts, notes = _by_document(found.context, len(ask.parts))
    if ask.marker in reply:
        notes.append("the reply held the marker of its call")
    if found.question is None and not single:
        notes.append("the reply gave no question")
    return [Outcome(p, written=t, notes=tuple(notes)) for p, t in zip(ask.parts, texts)], found.question


def _message(ask: Ask, reply: str) -> parse.Fields:
    """A reply without fields. One that asks the question and says nothing else found nothing to keep."""
    text = parse.message(reply)
    said = [text[s.start : s.end] for s in units(Passage(text, "reply"))]
    stated = any(s in part.text for s in said for part in ask.parts)
    if said and not stated and all(asks(s, ask.question) for s in said):
        return parse.Fields("", text)
    return parse.Fields(text, None)


def _by_document(text: str, count: int) -> tuple[list[str], list[str]]:
    """The text under each ``[document N]`` heading, and notes. Raises `UnparsableReply` without headings."""
    texts: list[list[str]] = [[] for _ in range(count)]
    notes: list[str] = []
    current: list[str] = texts[0] if count == 1 else []
    headed = count == 1 or not text
    for line in text.splitlines(keepends=True):
        heading = _HEADING.match(line)
        if heading and 1 <= int(heading[1]) <= count:
            current, headed = texts[int(heading[1]) - 1], True
            current.append(line[heading.end() :])
        elif heading and count > 1:
            notes.append(f"there is no document {heading[1]}; the text under that heading was left out")
            current = []
        else:
            current.append(line)
    if not headed:
        raise UnparsableReply(f"no line [document N] in a reply about {count} documents")
    return ["".join(t).strip() for t in texts], notes
