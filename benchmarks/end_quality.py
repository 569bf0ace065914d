"""The default next to BM25 and cosine on real questions, at fixed shares of the passages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from harness import Benchmark, arguments

from denoise_core.question import Question
from denoise_lab.experiments.real_sets import (
    SHARES,
    difference,
    measured,
    scored,
)


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("end_quality", options)
    sets = measured(options)
    _default(bench, sets)
    return bench.finish()


def _default(bench: Benchmark, sets: dict[str, list[Question]]) -> None:
    """The default scorer against the best of BM25 and cosine."""
    above_both = dict.fromkeys(SHARES, 0)
    for name, questions in sets.items():
        scores = scored(name, questions)
        chance = {
            s: np.mean(
                [np.ceil(s * len(q.passages)) / len(q.passages) for q in questions]
            )
            for s in SHARES
        }
        bench.row(f"{name}: questions", len(questions), "questions")
        for share in SHARES:
            at = f"{name}, {share:.0%} kept"
            kept = {scorer: scores.kept(scorer, share) for scorer in scores.by_scorer}
            bench.row(f"{at}: gold kept, by chance", chance[share], "share")
            for scorer, values in kept.items():
                bench.mean(f"{at}: gold kept, {scorer}", values)
            best = max(("BM25", "cosine"), key=lambda s: kept[s].mean())
            more, ends = difference(kept["default"], kept[best])
            bench.row(
                f"{at}: default over {best}, the better of both",
                more,
                "share",
                at_least=0.0,
                interval=ends,
            )
            above_both[share] += more > 0
    for share, count in above_both.items():
        least = min(3, len(sets)) if not bench.options.quick else None
        bench.row(
            f"{share:.0%} kept: sets on which the default is above both",
            count,
            "sets",
            at_least=least,
        )


if __name__ == "__main__":
    main()
