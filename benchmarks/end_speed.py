"""END's cost against one full forward pass, cold and warm; peak memory.

Random weights of a true shape (cost does not depend on their values), bf16, one thread. Times are CPU seconds
of this process, so that a busy machine disturbs them less. Against the full pass the
quickest of the repetitions of each way counts, since other work on the machine only adds; other figures are
medians of ratios of runs made one after the other. Two things are set that a library must not set for its user:
glibc's allocator is told to keep large blocks, and transformers not to copy grouped keys for each query head
where there is a mask (`TRANSFORMERS_SDPA_FORCE_GQA`; on CPU only, it makes warm scoring faster and touches
nothing else here).
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from harness import Benchmark, arguments

from denoise_lab.experiments.paths import (
    AnswerPaths,
    ModelShape,
    OperationBounds,
    TokenContext,
)

TRUE = ModelShape(
    blocks=32, layer=13, width=1024, inner_width=3584, heads=16, kv_heads=4
)
SMALL = ModelShape(
    blocks=4, layer=2, width=64, inner_width=128, heads=4, kv_heads=2, vocabulary=500
)

REPETITIONS = {4096: 5, 8192: 3, 16384: 2}  # by tokens of the context
ABOVE_BOUND = 1.08  # of what the operations alone come to


def cpu(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def median(ratios: list[float]) -> float:
    return float(np.median(ratios))


def main(argv: list[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("end_speed", options)
    torch.set_num_threads(1)
    keep_large_blocks()
    os.environ["TRANSFORMERS_SDPA_FORCE_GQA"] = "1"  # read at every call
    shape = SMALL if options.quick else TRUE
    model = shape.build_model()
    paths = AnswerPaths(model, shape.layer)
    peak(
        bench, paths, shape, options.quick, options.seed
    )  # first: later steps leave memory behind to reuse
    end_over_full(bench, paths, shape, options.quick, options.seed)
    return bench.finish()


def end_over_full(
    bench: Benchmark, paths: AnswerPaths, shape: ModelShape, quick: bool, seed: int
) -> None:
    for tokens, repetitions in REPETITIONS.items():
        name = f"{tokens // 1024}k"
        context_tokens = tokens
        if quick:
            name += "/16"
            context_tokens = tokens // 16
        cold = []
        warm = []
        discrim_cold = []
        discrim_warm = []
        seconds = []
        for n in range(repetitions):
            context = TokenContext.draw(context_tokens, 10, shape.vocabulary, seed + n)
            paths.prefix_cache.clear()
            full = cpu(lambda c=context: paths.run_full_model(c.full_prompt()))
            first = cpu(lambda c=context: paths.run_end(c))
            context.draw_question()
            second = cpu(lambda c=context: paths.run_end(c))
            discrim = cpu(lambda c=context: paths.run_llm_discrim(c))
            seconds.append(full)
            cold.append(first)
            warm.append(second)
            discrim_cold.append(discrim / first)
            discrim_warm.append(discrim / second)
        bench.row(f"full forward, {name}", min(seconds), "CPU s")
        operations = OperationBounds(shape, context_tokens)
        for what, taken, bound in (
            ("10 chunks, keep 30 %, cold", cold, operations.cold_ratio),
            ("warm prefixes", warm, operations.warm_ratio),
        ):
            ratio = min(taken) / min(seconds)
            bench.row(f"END / full forward, {name}, {what}", ratio, "ratio")
            bench.row(f"bound from operations, {name}, {what}", bound, "ratio")
            bench.row(
                f"measured / bound, {name}, {what}",
                ratio / bound,
                "ratio",
                at_most=ABOVE_BOUND,
            )
        bench.row(
            f"LLM-Discrim / END, {name}, cold",
            median(discrim_cold),
            "ratio",
            at_least=1.6,
        )
        bench.row(
            f"LLM-Discrim / END, {name}, warm prefixes",
            median(discrim_warm),
            "ratio",
            at_least=3.0,
        )


def peak(
    bench: Benchmark, paths: AnswerPaths, shape: ModelShape, quick: bool, seed: int
) -> None:
    """The most memory in use above what the loaded model holds, scoring first so that it profits from nothing."""
    tokens = 1024 if quick else 16384
    context = TokenContext.draw(tokens, 10, shape.vocabulary, seed)
    base = status("VmRSS")
    grown = {}
    for name, run in (
        ("scoring", lambda: paths.score_cached(context.scoring_prompts())),
        ("full forward", lambda: paths.run_full_model(context.full_prompt())),
    ):
        Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
        run()
        grown[name] = (status("VmHWM") - base) / 1024
        bench.row(
            f"peak memory, {name} of {tokens} tokens, above the loaded model",
            grown[name],
            "MiB",
        )
        paths.prefix_cache.clear()
    bench.row(
        "peak memory, scoring / full forward",
        grown["scoring"] / max(1, grown["full forward"]),
        "ratio",
        at_most=1.0,
    )


def status(field: str) -> int:
    """KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def keep_large_blocks() -> None:
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        for option, value in ((-3, 1 << 30), (-1, (1 << 31) - 1), (-2, 1 << 28)):
            libc.mallopt(option, value)


if __name__ == "__main__":
    main()
