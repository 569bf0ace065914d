"""Right answers by the reader of real text: from everything, and from what each scorer keeps.

Every scorer keeps as many passages of a question as the default does. The reader was not trained on the questions
(`denoise_lab.span_reader.split`); three weights and a margin of the default were fitted on some of HotpotQA's and
MuSiQue's. With ``--data``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from _bench_reader import ABOUT, bench_reader
from harness import Benchmark, Options, arguments
from numpy.typing import NDArray

from denoise_core.embedded.reader.span_reader import SpanReader
from denoise_core.evaluate.metrics import bootstrap
from denoise_core.question import Question
from denoise_lab.experiments.default_choices import Scored, scored
from denoise_lab.experiments.real_sets import bench_encoder, quick_questions
from denoise_lab.span_reader.measure import exact
from denoise_lab.span_reader.split import for_training, read
from denoise_lab.split import NQ, SETS, XQUAD, place_of

NAMES = (NQ, "HotpotQA", "MuSiQue", XQUAD)
QUESTIONS = 200  # of a set
MORE_ON = (NQ, XQUAD)
CHOICES = ("everything", "first", "BM25", "cosine", "default", "gold")


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("answers", options)
    encoder = bench_encoder()
    reader, kept = bench_reader()
    bench.about["reader"] = ABOUT
    for name, questions in asked(options).items():
        rows = []
        for given in scored(questions, encoder):
            rows.append(right(given, reader))
            kept.forget()
        found = {choice: np.array([row[choice] for row in rows]) for choice in CHOICES}
        print(name, {choice: float(values.mean()) for choice, values in found.items()}, flush=True)
        bench.row(f"{name}: questions", len(rows), "questions")
        for choice, values in found.items():
            bench.row(f"{name}: right from {choice}", values.mean(), "share", interval=bootstrap(values))
        gain = found["default"] - found["everything"]
        low, high = bootstrap(gain)
        bench.row(f"{name}: default over everything", gain.mean(), "share", at_least=0.0, interval=(low, high))
        if name in MORE_ON:
            bench.row(f"{name}: lower end of its interval", low, "share", at_least=1e-9)
        for other in ("first", "BM25", "cosine"):
            more = found["default"] - found[other]
            bench.row(f"{name}: default over {other}", more.mean(), "share", interval=bootstrap(more))
    return bench.finish()


def asked(options: Options) -> dict[str, list[Question]]:
    """Questions with answers that the reader was not trained on, those the default never saw first."""
    if options.quick:
        return {NQ: quick_questions(3)}
    if options.data is None:
        raise SystemExit("this benchmark needs real data: pass --data FOLDER")
    out = {}
    for name in NAMES:
        file = SETS[name]
        usable = [q for q in read(Path(options.data), file) if q.answers and 0 < len(q.gold) < len(q.passages)]
        unseen = [
            q for q in usable if not for_training(file, q) and set(map(str.lower, q.answers)) - {"yes", "no"}
        ]
        out[name] = sorted(unseen, key=lambda q: -place_of(name, q))[:QUESTIONS]
    return out


def right(given: Scored, reader: SpanReader) -> dict[str, float]:
    """For each choice of passages whether the reader's answer is one of the accepted ones."""
    auto: NDArray[np.bool_] = given.auto()
    n = int(auto.sum())
    masks = {name: given.best(name, n) for name in ("first", "BM25", "cosine")}
    masks |= {"everything": np.ones_like(auto), "default": auto, "gold": given.labels}
    out: dict[str, float] = {}
    for name, mask in masks.items():
        kept = [p for p, keep in zip(given.question.passages, mask, strict=True) if keep]
        found = reader.answer(given.question.text, kept)
        out[name] = float(found is not None and exact(found.text, given.question.answers))
    return out


if __name__ == "__main__":
    main()
