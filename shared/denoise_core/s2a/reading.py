"""What a reply means for the passages it was asked about."""

from __future__ import annotations

from dataclasses import dataclass, field

from denoise_core.errors import UnparsableReply, said
from denoise_core.s2a.asks import Ask, Part
from denoise_core.s2a.replies import Named, Verb, named, said_by, written
from denoise_core.types import Reply, Span

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


_FIRST = 12  # letters and digits of a piece's first words that must agree


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
