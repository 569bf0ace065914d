"""How often the gold passage survives: our default beside BM25 and embedding cosine, at the same kept share.

On the questions that ship and, with ``--data``, on Natural Questions that nothing was fitted on.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness import Benchmark, Options, arguments

from denoise_core.embedded import sample_questions
from denoise_core.question import Question
from denoise_lab.experiments.real_sets import (
    NQ,
    SHARES,
    difference,
    measured,
    quick_questions,
    scored,
)


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("selection", options)
    for name, questions in _sets(options).items():
        scores = scored(name, questions)
        bench.row(f"{name}: questions", len(questions), "questions")
        for share in SHARES:
            at = f"{name}, {share:.0%} kept"
            kept = {scorer: scores.kept(scorer, share) for scorer in scores.by_scorer}
            for scorer, values in kept.items():
                bench.mean(f"{at}: gold kept, {scorer}", values)
            over_cosine, ends = difference(kept["default"], kept["cosine"])
            bench.row(
                f"{at}: default over cosine",
                over_cosine,
                "share",
                at_least=0.0,
                interval=ends,
            )
            over_words, ends = difference(kept["default"], kept["BM25"])
            bench.row(
                f"{at}: default over BM25",
                over_words,
                "share",
                at_least=0.001,
                interval=ends,
            )
    return bench.finish()


def _sets(options: Options) -> dict[str, list[Question]]:
    if options.quick:
        return {"sample": quick_questions()}
    found = {"shipped sample": list(sample_questions())}
    if options.data is not None:
        found["NQ, not fitted on"] = measured(options, [NQ])[NQ]
    return found


if __name__ == "__main__":
    main()
