"""What scoring costs past these machines: from counts of operations and stated throughputs, and a simulation of
replicas that fail. Nothing here is measured; each figure names its formula.

make bench ONLY=capacity        the tables of docs/scale.md: python benchmarks/capacity.py --table
"""

from __future__ import annotations

import random
import sys
from collections import OrderedDict
from dataclasses import dataclass

from harness import Benchmark, arguments

from denoise_core.running.engines.client import rendezvous


@dataclass(frozen=True)
class Shape:
    """A decoder: ``blocks`` of width ``width``, feed-forward ``inner`` (gated), ``heads`` of which ``shared`` hold
    keys and values, each ``each`` wide.
    """

    blocks: int = 32
    width: int = 4096
    inner: int = 14336
    heads: int = 32
    shared: int = 8
    each: int = 128

    @property
    def block_weights(self) -> float:
        """Of one block: queries and output, keys and values, three matrices of the feed-forward part."""
        attention = 2 * self.width * self.heads * self.each + 2 * self.width * self.shared * self.each
        return attention + 3 * self.width * self.inner

    def flops(self, blocks: int, tokens: int, before: int = 0) -> float:
        """Of ``tokens`` new tokens behind ``before`` kept ones, in the first ``blocks`` blocks: two operations a
        weight and token, and four times head width for each pair of a token and one it attends to."""
        pairs = tokens * before + tokens * (tokens + 1) / 2
        return blocks * (2 * self.block_weights * tokens + 4 * self.heads * self.each * pairs)

    def kept(self, blocks: int, tokens: int, bytes_each: int = 2) -> float:
        """Bytes of keys and values of a prefix."""
        return blocks * 2 * self.shared * self.each * bytes_each * tokens


LLAMA = Shape()
LAYER = 13  # the paper's: 13 of 32 blocks
PASSAGE, QUESTION = 200, 30  # tokens
PEAK, SHARE = 989e12, 0.4  # dense bfloat16 of an H100 SXM (its data sheet), and the share of it that is reached
PRICE = 2.5  # dollars an hour of such a GPU: an assumption, as the share is
MEMORY = 80e9 - 16e9 * LAYER / 32 - 6e9  # bytes left beside the weights of the first blocks and a reserve
EACH = 20  # passages a question
HITS = (0.0, 0.5, 0.9, 0.99)
RATES = (10, 1_000, 100_000)


def flops_a_passage(hits: float, blocks: int = LAYER) -> float:
    """At a hit rate of prefixes: a hit computes the question alone, a miss passage and question."""
    cold = LLAMA.flops(blocks, PASSAGE + QUESTION)
    warm = LLAMA.flops(blocks, QUESTION, before=PASSAGE)
    return hits * warm + (1 - hits) * cold


def passages_a_second(hits: float) -> float:
    """Of one GPU: ``PEAK * SHARE / flops``."""
    return PEAK * SHARE / flops_a_passage(hits)


def dollars_a_million(hits: float) -> float:
    return 1e6 / passages_a_second(hits) / 3600 * PRICE


def replicas(questions: float, hits: float) -> int:
    """``ceil(questions * EACH / (passages a second * 0.7))``: at 70 % of what one can do, so that queues stay
    short.
    """
    return max(1, -int(-questions * EACH // (passages_a_second(hits) * 0.7)))


def kept_passages() -> float:
    """That one GPU's memory holds."""
    return MEMORY / LLAMA.kept(LAYER, PASSAGE)


def simulate(
    count: int, documents: int, room: float, requests: int, seed: int, *, rendezvous_used: bool = True
) -> tuple[float, float, float, float]:
    """Hit rates before a replica is lost, in the tenth of the requests after it, at the end, and after it is back.

    Documents are asked for by rank (Zipf); each replica keeps ``room`` times its share of them, the least recently
    used leaving first. Without rendezvous a document goes to ``hash % alive``, which moves nearly all when one is
    lost.
    """
    drawn = random.Random(seed)
    names = [f"replica-{n}" for n in range(count)]
    orders = {d: rendezvous(str(d).encode(), names) for d in range(documents)}
    caches: dict[str, OrderedDict[int, None]] = {n: OrderedDict() for n in names}
    most = max(1, int(room * documents / count))
    weights = [1 / (r + 1) for r in range(documents)]

    def ask(many: int, alive: list[str]) -> float:
        hits = 0
        for document in drawn.choices(range(documents), weights, k=many):
            if rendezvous_used:
                home = next(n for n in orders[document] if n in alive)
            else:
                home = alive[hash((document, seed)) % len(alive)]
            kept = caches[home]
            hits += document in kept
            kept[document] = None
            kept.move_to_end(document)
            if len(kept) > most:
                kept.popitem(last=False)
        return hits / many

    ask(requests, names)
    before = ask(requests, names)
    lost = names[0]
    caches[lost].clear()
    during = ask(requests // 10, names[1:])
    after = ask(requests, names[1:])
    back = ask(requests // 10, names)
    return before, during, after, back


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
