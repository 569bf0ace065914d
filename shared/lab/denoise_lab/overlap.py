"""Knowledge-F1: the measure of LLM-Augmenter's tables.

KF1 (Shuster et al. 2021) is unigram F1 between the response and the knowledge. It is kept as the papers use it
and makes a poor threshold for a running loop: it falls with every passage that is added.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def normalize_words(text: str) -> list[str]:
    """Return lower-cased words without articles and punctuation, as SQuAD's script does.

    >>> normalize_words("The U.S. navy")
    ['us', 'navy']
    """
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def knowledge_f1(candidate: str, references: Sequence[str]) -> float:
    """Return the F1, from 0 to 1, against the reference that fits best; 0.0 without references."""
    candidate_words = Counter(normalize_words(candidate))
    best_f1 = 0.0
    for reference in references:
        reference_words = Counter(normalize_words(reference))
        best_f1 = max(best_f1, _unigram_f1(candidate_words, reference_words))
    return best_f1


def _unigram_f1(words: Counter[str], reference: Counter[str]) -> float:
    """Two empty texts agree fully, one empty text not at all (as in SQuAD's script)."""
    if not words or not reference:
        return float(words == reference)
    shared_count = (words & reference).total()
    return 2 * shared_count / (words.total() + reference.total())
