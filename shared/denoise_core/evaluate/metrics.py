"""Measures of selection and answers, and 95 % intervals for them."""

from __future__ import annotations

import re
import unicodedata
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
    standard_normal = NormalDist()
    normal_quantile = standard_normal.inv_cdf(0.975)
    hit_share = hits / count
    prior_weight = normal_quantile * normal_quantile / count
    interval_center = hit_share + prior_weight / 2
    half_width = sqrt(
        hit_share * (1 - hit_share) * prior_weight + prior_weight * prior_weight / 4
    )
    low = (interval_center - half_width) / (1 + prior_weight)
    high = (interval_center + half_width) / (1 + prior_weight)
    if hits == 0:
        low = 0.0
    if hits == count:
        high = 1.0
    return low, high


RESAMPLES = 2000  # of the bootstrap


def bootstrap_interval(values: ArrayLike) -> tuple[float, float]:
    """Compute the 95 % percentile interval of the mean by resampling questions.

    The same values give the same interval.

    Args:
        values: One value per question, ``(n,)``.

    Raises:
        InputError: There is no value.
    """
    value_array = np.asarray(values, dtype=np.float64)
    if not len(value_array):
        raise InputError("an interval needs at least one observation")
    random_generator = np.random.default_rng(0)
    sample_indices = random_generator.integers(
        0, len(value_array), (RESAMPLES, len(value_array))
    )
    resampled_values = value_array[sample_indices]
    sample_means = resampled_values.mean(1)
    low, high = np.quantile(sample_means, [0.025, 0.975])
    return float(low), float(high)


_TOKEN = re.compile(r"[^\W_]+|[^\w\s]", re.UNICODE)


def contains_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether ``text`` contains one of the answers as whole words.

    This is the rule of DPR's ``has_answer``: the answer's tokens follow each other among
    those of the text. Letter case and the encoding of accents do not matter. An answer
    without any token is never found.
    """
    text_tokens = _joined_tokens(text)
    for accepted_answer in answers:
        answer_tokens = _joined_tokens(accepted_answer)
        if answer_tokens and answer_tokens in text_tokens:
            return True
    return False


def _joined_tokens(text: str) -> str:
    # The separator on both sides keeps "ann" from matching inside "joann".
    decomposed_text = unicodedata.normalize("NFD", text)
    text_tokens = _TOKEN.findall(decomposed_text.casefold())
    if text_tokens:
        joined_tokens = "\0".join(text_tokens)
        return f"\0{joined_tokens}\0"
    return ""


def exact_match(text: str, answers: Iterable[str]) -> bool:
    """Whether ``text`` is one of the answers.

    Letter case, punctuation and articles do not matter (SQuAD's rule).
    """
    reply_words = _squad_words(text)
    return bool(reply_words) and reply_words in map(_squad_words, answers)


def _squad_words(text: str) -> list[str]:
    all_words = split_words(text)
    return list(drop_articles(all_words))
