"""What a reply means for the passages it was asked about."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from denoise_core.errors import UnparsableReply, said
from denoise_core.s2a.asks import Ask, Part
from denoise_core.s2a.replies import fields
from denoise_core.s2a.replies.collected import Verb
from denoise_core.s2a.replies.numbers import numbers
from denoise_core.types import Reply, Span


@dataclass(frozen=True, slots=True)
class Outcome:
    """One part after its call: the spans to keep (extractive), or the text written for it (rewriting).

    ``order`` is the place of each kept piece in the reply, 0 for the first. ``problem`` is set when the part has
    to fall back; then it has neither. ``over`` says of pieces that the reply named
    why they are not kept after all.
    """

    part: Part
    kept: tuple[Span, ...] | None = None
    written: str | None = None
    notes: tuple[str, ...] = ()
    problem: str | None = None
    error: Exception | None = None
    order: dict[Span, int] = field(default_factory=dict)
    over: dict[Span, str] = field(default_factory=dict)


def failed(ask: Ask, error: Exception) -> list[Outcome]:
    why = said(str(error) if isinstance(error, UnparsableReply) else error)
    return [Outcome(part, problem=why, error=error) for part in ask.parts]


def selection(ask: Ask, reply: Reply, *, verb: Verb | None) -> list[Outcome]:
    """The outcomes of a numbers reply. ``verb`` is what bare numbers mean; None: the reply must say.

    Raises `UnparsableReply`.
    """
    text = text_of(reply)
    pieces = ask.pieces
    found = numbers(_repeated(ask, text.replace(ask.marker, "")), len(pieces))
    said = found.verb or verb
    if said is None:  # also for a bare NONE: none to keep, or none to leave out?
        raise UnparsableReply(f"expected KEEP or DROP in the reply; it begins {text.strip()[:80]!r}")
    every = range(1, len(pieces) + 1)
    keep = found.named if said == "keep" else tuple(n for n in every if n not in set(found.chosen))
    notes = []
    if found.unknown:
        notes.append(f"numbers outside 1..{len(pieces)} were ignored: {', '.join(found.unknown[:10])}")
    if found.repeated:
        notes.append(f"numbers named more than once: {', '.join(map(str, found.repeated[:10]))}")
    if ask.marker in text:
        notes.append(_MARKER)
    named: dict[str, list[Span]] = {part.passage.id: [] for part in ask.parts}
    for n in keep:
        named[pieces[n - 1].passage_id].append(pieces[n - 1])
    order = {pieces[n - 1]: place for place, n in enumerate(keep)}
    outcomes = []
    for part in ask.parts:
        own = set(part.spans)
        kept = tuple(span for span in named[part.passage.id] if span in own)
        outcomes.append(Outcome(part, kept=kept, notes=tuple(notes), order=order))
    return outcomes


def rewriting(ask: Ask, reply: Reply, *, single: bool = False) -> list[Outcome]:
    """The outcomes of a written reply; ``single`` is one without fields.

    Raises `UnparsableReply`, also for a reply far longer than what it was to shorten.
    """
    text = _written(ask, reply)
    count = len(ask.parts)
    notes = (_MARKER,) if ask.marker in text_of(reply) else ()
    if count > 1:
        texts = fields.documents(text, count)
    else:
        texts = {1: fields.message(text) if single else fields.context(text)}
    return [Outcome(part, written=texts.get(n, ""), notes=notes) for n, part in enumerate(ask.parts, 1)]


def parted(ask: Ask, reply: Reply) -> tuple[Outcome, str]:
    """The facts and the request that a message was parted in. Raises `UnparsableReply`."""
    found = fields.fields(_written(ask, reply))
    return Outcome(ask.parts[0], written=found.context), found.question


def text_of(reply: Reply) -> str:
    """The reply's text. Raises `UnparsableReply` for a model wrapper that passes on an empty message."""
    if not isinstance(reply.text, str):
        raise UnparsableReply(f"expected a text as reply, got {type(reply.text).__name__}")
    return reply.text


_NUMBERED_LINE = re.compile(r"^[ \t*-]{0,4}(\d{1,5})[ \t]{1,4}(?=\S)(.{1,200})", re.MULTILINE)
_SAME = 12  # characters by which a piece is known again, or all of a shorter one


def _repeated(ask: Ask, text: str) -> str:
    """The reply with brackets around the numbers of pieces that it writes out as the prompt has them."""

    def bracketed(line: re.Match[str]) -> str:
        n = int(line[1])
        if not 1 <= n <= len(ask.pieces):
            return line[0]
        own = ask.pieces[n - 1]
        source = next(p.passage.text for p in ask.parts if own in p.spans)[own.start : own.end].strip()[:_SAME]
        written = line[2].rstrip(" .…")[:_SAME]
        known = source.startswith(written) and (len(written) > _SAME // 2 or written == source)
        return f"[{n}] {line[2]}" if known else line[0]

    return _NUMBERED_LINE.sub(bracketed, text)


_MARKER = "the reply held the marker of its call"


def _written(ask: Ask, reply: Reply) -> str:
    text = text_of(reply)
    if len(text) > 4 * ask.size + 20_000:
        raise UnparsableReply(f"a reply of {len(text)} characters for a text of {ask.size}")
    return text.replace(ask.marker, "")
