"""What a text says that must not change: facts, each with the characters it stands in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

FactKind = Literal["number", "date", "name"]


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact in the characters ``[start, end)`` of its text.

    ``norm`` is what two texts are compared by: a number's value in plain digits, a date as ``1962-07-04`` with
    ``?`` for what is not said (``195?`` is the fifties, ``????-07`` a July), a name's folded words. ``unit`` is a
    number's unit (``km``, ``%``, ``usd``; '' for none), ``values`` are the readings that its writing allows
    (``1.200``). ``doubtful`` is a name that may be a word which only opens a sentence.
    """

    kind: FactKind
    norm: str
    start: int
    end: int
    unit: str = ""
    values: tuple[float, ...] = ()
    is_uncertain: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """A fact of a claim that the source does not bear out.

    ``start`` and ``end`` are characters of the claim, ``source_start`` and ``source_end`` those of what the
    source says instead (None when it says nothing of the kind); ``said`` and ``stands`` are the two in words.
    """

    kind: str
    claimed_text: str = field(metadata={"json": "said"})
    source_text: str = field(metadata={"json": "stands"})
    start: int
    end: int
    source_start: int | None = None
    source_end: int | None = None

    def __str__(self) -> str:
        if self.source_text:
            return f"{self.kind}: {self.claimed_text!r}, where the source has {self.source_text!r}"
        return f"{self.kind}: {self.claimed_text!r} stands nowhere in the source"
