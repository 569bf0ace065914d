"""How well does each utility tell supported from unsupported answers? AUC on three real sets.

FEVER-symmetric (claims whose wording alone gives nothing away), HaluEval QA (a right and a made-up answer for
each context) and MTRAG (answers of several models, rated for faithfulness by people: good is a median of 4 of
4). The length-only control says what can be had without reading: on HaluEval it is most of it, so the pairs
whose answers are about as long as each other (the longer at most 1.5 times the shorter) are measured apart.
Combinations are fitted on a part of each set, given by a hash of question and evidence, and measured on the
other; beside them stands groundedness on that other part. With the embedded encoder it should be more.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Sequence

import numpy as np
from harness import Benchmark, Options, arguments, read

from denoise_core.augmenter.utilities import (
    FunctionUtility,
    Groundedness,
    KnowledgeOverlap,
    Labelled,
    LinearCombination,
    Similarity,
    fit_weights,
)
from denoise_core.augmenter.utilities.calibrate import area_under_curve, calibrate, fit_threshold
from denoise_core.augmenter.utilities.labelled import assess_all
from denoise_core.augmenter.utility import Utility

LEXICAL: dict[str, Utility] = {
    "KF1": KnowledgeOverlap(),
    "KF1, best passage": KnowledgeOverlap(against="best"),
    "recall": KnowledgeOverlap(measure="recall"),
    "precision, best passage": KnowledgeOverlap(measure="precision", against="best"),
    "groundedness": Groundedness(),
}
SETS = ("FEVER-symmetric", "HaluEval QA", "MTRAG")
TARGETS = {"FEVER-symmetric": 0.05, "HaluEval QA": 0.15}  # above KF1


def fever(options: Options) -> list[Labelled]:
    rows = read(options.data, "fever_symmetric")
    return [Labelled("", (r["evidence"],), r["claim"], r["label"] == "SUPPORTS") for r in rows]


def halueval(options: Options) -> list[Labelled]:
    return [
        Labelled(r["question"], (r["context"],), r[key], good)
        for r in read(options.data, "halueval_qa")
        for key, good in (("right_answer", True), ("hallucinated_answer", False))
    ]


def mtrag(options: Options) -> list[Labelled]:
    found = []
    for row in read(options.data, "mtrag_human_eval"):
        evidence = tuple(p["text"] for p in row["passages"])
        for response in row["responses"]:
            rated = response["human"].get("faithfulness")
            if rated and evidence:
                good = statistics.median_low(rated) >= 4
                found.append(Labelled(row["question"], evidence, response["text"], good))
    return found


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__.splitlines()[0], argv)
    bench = Benchmark("utilities", options)
    sets = {"made up": _made_up()} if options.quick else {}
    if not options.quick:
        sets = {"FEVER-symmetric": fever(options), "HaluEval QA": halueval(options), "MTRAG": mtrag(options)}
    rng = np.random.default_rng(options.seed)
    for name, rows in sets.items():
        _measure(bench, name, rows, rng)
        if name == "HaluEval QA":
            _measure(bench, "HaluEval QA, pairs of like length", _alike(rows), rng)
    return bench.finish()


def _measure(bench: Benchmark, name: str, rows: list[Labelled], rng: np.random.Generator) -> None:
    good = [r.good for r in rows]
    bench.row(f"{name}: examples", len(rows), "count")
    bench.row(
        f"{name}: shorter is better (control)", area_under_curve([-len(r.candidate) for r in rows], good), "AUC"
    )
    base = 0.0
    for utility_name, utility in LEXICAL.items():
        scores = [v.score for v in assess_all(utility, rows)]
        auc = area_under_curve(scores, good)
        base = auc if utility_name == "KF1" else base
        margin = TARGETS.get(name) if utility_name == "groundedness" else None
        least = None if margin is None else round(base + margin, 4)
        bench.row(f"{name}: {utility_name}", auc, "AUC", at_least=least, interval=_interval(scores, good, rng))
        if utility_name == "groundedness":
            report = calibrate(utility, rows)
            bench.row(f"{name}: groundedness passes, of the good", report.passes_good, "share")
            bench.row(f"{name}: groundedness passes, of the bad", report.passes_bad, "share")
            bench.row(f"{name}: groundedness cannot say", report.unknown, "share")
            bench.row(f"{name}: threshold fitted here", fit_threshold(scores, good).value, "score")
    fit, test = _parts(rows)
    if len({r.good for r in fit}) == len({r.good for r in test}) == 2:
        _combinations(bench, name, fit, test, rng)


def _combinations(
    bench: Benchmark, name: str, fit: list[Labelled], test: list[Labelled], rng: np.random.Generator
) -> None:
    similarity = Similarity(keep=100_000)
    similarity.read((r.evidence, r.candidate) for r in (*fit, *test))
    ground = {"groundedness": Groundedness()}
    meaning: dict[str, Utility] = {"similarity": FunctionUtility(similarity, name="similarity")}
    both = ground | meaning
    measured: dict[str, Utility] = {
        **ground,
        "lexical utilities, learned combination": LinearCombination(LEXICAL, fit_weights(LEXICAL, fit)),
        "embedded encoder alone": meaning["similarity"],
        "groundedness with the embedded encoder": LinearCombination(both, fit_weights(both, fit)),
    }
    truth = [r.good for r in test]
    bench.row(f"{name}, part not fitted on: examples", len(test), "count")
    more, found = 0.0, {}
    for utility_name, utility in measured.items():
        scores = [v.score for v in assess_all(utility, test)]
        found[utility_name] = np.array(scores)
        auc = area_under_curve(scores, truth)
        if utility_name == "groundedness":
            more = round(auc + 1e-4, 4)
        least = more if utility_name == "groundedness with the embedded encoder" and name in SETS else None
        row = f"{name}, part not fitted on: {utility_name}"
        bench.row(row, auc, "AUC", at_least=least, interval=_interval(scores, truth, rng))
    gain, ends = _gain(
        found["groundedness with the embedded encoder"], found["groundedness"], np.array(truth), rng
    )
    bench.row(f"{name}, part not fitted on: gain from the embedded encoder", gain, "AUC", interval=ends)


def _gain(
    new: np.ndarray, old: np.ndarray, good: np.ndarray, rng: np.random.Generator
) -> tuple[float, tuple[float, float]]:
    """Difference in AUC on the same examples, with a 95 % percentile bootstrap of 300 draws within each class."""

    def difference(at: np.ndarray) -> float:
        truth = good[at].tolist()
        return area_under_curve(new[at].tolist(), truth) - area_under_curve(old[at].tolist(), truth)

    yes, no = np.flatnonzero(good), np.flatnonzero(~good)
    drawn = [difference(np.concatenate([rng.choice(yes, len(yes)), rng.choice(no, len(no))])) for _ in range(300)]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return difference(np.arange(len(good))), (float(low), float(high))


def _parts(rows: list[Labelled]) -> tuple[list[Labelled], list[Labelled]]:
    """For fitting and for measuring; all candidates for a question with its evidence go to the same side."""
    sides: tuple[list[Labelled], list[Labelled]] = ([], [])
    for row in rows:
        digest = hashlib.sha256("\0".join((row.question, *row.evidence)).encode()).digest()
        sides[0 if digest[0] < 128 else 1].append(row)
    return sides


def _interval(scores: Sequence[float], good: Sequence[bool], rng: np.random.Generator) -> tuple[float, float]:
    """95 % percentile bootstrap, 300 draws within each class."""
    values, labels = np.asarray(scores), np.asarray(good)
    yes, no = np.flatnonzero(labels), np.flatnonzero(~labels)
    drawn = []
    for _ in range(300):
        at = np.concatenate([rng.choice(yes, len(yes)), rng.choice(no, len(no))])
        drawn.append(area_under_curve(values[at].tolist(), labels[at].tolist()))
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)


def _alike(rows: list[Labelled]) -> list[Labelled]:
    kept = []
    for right, wrong in zip(rows[::2], rows[1::2], strict=True):
        short, long = sorted((len(right.candidate), len(wrong.candidate)))
        if long <= 1.5 * short:
            kept += [right, wrong]
    return kept


def _made_up() -> list[Labelled]:
    text = "The {0} bridge was opened in 19{1:02d} and is {1} metres long."
    names = ["Elm", "Oak", "Ash", "Fir", "Yew", "Bay", "Box", "Fig"]
    return [
        Labelled("When was it opened?", (text.format(n, i + 10),), f"It was opened in {year + i}.", year == 1910)
        for i, n in enumerate(names)
        for year in (1910, 1950)
    ]


if __name__ == "__main__":
    main()
