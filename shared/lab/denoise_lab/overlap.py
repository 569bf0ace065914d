"""Knowledge-F1 with its precision and recall: the measure of LLM-Augmenter's tables.

KF1 (Shuster et al. 2021) is unigram F1 between the response and the knowledge. It is kept as the papers use it
and makes a poor threshold for a running loop: it falls with every passage that is added.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Normalisation = Literal["squad", "parlai"]

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


def overlap(
    candidate: str, reference: str, normalisation: Normalisation = "squad"
) -> Overlap:
    """Multiset overlap. Two empty texts agree fully, one empty text not at all (as in SQuAD's script)."""
    said, known = (
        Counter(tokens(candidate, normalisation)),
        Counter(tokens(reference, normalisation)),
    )
    if not said or not known:
        same = float(said == known)
        return Overlap(same, same, same)
    shared = (said & known).total()
    if not shared:
        return Overlap(0.0, 0.0, 0.0)
    precision, recall = shared / said.total(), shared / known.total()
    return Overlap(precision, recall, 2 * precision * recall / (precision + recall))


def knowledge_f1(
    candidate: str, references: Sequence[str], normalisation: Normalisation = "squad"
) -> float:
    """F1 against the reference it fits best; 0.0 without references."""
    return max(
        (overlap(candidate, r, normalisation).f1 for r in references), default=0.0
    )
