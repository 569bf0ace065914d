"""How S2A's parser reads replies in the shapes that today's model families use.

The corpus (tests/data/replies) was written by hand before the parser, by another hand: thinking blocks,
channels, end tokens, preambles, notes, fences, headings, XML, LaTeX, lists of lists, refusals, cut-offs, eight
languages; each with what is to be read from it, or ``unreadable``. The parser was developed on one half.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from _s2a_shared import UNREADABLE, read_reply
from harness import Benchmark, arguments

CORPUS = Path(__file__).parents[1] / "tests" / "data" / "replies"


def main(argv: list[str] | None = None) -> Benchmark:
    bench = Benchmark("s2a_replies", arguments(__doc__ or "", argv))
    for path in sorted(CORPUS.glob("*.jsonl")):
        half = path.stem
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        found: Counter[str] = Counter()
        for record in records:
            got, wanted = read_reply(record), record["read"]
            right = got == wanted
            outcome = "right" if right else "unread" if got == UNREADABLE else "wrong"
            found[outcome if wanted != UNREADABLE or not right else "refused"] += 1
            if not right and half == "development":
                print(f"{half}: {outcome}: {record['id']}")
        readable = sum(r["read"] != UNREADABLE for r in records)
        read = found["right"]
        bench.row(f"{half}: replies", len(records), "replies")
        bench.row(f"{half}: read wrongly", found["wrong"], "replies", at_most=0)
        bench.share(f'{half}: of those a person can read, read', read, readable, at_least=0.95)  # fmt: skip
        bench.row(f"{half}: of those nobody can read, refused", found["refused"], "replies")
    return bench.finish()


if __name__ == "__main__":
    main()
