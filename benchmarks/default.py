"""The default on real questions that nothing was fitted on: what it keeps, what it costs, what it says.

Beside it BM25, cosine and the first passages, as many passages of each question as the default keeps. With
``--data``; readings of passages are kept in the system's temporary folder, so a second run is short.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from harness import Benchmark, Options, arguments
from packaging.requirements import Requirement
from real_model import questions as recorded

from denoise_core.embedded import (
    default_scale,
    default_stack,
    sample_questions,
    shared_encoder,
)
from denoise_core.embedded.encoder import SentenceEncoder, load_encoder
from denoise_core.embedded.fitted import (
    MIN_QUESTIONS,
    fit_denoiser,
    percentile_interval,
)
from denoise_core.embedded.minilm import WEIGHTS_PACKAGE, minilm_folder
from denoise_core.end.calibration import GOLD_TARGETS
from denoise_core.end.selection import DEFAULT_RISK
from denoise_core.question import Question
from denoise_core.s2a.llm_labels import label_questions
from denoise_lab.experiments.calibrated import measure_held_out, report_held_out
from denoise_lab.experiments.default_choices import (
    ScoredQuestion,
    gain_over_fixed_share,
    read_benchmark_sets,
    score_questions,
)
from denoise_lab.experiments.real_sets import bench_encoder
from denoise_lab.experiments.second_look import report_second_look
from denoise_lab.split import NQ, SETS, XQUAD

GOLD, SHARE, RISKS = (
    {NQ: 0.97, XQUAD: 0.97},
    {NQ: 0.40, XQUAD: 0.50},
    (0.05, 0.10, 0.20),
)
TO_FIT = 200  # questions of each half, where there are so many
FITTED = ("HotpotQA", "OTT-QA", "DSTC11", "RAMDocs")


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("default", options)
    bench.about["margins"] = (
        f"{dict(default_scale().margins)}, default risk {DEFAULT_RISK:g}; "
        f"weights {dict(zip(default_stack().names, default_stack().weight))}"
    )
    read = bench_encoder()
    sets = {
        name: score_questions(questions, read)
        for name, questions in read_benchmark_sets(options).items()
    }
    kept(bench, sets)
    report_second_look(bench, sets, read)
    off_topic(bench, sets, read)
    speed(bench, options)
    size(bench)
    if not options.quick:
        fits(bench, options, read)
    return bench.finish()


def kept(bench: Benchmark, sets: dict[str, list[ScoredQuestion]]) -> None:
    mix = [n for n in sets if n in SETS]
    gold = {
        n: np.array([s.gold_share(s.choose_auto()) for s in rows])
        for n, rows in sets.items()
    }
    text = {
        n: np.array([s.text_share(s.choose_auto()) for s in rows])
        for n, rows in sets.items()
    }
    for name, rows in sets.items():
        poisoned = name == "PoisonedNQ"
        bench.row(f"{name}: questions", len(rows), "questions")
        at_least = GOLD.get(name, 0.60 if poisoned else 0.85 if name in SETS else None)
        at_most = SHARE.get(name, 0.60 if poisoned else None)
        bench.mean(
            f"{name}: gold kept, default",
            gold[name],
            at_least=at_least,
        )
        bench.row(
            f"{name}: text kept, default", text[name].mean(), "share", at_most=at_most
        )
        for other in ("BM25", "cosine", "first"):
            own = np.array(
                [
                    s.gold_share(s.choose_top(other, int(s.choose_auto().sum())))
                    for s in rows
                ]
            )
            bench.mean(f"{name}: gold kept, {other}, as many passages", own)
            if name == "RAMDocs" and other == "BM25":
                bench.mean(
                    f"{name}: gain over BM25",
                    gold[name] - own,
                    at_least=0.0,
                )
        if name in SETS:
            for risk in RISKS:
                lost = np.array([1 - s.gold_share(s.choose_auto(risk)) for s in rows])
                bench.mean(
                    f"{name}: gold lost at a stated risk of {risk:g}",
                    lost,
                    at_most=risk,
                )
    means = np.array([gold[n].mean() for n in mix])
    bench.row(
        "mean of sets: gold kept",
        means.mean(),
        "share",
        at_least=0.93,
    )
    bench.row(
        "lowest set: gold kept",
        means.min(),
        "share",
        at_least=0.85,
    )
    bench.row(
        "mean of sets: text kept",
        np.mean([text[n].mean() for n in mix]),
        "share",
        at_most=0.60,
    )
    gain, ends, share = gain_over_fixed_share(
        sets, mix, float(np.mean([text[n].mean() for n in mix]))
    )
    bench.row("one fixed share that keeps as much text", share, "share")
    bench.row(
        "mean of sets: gain over it",
        gain,
        "share",
        at_least=0.02,
        interval=ends,
    )
    bench.row(
        "its interval's lower end",
        ends[0],
        "share",
        at_least=1e-9,
    )


def off_topic(
    bench: Benchmark, sets: dict[str, list[ScoredQuestion]], read: SentenceEncoder
) -> None:
    rule = default_scale().rule()
    mix = [n for n in sets if n in SETS]
    wanted = -(-200 // len(mix))
    flagged = []
    for name in mix:
        rows = [s.question for s in sets[name]][:wanted]
        for q, other in zip(rows, [*rows[1:], rows[0]]):
            if {p.text for p in q.passages}.isdisjoint(p.text for p in other.passages):
                found = default_stack().combine(
                    read.signals(q.text, [p.text_with_header for p in other.passages])
                )
                flagged.append(rule.is_off_topic(found))
    answerable = [rule.is_off_topic(s.scores["default"]) for n in mix for s in sets[n]]
    if flagged:
        bench.row("passages of another question: pairs", len(flagged), "pairs")
        bench.row(
            "passages of another question: flagged",
            np.mean(flagged),
            "share",
            at_least=0.8,
        )
    bench.row(
        "answerable questions: flagged", np.mean(answerable), "share", at_most=0.05
    )


def speed(bench: Benchmark, options: Options) -> None:
    """Medians of paired runs, in processor time, so that other processes do not count."""
    rounds = 3 if options.quick else 9
    questions = sample_questions()[: rounds + 1]
    fresh = SentenceEncoder(minilm_folder(), name="bench")
    warm_up = [p.text_with_header for p in questions[0].passages[:2]]
    fresh.signals(questions[0].text, warm_up)
    over_cosine = []
    over_second = []
    for question, other in zip(questions[1:], questions):
        texts = [p.text_with_header for p in question.passages]
        first = timed(partial(whole, fresh, question.text, texts))
        second = timed(partial(whole, fresh, other.text, texts))
        plain = timed(partial(cosine, other.text, fresh.embed_texts(texts)))
        over_cosine.append(second / plain)
        over_second.append(first / second)
    bench.row(
        "second question over the same passages: against cosine over stored vectors",
        np.median(over_cosine),
        "times",
        at_most=1.5,
    )
    bench.row("first question: against a second one", np.median(over_second), "times")
    bench.row("fresh process to first result", first_result(), "s")


def whole(read: SentenceEncoder, query: str, texts: list[str]) -> None:
    default_stack().combine(read.signals(query, texts))


def cosine(query: str, vectors: np.ndarray) -> None:
    network, tokenizer = load_encoder(minilm_folder())
    state = network.hidden_states([tokenizer.encode(query).ids])[0].mean(0)
    _ = vectors @ (state / np.linalg.norm(state))


NOW = (
    "from denoise_core.embedded import default_denoiser, sample_questions\nq = sample_questions()[0]\n"
    "default_denoiser().denoise(q.text, q.passages)"
)


def first_result() -> float:
    """Seconds on the wall, the best of three."""
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", NOW], check=True, capture_output=True)
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def timed(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def size(bench: Benchmark) -> None:
    """What ``rag-denoise[embedded]`` and the weights bring beyond the base, of what is installed here."""
    mine = importlib.metadata.requires("rag-denoise") or []
    base = closure([r for r in mine if "extra ==" not in r])
    light = closure(["tokenizers", "safetensors"]) | {WEIGHTS_PACKAGE}
    more = light - base
    bench.row(
        "embedded: packages more than the base", len(more), "packages", at_most=15
    )
    least = light & {"tokenizers", "safetensors", WEIGHTS_PACKAGE}
    bench.row(
        "embedded: packages, installed with --no-deps: all that is imported",
        len(least),
        "packages",
    )
    bench.row(
        "embedded: size more than the base",
        sum(map(megabytes, more)),
        "MB",
        at_most=350,
    )


def closure(roots: Sequence[str]) -> set[str]:
    found, todo = set[str](), list(roots)
    while todo:
        wanted = Requirement(todo.pop())
        name = wanted.name.lower().replace("_", "-")
        if name not in found and (
            wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        ):
            found.add(name)
            todo += importlib.metadata.requires(name) or []
    return found


def megabytes(package: str) -> float:
    paths = [Path(str(f.locate())) for f in importlib.metadata.files(package) or []]
    return sum(p.stat().st_size for p in paths if p.is_file()) / 1e6


def calibrated(bench: Benchmark, options: Options, read: SentenceEncoder) -> None:
    """After calibrating on a hundred questions of a set: what its held-out half loses, and the text it takes."""
    for name in (*SETS, "RAMDocs"):
        fitting, rest = (
            read_benchmark_sets(options, [name], for_fitting=f, limit=n)[name]
            for f, n in ((True, 100), (False, 80))
        )
        report_held_out(
            bench,
            f"{name}, calibrated on {len(fitting)} of its own",
            fit_denoiser(fitting),
            rest,
            read,
        )
    known: dict[str, list[tuple[Question, Question]]] = {"HotpotQA": [], "MuSiQue": []}
    for shown, asked in recorded(options.data, None):
        people = Question(asked.text, tuple(asked.passages), frozenset(asked.gold))
        with contextlib.suppress(KeyError):  # nobody recorded what would be asked today
            (model,) = label_questions([people], asked.llm)
            known[shown.partition(",")[0]] += (
                [(people, model)] if isinstance(model, Question) else []
            )
    for name, pairs in known.items():
        bench.row(
            f"{name}: questions with recorded labels",
            len(pairs),
            "questions",
            at_least=MIN_QUESTIONS,
        )
        if len(pairs) < MIN_QUESTIONS:
            continue
        seen = {people.text for people, _ in pairs}
        rest = [
            q for q in read_benchmark_sets(options, [name])[name] if q.text not in seen
        ]
        of = f"{name}, calibrated on {len(pairs)}"
        by_people = report_held_out(
            bench,
            f"{of}, people's labels",
            fit_denoiser([p for p, _ in pairs]),
            rest,
            read,
        )
        by_model = report_held_out(
            bench,
            f"{of}, a model's labels",
            fit_denoiser([m for _, m in pairs]),
            rest,
            read,
        )
        bench.gain(
            f"{of}: text more by a model's labels",
            by_model.text_kept,
            by_people.text_kept,
            at_most=0.05,
        )


def fits(bench: Benchmark, options: Options, read: SentenceEncoder) -> None:
    """Verdicts of `fit_denoiser` on one half against the other half, and on shuffled labels."""
    mine = (
        shared_encoder()
    )  # the fit reads through the shared encoder: give it what was read already
    mine.embedding_cache = read.embedding_cache
    rng = np.random.default_rng(options.seed)
    for name in FITTED:
        fitting, rest = (
            read_benchmark_sets(options, [name], for_fitting=f, limit=TO_FIT)[name]
            for f in (True, False)
        )
        fit = fit_denoiser(fitting)
        held = measure_held_out(fit, rest, read)
        gain, low, high = percentile_interval(
            held.required_text("cosine", GOLD_TARGETS[0])
            - held.required_text("fitted", GOLD_TARGETS[0])
        )
        word = "better" if low > 0 else "worse" if high < 0 else "no difference found"
        said = f"{fit.evaluation.outcome} ({fit.evaluation.gain:+.3f}); held-out half: {word} ({gain:+.3f})"
        bench.about[f"fit on {name}"] = said
        own = f"fit on {name}: its verdict"
        bench.row(
            f"fit on {name}: text saved against cosine, held-out half",
            gain,
            "share",
            interval=(low, high),
        )
        bench.row(
            f"{own} is the held-out half's",
            float(fit.evaluation.outcome == word),
            "1 or 0",
            at_least=1,
        )
        opposite = {fit.evaluation.outcome, word} == {"better", "worse"}
        bench.row(
            f"{own} contradicts the held-out half's",
            float(opposite),
            "1 or 0",
            at_most=0,
        )
        shuffled = [
            replace(
                q,
                gold=frozenset(
                    rng.choice(
                        [p.id for p in q.passages], len(q.gold), replace=False
                    ).tolist()
                ),
            )
            for q in fitting
        ]
        better = float(fit_denoiser(shuffled).evaluation.outcome == "better")
        bench.row(
            f"fit on {name}, labels shuffled: called better",
            better,
            "1 or 0",
            at_most=0,
        )
    calibrated(bench, options, read)


if __name__ == "__main__":
    main()
