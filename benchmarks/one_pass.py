"""Answers that go on from scoring (one pass): cost against a full pass, again, memory.

Cost: as in ``end_speed``, random weights of a true shape, bf16, one thread, CPU seconds; of each ratio the median
of paired repetitions, with the least and the greatest as its interval. Memory: medians. Next to each ratio stands
the bound from operations: multiplications that the same shapes ask for, over those of the full pass. Windows:
models whose blocks slide over a third of the prompt, with one and with two rotary frequencies, against their exact
reading.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from end_speed import SMALL, TRUE, cpu, keep_large_blocks, median, status
from harness import Benchmark, arguments

from denoise_core.local.first_layers import early_layers
from denoise_core.local.keeping.kv import Page, record
from denoise_core.local.keeping.one_pass import Chunk, OnePass
from denoise_core.local.layout import Prompt
from denoise_lab.experiments.paths import Context, Operations, Paths, Shape

# context tokens -> (cold, warm, repetitions)
TARGETS = {4096: (0.54, 0.21, 5), 8192: (0.42, 0.17, 5), 16384: (0.31, 0.14, 2)}
AGAIN = 0.10
PEAKS = 3  # repetitions of each measurement of memory


def main(argv: list[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("one_pass", options)
    torch.set_num_threads(1)
    keep_large_blocks()
    os.environ["TRANSFORMERS_SDPA_FORCE_GQA"] = "1"
    windows(bench)
    shape = SMALL if options.quick else TRUE
    paths = Paths(shape.build(), shape.layer)
    paths.reuse.states_too = True
    peaks(bench, paths, shape)
    speed(bench, paths, shape)
    return bench.finish()


def speed(bench: Benchmark, paths: Paths, shape: Shape) -> None:
    for tokens, (cold_target, warm_target, repetitions) in TARGETS.items():
        quick = bench.options.quick
        tokens, name = (tokens // 16, f"{tokens // 1024}k/16") if quick else (tokens, f"{tokens // 1024}k")
        whole, cold, warm, again, exact = [], [], [], [], []
        for n in range(1 if quick else repetitions):
            context = Context.of(tokens, 10, shape.vocabulary, bench.options.seed + n)
            paths.cache.clear()
            whole.append(cpu(lambda c=context: paths.whole(c.joined(list(range(10))))))
            cold.append(cpu(lambda c=context: paths.one_pass(c)))
            paths.cache.clear()
            exact.append(cpu(lambda c=context: paths.end(c)))
            context.ask()
            warm.append(cpu(lambda c=context: paths.one_pass(c)))
            page = paths.one_pass(context)
            left = next(n for n in range(10) if context.chunks[n][0] not in page.ids)
            again.append(cpu(lambda c=context, p=page, k=left: paths.again(p, c, k)))
        bound = Operations(shape, tokens)
        bench.row(f"full forward, {name}", median(whole), "CPU s", interval=(min(whole), max(whole)))
        for what, taken, target, least in (
            (f"one pass / full forward, {name}, cold", cold, cold_target, bound.one_pass_cold),
            (f"one pass / full forward, {name}, warm", warm, warm_target, bound.one_pass_warm),
            (f"one pass / full forward, {name}, again with one chunk", again, AGAIN, bound.again),
            (f"exact END / full forward, {name}, cold", exact, None, bound.exact_cold),
        ):
            ratios = [t / w for t, w in zip(taken, whole, strict=True)]
            ends = min(ratios), max(ratios)
            bench.row(what, median(ratios), "ratio", at_most=target, interval=ends)
            bench.row(f"{what}: bound from operations", least, "ratio")
            bench.row(f"{what}: measured / bound", median(ratios) / least, "ratio")


def windows(bench: Benchmark) -> None:
    """One chunk, and then again with a second, in prompts three times as long as the window; float32."""
    for family in ("mistral", "gemma2", "gemma3_text", "olmo3"):
        model = sliding(family, 32 if bench.options.quick else 340)
        chunk = 60 if bench.options.quick else 960
        for what, off in read_through_a_window(model, chunk, bench.options.seed):
            limit = None if bench.options.quick else 1e-5
            bench.row(
                f"{family}, window a third of the prompt, {what}", off, "share of the largest logit", at_most=limit
            )


def sliding(family: str, window: int) -> Any:
    """Eight random blocks of a family, whose sliding blocks look back over ``window`` tokens."""
    config = transformers.CONFIG_MAPPING[family](
        vocab_size=500,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=8192,
        sliding_window=window,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def read_through_a_window(model: Any, tokens: int, seed: int) -> Iterator[tuple[str, float]]:
    """How far logits of the last token are from the exact reading's, and again from a reading from the start."""
    early = early_layers(model)
    reading = OnePass(early, 5, 0)
    why = reading.off()
    if why is not None:
        raise RuntimeError(why)
    draw = np.random.default_rng(seed)
    begin, tail = draw.integers(1, 500, 20).tolist(), draw.integers(1, 500, 40).tolist()
    texts = [draw.integers(1, 500, tokens).tolist(), draw.integers(1, 500, tokens // 4).tolist()]
    prompts = [Prompt((*begin, *t, *tail), (20, 20 + len(t)), (0, 0), 20 + len(t)) for t in texts]
    _, kept = record(early, prompts, [p.shared for p in prompts], 5, 0, states=True)
    chunks = [Chunk(p.ids, *p.passage, k) for p, k in zip(prompts, kept, strict=True)]
    one = reading.read(None, chunks[:1], (), tail)
    with torch.inference_mode():
        exact = model(input_ids=torch.tensor([one.ids])).logits[0, -1]
    yield "first answer against the exact reading", apart(last_logits(model, one), exact)
    later = last_logits(model, reading.read(one, chunks[1:], (), tail))
    whole = last_logits(model, reading.read(None, chunks, (), tail))
    yield "again against reading from the start", apart(later, whole)


@torch.inference_mode()
def last_logits(model: Any, page: Page) -> torch.Tensor:
    at = torch.tensor([[len(page.ids) - 1]])
    last = torch.tensor([page.ids[-1:]])
    found: torch.Tensor = model(input_ids=last, position_ids=at, past_key_values=page.past()).logits[0, -1]
    return found


def apart(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found - wanted).abs().max() / wanted.abs().max())


def peaks(bench: Benchmark, paths: Paths, shape: Shape) -> None:
    tokens = 1024 if bench.options.quick else 16384
    context = Context.of(tokens, 10, shape.vocabulary, bench.options.seed)
    ways = {
        "exact END without keys and values to answer from": lambda: paths.end(context),
        "exact END": lambda: paths.end(context, keeping=True),
        "one pass": lambda: paths.one_pass(context),
    }
    grown = {}
    for name, run in ways.items():
        paths.reuse.states_too = name == "one pass"
        grown[name] = median([peak_of(run) for _ in range(1 if bench.options.quick else PEAKS)])
        bench.row(f"peak memory, {name} of {tokens} tokens, above the loaded model", grown[name], "MiB")
    limit = None if bench.options.quick else 1.2
    ratio = grown["one pass"] / max(1.0, grown["exact END"])
    bench.row("peak memory, one pass / exact END", ratio, "ratio", at_most=limit)


def peak_of(run: Callable[[], object]) -> float:
    """MiB that ``run`` adds at its peak, in a process of its own: what another way freed is not there to reuse."""
    here, there = Pipe(duplex=False)
    child = os.fork()
    if not child:
        base = status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        held = run()
        there.send((status("VmHWM") - base) / 1024)
        del held
        os._exit(0)
    os.waitpid(child, 0)
    if not here.poll():
        raise RuntimeError("the process that measures memory ended without a figure")
    found: float = here.recv()
    return found


if __name__ == "__main__":
    main()
