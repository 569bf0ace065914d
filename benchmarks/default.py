"""The default on real questions that nothing was fitted on: what it keeps, what it costs, what it recognises.

BM25, cosine and the first passages keep as many passages of each question as the default does. With ``--data``;
what the encoder reads is kept in the system's temporary folder, so that a second run is short.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from harness import Benchmark, cpu_seconds
from packaging.requirements import Requirement

from denoise_core.embedded import (
    default_scale,
    default_stack,
    sample_questions,
    shared_encoder,
)
from denoise_core.embedded.encoder import SentenceEncoder, load_encoder
from denoise_core.embedded.fitted import fit_denoiser, percentile_interval
from denoise_core.embedded.minilm import WEIGHTS_PACKAGE, minilm_folder
from denoise_core.end.calibration import GOLD_TARGETS
from denoise_core.end.selection import DEFAULT_RISK
from denoise_core.question import Question
from denoise_lab.experiments.calibrated import measure_held_out, report_held_out
from denoise_lab.experiments.default_choices import (
    ScoredQuestion,
    read_benchmark_sets,
    score_questions,
)
from denoise_lab.experiments.real_sets import bench_encoder
from denoise_lab.experiments.second_look import report_second_look
from denoise_lab.split import NQ, SETS, XQUAD

POISONED_SET = "PoisonedNQ"
RAMDOCS = "RAMDocs"
LEAST_GOLD = {NQ: 0.97, XQUAD: 0.97, POISONED_SET: 0.60}
LEAST_GOLD_OF_OTHERS = 0.85
MOST_TEXT = {NQ: 0.40, XQUAD: 0.50, POISONED_SET: 0.60}
OTHER_SCORERS = ("BM25", "cosine", "first")
OFF_TOPIC_PAIRS = 200
FITTED_SETS = ("HotpotQA", "OTT-QA", "DSTC11", RAMDOCS)
FITTED_COUNT = 200  # questions of each half, where there are so many
CALIBRATED_COUNT = 100
REPORTED_COUNT = 80


def main() -> None:
    bench = Benchmark("default", __doc__)
    margins = dict(default_scale().margins)
    stack = default_stack()
    weights = dict(zip(stack.names, stack.weight))
    bench.about["margins"] = (
        f"{margins}, default risk {DEFAULT_RISK:g}; weights {weights}"
    )
    encoder = bench_encoder()
    sets = {}
    for name, questions in read_benchmark_sets(bench).items():
        sets[name] = score_questions(questions, encoder)
    report_sets(bench, sets)
    report_second_look(bench, sets, encoder)
    report_off_topic(bench, sets, encoder)
    report_speed(bench)
    report_installed_size(bench)
    if not bench.quick:
        report_fits(bench, encoder)
        report_calibrations(bench, encoder)
    bench.finish()


# -- what is kept ----------------------------------------------------------------------


def report_sets(bench: Benchmark, sets: Mapping[str, Sequence[ScoredQuestion]]) -> None:
    gold_means = []
    text_means = []
    for name, questions in sets.items():
        gold, text = report_set(bench.under(f"{name}: "), name, questions)
        if name in SETS:
            gold_means.append(gold)
            text_means.append(text)
    mean_gold = float(np.mean(gold_means))
    bench.row("mean of sets: gold kept", mean_gold, "share", at_least=0.93)
    bench.row("lowest set: gold kept", min(gold_means), "share", at_least=0.85)
    mean_text = float(np.mean(text_means))
    bench.row("mean of sets: text kept", mean_text, "share", at_most=0.60)


def report_set(
    bench: Benchmark, name: str, questions: Sequence[ScoredQuestion]
) -> tuple[float, float]:
    """Add the rows of a set; return the mean shares of gold and of text kept by the default."""
    gold = []
    text = []
    other_gold: dict[str, list[float]] = {scorer: [] for scorer in OTHER_SCORERS}
    for question in questions:
        kept = question.choose_auto()
        gold.append(question.gold_share(kept))
        text.append(question.text_share(kept))
        for scorer in OTHER_SCORERS:
            as_many = question.choose_top(scorer, int(kept.sum()))
            other_gold[scorer].append(question.gold_share(as_many))
    least_gold = LEAST_GOLD.get(name)
    if name in SETS and least_gold is None:
        least_gold = LEAST_GOLD_OF_OTHERS
    bench.row("questions", len(questions), "questions")
    bench.mean("gold kept, default", gold, at_least=least_gold)
    bench.mean("text kept, default", text, at_most=MOST_TEXT.get(name))
    for scorer in OTHER_SCORERS:
        bench.mean(f"gold kept, {scorer}, as many passages", other_gold[scorer])
    if name == RAMDOCS:
        gain = np.subtract(gold, other_gold["BM25"])
        bench.mean("gain over BM25", gain, at_least=0.0)
    if name in SETS:
        bench.mean(
            f"gold lost at a stated risk of {DEFAULT_RISK:g}",
            np.subtract(1, gold),
            at_most=DEFAULT_RISK,
        )
    return float(np.mean(gold)), float(np.mean(text))


def report_off_topic(
    bench: Benchmark,
    sets: Mapping[str, Sequence[ScoredQuestion]],
    encoder: SentenceEncoder,
) -> None:
    """Ask each question about the next question's passages, and about its own."""
    rule = default_scale().rule()
    names = [name for name in sets if name in SETS]
    count = -(-OFF_TOPIC_PAIRS // len(names))
    is_foreign_flagged = []
    is_answerable_flagged = []
    for name in names:
        for row in sets[name]:
            is_answerable_flagged.append(rule.is_off_topic(row.scores["default"]))
        questions = [row.question for row in sets[name][:count]]
        for question, other in zip(questions, questions[1:] + questions[:1]):
            own_texts = {passage.text for passage in question.passages}
            if not own_texts.isdisjoint(passage.text for passage in other.passages):
                continue
            texts = [passage.text_with_header for passage in other.passages]
            scores = default_stack().combine(encoder.signals(question.text, texts))
            is_foreign_flagged.append(rule.is_off_topic(scores))
    if is_foreign_flagged:
        rows = bench.under("passages of another question: ")
        rows.row("pairs", len(is_foreign_flagged), "pairs")
        rows.right("flagged", is_foreign_flagged, at_least=0.8)
    bench.right("answerable questions: flagged", is_answerable_flagged, at_most=0.05)


# -- what it costs ---------------------------------------------------------------------


def report_speed(bench: Benchmark) -> None:
    """Compare a question over known passages with cosine over their vectors, in paired CPU times."""
    encoder = SentenceEncoder(minilm_folder(), name="bench")
    rounds = 3 if bench.quick else 9
    questions = sample_questions()[: rounds + 1]
    ratios = []
    for question, other in zip(questions[1:], questions):
        texts = [passage.text_with_header for passage in question.passages]
        score_passages(encoder, question.text, texts)  # they are known from now on
        vectors = encoder.embed_texts(texts)
        seconds = cpu_seconds(partial(score_passages, encoder, other.text, texts))
        cosine_seconds = cpu_seconds(partial(score_vectors, other.text, vectors))
        ratios.append(seconds / cosine_seconds)
    measure = (
        "second question over the same passages: against cosine over stored vectors"
    )
    bench.row(measure, float(np.median(ratios)), "times", at_most=1.5)


def score_passages(
    encoder: SentenceEncoder, query: str, texts: Sequence[str]
) -> np.ndarray:
    return default_stack().combine(encoder.signals(query, texts))


def score_vectors(query: str, vectors: np.ndarray) -> None:
    network, tokenizer = load_encoder(minilm_folder())
    state = network.hidden_states([tokenizer.encode(query).ids])[0].mean(0)
    _ = vectors @ (state / np.linalg.norm(state))


def report_installed_size(bench: Benchmark) -> None:
    """Add what ``rag-denoise[embedded]`` and the weights need beyond the base, as installed here."""
    base_requirements = []
    for requirement in importlib.metadata.requires("rag-denoise") or []:
        if "extra ==" not in requirement:
            base_requirements.append(requirement)
    packages = required_packages(["tokenizers", "safetensors"]) | {WEIGHTS_PACKAGE}
    packages -= required_packages(base_requirements)
    rows = bench.under("embedded: ")
    rows.row("packages more than the base", len(packages), "packages", at_most=15)
    megabytes = sum(map(installed_megabytes, packages))
    rows.row("size more than the base", megabytes, "MB", at_most=350)


def required_packages(requirements: Sequence[str]) -> set[str]:
    """Return the names of the packages and of all that they need."""
    names = set[str]()
    pending = list(requirements)
    while pending:
        requirement = Requirement(pending.pop())
        name = requirement.name.lower().replace("_", "-")
        is_needed = True
        if requirement.marker is not None:
            is_needed = requirement.marker.evaluate({"extra": ""})
        if is_needed and name not in names:
            names.add(name)
            pending += importlib.metadata.requires(name) or []
    return names


def installed_megabytes(package: str) -> float:
    size = 0
    for file in importlib.metadata.files(package) or []:
        path = Path(str(file.locate()))
        if path.is_file():
            size += path.stat().st_size
    return size / 1e6


# -- fitted and calibrated on a set ----------------------------------------------------


def half_of_set(
    bench: Benchmark, name: str, limit: int, *, fitting: bool
) -> list[Question]:
    return read_benchmark_sets(bench, [name], for_fitting=fitting, limit=limit)[name]


def report_fits(bench: Benchmark, encoder: SentenceEncoder) -> None:
    """Compare the verdict of `fit_denoiser` on one half of a set with the other half."""
    # The fit reads with the shared encoder, which gets what was read already.
    shared_encoder().embedding_cache = encoder.embedding_cache
    for name in FITTED_SETS:
        fit = fit_denoiser(half_of_set(bench, name, FITTED_COUNT, fitting=True))
        rest = half_of_set(bench, name, FITTED_COUNT, fitting=False)
        held_out_figures = measure_held_out(fit, rest, encoder)
        cosine_text = held_out_figures.required_text("cosine", GOLD_TARGETS[0])
        fitted_text = held_out_figures.required_text("fitted", GOLD_TARGETS[0])
        gain, low, high = percentile_interval(cosine_text - fitted_text)
        outcome = "no difference found"
        if low > 0:
            outcome = "better"
        elif high < 0:
            outcome = "worse"
        rows = bench.under(f"fit on {name}: ")
        rows.row(
            "text saved against cosine, held-out half",
            gain,
            "share",
            interval=(low, high),
        )
        rows.row(
            "its verdict is the held-out half's",
            fit.evaluation.outcome == outcome,
            "1 or 0",
            at_least=1,
        )


def report_calibrations(bench: Benchmark, encoder: SentenceEncoder) -> None:
    """Calibrate on a hundred questions of each set; add what its held-out half loses, in how much text."""
    for name in (*SETS, RAMDOCS):
        fitting = half_of_set(bench, name, CALIBRATED_COUNT, fitting=True)
        rest = half_of_set(bench, name, REPORTED_COUNT, fitting=False)
        title = f"{name}, calibrated on {len(fitting)} of its own"
        report_held_out(bench, title, fit_denoiser(fitting), rest, encoder)


if __name__ == "__main__":
    main()
