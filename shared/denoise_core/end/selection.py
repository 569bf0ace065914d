"""From scores to kept or dropped: one small rule each, then the limits that hold for all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, repeat
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from denoise_core.errors import BadScores, InputError
from denoise_core.text.language import detect_language
from denoise_core.text.token_budget import TokenBudget, estimate_tokens
from denoise_core.types import Span

MIN_KEPT = 2  # chunks kept at least, where there are as many: questions of two parts are common
SHORT_LIST = 4  # lists of at most so many are too short to tell by scores: all but the worst stay
DEFAULT_RISK = 0.10
PIECES_RISK = 0.035  # of pieces of files: a point less lost costs a few hundredths of the text there
TEN = math.log(11)
PASSAGE_LISTS, FILE_PIECES = (
    "lists of passages",
    "pieces of files",
)  # kinds of input, as the trace names them
UNSURE = "could not tell them apart"

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
    they are estimated (`estimate_tokens`). Headings above a chunk give way to more chunks, unless ``drop_headers_first``
    is False.
    """

    limit: int
    count: Callable[[str], int] = estimate_tokens
    drop_headers_first: bool = True

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise InputError(
                f"Tokens({self.limit}): expected a budget of 1 token or more"
            )

    def choose(self, scores: Floats, texts: Sequence[str]) -> Mask:
        """Best first, up to the first text that does not fit any more; a mask of shape ``(len(scores),)``."""
        kept = np.zeros(len(scores), dtype=np.bool_)
        budget = TokenBudget(self.limit, self.count)
        for i in rank_by_score(scores):
            if not budget.try_add(texts[int(i)]):
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
            raise InputError(
                f"keep={keep!r} and threshold={threshold!r}: give one of the two"
            )
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
    rule: KeepRule,
    scores: Floats,
    texts: Sequence[str],
    *,
    min_keep: int = 1,
    max_keep: int | None = None,
) -> tuple[Mask, list[str]]:
    """Which chunks stay, shape ``(n,)``, and for each the reason why it would be dropped.

    ``min_keep`` fills up with the next best, ``max_keep`` cuts the worst; of equal scores the earlier
    chunk ranks higher. Raises `InputError` when a score is NaN.
    """
    scores = check_no_nan(np.asarray(scores, dtype=np.float32))
    reasons = [rule.reason()] * len(scores)
    kept = ensure_min(
        min_keep, np.array(rule.choose(scores, texts), dtype=np.bool_), scores
    )
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


