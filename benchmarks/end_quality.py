"""END on real questions: the probe's curve by layer, its controls, and the default beside BM25 and cosine.

The probe of the curve is fitted on the fitting part of Natural Questions alone and measured on the other
part of every set, so on all sets but one it also crosses the domain. Controls, fitted and measured within
the same set: the model with fresh blocks (random weights), and all passages under one and the same question.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from _end_shared import (
    NQ,
    SHARES,
    cache_folder,
    difference,
    measured,
    part,
    questions_digest,
    scored,
    without_text,
)
from harness import Benchmark, Options, arguments
from numpy.typing import NDArray

from denoise_core.embedded import encoder
from denoise_core.end.capture import Capture, capture
from denoise_core.end.controls import NO_QUESTION, with_fresh_blocks
from denoise_core.end.fit import fit_line
from denoise_core.end.reader import HiddenReader
from denoise_core.evaluate.metrics import bootstrap, recall_at
from denoise_core.question import Question

LAYERS = (0, 1, 2, 3, 4, 5, 6)
CONTROL_LAYER = 3
FITTED_ON = 380  # questions of NQ
IN_CONTROLS = 130  # questions of each set


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("end_quality", options)
    reader = HiddenReader(encoder().model, tokenizer=encoder().tokenizer)
    sets = measured(options)
    _default(bench, sets)
    fitting = sets[NQ][:4] if options.quick else part(options, NQ, fitting=True, limit=FITTED_ON)
    _curve(bench, reader, fitting, sets, (1, 3) if options.quick else LAYERS)
    _controls(bench, options, reader, sets)
    return bench.finish()


def _default(bench: Benchmark, sets: dict[str, list[Question]]) -> None:
    """The default scorer against the best of BM25 and cosine."""
    above_both = dict.fromkeys(SHARES, 0)
    for name, questions in sets.items():
        scores = scored(name, questions)
        chance = {s: np.mean([np.ceil(s * len(q.passages)) / len(q.passages) for q in questions]) for s in SHARES}
        bench.row(f"{name}: questions", len(questions), "questions")
        for share in SHARES:
            at = f"{name}, {share:.0%} kept"
            kept = {scorer: scores.kept(scorer, share) for scorer in scores.by_scorer}
            bench.row(f"{at}: gold kept, by chance", chance[share], "share")
            for scorer, values in kept.items():
                bench.row(f"{at}: gold kept, {scorer}", values.mean(), "share", interval=bootstrap(values))
            best = max(("BM25", "cosine"), key=lambda s: kept[s].mean())
            more, ends = difference(kept["default"], kept[best])
            bench.row(f"{at}: default over {best}, the better of both", more, "share", at_least=0.0, interval=ends)
            above_both[share] += more > 0
    for share, count in above_both.items():
        least = min(3, len(sets)) if not bench.options.quick else None
        bench.row(f"{share:.0%} kept: sets on which the default is above both", count, "sets", at_least=least)


def _curve(
    bench: Benchmark,
    reader: HiddenReader,
    fitting: list[Question],
    sets: dict[str, list[Question]],
    layers: Sequence[int],
) -> None:
    fitted = _read(reader, "fitting", fitting, layers)
    lines = {k: fit_line(fitted.by_layer[k], fitted.labels, fitted.groups.tolist()) for k in layers}
    for name, questions in sets.items():
        seen = _read(reader, name, questions, layers)
        for layer, line in lines.items():
            logits = seen.by_layer[layer].astype(np.float32) @ line.weight + line.bias
            _rows(bench, f"{name}, probe of NQ at layer {layer}", logits, seen)


def _controls(bench: Benchmark, options: Options, reader: HiddenReader, sets: dict[str, list[Question]]) -> None:
    fresh = HiddenReader(with_fresh_blocks(reader.backbone), tokenizer=encoder().tokenizer)
    layer = [CONTROL_LAYER]
    for name, questions in sets.items():
        chosen = questions[: 8 if options.quick else IN_CONTROLS]
        read = {
            "the probe itself": _read(reader, f"{name}-own", chosen, layer),
            "random weights": _read(fresh, f"{name}-random", chosen, layer),
            "no question": _read(reader, f"{name}-blind", without_text(chosen, NO_QUESTION), layer),
        }
        for control, seen in read.items():
            line = fit_line(seen.by_layer[CONTROL_LAYER], seen.labels, seen.groups.tolist())
            label = f"{name}, fitted within the set at layer {CONTROL_LAYER}, {control}"
            _rows(bench, label, line.held_out, seen)


def _rows(bench: Benchmark, label: str, scores: NDArray[np.float32], seen: Capture) -> None:
    for share in SHARES:
        values = recall_at(scores, seen.labels, seen.groups, share)
        bench.row(f"{label}: gold at {share:.0%}", values.mean(), "share", interval=bootstrap(values))


def _read(reader: HiddenReader, name: str, questions: list[Question], layers: Sequence[int]) -> Capture:
    mark = reader.reading(max(layers)).model.weights[:8] + questions_digest(questions)[:12]
    print(f"reading {name} ({len(questions)} questions, layers {list(layers)}) ...", flush=True)
    folder = cache_folder() / f"states-{mark}-{'-'.join(map(str, layers))}"
    return capture(reader, questions, layers=layers, folder=folder)


if __name__ == "__main__":
    main()
