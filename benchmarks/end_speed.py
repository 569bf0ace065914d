"""END's cost against one full forward pass, cold and warm; memory; the fit.

Random weights of a true shape (cost does not depend on their values), bf16, one thread. Times are CPU seconds
of this process, so that a busy machine disturbs them less. Against the full pass, and of the sweep, the
quickest of the repetitions of each way counts, since other work on the machine only adds; other figures are
medians of ratios of runs made one after the other. Two things are set that a library must not set for its user:
glibc's allocator is told to keep large blocks, and transformers not to copy grouped keys for each query head
where there is a mask (`TRANSFORMERS_SDPA_FORCE_GQA`; on CPU only, it makes warm scoring faster and touches
nothing else here).
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from harness import Benchmark, arguments

from denoise_core.end.fit.probe import build_probe, fit_line
from denoise_core.end.probe import HiddenStateSpec
from denoise_core.local.fingerprint import ModelFingerprint
from denoise_core.local.partial_forward import model_inputs, pooling_function
from denoise_lab.experiments.paths import Context, Operations, Paths, Shape

TRUE = Shape(blocks=32, layer=13, width=1024, inner=3584, heads=16, kv_heads=4)
SMALL = Shape(
    blocks=4, layer=2, width=64, inner=128, heads=4, kv_heads=2, vocabulary=500
)

REPETITIONS = {4096: 5, 8192: 3, 16384: 2}  # by tokens of the context
ABOVE_BOUND = 1.08  # of what the operations alone come to
SPEEDUPS = {100: 4.0, 200: 6.5, 400: 9.5}


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
    model = shape.build()
    paths = Paths(model, shape.layer)
    peak(
        bench, paths, shape, options.quick, options.seed
    )  # first: later steps leave memory behind to reuse
    warm_over_cold(bench, paths, shape, options.quick, options.seed)
    sweep(bench, paths, shape, options.quick, options.seed)
    fit(bench, options.quick)
    loading(bench, shape, options.quick)
    end_over_full(bench, paths, shape, options.quick, options.seed)
    return bench.finish()


def end_over_full(
    bench: Benchmark, paths: Paths, shape: Shape, quick: bool, seed: int
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
            context = Context.of(context_tokens, 10, shape.vocabulary, seed + n)
            paths.cache.clear()
            full = cpu(lambda c=context: paths.whole(c.joined(list(range(10)))))
            first = cpu(lambda c=context: paths.end(c))
            context.ask()
            second = cpu(lambda c=context: paths.end(c))
            discrim = cpu(lambda c=context: paths.discriminate(c))
            seconds.append(full)
            cold.append(first)
            warm.append(second)
            discrim_cold.append(discrim / first)
            discrim_warm.append(discrim / second)
        bench.row(f"full forward, {name}", min(seconds), "CPU s")
        operations = Operations(shape, context_tokens)
        limit = None if quick else ABOVE_BOUND
        for what, taken, bound in (
            ("10 chunks, keep 30 %, cold", cold, operations.exact_cold),
            ("warm prefixes", warm, operations.exact_warm),
        ):
            ratio = min(taken) / min(seconds)
            bench.row(f"END / full forward, {name}, {what}", ratio, "ratio")
            bench.row(f"bound from operations, {name}, {what}", bound, "ratio")
            bench.row(
                f"measured / bound, {name}, {what}",
                ratio / bound,
                "ratio",
                at_most=limit,
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


def warm_over_cold(
    bench: Benchmark, paths: Paths, shape: Shape, quick: bool, seed: int
) -> None:
    for size, target in SPEEDUPS.items():
        gain = []
        for n in range(1 if quick else 7):
            context = Context.of(10 * size + 50, 10, shape.vocabulary, seed + n)
            paths.cache.clear()
            cold = cpu(lambda c=context: paths.uncached(c.prompts(), shape.layer))
            paths.scores(context.prompts())
            context.ask()
            warm = cpu(lambda c=context: paths.scores(c.prompts()))
            gain.append(cold / warm)
        bench.row(
            f"cold / warm scoring, 10 chunks of {size}, question 30",
            median(gain),
            "times",
            at_least=target,
        )
    paths.cache.clear()


def sweep(bench: Benchmark, paths: Paths, shape: Shape, quick: bool, seed: int) -> None:
    """One pass that takes the last token at every layer, against the plain pass of the model."""
    prompts = Context.of(8 * 256, 8, shape.vocabulary, seed).prompts()
    inputs, pool = (
        model_inputs(paths.early, prompts, 0),
        pooling_function("last", prompts, is_causal=True),
    )

    @torch.inference_mode()
    def plain() -> None:
        paths.model(**inputs)

    taken = [
        (
            cpu(plain),
            cpu(lambda: paths.early.read_layers(inputs, range(shape.blocks + 1), pool)),
        )
        for _ in range(1 if quick else 5)
    ]
    base, swept = (min(seconds) for seconds in zip(*taken, strict=True))
    bench.row(
        "layer sweep (all layers captured) / plain pass",
        swept / base,
        "ratio",
        at_most=1.05,
    )


def fit(bench: Benchmark, quick: bool) -> None:
    rows, width = (220, 32) if quick else (11_000, 4096)
    rng = np.random.default_rng(0)
    labels = np.arange(rows) % 11 == 0
    states = rng.normal(size=(rows, width)).astype(np.float32) * np.linspace(
        3, 0.1, width, dtype=np.float32
    )
    states[labels] += rng.normal(size=width).astype(np.float32) * 0.05
    reading = HiddenStateSpec(
        ModelFingerprint("random", "none", width, "float32"), 1, "none"
    )
    groups = [n // 11 for n in range(rows)]
    start = time.perf_counter()
    build_probe(
        fit_line(states, labels, groups, penalties=(3e-4,)), reading, labels, groups
    )
    bench.row(
        f"probe fit, {rows} x {width}, one penalty",
        time.perf_counter() - start,
        "s",
        at_most=10,
    )


LOADER = """
import sys
from pathlib import Path
from denoise_core.local.loading import LoadOptions, load_model
def resident():
    return next(int(l.split()[1]) for l in Path('/proc/self/status').read_text().splitlines() if l[:6] == 'VmRSS:')
