"""What a text states and a copy must not change: numbers, dates and names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

FactKind = Literal["number", "date", "name"]


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact and its characters ``[start, end)``.

    Attributes:
        kind: Number, date or name.
        norm: The form in which two texts are compared: a number's value in plain
            digits; a date such as ``1962-07-04``, with ``?`` for digits left open
            (``195?`` is the fifties, ``????-07`` a July); a name's folded words.
        start: First character.
        end: Character after the last one.
        unit: Unit of a number (``km``, ``%``, ``usd``), ``""`` for none.
        values: What the number may mean (``1.200``), the likeliest value first.
        is_uncertain: True if a name may be a common word that opens a sentence.
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
    """A fact of a claim that the source does not support.

    Attributes:
        kind: Kind of the fact.
        claimed_text: The claim's words.
        source_text: What the source says instead, ``""`` if nothing of this kind.
        start: First character of the fact in the claim.
        end: Character after the last one.
        source_start: First character of ``source_text`` in the source, or None.
        source_end: Character after the last one, or None.
    """

    kind: str
    # The JSON keys are older than the names.
    claimed_text: str = field(metadata={"json": "said"})
    source_text: str = field(metadata={"json": "stands"})
    start: int
    end: int
    source_start: int | None = None
    source_end: int | None = None

    def __str__(self) -> str:
        """Describe the difference in one line."""
        claim = f"{self.kind}: {self.claimed_text!r}"
        if self.source_text:
            return f"{claim}, where the source has {self.source_text!r}"
        return f"{claim} is not in the source"
