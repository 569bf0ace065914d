"""Whether ``keep="calibrated"`` keeps its promise, and what that costs.

Questions that nothing was fitted on are parted at random, half to calibrate and half to count losses, many
times; the promise is about the mean over calibration sets, so that mean is what is held against the risk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from harness import Benchmark, arguments
from numpy.typing import NDArray

from denoise_core.end.calibration import calibrate_from_scores, min_question_count
from denoise_core.evaluate.metrics import bootstrap_interval
from denoise_lab.experiments.real_sets import measured, scored

RISKS = (0.05, 0.1)
SPLITS = 400
FORMS = {  # how it is called in the table: loss, by, confidence
    "any gold lost": ("any", "rank", None),
    "any gold lost, by score": ("any", "score", None),
    "any gold lost, 95 % confidence": ("any", "rank", 0.95),
    "share of golds lost": ("share", "rank", None),
}


@dataclass(frozen=True)
class Outcome:
    """Mean loss of each question over the splits in which it was counted, and mean kept share."""

    losses: NDArray[np.float64]
    kept: float
    over: float  # share of the splits whose own loss passed the risk


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("end_calibration", options)
    risks, splits = ((0.5,), 4) if options.quick else (RISKS, SPLITS)
    for name, questions in measured(options).items():
        of_each = scored(name, questions).of_questions("default")
        half = len(of_each) // 2
        bench.row(f"{name}: calibration questions of each split", half, "questions")
        for risk in risks:
            for form, (loss, by, confidence) in FORMS.items():
                at = f"{name}, risk {risk:.0%}, {form}"
                needed = min_question_count(risk, confidence)
                if half < needed:
                    bench.row(
                        f"{at}: not promised, calibration questions needed",
                        needed,
                        "questions",
                    )
                    continue
                found = _repeat(
                    of_each, risk, (loss, by, confidence), splits, options.seed
                )
                ends = bootstrap_interval(found.losses)
                bench.row(
                    f"{at}: loss",
                    found.losses.mean(),
                    "share",
                    at_most=risk,
                    interval=ends,
                )
                bench.row(f"{at}: mean kept share", found.kept, "share")
                if confidence is not None:
                    bench.row(
                        f"{at}: splits with more loss than the risk",
                        found.over,
                        "share",
                    )
    return bench.finish()


def _repeat(
    of_each: list[tuple[NDArray[np.float32], NDArray[np.bool_]]],
    risk: float,
    form: tuple[str, str, float | None],
    splits: int,
    seed: int,
) -> Outcome:
    random = np.random.default_rng(seed)
    n = len(of_each)
    lost, counted, kept, over = np.zeros(n), np.zeros(n), [], []
    loss, by, confidence = form
    for _ in range(splits):
        order = random.permutation(n)
        calibration = calibrate_from_scores(of_each[i] for i in order[: n // 2])
        rule = calibration.rule(risk, loss=loss, by=by, confidence=confidence)
        here = []
        for i in order[n // 2 :]:
            scores, gold = of_each[i]
            keep = rule.choose(scores, [""] * len(scores))
            dropped = (~keep & gold).sum()
            here.append(
                float(dropped > 0) if loss == "any" else float(dropped / gold.sum())
            )
            lost[i] += here[-1]
            counted[i] += 1
            kept.append(keep.mean())
        over.append(np.mean(here) > risk)
    return Outcome(
        lost[counted > 0] / counted[counted > 0],
        float(np.mean(kept)),
        float(np.mean(over)),
    )


if __name__ == "__main__":
    main()
