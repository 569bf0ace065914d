"""The paper's wall-clock table on a GPU: END against the full forward pass.

Run it where there is a CUDA device with about 24 GiB (`make bench ONLY=gpu_end_wallclock`); then
``python docs/tools/fill.py tables`` writes the table of docs/end.md from its results. Without a device only
``--quick`` runs, which shows on the CPU that the script works and measures nothing. Random bf16 weights of the
shape of Llama-3-8B; SDPA attention, which is flash attention where torch has it. The paper's seconds (END,
section 5, Llama-3-8B) are there for reference; they come from another machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from harness import Benchmark, arguments

from denoise_lab.experiments.paths import Context, Paths, Shape

LLAMA = Shape(
    blocks=32,
    layer=13,
    width=4096,
    inner=14336,
    heads=32,
    kv_heads=8,
    vocabulary=128256,
)
SMALL = Shape(
    blocks=4, layer=2, width=64, inner=128, heads=4, kv_heads=2, vocabulary=500
)
PAPER = {
    4096: (1.226, 1.481),
    8192: (1.846, 1.315),
    16384: (2.996, 1.887),
    32768: (6.173, 3.109),
}
REPETITIONS = 5

TARGETS = {16384: 0.60, 32768: 0.50}  # END over the full forward pass, cold


def main(argv: list[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    if not options.quick and not torch.cuda.is_available():
        raise SystemExit(
            "this benchmark needs a CUDA device; --quick shows on the CPU that the script runs"
        )
    bench = Benchmark("gpu_end_wallclock", options)
    if torch.cuda.is_available():
        bench.about["device"] = torch.cuda.get_device_name()
    name, shape, device = "8B", LLAMA, "cuda"
    if options.quick:
        name, shape, device = "small", SMALL, "cpu"
    paths = Paths(shape.build(device=device), shape.layer, max_tokens=16384)
    for tokens, (full, end) in PAPER.items():
        length = tokens // 64 if options.quick else tokens
        compared(bench, paths, name, shape.vocabulary, length)
        paper = f"the paper's END / full forward, {tokens} tokens"
        bench.row(paper, end / full, "ratio")
    return bench.finish()


def compared(
    bench: Benchmark, paths: Paths, name: str, vocabulary: int, tokens: int
) -> None:
    """Ten chunks, 30 % kept. Each way's median seconds over the full forward pass's, and its peak memory."""
    everything = list(range(10))
    seed = bench.options.seed
    # Kernels are chosen and memory is taken on the first run.
    paths.whole(Context.of(tokens, 10, vocabulary, seed).joined(everything))
    seconds: dict[str, list[float]] = {}
    peaks: dict[str, list[float]] = {}

    def take(way: str, run: Callable[[], Any]) -> None:
        taken, peak = measured(run)
        seconds.setdefault(way, []).append(taken)
        peaks.setdefault(way, []).append(peak)

    for n in range(1 if bench.options.quick else REPETITIONS):
        context = Context.of(tokens, 10, vocabulary, seed + n)
        ids = context.joined(everything)
        paths.cache.clear()
        take("full forward", lambda ids=ids: paths.whole(ids))
        take("END cold", lambda context=context: paths.end(context))
        context.ask()
        take("END warm", lambda context=context: paths.end(context))
        take("LLM-Discrim", lambda context=context: paths.discriminate(context))
    whole = np.array(seconds["full forward"])
    for way, taken in seconds.items():
        where = f"{name}, {tokens} tokens, {way}"
        ends = (min(taken), max(taken))
        bench.row(where, float(np.median(taken)), "s", interval=ends)
        if way != "full forward":
            ratio = float(np.median(taken / whole))
            limit = TARGETS.get(tokens) if way == "END cold" else None
            bench.row(f"{where} / full forward", ratio, "ratio", at_most=limit)
        if torch.cuda.is_available():
            peak = f"{where}, peak memory above the weights"
            bench.row(peak, max(peaks[way]), "MiB")


def measured(run: Callable[[], Any]) -> tuple[float, float]:
    """Wall-clock seconds, and MiB at the peak above what was there before."""
    cuda = torch.cuda.is_available()
    before = 0
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    start = time.perf_counter()
    run()
    if cuda:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    peak = (torch.cuda.max_memory_allocated() - before) / 2**20 if cuda else 0.0
    return seconds, peak


if __name__ == "__main__":
    main()
