"""Measures of selection and answers, and 95 % intervals for them."""

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
    "contains_answer",
    "exact_match",
    "recall_at",
    "recall_table",
    "token_f1",
    "top1_accuracy",
    "wilson_interval",
]


def wilson_interval(hits: int, count: int) -> tuple[float, float]:
    """Compute the 95 % interval of a share by Wilson's method.

    Raises:
        InputError: ``count`` is below 1.
    """
    if count < 1:
        raise InputError("an interval needs at least one observation")
    # Written out because the tables need it where SciPy is not installed. A test compares
    # it with SciPy's.
    quantile = NormalDist().inv_cdf(0.975)
    share, weight = hits / count, quantile * quantile / count
    center = share + weight / 2
    half_width = sqrt(share * (1 - share) * weight + weight * weight / 4)
    low = 0.0 if hits == 0 else (center - half_width) / (1 + weight)
    high = 1.0 if hits == count else (center + half_width) / (1 + weight)
    return low, high


def bootstrap_interval(
    values: ArrayLike, *, seed: int = 0, resamples: int = 2000
) -> tuple[float, float]:
    """Compute the 95 % percentile interval of the mean by resampling questions.

    Args:
        values: One value per question, ``(n,)``.
        seed: The seed of the resampling.
        resamples: How many samples to draw.

    Raises:
        InputError: There is no value.
    """
    array = np.asarray(values, dtype=np.float64)
    if not len(array):
        raise InputError("an interval needs at least one observation")
    generator = np.random.default_rng(seed)
    indices = generator.integers(0, len(array), (resamples, len(array)))
    low, high = np.quantile(array[indices].mean(1), [0.025, 0.975])
    return float(low), float(high)


_TOKEN = re.compile(r"[^\W_]+|[^\w\s]", re.UNICODE)


def contains_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether ``text`` contains one of the answers as whole words.

    This is the rule of DPR's ``has_answer``: the answer's tokens follow each other among
    those of the text. Letter case and the encoding of accents do not matter. An answer
    without any token is never found.
    """
    text_tokens = _joined_tokens(text)
    for answer in answers:
        answer_tokens = _joined_tokens(answer)
        if answer_tokens and answer_tokens in text_tokens:
            return True
    return False


def _joined_tokens(text: str) -> str:
    # The separator on both sides keeps "ann" from matching inside "joann".
    tokens = _TOKEN.findall(unicodedata.normalize("NFD", text).casefold())
    return "\0" + "\0".join(tokens) + "\0" if tokens else ""


def exact_match(text: str, answers: Iterable[str]) -> bool:
    """Whether ``text`` is one of the answers.

    Letter case, punctuation and articles do not matter (SQuAD's rule).
    """
    reply_words = _squad_words(text)
    return bool(reply_words) and reply_words in map(_squad_words, answers)


def token_f1(text: str, answers: Iterable[str]) -> float:
    """The best F1, 0 to 1, of the words of ``text`` and of an answer (SQuAD's rule)."""
    reply_words = _squad_words(text)
    best_f1 = 0.0
    for answer in answers:
        answer_words = _squad_words(answer)
        shared_words = Counter(reply_words) & Counter(answer_words)
        if shared_words:
            total_count = len(reply_words) + len(answer_words)
            best_f1 = max(best_f1, 2 * sum(shared_words.values()) / total_count)
    return best_f1


def _squad_words(text: str) -> list[str]:
    return list(drop_articles(split_words(text)))