before = resident()
folder, layers, cpu = sys.argv[1], int(sys.argv[2]), LoadOptions(device='cpu')
model = load_model(folder, load=cpu, layers=layers or None)
total = sum(float(p.sum()) for p in model.parameters())  # touches every weight: files are mapped, not read
print(resident() - before)
"""


def loading(bench: Benchmark, shape: Shape, quick: bool) -> None:
    blocks, first = (4, 2) if quick else (24, 13)
    with tempfile.TemporaryDirectory() as folder:
        shape.build(blocks=blocks).save_pretrained(folder)
        used = {
            layers: int(
                subprocess.run(
                    [sys.executable, "-c", LOADER, folder, str(layers)],
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout
            )
            for layers in (0, first)
        }
    bench.row(f"memory of the whole model, {blocks} blocks", used[0] / 1024, "MiB")
    share = used[first] / used[0]
    bench.row(
        f"memory of {first} of {blocks} blocks loaded / the whole",
        share,
        "ratio",
        at_most=None if quick else 0.65,
    )


def peak(bench: Benchmark, paths: Paths, shape: Shape, quick: bool, seed: int) -> None:
    """The most memory in use above what the loaded model holds, scoring first so that it profits from nothing."""
    tokens = 1024 if quick else 16384
    context = Context.of(tokens, 10, shape.vocabulary, seed)
    base = status("VmRSS")
    grown = {}
    for name, run in (
        ("scoring", lambda: paths.scores(context.prompts())),
        ("full forward", lambda: paths.whole(context.joined(list(range(10))))),
    ):
        Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
        run()
        grown[name] = (status("VmHWM") - base) / 1024
        bench.row(
            f"peak memory, {name} of {tokens} tokens, above the loaded model",
            grown[name],
            "MiB",
        )
        paths.cache.clear()
    bench.row(
        "peak memory, scoring / full forward",
        grown["scoring"] / max(1, grown["full forward"]),
        "ratio",
        at_most=None if quick else 1.0,
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
