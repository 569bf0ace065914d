"""What facts in words are worth: how often each kind of difference is said of right and of wrong claims.

Claims of the grounding sets and of FEVER-symmetric, labelled by people, each held against its evidence. A kind of
difference has its place for what it says of them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence

from harness import Benchmark, Options, arguments, read

from denoise_core.text.facts import find_differences

SETS = ("begin", "fib", "wice", "summedits", "qags", "climate_fever", "healthver")
EACH = 150  # right and wrong claims of a set


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__.splitlines()[0], argv)
    bench = Benchmark("facts", options)
    said: Counter[tuple[str, bool]] = Counter()
    claims = 0
    for claim, evidence, supported in _claims(options):
        claims += 1
        for kind in {d.kind for d in find_differences(claim, evidence)}:
            said[kind, supported] += 1
    bench.row("claims", claims, "count")
    for kind in sorted({k for k, _ in said}):
        bench.row(f"{kind} stands nowhere: of right claims", said[kind, True], "count")
        bench.row(f"{kind} stands nowhere: of wrong claims", said[kind, False], "count")
    return bench.finish()


def _claims(options: Options) -> Iterator[tuple[str, str, bool]]:
    if options.quick or options.data is None:
        yield "It was completed in 1925.", "It was completed in 1889.", False
        yield "It was completed in 1889.", "It was completed in 1889.", True
        return
    for name in (*(f"grounding_{s}" for s in SETS), "fever_symmetric"):
        rows = list(read(options.data, name))
        random.Random(options.seed).shuffle(rows)
        taken: Counter[bool] = Counter()
        for r in rows:
            label = (
                r["supported"]
                if "supported" in r
                else {"SUPPORTS": True, "REFUTES": False}.get(r["label"])
            )
            if label is not None and taken[label] < EACH:
                taken[label] += 1
                yield r["claim"], r["evidence"], label


if __name__ == "__main__":
    main()
