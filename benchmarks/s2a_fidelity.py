"""The two gates of S2A on rewrites and cleared questions written by hand (tests/data/s2a).

Rewrites: texts with a faithful or an unfaithful rewrite, in kinds of fault (negation dropped, numbers crossed,
names swapped, conditions cut off, ...). Two questions are asked. What does a reader see: does the shown text
say what the source does not? And what does the finding say: are unfaithful rewrites caught, faithful ones let
through? Questions: pairs of what a person asked and what a model made of it, the same question or another.

What is shown counts as wrong when it holds the unfaithful claim and the source does not, or when it holds it
without the whole of the source sentence that it is cut from. The gates were developed on one half of each set.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

from _s2a_shared import sentences_of, wilson
from harness import Benchmark, arguments

from denoise_core.s2a import fidelity, same_question
from denoise_core.s2a.alignment.gate import GatePolicy

SETS = Path(__file__).parents[1] / "tests" / "data" / "s2a"


def halves(name: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for path in sorted(SETS.glob(f"{name}_*.jsonl")):
        lines = path.read_text(encoding="utf-8").splitlines()
        yield path.stem.removeprefix(f"{name}_"), [json.loads(line) for line in lines]


def plain(text: str) -> str:
    return " ".join(re.findall(r"[\w%$€£°-]+", text.casefold()))


def holds(text: str, claim: str) -> bool:
    return f" {plain(claim)} " in f" {plain(text)} "


def says_wrong(shown: str, record: dict[str, Any]) -> bool:
    claim = record["wrong"]
    if not claim or not holds(shown, claim):
        return False
    whole = [s for s in sentences_of(record["source"]) if holds(s, claim)]
    return not any(holds(shown, s) for s in whole)


def shares(bench: Benchmark, measure: str, hits: int, total: int, *, at_most: float | None = None) -> None:
    bench.row(measure, hits / total if total else 0.0, "share", at_most=at_most, interval=wilson(hits, total))


def rewrites(bench: Benchmark, count: Callable[[str], int]) -> None:
    for half, records in halves("fidelity"):
        wrong = [r for r in records if not r["faithful"]]
        right = [r for r in records if r["faithful"]]
        bench.row(f"{half}: rewrites", len(records), "rewrites")
        bench.row(f"{half}: kinds of fault", len({r["kind"] for r in wrong}), "kinds")
        for policy in get_args(GatePolicy):
            shown = {
                r["id"]: fidelity(r["source"], r["written"], policy=policy, language=r["language"])
                for r in records
            }
            target = 0.02 if policy == "snap" else None
            bad = sum(says_wrong(shown[r["id"]].shown, r) for r in wrong)
            shares(
                bench,
                f"{half}: {policy}: shown text says what the source does not",
                bad,
                len(wrong),
                at_most=target,
            )
            needless = sum(not shown[r["id"]].faithful for r in right)
            if policy == "snap":
                shares(
                    bench,
                    f"{half}: faithful rewrites refused or snapped needlessly",
                    needless,
                    len(right),
                    at_most=0.10,
                )
                missed = Counter(r["kind"] for r in wrong if shown[r["id"]].faithful)
                shares(bench, f"{half}: unfaithful rewrites not named in the finding", missed.total(), len(wrong))
                for kind, n in sorted(missed.items()):
                    bench.row(f"{half}: not named: {kind}", n, "rewrites")
            tokens = [count(shown[r["id"]].shown) for r in right], [count(r["written"]) for r in right]
            bench.row(
                f"{half}: {policy}: tokens shown / written, faithful", sum(tokens[0]) / sum(tokens[1]), "ratio"
            )


def questions(bench: Benchmark) -> None:
    for half, records in halves("questions"):
        verdicts = [(r, same_question(r["asked"], r["cleared"], language=r["language"])) for r in records]
        wrong = [problem for r, problem in verdicts if not r["same"]]
        right = [problem for r, problem in verdicts if r["same"]]
        bench.row(f"{half}: questions", len(records), "questions")
        shares(bench, f"{half}: wrong questions accepted", wrong.count(None), len(wrong), at_most=0.05)
        refused = len(right) - right.count(None)
        shares(bench, f"{half}: right questions refused", refused, len(right), at_most=0.10)


def main(argv: list[str] | None = None) -> Benchmark:
    bench = Benchmark("s2a_fidelity", arguments(__doc__ or "", argv))
    questions(bench)
    rewrites(bench, lambda text: len(re.findall(r"\w+|[^\w\s]", text)))
    return bench.finish()


if __name__ == "__main__":
    main()
