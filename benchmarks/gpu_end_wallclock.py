"""The paper's wall-clock table on a GPU: END, exact and in one pass, against the full forward pass; 8B shape.

Run by hand where there is a CUDA device with about 24 GiB (`python benchmarks/gpu_end_wallclock.py`); without
one only ``--quick`` runs, which shows on the CPU that the script works and measures nothing. Random bf16 weights
of Llama-3-8B's shape; SDPA attention, which is flash attention where torch has it. The paper's own seconds (END,
section 5, Llama-3-8B) stand beside ours for reference; they come from another machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from harness import Benchmark, arguments

from denoise_lab.experiments.paths import Context, Paths, Shape

LLAMA_8B = Shape(blocks=32, layer=13, width=4096, inner=14336, heads=32, kv_heads=8, vocabulary=128256)
SMALL = Shape(blocks=4, layer=2, width=64, inner=128, heads=4, kv_heads=2, vocabulary=500)
PAPER = {4096: (1.226, 1.481), 8192: (1.846, 1.315), 16384: (2.996, 1.887), 32768: (6.173, 3.109)}
TARGETS = {16384: 0.60, 32768: 0.50}  # cold


def main(argv: list[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    if not options.quick and not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a CUDA device; --quick shows on the CPU that the script runs")
    bench = Benchmark("gpu_end_wallclock", options)
    shape, device = (SMALL, "cpu") if options.quick else (LLAMA_8B, "cuda")
    paths = Paths(shape.build(device=device), shape.layer, max_tokens=16384)
    for tokens, (paper_full, paper_end) in PAPER.items():
        length = tokens // 8 if options.quick else tokens
        for chunks in (10, 20):
            row(bench, paths, shape, length, chunks, options.seed, 1 if options.quick else 5, TARGETS.get(tokens))
        bench.row(f"{tokens} tokens, the paper's END / full forward", paper_end / paper_full, "ratio")
    return bench.finish()


def row(
    bench: Benchmark,
    paths: Paths,
    shape: Shape,
    tokens: int,
    chunks: int,
    seed: int,
    repetitions: int,
    target: float | None,
) -> None:
    everything = list(range(chunks))
    context = Context.of(tokens, chunks, shape.vocabulary, seed)
    paths.whole(context.joined(everything))  # kernels are chosen and memory is taken on the first run
    paths.end(context)
    seconds: dict[str, list[float]] = {
        "full": [],
        "cold": [],
        "warm": [],
        "one pass, cold": [],
        "one pass, warm": [],
        "discrim": [],
    }
    for n in range(repetitions):
        context = Context.of(tokens, chunks, shape.vocabulary, seed + n)
        paths.cache.clear()
        seconds["full"].append(wall(lambda c=context: paths.whole(c.joined(everything))))
        seconds["cold"].append(wall(lambda c=context: paths.end(c)))
        context.ask()
        seconds["warm"].append(wall(lambda c=context: paths.end(c)))
        paths.cache.clear()
        paths.reuse.states_too = True
        seconds["one pass, cold"].append(wall(lambda c=context: paths.one_pass(c)))
        context.ask()
        seconds["one pass, warm"].append(wall(lambda c=context: paths.one_pass(c)))
        paths.reuse.states_too = False
        seconds["discrim"].append(wall(lambda c=context: paths.discriminate(c)))
    name = f"{tokens} tokens, {chunks} chunks"
    times = {k: np.array(v) for k, v in seconds.items()}
    bench.row(f"{name}, full forward", float(np.median(times["full"])), "s")
    bench.row(f"{name}, END cold / full", float(np.median(times["cold"] / times["full"])), "ratio", at_most=target)
    bench.row(f"{name}, END warm / full", float(np.median(times["warm"] / times["full"])), "ratio")
    for way in ("one pass, cold", "one pass, warm"):
        bench.row(f"{name}, {way} / full", float(np.median(times[way] / times["full"])), "ratio")
    bench.row(f"{name}, LLM-Discrim / full", float(np.median(times["discrim"] / times["full"])), "ratio")


def wall(run: Callable[[], object]) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
