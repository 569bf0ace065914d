"""What an answer rests on: the quotes of its supported claims, each once, to be held against the passages again
without any model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from denoise_core.errors import InputError
from denoise_core.spans import is_within
from denoise_core.support.judging import Judged, Quote
from denoise_core.types import Passage, Span


@dataclass(frozen=True, slots=True)
class Proof:
    """``claims`` are the answer's characters ``(start, end)`` that are supported, each with the places in
    ``quotes`` of what it rests on; ``open`` are those that are not. No quote lies within another, and each is
    needed by a claim. ``judge`` is the id of what judged."""

    answer: str
    quotes: tuple[Quote, ...]
    claims: tuple[tuple[int, int, tuple[int, ...]], ...]
    open: tuple[tuple[int, int], ...] = ()
    judge: str = ""

    @property
    def whole(self) -> bool:
        """Every claim rests on a quote."""
        return bool(self.claims) and not self.open

    def replay(self, passages: Sequence[Passage]) -> tuple[str, ...]:
        """What does not stand where it did, in words; none when all quotes do. Asks no model."""
        texts = {p.id: p.text for p in passages}
        lost = []
        for q in self.quotes:
            text = texts.get(q.span.passage_id)
            if text is None:
                lost.append(f"the passage {q.span.passage_id!r} is not there")
            elif text[q.span.start : q.span.end] != q.text:
                lost.append(
                    f"{q.span.passage_id!r}, characters {q.span.start} to {q.span.end}: not {q.text[:80]!r}"
                )
        return tuple(lost)

    def as_json(self) -> dict[str, Any]:
        """Plain values, which `from_json` reads."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Proof:
        """The proof that `as_json` wrote. Raises `InputError` for anything else."""
        try:
            quotes = tuple(Quote(Span(**q["span"]), q["text"], q["relation"]) for q in data["quotes"])
            claims = tuple((int(a), int(b), tuple(map(int, on))) for a, b, on in data["claims"])
            left = tuple((int(a), int(b)) for a, b in data["open"])
            return Proof(str(data["answer"]), quotes, claims, left, str(data["judge"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"proof: not as Proof.as_json() writes it: {error!r}") from error


def proof_of(answer: str, claims: Sequence[Judged], judge: str = "") -> Proof | None:
    """The proof of an answer from what was said of its claims; None where none rests on a quote."""
    told = [[q for q in c.quotes if q.relation == "supports"] if c.supported else [] for c in claims]
    quotes = {q.span: q for own in told for q in own}.values()
    spans = sorted(quotes, key=lambda q: (q.span.passage_id, q.span.start, -q.span.end))
    kept: list[Quote] = []
    for quote in spans:  # those that begin first and end last come first: what lies within one goes
        if not any(is_within(quote.span, k.span) for k in kept):
            kept.append(quote)
    proven, left = [], []
    for claim, own in zip(claims, told, strict=True):
        on = sorted({n for q in own for n, k in enumerate(kept) if is_within(q.span, k.span)})
        if on:
            proven.append((claim.start, claim.end, tuple(on)))
        else:
            left.append((claim.start, claim.end))
    return Proof(answer, tuple(kept), tuple(proven), tuple(left), judge) if proven else None
