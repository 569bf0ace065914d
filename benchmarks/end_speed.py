"""END's cost next to one full forward pass, cold and warm, and LLM-Discrim's next to END.

Random weights of a true shape (cost does not depend on their values), bfloat16, one thread. Times are CPU seconds
of this process, so that a busy machine disturbs them less. For ratios to the full pass the quickest repetition of
each counts, since other work on the machine only adds; LLM-Discrim's are medians of ratios of runs made one after
the other. Two things are set that a library must not set for its user: glibc's allocator is told to keep large
blocks, and transformers not to copy grouped keys for each query head where there is a mask
(`TRANSFORMERS_SDPA_FORCE_GQA`; only on CPUs, it makes warm scoring faster and changes nothing else here).
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import partial

import numpy as np
import torch
from harness import Benchmark, cpu_seconds

from denoise_lab.experiments.paths import (
    AnswerPaths,
    ModelShape,
    TokenContext,
)

FULL_SHAPE = ModelShape(
    blocks=32, layer=13, width=1024, inner_width=3584, heads=16, kv_heads=4
)
QUICK_SHAPE = ModelShape(
    blocks=4, layer=2, width=64, inner_width=128, heads=4, kv_heads=2, vocabulary=30522
)
REPETITIONS = {4096: 5, 8192: 3, 16384: 2}  # by tokens of the context
CHUNK_COUNT = 10
MALLOPT_SETTINGS = {-3: 1 << 30, -1: (1 << 31) - 1, -2: 1 << 28}


def main() -> None:
    bench = Benchmark("end_speed", __doc__)
    torch.set_num_threads(1)
    keep_large_blocks()
    os.environ["TRANSFORMERS_SDPA_FORCE_GQA"] = "1"  # read at every call
    shape = QUICK_SHAPE if bench.quick else FULL_SHAPE
    paths = AnswerPaths(shape.build_model(), shape.layer)
    for tokens, repetitions in REPETITIONS.items():
        name = f"{tokens // 1024}k"
        if bench.quick:
            name += "/16"
            tokens //= 16
        report_context(bench, paths, shape, name, tokens, repetitions)
    bench.finish()


def report_context(
    bench: Benchmark,
    paths: AnswerPaths,
    shape: ModelShape,
    name: str,
    tokens: int,
    repetitions: int,
) -> None:
    """Add the rows of a context of so many tokens in ten chunks, of which 30 % are kept."""
    full_seconds = []
    cold_seconds = []
    warm_seconds = []
    discrim_ratios = []
    for repetition in range(repetitions):
        seed = bench.seed + repetition
        context = TokenContext.draw(tokens, CHUNK_COUNT, shape.vocabulary, seed)
        paths.prefix_cache.clear()
        whole_prompt = context.full_prompt()
        full_seconds.append(cpu_seconds(partial(paths.run_full_model, whole_prompt)))
        cold = cpu_seconds(partial(paths.run_end, context))
        cold_seconds.append(cold)
        context.draw_question()
        warm_seconds.append(cpu_seconds(partial(paths.run_end, context)))
        discrim = cpu_seconds(partial(paths.run_llm_discrim, context))
        discrim_ratios.append(discrim / cold)
    full = min(full_seconds)
    for state, seconds in (
        ("10 chunks, keep 30 %, cold", cold_seconds),
        ("warm prefixes", warm_seconds),
    ):
        ratio = min(seconds) / full
        bench.row(f"END / full forward, {name}, {state}", ratio, "ratio")
    ratio = float(np.median(discrim_ratios))
    bench.row(f"LLM-Discrim / END, {name}, cold", ratio, "ratio", at_least=1.6)


def keep_large_blocks() -> None:
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        for setting, value in MALLOPT_SETTINGS.items():
            libc.mallopt(setting, value)


if __name__ == "__main__":
    main()
