"""What the checker says of an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from denoise_core.text.facts import Difference
from denoise_core.types import Span


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of an answer, its characters ``[start, end)``.

    ``supported`` is None where nothing could be said (another language than the evidence's); ``score`` is the
    share, 0 to 1, of what the claim says that the evidence says. ``evidence`` are the characters that bear on
    it, of the passages named in the spans, best first; ``differences`` what of the claim they do not bear out,
    with places in the *answer* (``source_start`` and ``source_end`` are places in the first span's passage, None
    where the passage's text does not say anything instead). ``missing`` are its words that stand nowhere there.
    """

    text: str
    start: int
    end: int
    supported: bool | None
    score: float
    evidence: tuple[Span, ...] = ()
    differences: tuple[Difference, ...] = ()
    missing: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """An answer held against passages.

    ``supported``: every claim is (True), some claim is not (False), or it cannot be said (None). ``answers``:
    whether it answers the question asked, None for unknown. ``score`` is 0 to 1, higher is better. ``reason``
    says in words why it does not pass, '' when it does; ``kind`` is a short name for it (``empty``,
    ``abstention``, ``bare``, ``question``, ``empty_evidence``, ``length``, ``unsupported``, ``language``,
    ``citation``, ``conflict``, ``off_question`` or the kind of the first difference).
    """

    supported: bool | None
    answers: bool | None
    score: float
    claims: tuple[Claim, ...] = ()
    kind: str = ""
    reason: str = ""

    @property
    def passed(self) -> bool:
        """The passages support it, and nothing says that it answers another question."""
        return self.supported is True and self.answers is not False

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a page, a log or another program."""
        return {
            "supported": self.supported,
            "answers": self.answers,
            "score": round(self.score, 4),
            "kind": self.kind,
            "reason": self.reason,
            "claims": [
                {
                    "text": c.text,
                    "start": c.start,
                    "end": c.end,
                    "supported": c.supported,
                    "score": round(c.score, 4),
                    "evidence": [{"passage": s.passage_id, "start": s.start, "end": s.end} for s in c.evidence],
                    "differences": [str(d) for d in c.differences],
                    "why": c.why,
                }
                for c in self.claims
            ],
        }
