"""What selection and answers are judged by: gold kept at a share, answers found or matched, 95 % intervals."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denoise_core.end.selection import count_of_share
from denoise_core.errors import InputError
from denoise_core.text.words import without_articles, words


def recall_at(
    scores: ArrayLike, gold: ArrayLike, groups: Sequence[Hashable] | NDArray[np.generic], share: float
) -> NDArray[np.float64]:
    """Share of each question's gold passages among its best ``ceil(share * n)`` passages.

    ``scores`` and ``gold`` have one entry a passage, ``groups`` its question. One value for each question
    that has gold, in the order of their first rows. Ties count by chance, so that the order in which a set
    lists its passages cannot help or hurt.
    """
    out = []
    for own, relevant in _with_gold(scores, gold, groups):
        above = (own[None, :] > own[:, None]).sum(1)
        level = (own[None, :] == own[:, None]).sum(1)
        kept = np.clip((count_of_share(share, len(own)) - above) / level, 0, 1)
        out.append(float(kept[relevant].mean()))
    return np.array(out)


SHARES = (0.2, 0.3, 0.5, 0.6)  # those of the paper's layer study, beside the single best chunk


def top_one(
    scores: ArrayLike, gold: ArrayLike, groups: Sequence[Hashable] | NDArray[np.generic]
) -> NDArray[np.float64]:
    """The chance that each question's best passage is gold: 1 or 0, or between for ties at the top.

    Questions without gold are left out.
    """
    found = _with_gold(scores, gold, groups)
    return np.array([float(relevant[own == own.max()].mean()) for own, relevant in found])


def recall_table(
    scores: ArrayLike, gold: ArrayLike, groups: Sequence[Hashable] | NDArray[np.generic]
) -> dict[str, NDArray[np.float64]]:
    """Values of each question with gold: "top 1" (`top_one`) and "20 %" ... "60 %" (`recall_at`)."""
    table = {"top 1": top_one(scores, gold, groups)}
    return table | {f"{100 * share:g} %": recall_at(scores, gold, groups, share) for share in SHARES}


def wilson(hits: int, n: int) -> tuple[float, float]:
    """95 % interval of a share by Wilson's method; ends included. Raises `InputError` for ``n < 1``."""
    if n < 1:
        raise InputError("an interval needs at least one observation")
    # By hand: the demo and the command's tables need it where SciPy is not installed. A test holds it to SciPy's.
    z = NormalDist().inv_cdf(0.975)
    share, weight = hits / n, z * z / n
    middle = (share + weight / 2) / (1 + weight)
    half = sqrt(share * (1 - share) * weight + weight * weight / 4) / (1 + weight)
    return (0.0 if hits == 0 else middle - half), (1.0 if hits == n else middle + half)


def bootstrap(values: ArrayLike, *, seed: int = 0, resamples: int = 2000) -> tuple[float, float]:
    """95 % percentile interval of the mean, resampling whole questions; the value itself when there is one."""
    v = np.asarray(values, dtype=np.float64)
    if not len(v):
        raise InputError("an interval needs at least one observation")
    picks = np.random.default_rng(seed).integers(0, len(v), (resamples, len(v)))
    low, high = np.quantile(v[picks].mean(1), [0.025, 0.975])
    return float(low), float(high)


def _with_gold(
    scores: ArrayLike, gold: ArrayLike, groups: Sequence[Hashable] | NDArray[np.generic]
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.bool_]]]:
    """Scores and labels of each question that has gold."""
    values, relevant = np.asarray(scores, dtype=np.float32), np.asarray(gold, dtype=np.bool_)
    if not len(values) == len(relevant) == len(groups):
        raise InputError(
            f"{len(values)} scores, {len(relevant)} labels, {len(groups)} groups: expected as many of each"
        )
    rows: dict[Hashable, list[int]] = {}
    for i, group in enumerate(groups):
        rows.setdefault(group, []).append(i)
    return ((values[i], relevant[i]) for i in rows.values() if relevant[i].any())


_PIECE = re.compile(r"[^\W_]+|[^\w\s]", re.UNICODE)


def holds_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether one of the answers stands in ``text`` as whole words, letter case and accents' coding aside.

    The rule of DPR's ``has_answer``: tokens of the answer follow each other among those of the text. An
    answer without any token is never found.
    """
    tokens = _tokens(text)
    joined = "\0" + "\0".join(tokens) + "\0"
    return any((wanted := _tokens(a)) and "\0" + "\0".join(wanted) + "\0" in joined for a in answers)


def _tokens(text: str) -> list[str]:
    return _PIECE.findall(unicodedata.normalize("NFD", text).casefold())


def exact_match(text: str, answers: Iterable[str]) -> bool:
    """Whether ``text`` is one of the answers, letter case, punctuation and articles aside (SQuAD's rule)."""
    said = without_articles(words(text))
    return any(said == wanted for a in answers if (wanted := without_articles(words(a))))


def token_f1(text: str, answers: Iterable[str]) -> float:
    """The best F1 of the words of ``text`` and those of an answer, 0 to 1 (SQuAD's rule)."""
    said = Counter(without_articles(words(text)))
    best = 0.0
    for answer in answers:
        wanted = Counter(without_articles(words(answer)))
        common = sum((said & wanted).values())
        if common:
            best = max(best, 2 * common / (sum(said.values()) + sum(wanted.values())))
    return best
