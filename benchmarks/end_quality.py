"""END on real questions: the probe's curve by layer, its controls, and the default beside BM25 and cosine.

The probe of the curve is fitted on the fitting part of Natural Questions alone and measured on the other
part of every set, so on all sets but one it also crosses the domain. Controls, fitted and measured within
the same set: the model with fresh blocks (random weights), and all passages under one and the same question.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from harness import Benchmark, Options, arguments
from numpy.typing import NDArray

from denoise_core.end.fit.probe import fit_line
from denoise_core.end.fit.states import HiddenStates
from denoise_core.end.reader import HiddenReader
from denoise_core.evaluate.metrics import recall_at
from denoise_core.question import Question
from denoise_lab.controls import NO_QUESTION, with_fresh_blocks
from denoise_lab.experiments.real_sets import (
    LAYERS,
    NQ,
    SHARES,
    difference,
    measured,
    part,
    reader,
    scored,
    states_of,
    without_text,
)

CONTROL_LAYER = 3
FITTED_ON = 380  # questions of NQ
IN_CONTROLS = 25  # questions of each set


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("end_quality", options)
    sets = measured(options)
    _default(bench, sets)
    fitting = (
        sets[NQ] if options.quick else part(options, NQ, fitting=True, limit=FITTED_ON)
    )
    _curve(bench, fitting, sets)
    _controls(bench, options, sets)
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


def _curve(
    bench: Benchmark, fitting: list[Question], sets: dict[str, list[Question]]
) -> None:
    fitted = states_of("NQ, to fit on", fitting)
    lines = {
        k: fit_line(fitted.by_layer[k], fitted.labels, fitted.question_index.tolist())
        for k in LAYERS
    }
    for name, questions in sets.items():
        seen = states_of(name, questions)
        for layer, line in lines.items():
            logits = seen.by_layer[layer].astype(np.float32) @ line.weight + line.bias
            _rows(bench, f"{name}, probe of NQ at layer {layer}", logits, seen)


def _controls(
    bench: Benchmark, options: Options, sets: dict[str, list[Question]]
) -> None:
    fresh = HiddenReader(
        with_fresh_blocks(reader().backbone), tokenizer=reader().backbone.tokenizer
    )
    for name, questions in sets.items():
        chosen = questions[:IN_CONTROLS]
        read = {
            "the probe itself": states_of(f"{name}, control", chosen, [CONTROL_LAYER]),
            "random weights": states_of(
                f"{name}, random weights", chosen, [CONTROL_LAYER], fresh
            ),
            "no question": states_of(
                f"{name}, no question",
                without_text(chosen, NO_QUESTION),
                [CONTROL_LAYER],
            ),
        }
        for control, seen in read.items():
            line = fit_line(
                seen.by_layer[CONTROL_LAYER], seen.labels, seen.question_index.tolist()
            )
            label = f"{name}, fitted within the set at layer {CONTROL_LAYER}, {control}"
            _rows(bench, label, line.held_out, seen)


def _rows(
    bench: Benchmark, label: str, scores: NDArray[np.float32], seen: HiddenStates
) -> None:
    for share in SHARES:
        values = recall_at(scores, seen.labels, seen.question_index, share)
        bench.mean(f"{label}: gold at {share:.0%}", values)


if __name__ == "__main__":
    main()
