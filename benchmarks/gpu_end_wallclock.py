"""The paper's wall-clock table on a GPU: END against the full forward pass.

Run it where there is a CUDA device with about 24 GiB (`make bench ONLY=gpu_end_wallclock`); then
``python docs/tools/fill.py tables`` writes the table of docs/end.md from its results. Without a device only
``--quick`` runs, which shows on the CPU that the script works and measures nothing. Random bf16 weights of the
shapes of Llama-3-8B and Qwen2.5-1.5B; SDPA attention, which is flash attention where torch has it. Where vLLM is
installed its prefill of the same shape and length is measured too, in a process of its own. The paper's seconds
(END, section 5, Llama-3-8B) are there for reference; they come from another machine.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import Benchmark, arguments

from denoise_lab.experiments.paths import Context, Paths, Shape

SHAPES = {
    "8B": Shape(
        blocks=32,
        layer=13,
        width=4096,
        inner=14336,
        heads=32,
        kv_heads=8,
        vocabulary=128256,
    ),
    "1.5B": Shape(
        blocks=28,
        layer=11,
        width=1536,
        inner=8960,
        heads=12,
        kv_heads=2,
        vocabulary=151936,
    ),
}
SMALL = {
    "small": Shape(
        blocks=4, layer=2, width=64, inner=128, heads=4, kv_heads=2, vocabulary=500
    )
}
PAPER = {
    4096: (1.226, 1.481),
    8192: (1.846, 1.315),
    16384: (2.996, 1.887),
    32768: (6.173, 3.109),
}
TARGETS = {16384: 0.60, 32768: 0.50}  # cold, of the 8B shape
GENERATED = 64  # tokens
REPETITIONS = 5

PREFILL = """
import json, sys, time
from vllm import LLM, SamplingParams
folder, lengths, repetitions = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
llm = LLM(folder, load_format="dummy", skip_tokenizer_init=True, dtype="bfloat16", max_model_len=max(lengths) + 8,
          enable_prefix_caching=False)
asked = SamplingParams(max_tokens=1, ignore_eos=True, detokenize=False)
out = {}
for n in lengths:
    seconds = []
    for i in range(repetitions + 1):  # the first warms up
        ids = [(7 * i + 31 * k) % 30000 + 5 for k in range(n)]
        start = time.perf_counter()
        llm.generate([{"prompt_token_ids": ids}], asked, use_tqdm=False)
        seconds.append(time.perf_counter() - start)
    out[n] = seconds[1:]
print("SECONDS " + json.dumps(out))
"""


def main(argv: list[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    if not options.quick and not torch.cuda.is_available():
        raise SystemExit(
            "this benchmark needs a CUDA device; --quick shows on the CPU that the script runs"
        )
    bench = Benchmark("gpu_end_wallclock", options)
    if torch.cuda.is_available():
        bench.about["device"] = torch.cuda.get_device_name()
    for name, shape in (SMALL if options.quick else SHAPES).items():
        paths = Paths(
            shape.build(device="cpu" if options.quick else "cuda"),
            shape.layer,
            max_tokens=16384,
        )
        for tokens in PAPER:
            length = tokens // 64 if options.quick else tokens
            target = TARGETS.get(tokens) if name == "8B" else None
            row(
                bench,
                paths,
                name,
                shape,
                length,
                options.seed,
                1 if options.quick else REPETITIONS,
                target,
            )
        del paths
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        engine(bench, name, shape)
    for tokens, (full, end) in PAPER.items():
        bench.row(
            f"the paper's END / full forward, {tokens} tokens", end / full, "ratio"
        )
    return bench.finish()


def row(
    bench: Benchmark,
    paths: Paths,
    name: str,
    shape: Shape,
    tokens: int,
    seed: int,
    repetitions: int,
    target: float | None,
) -> None:
    """Ten chunks, 30 % kept. Each way's median seconds over the full forward pass's, and its peak memory."""
    everything = list(range(10))
    context = Context.of(tokens, 10, shape.vocabulary, seed)
    paths.whole(
        context.joined(everything)
    )  # kernels are chosen and memory is taken on the first run
    paths.generate(paths.prefill(context.joined(everything)), 2)
    seconds: dict[str, list[float]] = {}
    peaks: dict[str, float] = {}

    def take(way: str, run: Callable[[], Any]) -> Any:
        taken, peak, made = measured(run)
        seconds.setdefault(way, []).append(taken)
        peaks[way] = max(peak, peaks.get(way, 0.0))
        return made

    for n in range(repetitions):
        context = Context.of(tokens, 10, shape.vocabulary, seed + n)
        ids = context.joined(everything)
        paths.cache.clear()
        take("full forward", lambda c=ids: paths.whole(c))
        take(
            "full forward and 64 tokens",
            lambda c=ids: paths.generate(paths.prefill(c), GENERATED),
        )
        take("END cold", lambda c=context: paths.end(c))
        context.ask()
        take("END warm", lambda c=context: paths.end(c))
        take("LLM-Discrim", lambda c=context: paths.discriminate(c))
    whole = np.array(seconds["full forward"])
    for way, taken in seconds.items():
        where = f"{name}, {tokens} tokens, {way}"
        bench.row(
            where, float(np.median(taken)), "s", interval=(min(taken), max(taken))
        )
        if way != "full forward":
            limit = target if way == "END cold" else None
            bench.row(
                f"{where} / full forward",
                float(np.median(taken / whole)),
                "ratio",
                at_most=limit,
            )
        if torch.cuda.is_available():
            bench.row(f"{where}, peak memory above the weights", peaks[way], "MiB")


def engine(bench: Benchmark, name: str, shape: Shape) -> None:
    """vLLM's prefill of the same shape and lengths, in a process of its own; nothing where it is not installed."""
    if bench.options.quick or importlib.util.find_spec("vllm") is None:
        bench.about["vLLM"] = "not installed: its prefill was not measured"
        return
    with tempfile.TemporaryDirectory() as folder:
        config = shape.config().to_dict() | {
            "architectures": ["LlamaForCausalLM"],
            "torch_dtype": "bfloat16",
        }
        Path(folder, "config.json").write_text(json.dumps(config), "utf-8")
        asked = [
            sys.executable,
            "-c",
            PREFILL,
            folder,
            json.dumps(list(PAPER)),
            str(REPETITIONS),
        ]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
    said = next(
        (line for line in done.stdout.splitlines() if line.startswith("SECONDS ")), None
    )
    if said is None:
        bench.about["vLLM"] = (
            f"did not run: {(done.stderr.strip().splitlines() or ['no output'])[-1][:200]}"
        )
        return
    for tokens, taken in json.loads(said.removeprefix("SECONDS ")).items():
        ends = min(taken), max(taken)
        bench.row(
            f"{name}, {tokens} tokens, vLLM prefill",
            float(np.median(taken)),
            "s",
            interval=ends,
        )


def measured(run: Callable[[], Any]) -> tuple[float, float, Any]:
    """Wall-clock seconds, MiB at the peak above what was there before, and what ``run`` gives."""
    cuda = torch.cuda.is_available()
    before = 0
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    start = time.perf_counter()
    made = run()
    if cuda:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    return (
        seconds,
        (torch.cuda.max_memory_allocated() - before) / 2**20 if cuda else 0.0,
        made,
    )


if __name__ == "__main__":
    main()