@dataclass(frozen=True, slots=True)
class ScoreCalibration:
    """What a scorer's scores mean for ``keep="auto"``; comes with the scorer, as plain JSON.

    ``margins`` has for each risk the distance from the best score within which chunks of a list of ten are kept,
    in the scorer's unit; it grows with the list as `list_length_factor` does. ``floor`` is the best score below
    which nothing seems to fit, None when that is not known; ``top`` the best score above which a list is unlike
    those it was calibrated on. ``questions`` and ``sets`` say what it was calibrated on.

    ``pieces`` is the scale for another kind of input: short pieces of a few long texts, of which most have nothing
    to do with the question; the rest holds for a list of passages from a retriever. None uses one scale for both.
    ``language`` is that of the questions and passages it was calibrated on (ISO 639-1), None where any will do.
    """

    margins: Mapping[float, float]
    floor: float | None
    top_score: float
    questions: int
    set_names: tuple[str, ...] = ()
    piece_calibration: ScoreCalibration | None = None
    language: str | None = None

    def __post_init__(self) -> None:
        numbers = [
            *self.margins,
            *self.margins.values(),
            self.top_score,
            0.0 if self.floor is None else self.floor,
        ]
        if (
            not self.margins
            or not all(map(math.isfinite, numbers))
            or min(self.margins.values()) < 0
        ):
            raise InputError(
                "an ScoreCalibration needs a finite margin, 0 or more, for one risk or more"
            )

    def language_mismatch(self, *texts: str) -> str:
        """In words, that texts seem to be in a language that the scale does not know; "" where they do not."""
        if self.language is None:
            return ""
        languages = dict.fromkeys(map(detect_language, texts, repeat(self.language)))
        languages.pop(self.language, None)
        if not languages:
            return ""
        return (
            f"calibrated for {self.language}; this seems to be {', '.join(languages)}"
        )

    def rule(self, risk: float | None = None) -> MarginRule:
        """The rule for a risk, `RISK` for passages and `PIECES_RISK` for pieces of files unless given. Raises
        `InputError` for one that it was not calibrated for."""
        pieces = (
            None
            if self.piece_calibration is None
            else self.piece_calibration.rule(PIECES_RISK if risk is None else risk)
        )
        risk = DEFAULT_RISK if risk is None else risk
        known = {round(r, 6): margin for r, margin in self.margins.items()}
        if round(risk, 6) not in known:
            said = ", ".join(f"{r:g}" for r in sorted(known))
            raise InputError(
                f"risk={risk}: this scorer's keep='auto' is calibrated for {said}"
            )
        pieces = None if pieces is None else replace(pieces, input_kind=FILE_PIECES)
        return MarginRule(self, risk, known[round(risk, 6)], pieces)

    def to_dict(self) -> dict[str, Any]:
        apart = (
            {}
            if self.piece_calibration is None
            else {"pieces": self.piece_calibration.to_dict()}
        )
        return {
            "margins": {
                f"{risk:g}": margin for risk, margin in sorted(self.margins.items())
            },
            "floor": self.floor,
            "top": self.top_score,
            "questions": self.questions,
            "sets": list(self.set_names),
            "language": self.language,
            **apart,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ScoreCalibration:
        """Raises `InputError` for missing fields or values that are no numbers."""
        try:
            return cls(
                {
                    float(risk): float(margin)
                    for risk, margin in data["margins"].items()
                },
                None if data["floor"] is None else float(data["floor"]),
                float(data["top"]),
                int(data["questions"]),
                tuple(map(str, data.get("sets", ()))),
                cls.from_dict(data["pieces"])
                if data.get("pieces") is not None
                else None,
                data.get("language"),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"not an ScoreCalibration: {error!r}; expected margins, floor, top and questions"
            ) from error


@dataclass(frozen=True, slots=True)
class MarginRule:
    """A rule that keeps what lies within ``margin * list_length_factor(n)`` of the best score, and `MIN_KEPT`
    chunks at least.

    Of `SHORT_LIST` chunks or fewer all but the worst stay. A list whose best score is above the scale's
    ``top`` is unlike the calibration's: there the widest margin, that of the smallest risk, decides.
    """

    calibration: ScoreCalibration
    risk: float
    margin: float
    piece_rule: MarginRule | None = None
    input_kind: str = PASSAGE_LISTS

    def for_input(self, passages: int, chunks: int) -> MarginRule:
        """The rule for what was given: that for pieces of files where ``passages`` were cut into twice as many
        chunks or more."""
        return (
            self.piece_rule
            if self.piece_rule is not None and chunks >= 2 * passages
            else self
        )

    @property
    def guarantee(self) -> str:
        """What holds, for whom, in one sentence."""
        of = (
            f" ({', '.join(self.calibration.set_names)})"
            if self.calibration.set_names
            else ""
        )
        return (
            f"on average at most {100 * self.risk:g} % of a question's relevant chunks are dropped, for questions "
            f"drawn like the {self.calibration.questions} calibration questions on {self.input_kind}{of}, each set as often; "
            "not known for others"
        )

    def choose(self, scores: Floats, texts: Sequence[str]) -> Mask:
        """True for each chunk to keep. Chunks of minus infinity (without text) never are."""
        known = np.isfinite(scores)
        n = int(known.sum())
        if not n:
            return np.zeros(len(scores), dtype=np.bool_)
        kept = (
            np.asarray(
                scores.astype(np.float64) >= self.keep_threshold(scores), dtype=np.bool_
            )
            & known
        )
        return ensure_min(
            min(max(MIN_KEPT, n - 1) if n <= SHORT_LIST else MIN_KEPT, n), kept, scores
        )

    def keep_threshold(self, scores: Floats) -> float:
        """The score down to which chunks lie within the margin; plus infinity where none has text."""
        found = scores[np.isfinite(scores)]
        if not len(found):
            return math.inf
        best = float(found.max())
        margin = (
            max(self.calibration.margins.values())
            if best > self.calibration.top_score
            else self.margin
        )
        return best - list_length_factor(len(found)) * margin - 1e-9

    def reason(self) -> str:
        return f"outside the margin below the best score, calibrated for a risk of {100 * self.risk:g} %"

    def is_relevant(self, scores: Floats) -> bool | None:
        """Whether the best chunk seems to bear on the question; None when that is not known."""
        known = scores[np.isfinite(scores)]
        floor = self.calibration.floor
        return None if floor is None or not len(known) else bool(known.max() >= floor)

    def note(self, scores: Floats, kept: Mask) -> str | None:
        """What must be said about the choice: that scores did not tell the chunks apart."""
        known = np.isfinite(scores)
        n = int(known.sum())
        if n > 1 and scores[known].max() > self.calibration.top_score:
            return f"{UNSURE}: scores are unlike those that the margin was calibrated on, so more was kept"
        if n > MIN_KEPT and kept[known].all():
            return f"{UNSURE}: all {n} lie within {list_length_factor(n) * self.margin:.3g} of the best score"
        if MIN_KEPT < n <= SHORT_LIST:
            return f"{UNSURE}: of {n} only the worst was dropped"
        return None


def list_length_factor(n: int) -> float:
    """How much wider a margin is for a list of ``n`` than for one of ten.

    >>> list_length_factor(10), list_length_factor(120) / list_length_factor(10) == math.log(121) / math.log(11)
    (1.0, True)
    """
    return math.log1p(n) / TEN
