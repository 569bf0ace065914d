"""What a policy can choose. The paper has three (section 2.2): consult knowledge, ask the model, send.

``probability`` is that with which a stochastic policy chose the action; recorded runs need it to be learnt
from later (`denoise_lab.policy`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Search:
    """Retrieve evidence for the question; ``wide`` asks with further queries and the wider source."""

    wide: bool = False
    probability: float = 1.0


@dataclass(frozen=True, slots=True)
class Readmit:
    """Put up to ``count`` chunks that the denoiser dropped back into the evidence, highest score first."""

    count: int = 3
    probability: float = 1.0


@dataclass(frozen=True, slots=True)
class Draft:
    """Have the model write a candidate, with the feedback on the last one; judge it."""

    probability: float = 1.0


@dataclass(frozen=True, slots=True)
class Send:
    """Send the best attempt so far."""

    probability: float = 1.0


@dataclass(frozen=True, slots=True)
class Abstain:
    """Say that the question cannot be answered from the evidence."""

    probability: float = 1.0


Action: TypeAlias = Search | Readmit | Draft | Send | Abstain
