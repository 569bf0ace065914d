"""What selection and answers are judged by: gold kept at a share, answers found or matched, 95 % intervals."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from denoise_core.end.fit.recall import recall_at, recall_table, top1_accuracy
from denoise_core.errors import InputError
from denoise_core.text.words import drop_articles, split_words

__all__ = [
    "bootstrap_interval",
    "exact_match",
    "contains_answer",
    "recall_at",
    "recall_table",
    "token_f1",
    "top1_accuracy",
    "wilson_interval",
]


def wilson_interval(hits: int, n: int) -> tuple[float, float]:
    """95 % interval of a share by Wilson's method; ends included. Raises `InputError` for ``n < 1``."""
    if n < 1:
        raise InputError("an interval needs at least one observation")
    # By hand: the demo and the command's tables need it where SciPy is not installed. A test holds it to SciPy's.
    z = NormalDist().inv_cdf(0.975)
    share, weight = hits / n, z * z / n
    middle = (share + weight / 2) / (1 + weight)
    half = sqrt(share * (1 - share) * weight + weight * weight / 4) / (1 + weight)
    return (0.0 if hits == 0 else middle - half), (1.0 if hits == n else middle + half)


def bootstrap_interval(
    values: ArrayLike, *, seed: int = 0, resamples: int = 2000
) -> tuple[float, float]:
    """95 % percentile interval of the mean, resampling whole questions; the value itself when there is one."""
    v = np.asarray(values, dtype=np.float64)
    if not len(v):
        raise InputError("an interval needs at least one observation")
    picks = np.random.default_rng(seed).integers(0, len(v), (resamples, len(v)))
    low, high = np.quantile(v[picks].mean(1), [0.025, 0.975])
    return float(low), float(high)


_PIECE = re.compile(r"[^\W_]+|[^\w\s]", re.UNICODE)


def contains_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether one of the answers stands in ``text`` as whole words, letter case and accents' coding aside.

    The rule of DPR's ``has_answer``: tokens of the answer follow each other among those of the text. An
    answer without any token is never found.
    """
    tokens = _tokens(text)
    joined = "\0" + "\0".join(tokens) + "\0"
    return any(
        (wanted := _tokens(a)) and "\0" + "\0".join(wanted) + "\0" in joined
        for a in answers
    )


def _tokens(text: str) -> list[str]:
    return _PIECE.findall(unicodedata.normalize("NFD", text).casefold())


def exact_match(text: str, answers: Iterable[str]) -> bool:
    """Whether ``text`` is one of the answers, letter case, punctuation and articles aside (SQuAD's rule)."""
    said = drop_articles(split_words(text))
    return any(
        said == wanted for a in answers if (wanted := drop_articles(split_words(a)))
    )


def token_f1(text: str, answers: Iterable[str]) -> float:
    """The best F1 of the words of ``text`` and those of an answer, 0 to 1 (SQuAD's rule)."""
    said = Counter(drop_articles(split_words(text)))
    best = 0.0
    for answer in answers:
        wanted = Counter(drop_articles(split_words(answer)))
        common = sum((said & wanted).values())
        if common:
            best = max(best, 2 * common / (sum(said.values()) + sum(wanted.values())))
    return best
