"""What the checker says of an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from denoise_core.support.judging import Judged

NOTHING = "not_applicable"


@dataclass(frozen=True, slots=True)
class Check:
    """An answer held against passages.

    ``supported``: every claim is (True), some claim is not (False), or it cannot be said (None). ``answers``:
    whether it answers the question asked, None for unknown. ``score`` is 0 to 1, higher is better. ``reason``
    says in words why it does not pass, '' when it does; ``kind`` is a short name for it: ``not_applicable`` where
    nothing is claimed (a greeting, a question back), ``empty``, ``abstention``, ``question``, ``empty_evidence``,
    ``length``, ``off_question``, or the kind of the claim that decides. ``judge`` is the id of what judged.
    """

    supported: bool | None
    answers: bool | None
    score: float
    claims: tuple[Judged, ...] = ()
    kind: str = ""
    reason: str = ""
    judge: str = ""

    @property
    def passed(self) -> bool:
        """The passages support it and nothing says that it answers another question, or it claims nothing."""
        return self.kind == NOTHING or (self.supported is True and self.answers is not False)

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a page, a log or another program."""
        return {
            "supported": self.supported,
            "answers": self.answers,
            "score": round(self.score, 4),
            "kind": self.kind,
            "reason": self.reason,
            "judge": self.judge,
            "claims": [
                {
                    "text": c.text,
                    "start": c.start,
                    "end": c.end,
                    "supported": c.supported,
                    "probability": c.probability,
                    "evidence": [
                        {"passage": q.span.passage_id, "start": q.span.start, "end": q.span.end} for q in c.quotes
                    ],
                    "differences": [str(d) for d in c.differs],
                    "kind": c.kind,
                    "why": c.why,
                }
                for c in self.claims
            ],
        }
