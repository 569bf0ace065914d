"""Knowledge-F1 and its precision and recall: the paper's utility, for tables and comparison.

KF1 (Shuster et al. 2021) is unigram F1 between the response and the knowledge. It is kept as the papers use it
and makes a poor threshold for a running loop: see `Groundedness`.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from denoise_core.augmenter.memory import Reason, Verdict, WorkingMemory
from denoise_core.augmenter.utility import without_effects
from denoise_core.errors import InputError
from denoise_core.running.effects import Flow
from denoise_core.support.citing import uncited

Normalisation = Literal["squad", "parlai"]
Measure = Literal["f1", "precision", "recall"]

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_SPACED = str.maketrans(dict.fromkeys(string.punctuation, " "))
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


@dataclass(frozen=True, slots=True)
class Overlap:
    """Shared words of two texts, each share in [0, 1]."""

    precision: float
    recall: float
    f1: float


def tokens(text: str, normalisation: Normalisation = "squad") -> list[str]:
    """Lower-cased words without articles. ``"squad"`` deletes punctuation, ``"parlai"`` makes it a space.

    >>> tokens("The U.S. navy"), tokens("The U.S. navy", "parlai")
    (['us', 'navy'], ['u', 's', 'navy'])
    """
    text = text.lower().translate(_PUNCTUATION if normalisation == "squad" else _SPACED)
    return _ARTICLES.sub(" ", text).split()


def overlap(candidate: str, reference: str, normalisation: Normalisation = "squad") -> Overlap:
    """Multiset overlap. Two empty texts agree fully, one empty text not at all (as in SQuAD's script)."""
    said, known = Counter(tokens(candidate, normalisation)), Counter(tokens(reference, normalisation))
    if not said or not known:
        same = float(said == known)
        return Overlap(same, same, same)
    shared = (said & known).total()
    if not shared:
        return Overlap(0.0, 0.0, 0.0)
    precision, recall = shared / said.total(), shared / known.total()
    return Overlap(precision, recall, 2 * precision * recall / (precision + recall))


def knowledge_f1(candidate: str, references: Sequence[str], normalisation: Normalisation = "squad") -> float:
    """F1 against the reference it fits best; 0.0 without references."""
    return max((overlap(candidate, r, normalisation).f1 for r in references), default=0.0)


@dataclass(frozen=True, slots=True)
class KnowledgeOverlap:
    """The paper's utility: passes when ``measure``, 0 to 1, reaches ``threshold`` (ours: 0.3).

    ``against="joined"`` holds the candidate against all evidence as one text, ``"best"`` against the single
    passage it fits best. The paper uses F1 for dialogue and recall for OTT-QA (section 4.2).
    """

    threshold: float = 0.3
    measure: Measure = "f1"
    against: Literal["joined", "best"] = "joined"
    normalisation: Normalisation = "squad"

    def __post_init__(self) -> None:
        if self.measure not in ("f1", "precision", "recall"):
            raise InputError(f"measure={self.measure!r}: expected 'f1', 'precision' or 'recall'")
        if self.against not in ("joined", "best") or self.normalisation not in ("squad", "parlai"):
            raise InputError("expected against='joined' or 'best' and normalisation='squad' or 'parlai'")

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[Verdict]:
        return without_effects(self.judge(memory, candidate))

    def judge(self, memory: WorkingMemory, candidate: str) -> Verdict:
        """The verdict on a candidate, at once and outside a loop; its score is the overlap, from 0 to 1."""
        if not memory.evidence:
            return Verdict("unknown", 0.0, (Reason("there is no evidence to hold it against", "empty_evidence"),))
        known = [p.text for p in memory.evidence]
        references = known if self.against == "best" else [" ".join(known)]
        said = uncited(candidate)
        score = max(float(getattr(overlap(said, r, self.normalisation), self.measure)) for r in references)
        if score >= self.threshold:
            return Verdict("pass", score)
        why = (
            f"knowledge {self.measure} is {score:.2f}, below {self.threshold:g}: it is not rooted in the evidence"
        )
        return Verdict("fail", score, (Reason(why, "overlap", candidate),))
