"""``keep="auto"``: keep what lies within a margin of the list's best score, and say when nothing fits.

A share keeps as much of every list, however plain or doubtful its scores are. A margin keeps little when one
passage stands out and much when many are alike. How wide it must be for a stated risk is found by conformal
risk control (`denoise_core.end.calibration` has the sources): on questions not used for fitting, each relevant
passage lies some distance below its list's best score; the rule takes the smallest margin at which the mean share
of relevant passages that lie further below is within the risk.

The best of many irrelevant scores is higher than the best of few, so distances grow with the length of the list:
they are counted in units of ``log(1 + n) / log(11)``, so that a margin is that of a list of ten.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denoise_core.end.calibration import min_question_count, share_limit
from denoise_core.end.selection import Floats, Mask, ensure_min
from denoise_core.errors import InputError
from denoise_core.text.language import language_of

MIN_KEPT = 2  # chunks kept at least, where there are as many: questions of two parts are common
SHORT_LIST = 4  # lists of at most so many are too short to tell by scores: all but the worst stay
CALIBRATED_RISKS = (0.05, 0.10, 0.20)
DEFAULT_RISK = 0.10
PIECES_RISK = 0.035  # of pieces of files: a point less lost costs a few hundredths of the text there
TEN = math.log(11)
FLOOR_MISS_RATE = 0.03  # of answerable questions lie below the floor
PASSAGE_LISTS, FILE_PIECES = "lists of passages", "pieces of files"  # kinds of input, as the trace names them
GOLD_TARGETS = (0.90, 0.95, 0.99)  # of the gold, for which `text_needed` is told
UNSURE = "could not tell them apart"


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
        numbers = [*self.margins, *self.margins.values(), self.top_score, 0.0 if self.floor is None else self.floor]
        if not self.margins or not all(map(math.isfinite, numbers)) or min(self.margins.values()) < 0:
            raise InputError("an AutoScale needs a finite margin, 0 or more, for one risk or more")

    def language_mismatch(self, *texts: str) -> str:
        """In words, that texts seem to be in a language that the scale does not know; "" where they do not."""
        if self.language is None:
            return ""
        languages = dict.fromkeys(map(language_of, texts, repeat(self.language)))
        languages.pop(self.language, None)
        if not languages:
            return ""
        return f"calibrated for {self.language}; this seems to be {', '.join(languages)}"

    def rule(self, risk: float | None = None) -> MarginRule:
        """The rule for a risk, `RISK` for passages and `PIECES_RISK` for pieces of files unless given. Raises
        `InputError` for one that it was not calibrated for."""
        pieces = None if self.piece_calibration is None else self.piece_calibration.rule(PIECES_RISK if risk is None else risk)
        risk = DEFAULT_RISK if risk is None else risk
        known = {round(r, 6): margin for r, margin in self.margins.items()}
        if round(risk, 6) not in known:
            said = ", ".join(f"{r:g}" for r in sorted(known))
            raise InputError(f"risk={risk}: this scorer's keep='auto' is calibrated for {said}")
        pieces = None if pieces is None else replace(pieces, kind=FILE_PIECES)
        return MarginRule(self, risk, known[round(risk, 6)], pieces)

    def to_dict(self) -> dict[str, Any]:
        apart = {} if self.piece_calibration is None else {"pieces": self.piece_calibration.to_dict()}
        return {
            "margins": {f"{risk:g}": margin for risk, margin in sorted(self.margins.items())},
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
                {float(risk): float(margin) for risk, margin in data["margins"].items()},
                None if data["floor"] is None else float(data["floor"]),
                float(data["top"]),
                int(data["questions"]),
                tuple(map(str, data.get("sets", ()))),
                cls.from_dict(data["pieces"]) if data.get("pieces") is not None else None,
                data.get("language"),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"not an AutoScale: {error!r}; expected margins, floor, top and questions") from error


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
        return self.piece_rule if self.piece_rule is not None and chunks >= 2 * passages else self

    @property
    def guarantee(self) -> str:
        """What holds, for whom, in one sentence."""
        of = f" ({', '.join(self.calibration.set_names)})" if self.calibration.set_names else ""
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
        kept = np.asarray(scores.astype(np.float64) >= self.keep_threshold(scores), dtype=np.bool_) & known
        return ensure_min(min(max(MIN_KEPT, n - 1) if n <= SHORT_LIST else MIN_KEPT, n), kept, scores)

    def keep_threshold(self, scores: Floats) -> float:
        """The score down to which chunks lie within the margin; plus infinity where none has text."""
        found = scores[np.isfinite(scores)]
        if not len(found):
            return math.inf
        best = float(found.max())
        margin = max(self.calibration.margins.values()) if best > self.calibration.top_score else self.margin
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


def calibrate_margins(
    scored_sets: Mapping[str, Iterable[tuple[Floats, Sequence[bool]]]],
    *,
    risks: Sequence[float] = CALIBRATED_RISKS,
    miss_rate: float | None = None,
) -> ScoreCalibration:
    """An `AutoScale` from scores and labels of questions that the scorer was not fitted on, by set.

    The risk is that of a question drawn from the mix, where each set is as likely as another. With ``missed`` the
    floor is the best score that all but this share of the questions reach. Raises `InputError` for too few
    questions.
    """
    used = {
        name: [(s, gold) for s, given in rows if (gold := np.asarray(given, dtype=np.bool_)).any()]
        for name, rows in scored_sets.items()
    }
    used = {name: rows for name, rows in used.items() if rows}
    if not used:
        raise InputError("no question has a relevant passage: there is nothing to calibrate on")
    bests = [float(s.max()) for rows in used.values() for s, _ in rows]
    floor = None if miss_rate is None else float(np.quantile(bests, miss_rate))
    margins = {risk: _margin(used, risk) for risk in risks}
    return ScoreCalibration(margins, floor, float(max(bests)), len(bests), tuple(used))


def _margin(sets: Mapping[str, Sequence[tuple[Floats, Mask]]], risk: float) -> float:
    """The smallest margin that drops at most ``risk`` of a question's relevant chunks, on average over the mix.

    ``sets`` has scores and labels of questions, each with a relevant chunk. Raises `InputError` for too few.
    """
    n, needed = sum(map(len, sets.values())), min_question_count(risk)
    if n < needed:
        raise InputError(
            f"a risk of {100 * risk:g} % needs {needed} calibration questions, here are {n}: calibrate on more, "
            "or accept a higher risk"
        )
    cost, weight = [], []
    for rows in sets.values():
        for scores, gold in rows:
            below = (float(scores.max()) - scores[gold].astype(np.float64)) / list_length_factor(len(scores))
            cost.append(below)
            weight.append(np.full(len(below), 1 / (len(sets) * len(rows) * len(below))))
    return share_limit(np.concatenate(cost), np.concatenate(weight), n, risk)


def required_text_fraction(
    scores: ArrayLike, gold: ArrayLike, sizes: ArrayLike, groups: ArrayLike, *, fraction: float, resamples: int = 500
) -> NDArray[np.float64]:
    """The share of a question's text that one margin for all keeps when it keeps ``share`` of the gold, both means
    over questions: of the questions as they are, then of ``resamples`` samples of them, the same in every call.

    One entry a passage: its score, whether it is gold, its size in any unit, its question. Questions without gold
    are left out.
    """
    values, owner = np.asarray(scores, dtype=np.float64), np.unique(groups, return_inverse=True)[1]
    known = np.bincount(owner, np.asarray(gold, dtype=np.float64))[owner] > 0
    values, owner = values[known], np.unique(owner[known], return_inverse=True)[1]
    best = np.full(owner.max() + 1, -np.inf)
    np.maximum.at(best, owner, values)
    below = (best[owner] - values) / np.log1p(np.bincount(owner))[owner]
    order = np.argsort(below, kind="stable")
    last = np.searchsorted(below[order], below[order], side="right") - 1  # what scores alike is kept together
    parts = [np.asarray(v, dtype=np.float64)[known] for v in (gold, sizes)]
    kept, read = ((v / np.maximum(1e-9, np.bincount(owner, v))[owner])[order] for v in parts)
    n = len(best)
    drawn = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), resamples)
    out = []
    for times in (np.ones(n), *drawn):
        weight = times[owner[order]]
        at = np.searchsorted(np.cumsum(kept * weight), fraction * n - 1e-9)
        out.append(float((read * weight)[: last[min(int(at), len(last) - 1)] + 1].sum() / n))
    return np.array(out)
