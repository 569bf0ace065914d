"""From scores to kept or dropped: one small rule each, then the limits that hold for all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from denoise_core.errors import BadScores, InputError
from denoise_core.text.token_budget import TokenBudget, estimate_tokens
from denoise_core.types import Span

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Selection:
    """Chunks, or parts of them where a budget cut one; their scores (minus infinity: not scored), which are kept,
    why each would be dropped, and what should come along with some of them and was too much for a budget."""

    spans: Sequence[Span]
    scores: Floats
    kept: Mask
    reasons: Sequence[str]
    notes: tuple[str, ...] = ()
    evicted_headers: frozenset[Span] = frozenset()


class KeepRule(Protocol):
    """Decides by score which chunks stay; ``reason`` is what stands on those that do not."""

    def choose(self, scores: Floats, texts: Sequence[str]) -> Mask:
        """True for each chunk to keep; ``scores`` has shape ``(n,)`` and holds no NaN."""
        ...

    def reason(self) -> str: ...


@dataclass(frozen=True, slots=True)
class TopFraction:
    """The best ``share`` of the chunks, above 0 and below 1, rounded up; the paper keeps 0.3."""

    fraction: float

    def __post_init__(self) -> None:
        if not 0 < self.fraction < 1:
            raise InputError(
                f"keep={self.fraction!r}: a share lies between 0 and 1, such as 0.3. Write keep=1 for the best chunk "
                "alone, or threshold=-math.inf to keep all"
            )

    def choose(self, scores: Floats, texts: Sequence[str]) -> Mask:
        return top_k_mask(scores, fraction_count(self.fraction, len(scores)))

    def reason(self) -> str:
        return f"not among the best {100 * self.fraction:g} %"


@dataclass(frozen=True, slots=True)
class TopK:
    """The best ``k`` chunks."""

    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise InputError(f"keep={self.k}: expected 1 chunk or more")

    def choose(self, scores: Floats, texts: Sequence[str]) -> Mask:
        return top_k_mask(scores, self.k)

    def reason(self) -> str:
        return f"not among the best {self.k}"


@dataclass(frozen=True, slots=True)
class ScoreThreshold:
    """Every chunk with ``score >= threshold``, in the scorer's own unit."""

    threshold: float

    def __post_init__(self) -> None:
        if math.isnan(self.threshold):
            raise InputError("threshold is NaN: expected a number in the scorer's unit")

    def choose(self, scores: Floats, texts: Sequence[str]) -> Mask:
        # Compared as Python floats are: a float32 score against the threshold at full precision.
        return np.asarray(scores.astype(np.float64) >= self.threshold, dtype=np.bool_)

    def reason(self) -> str:
        return f"score below {self.threshold:g}"


@dataclass(frozen=True, slots=True)
class TokenLimit:
    """The best chunks, down by score, as far as they fit into ``limit`` tokens.

    The one that does not fit any more is cut at its sentences or rows by `ENDDenoiser`
    (`denoise_core.end.budget`); worse ones never take its place. ``count`` gives the tokens of a text; without it
    they are estimated (`estimate_tokens`). Headings above a chunk give way to more chunks, unless ``gives_way``
    is False.
    """

    limit: int
    count: Callable[[str], int] = estimate_tokens
    drop_headers_first: bool = True

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise InputError(f"Tokens({self.limit}): expected a budget of 1 token or more")

    def choose(self, scores: Floats, texts: Sequence[str]) -> Mask:
        """Best first, up to the first text that does not fit any more; a mask of shape ``(len(scores),)``."""
        kept = np.zeros(len(scores), dtype=np.bool_)
        budget = TokenBudget(self.limit, self.count)
        for i in rank_by_score(scores):
            if not budget.take(texts[int(i)]):
                break
            kept[i] = True
        return kept

    def reason(self) -> str:
        """Why a chunk was dropped, in words."""
        return f"over the budget of {self.limit} tokens"


KeepSetting: TypeAlias = float | int | str | KeepRule


def rule_for(keep: KeepSetting | None, threshold: float | None) -> KeepRule:
    """The rule behind the short forms: a float is a share, an int a number of chunks.

    Raises `InputError` for anything else, and when both a share and a threshold are given.
    """
    if threshold is not None:
        if keep is not None:
            raise InputError(f"keep={keep!r} and threshold={threshold!r}: give one of the two")
        return ScoreThreshold(float(threshold))
    if isinstance(keep, bool) or keep is None or isinstance(keep, str):
        raise InputError(
            f"keep={keep!r}: expected a share like 0.3, a number like 5, 'auto', 'calibrated', or a rule"
        )
    if isinstance(keep, int | np.integer):
        return TopK(int(keep))
    if isinstance(keep, float | np.floating):
        return TopFraction(float(keep))
    return keep


def select(
    rule: KeepRule, scores: Floats, texts: Sequence[str], *, min_keep: int = 1, max_keep: int | None = None
) -> tuple[Mask, list[str]]:
    """Which chunks stay, shape ``(n,)``, and for each the reason why it would be dropped.

    ``min_keep`` fills up with the next best, ``max_keep`` cuts the worst; of equal scores the earlier
    chunk ranks higher. Raises `InputError` when a score is NaN.
    """
    scores = check_no_nan(np.asarray(scores, dtype=np.float32))
    reasons = [rule.reason()] * len(scores)
    kept = ensure_min(min_keep, np.array(rule.choose(scores, texts), dtype=np.bool_), scores)
    if max_keep is not None:
        for i in [i for i in rank_by_score(scores).tolist() if kept[i]][max_keep:]:
            kept[i], reasons[i] = False, f"more than {max_keep} chunks"
    return kept, reasons


def split_span(span: Span, parts: Sequence[Span]) -> list[Span]:
    """The span as its parts and what lies between them; itself without parts."""
    edges = {span.start, span.end}
    for part in parts:
        edges |= {part.start, part.end}
    if len(edges) < 2:
        return [span]
    return [Span(span.passage_id, start, end) for start, end in pairwise(sorted(edges))]


def ensure_min(n: int, kept: Mask, scores: Floats) -> Mask:
    """``kept``, filled up to ``n`` with the next best."""
    missing = n - int(kept.sum())
    if missing > 0:
        order = rank_by_score(scores)
        kept[order[~kept[order]][:missing]] = True
    return kept


def check_no_nan(scores: Floats) -> Floats:
    """The scores. Raises `BadScores` when one is NaN."""
    if np.isnan(scores).any():
        raise BadScores(
            f"the scorer gave NaN for chunks {np.flatnonzero(np.isnan(scores)).tolist()[:5]}: "
            "nothing can be ranked by that; check its model's dtype"
        )
    return scores


def rank_by_score(scores: Floats) -> NDArray[np.intp]:
    """Positions from best to worst; equal scores stay in the order they came."""
    return np.argsort(-scores, kind="stable")


def top_k_mask(scores: Floats, k: int) -> Mask:
    kept = np.zeros(len(scores), dtype=np.bool_)
    kept[rank_by_score(scores)[:k]] = True
    return kept


def fraction_count(share: float, n: int) -> int:
    """``ceil(share * n)``, not led astray by a product such as 0.1 * 30 = 3.0000000000000004."""
    return min(n, math.ceil(share * n - 1e-9 * max(1.0, share * n)))
