"""What scoring costs past these machines: formulas from counts of operations and stated throughputs; a simulation
of replicas that fail. Nothing here is measured."""

from __future__ import annotations

import random
from collections import OrderedDict
from dataclasses import dataclass

from denoise_core.running.engines import rendezvous


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
