"""The default on real questions that nothing was fitted on: what it keeps, what it costs, what it says.

Beside it BM25, cosine and the first passages, as many passages of each question as the default keeps. With
``--data``; readings of passages are kept in the system's temporary folder, so a second run is short.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from _default_conflicts import conflicts
from harness import Benchmark, Options, arguments
from packaging.requirements import Requirement

from denoise_core.embedded import encoder, sample, scale, stack
from denoise_core.embedded.encoder import SentenceEncoder, loaded
from denoise_core.embedded.fitted import fit_denoiser, torch_minilm
from denoise_core.embedded.minilm import PACKAGE, minilm
from denoise_core.end.auto import RISK
from denoise_core.evaluate.metrics import bootstrap
from denoise_core.question import Question
from denoise_lab.experiments.default_choices import Scored, reported, scored
from denoise_lab.experiments.real_sets import bench_encoder
from denoise_lab.split import NQ, SETS, XQUAD

GOLD, SHARE, RISKS = {NQ: 0.97, XQUAD: 0.97}, {NQ: 0.40, XQUAD: 0.50}, (0.05, 0.10, 0.20)
TO_FIT = 200  # questions of each half, where there are so many
FITTED = ("HotpotQA", "OTT-QA", "DSTC11", "RAMDocs")


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("default", options)
    bench.about["margins"] = (
        f"{dict(scale().margins)}, default risk {RISK:g}; weights {dict(zip(stack().names, stack().weight))}"
    )
    read = bench_encoder()
    sets = {name: scored(questions, read) for name, questions in reported(options).items()}
    kept(bench, sets)
    conflicts(bench, options, sets)
    off_topic(bench, sets, read)
    speed(bench, options)
    size(bench)
    if not options.quick:
        fits(bench, options, read)
    return bench.finish()


def kept(bench: Benchmark, sets: dict[str, list[Scored]]) -> None:
    mix = [n for n in sets if n in SETS]
    gold = {n: np.array([s.gold(s.auto()) for s in rows]) for n, rows in sets.items()}
    text = {n: np.array([s.share(s.auto()) for s in rows]) for n, rows in sets.items()}
    for name, rows in sets.items():
        poisoned = name == "PoisonedNQ"
        bench.row(f"{name}: questions", len(rows), "questions")
        at_least = GOLD.get(name, 0.60 if poisoned else 0.85 if name in SETS else None)
        at_most = SHARE.get(name, 0.60 if poisoned else None)
        bench.mean(f"{name}: gold kept, default", gold[name], at_least=at_least)
        bench.row(f"{name}: text kept, default", text[name].mean(), "share", at_most=at_most)
        for other in ("BM25", "cosine", "first"):
            own = np.array([s.gold(s.best(other, int(s.auto().sum()))) for s in rows])
            bench.mean(f"{name}: gold kept, {other}, as many passages", own)
            if name == "RAMDocs" and other == "BM25":
                gain = gold[name] - own
                bench.mean(f"{name}: gain over BM25", gain, at_least=0.0)
        if name in SETS:
            for risk in RISKS:
                lost = np.array([1 - s.gold(s.auto(risk)) for s in rows])
                bench.mean(f"{name}: gold lost at a stated risk of {risk:g}", lost, at_most=risk)
    means = np.array([gold[n].mean() for n in mix])
    bench.row("mean of sets: gold kept", means.mean(), "share", at_least=0.93)
    bench.row("lowest set: gold kept", means.min(), "share", at_least=0.85)
    bench.row("mean of sets: text kept", np.mean([text[n].mean() for n in mix]), "share", at_most=0.60)
    gain, ends, share = over_share(sets, mix, float(np.mean([text[n].mean() for n in mix])))
    bench.row("one fixed share that keeps as much text", share, "share")
    bench.row("mean of sets: gain over it", gain, "share", at_least=0.02, interval=ends)
    bench.row("its interval's lower end", ends[0], "share", at_least=1e-9)


def over_share(
    sets: dict[str, list[Scored]], mix: Sequence[str], text: float
) -> tuple[float, tuple[float, float], float]:
    """Gain in mean gold over one share for all sets, its interval over questions within sets, and the share."""

    def at(share: float) -> Callable[[Scored], np.ndarray]:
        return lambda s: s.best("default", int(np.ceil(share * len(s.lengths) - 1e-9)))

    def spends(share: float) -> float:
        return float(np.mean([np.mean([s.share(at(share)(s)) for s in sets[n]]) for n in mix]))

    share = min(np.linspace(0.05, 0.99, 189), key=lambda x: abs(spends(float(x)) - text))
    each = [np.array([s.gold(s.auto()) - s.gold(at(float(share))(s)) for s in sets[n]]) for n in mix]
    rng = np.random.default_rng(0)
    drawn = [np.mean([v[rng.integers(0, len(v), len(v))].mean() for v in each]) for _ in range(2000)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(np.mean([v.mean() for v in each])), (float(low), float(high)), float(share)


def off_topic(bench: Benchmark, sets: dict[str, list[Scored]], read: SentenceEncoder) -> None:
    rule = scale().rule()
    mix = [n for n in sets if n in SETS]
    wanted = -(-200 // len(mix))
    flagged = []
    for name in mix:
        rows = [s.question for s in sets[name]][:wanted]
        for q, other in zip(rows, [*rows[1:], rows[0]]):
            if {p.text for p in q.passages}.isdisjoint(p.text for p in other.passages):
                found = stack().combine(read.signals(q.text, [p.headed for p in other.passages]))
                flagged.append(rule.relevant(found) is False)
    answerable = [rule.relevant(s.by["default"]) is False for n in mix for s in sets[n]]
    if flagged:
        bench.row("passages of another question: pairs", len(flagged), "pairs")
        bench.row("passages of another question: flagged", np.mean(flagged), "share", at_least=0.8)
    bench.row("answerable questions: flagged", np.mean(answerable), "share", at_most=0.05)


def speed(bench: Benchmark, options: Options) -> None:
    """Medians of paired runs, in processor time, so that other processes do not count."""
    rounds = 3 if options.quick else 9
    questions = sample()[: rounds + 1]
    fresh = SentenceEncoder(minilm(), name="bench")
    fresh.signals(questions[0].text, [p.headed for p in questions[0].passages[:2]])
    ratios, cold, second, old = [], [], [], []
    before = None if importlib.util.find_spec("torch") is None else torch_before()
    for q, other in zip(questions[1:], questions):
        texts = [p.headed for p in q.passages]
        cold.append(timed(partial(whole, fresh, q.text, texts)))
        second.append(timed(partial(whole, fresh, other.text, texts)))
        ratios.append(second[-1] / timed(partial(cosine, other.text, fresh.vectors(texts))))
        if before is not None:
            old.append(timed(partial(before, q.text, texts)))
    said = "second question over the same passages: against cosine over stored vectors"
    bench.row(said, np.median(ratios), "times", at_most=1.5)
    bench.row("first question: against a second one", np.median(np.array(cold) / second), "times")
    if not old:
        return
    said = "first question: of the time of joint reading in torch, as before"
    bench.row(said, np.median(np.array(cold) / old), "times", at_most=0.8)
    bench.row("second question: less than before", np.median(np.array(old) / second), "times", at_least=20)
    now, then = first_result(NOW), first_result(THEN)
    bench.row("fresh process to first result", now, "s")
    bench.row("fresh process to first result, of before", now / then, "times", at_most=0.5)


def whole(read: SentenceEncoder, query: str, texts: list[str]) -> None:
    stack().combine(read.signals(query, texts))


def cosine(query: str, vectors: np.ndarray) -> None:
    network, tokenizer = loaded(minilm())
    state = network.states([tokenizer.encode(query).ids])[0].mean(0)
    _ = vectors @ (state / np.linalg.norm(state))


def torch_before() -> Callable[[str, list[str]], None]:
    """What the default computed before: question and passages read together through four layers, and apart."""
    import torch

    model, tokenizer = torch_minilm()
    first_four, _ = torch_minilm()
    first_four.encoder.layer = first_four.encoder.layer[:4]
    torch.set_num_threads(1)
    settings = {"return_tensors": "pt", "padding": True, "truncation": True, "max_length": 512}

    def run(query: str, texts: list[str]) -> None:
        with torch.inference_mode():
            model(**tokenizer(texts, **settings))
            first_four(**tokenizer([query] * len(texts), texts, **settings))

    return run


NOW = (
    "from denoise_core.embedded import default_denoiser, sample\nq = sample()[0]\n"
    "default_denoiser().denoise(q.text, q.passages)"
)
THEN = (
    "import sys; sys.path.insert(0, 'benchmarks')\nfrom default import torch_before\n"
    "from denoise_core.embedded import sample\nq = sample()[0]\n"
    "torch_before()(q.text, [p.headed for p in q.passages])"
)


def first_result(code: str, runs: int = 3) -> float:
    """Seconds on the wall, the best of a few."""
    best = np.inf
    for _ in range(runs):
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, cwd=Path(__file__).parents[1]
        )
        best = min(best, time.perf_counter() - started)
    return float(best)


def timed(do: Callable[[], object], runs: int = 1) -> float:
    started = time.process_time()
    for _ in range(runs):
        do()
    return (time.process_time() - started) / runs


def size(bench: Benchmark) -> None:
    """What ``rag-denoise[embedded]`` and the weights bring beyond the base, of what is installed here."""
    mine = importlib.metadata.requires("rag-denoise") or []
    base = closure([r for r in mine if "extra ==" not in r])
    light = closure(["tokenizers", "safetensors"]) | {PACKAGE}
    more = light - base
    bench.row("embedded: packages more than the base", len(more), "packages", at_most=15)
    least = light & {"tokenizers", "safetensors", PACKAGE}
    bench.row("embedded: packages, installed with --no-deps: all that is imported", len(least), "packages")
    bench.row("embedded: size more than the base", sum(map(megabytes, more)), "MB", at_most=350)


def closure(roots: Sequence[str]) -> set[str]:
    found: set[str] = set()
    todo = list(roots)
    while todo:
        wanted = Requirement(todo.pop())
        name = wanted.name.lower().replace("_", "-")
        if name not in found and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            found.add(name)
            todo += importlib.metadata.requires(name) or []
    return found


def megabytes(package: str) -> float:
    paths = [Path(str(f.locate())) for f in importlib.metadata.files(package) or []]
    return sum(p.stat().st_size for p in paths if p.is_file()) / 1e6


def fits(bench: Benchmark, options: Options, read: SentenceEncoder) -> None:
    """Verdicts of `fit_denoiser` on one half against the other half, and on shuffled labels."""
    mine = encoder()  # the fit reads through the shared encoder: give it what was read already
    mine.readings = read.readings
    rng = np.random.default_rng(options.seed)
    for name in FITTED:
        fitting, rest = (reported(options, [name], fitting=f, limit=TO_FIT)[name] for f in (True, False))
        fit = fit_denoiser(fitting, keep=0.3)
        gains = np.array([held_out(fit.stack, q, read) for q in rest])
        low, high = bootstrap(gains)
        word = "better" if low > 0 else "worse" if high < 0 else "no difference found"
        opposite = {fit.verdict.word, word} == {"better", "worse"}
        bench.about[f"fit on {name}"] = (
            f"{fit.verdict.word} ({fit.verdict.gain:+.3f}); held-out half: {word} ({gains.mean():+.3f})"
        )
        bench.row(f"fit on {name}: gain over cosine, held-out half", gains.mean(), "share", interval=(low, high))
        bench.row(
            f"fit on {name}: its verdict is the held-out half's",
            float(fit.verdict.word == word),
            "1 or 0",
            at_least=1,
        )
        bench.row(
            f"fit on {name}: its verdict contradicts the held-out half's", float(opposite), "1 or 0", at_most=0
        )
        shuffled = [
            replace(q, gold=frozenset(rng.choice([p.id for p in q.passages], len(q.gold), replace=False).tolist()))
            for q in fitting
        ]
        verdict = fit_denoiser(shuffled, keep=0.3).verdict
        bench.row(
            f"fit on {name}, labels shuffled: called better", float(verdict.word == "better"), "1 or 0", at_most=0
        )


def held_out(fitted: object, q: Question, read: SentenceEncoder) -> float:
    from denoise_core.evaluate.metrics import recall_at
    from denoise_core.scorers.bm25 import BM25Scorer
    from denoise_core.scorers.stack import Stack, collect

    assert isinstance(fitted, Stack)
    signals = collect([read, BM25Scorer()], q.text, [p.headed for p in q.passages])
    one = [0] * len(signals)
    mine, cosine = (recall_at(s, q.labels, one, 0.3)[0] for s in (fitted.combine(signals), signals[:, 0]))
    return float(mine - cosine)


if __name__ == "__main__":
    main()
