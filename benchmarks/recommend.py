"""Whether what `evaluate` recommends on 50 questions is as good on 50 others as the best single way for all sets.

Gold kept at equal tokens, on halves of real sets that nothing was fitted on. The best fixed way is the one that
keeps most gold on the first 50 questions of all sets together; the best on the 50 others is what hindsight would
take.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from harness import Benchmark, Options, arguments

from denoise_core.embedded import sample_questions
from denoise_core.evaluate.comparison import Evaluation, evaluate
from denoise_core.evaluate.comparison.figures import paired_difference
from denoise_core.question import Question
from denoise_lab.split import halves

SETS = ("NQ", "HotpotQA", "OTT-QA")
EACH = 50
WAYS = ("default", "first", "BM25", "cosine")


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("recommend", options)
    chosen: dict[str, Evaluation] = {}
    others: dict[str, Evaluation] = {}
    for name, (first, second) in _sets(options).items():
        chosen[name], others[name] = evaluate(first), evaluate(second)
    fixed = max(
        WAYS,
        key=lambda way: np.mean(
            [_gold(found, way).mean() for found in chosen.values()]
        ),
    )
    bench.about["best fixed way"] = fixed
    said = (f"{name}: {found.recommendation.name}" for name, found in chosen.items())
    bench.about["recommended"] = ", ".join(said)
    for name, found in others.items():
        recommended = chosen[name].recommendation.name
        own, best = (
            _gold(found, recommended),
            max(_gold(found, way).mean() for way in WAYS),
        )
        over = paired_difference(own.tolist(), _gold(found, fixed).tolist())
        bench.row(f"{name}: tokens a question", found.budget or 0, "tokens")
        for way in WAYS:
            bench.row(
                f"{name}: gold kept on the others, {way}",
                _gold(found, way).mean(),
                "share",
            )
        bench.row(
            f"{name}: recommended ({recommended}) over the best fixed way ({fixed})",
            over.value,
            "share",
            at_least=0.0,
            interval=(over.low, over.high),
        )
        bench.row(
            f"{name}: recommended under the best in hindsight",
            best - own.mean(),
            "share",
        )
    return bench.finish()


def _gold(found: Evaluation, way: str) -> np.ndarray:
    return np.array(
        [o.gold_recall for o in found.outcomes[way] if o.gold_recall is not None]
    )


def _sets(options: Options) -> dict[str, tuple[Sequence[Question], Sequence[Question]]]:
    if options.quick:
        return {"sample": (sample_questions()[:2], sample_questions()[2:4])}
    if options.data is None:
        raise SystemExit("this benchmark needs real data: pass --data FOLDER")
    found = {name: halves(options.data, name, 2 * EACH)[1] for name in SETS}
    return {
        name: (questions[:EACH], questions[EACH:]) for name, questions in found.items()
    }


if __name__ == "__main__":
    main()
