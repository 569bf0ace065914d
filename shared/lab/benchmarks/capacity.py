"""What scoring costs past these machines: from counts of operations and stated throughputs, and a simulation of
replicas that fail. Nothing here is measured; each figure names its formula.

make bench ONLY=capacity ARGS=--table prints the tables of docs/scale.md.
"""

from __future__ import annotations

import sys

from harness import Benchmark, arguments

from denoise_lab.experiments.capacity import (
    HITS,
    LAYER,
    LLAMA,
    PASSAGE,
    PEAK,
    PRICE,
    QUESTION,
    RATES,
    SHARE,
    dollars_a_million,
    flops_a_passage,
    kept_passages,
    passages_a_second,
    replicas,
    simulate,
)


def main(argv: list[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("capacity", options)
    bench.about = {
        "shape": f"8B, 32 blocks of 4096, read to block {LAYER}; {PASSAGE} tokens a passage and {QUESTION}",
        "throughput": f"{SHARE:.0%} of {PEAK / 1e12:.0f} Tflop/s, ${PRICE} an hour: assumptions",
    }
    bench.row("operations a passage, cold", flops_a_passage(0) / 1e12, "Tflop")
    bench.row("operations a passage, warm", flops_a_passage(1) / 1e12, "Tflop")
    bench.row("operations a passage, whole model, cold", flops_a_passage(0, 32) / 1e12, "Tflop")
    for hits in HITS:
        bench.row(f"passages a second and GPU, {hits:.0%} hits", passages_a_second(hits), "1/s")
        bench.row(f"cost of a million passages, {hits:.0%} hits", dollars_a_million(hits), "$")
    bench.row("kept prefix of a passage", LLAMA.kept(LAYER, PASSAGE) / 1e6, "MB")
    bench.row("passages kept in a GPU's memory", kept_passages(), "passages")
    for rate in RATES:
        for hits in (0.0, 0.9):
            bench.row(f"GPUs for {rate:,} questions a second, {hits:.0%} hits", replicas(rate, hits), "GPUs")
    documents, requests = (2_000, 4_000) if options.quick else (20_000, 100_000)
    for used, name in ((True, "rendezvous"), (False, "hash modulo")):
        found = simulate(8, documents, 0.8, requests, options.seed, rendezvous_used=used)
        for when, rate in zip(("before", "just after a replica is lost", "later", "just after it is back"), found):
            bench.row(f"hit rate of 8 replicas {when}, {name}", rate, "share")
    return bench.finish()


if __name__ == "__main__":
    if "--table" in sys.argv:
        for hits in HITS:
            figures = [f"{passages_a_second(hits):,.0f}", f"{dollars_a_million(hits):.2f}"]
            print("| " + " | ".join([f"{hits:.0%}", *figures, *(f"{replicas(r, hits):,}" for r in RATES)]) + " |")
    else:
        main()
