"""What S2A shows of rewrites, and which questions it takes for a person's own.

Rewrites: for each, the source sentences that cover it (`denoise_core.s2a.alignment`). On the rewrites by
another hand
(``s2a_by_hand``, with the sentences that are needed) how many of those are shown, and how many others; each also
in a longer source, with the sentences of three other texts behind its own. On the halves of tests/data/s2a: what
has no cover is reported, and text given the source of another record has none.

Questions: pairs of what a person asked and what a model made of it. Nothing is accepted but what is proved to be
the person's own words (`same_question`); anything else leaves the question as it is. And what a large language
model named of 50 questions cut into clauses (benchmarks/recorded/s2a.jsonl): whether what is left still asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from _s2a_shared import sentences_of
from harness import Benchmark, arguments

from denoise_core.s2a import MessageDenoiser, same_question
from denoise_core.s2a.alignment import SourceIndex
from denoise_core.testing import FunctionLLM

SETS = Path(__file__).parents[1] / "tests" / "data" / "s2a"
RECORDED = Path(__file__).parent / "recorded" / "s2a.jsonl"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def covers(source: list[str], written: str) -> list[tuple[int, ...]]:
    found = SourceIndex(source)
    return [found.align(s).sentence_indices for s in sentences_of(written)]


def needed(bench: Benchmark) -> None:
    records = lines(SETS / "rewrites_by_hand.jsonl")
    faithful = [r for r in records if not r["wrong"]]
    for name, more in (("by hand", 0), ("by hand, longer sources", 3)):
        wanted = shown = complete = superfluous = written = nothing = 0
        for n, r in enumerate(faithful):
            others = [
                faithful[(n + k) % len(faithful)]["source"] for k in range(1, more + 1)
            ]
            source = sentences_of(r["source"]) + [
                s for o in others if o != r["source"] for s in sentences_of(o)
            ]
            found = covers(source, r["written"])
            got, need = {i for c in found for i in c}, set(r["needed_sentences"])
            wanted, shown, complete = (
                wanted + len(need),
                shown + len(need & got),
                complete + (need <= got),
            )
            superfluous, written, nothing = (
                superfluous + len(got - need),
                written + len(found),
                nothing + (not got),
            )
        bench.row(f"{name}: faithful rewrites", len(faithful), "rewrites")
        bench.share(
            f"{name}: needed source sentences shown", shown, wanted, at_least=0.98
        )
        bench.share(
            f"{name}: rewrites shown whole", complete, len(faithful), at_least=0.95
        )
        bench.row(
            f"{name}: superfluous for each sentence written",
            superfluous / written,
            "sentences",
            at_most=0.25,
        )
        bench.row(f"{name}: nothing shown", nothing, "rewrites", at_most=0)


def halves(bench: Benchmark) -> None:
    paths = [*sorted(SETS.glob("fidelity_*.jsonl")), SETS / "rewrites_by_hand.jsonl"]
    for path in paths:
        half = path.stem.removeprefix("fidelity_")
        records = lines(path)
        own = [covers(sentences_of(r["source"]), r["written"]) for r in records]
        right = [
            c
            for r, c in zip(records, own, strict=True)
            if r.get("faithful", not r.get("wrong"))
        ]
        bench.share(
            f"{half}: faithful rewrites with every sentence covered",
            sum(map(all, right)),
            len(right),
        )
        bench.share(
            f"{half}: faithful rewrites of which nothing is shown",
            sum(not any(c) for c in right),
            len(right),
        )
        foreign = total = 0
        for n, r in enumerate(records):
            other = records[(n + len(records) // 2) % len(records)]["source"]
            if other != r["source"]:
                total += 1
                foreign += any(covers(sentences_of(other), r["written"]))
        bench.row(f"{half}: foreign texts", total, "texts")
        bench.row(f"{half}: foreign texts given a source", foreign, "texts", at_most=0)


def questions(bench: Benchmark) -> None:
    sets = {
        p.stem.removeprefix("questions_"): lines(p)
        for p in sorted(SETS.glob("questions_*.jsonl"))
    }
    by_hand = (
        bench.options.data / "s2a_by_hand" / "questions.jsonl"
        if bench.options.data
        else None
    )
    if by_hand and by_hand.exists():
        sets["by hand"] = [
            {**r, "same": not r["wrong"], "language": "en"} for r in lines(by_hand)
        ]
    for half, records in sets.items():
        verdicts = [
            (r, same_question(r["asked"], r["cleared"], language=r["language"]))
            for r in records
        ]
        wrong = [problem for r, problem in verdicts if not r["same"]]
        right = [problem for r, problem in verdicts if r["same"]]
        bench.row(f"{half}: questions", len(records), "questions")
        bench.share(
            f"{half}: wrong questions accepted",
            wrong.count(None),
            len(wrong),
            at_most=0.03,
        )
        bench.share(
            f"{half}: right questions accepted, the others left as they are",
            right.count(None),
            len(right),
        )


def clauses(bench: Benchmark) -> None:
    """``choices`` names the clauses of each question that a model is to leave out, as the record has them."""
    records = [r for r in lines(RECORDED) if r["kind"] == "question"]
    cleared = left = refused = 0
    for r in records:
        neutral = MessageDenoiser(FunctionLLM(lambda m, r=r: r["reply"])).neutralize(
            r["asked"]
        )
        cleared += bool(neutral.dropped)
        left += not neutral.dropped and neutral.fallback is None
        refused += neutral.fallback is not None
        assert neutral.question in r["asked"] or neutral.dropped
    bench.row("recorded: questions in clauses", len(records), "questions")
    bench.share("recorded: cleared of a clause", cleared, len(records))
    bench.share(
        "recorded: left as they are, all clauses being named", left, len(records)
    )
    bench.row("recorded: refused by the code", refused, "questions")


def main(argv: list[str] | None = None) -> Benchmark:
    bench = Benchmark("s2a_fidelity", arguments(__doc__ or "", argv))
    questions(bench)
    clauses(bench)
    needed(bench)
    halves(bench)
    return bench.finish()


if __name__ == "__main__":
    main()
