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

from collections import Counter
from itertools import chain
from pathlib import Path

from _s2a_shared import sentences_of
from harness import Benchmark, arguments, json_lines

from denoise_core.s2a import MessageDenoiser, same_question
from denoise_core.s2a.alignment import SourceIndex
from denoise_core.testing import FunctionLLM

SETS = Path(__file__).parents[1] / "tests" / "data" / "s2a"
RECORDED = Path(__file__).parent / "recorded" / "s2a.jsonl"


def covers(source: list[str], written: str) -> list[tuple[int, ...]]:
    found = SourceIndex(source)
    return [found.align(s) for s in sentences_of(written)]


def needed(bench: Benchmark) -> None:
    records = json_lines(SETS / "rewrites_by_hand.jsonl")
    faithful = [r for r in records if not r["wrong"]]
    for name, more in (("by hand", 0), ("by hand, longer sources", 3)):
        counts: Counter[str] = Counter()
        for n, r in enumerate(faithful):
            source = sentences_of(r["source"])
            for k in range(1, more + 1):
                other = faithful[(n + k) % len(faithful)]["source"]
                if other != r["source"]:
                    source += sentences_of(other)
            found = covers(source, r["written"])
            got = set(chain(*found))
            need = set(r["needed_sentences"])
            counts["wanted"] += len(need)
            counts["shown"] += len(need & got)
            counts["complete"] += need <= got
            counts["superfluous"] += len(got - need)
            counts["written"] += len(found)
            counts["nothing"] += not got
        rows = bench.under(f"{name}: ")
        rows.row("faithful rewrites", len(faithful), "rewrites")
        rows.share(
            "needed source sentences shown",
            counts["shown"],
            counts["wanted"],
            at_least=0.98,
        )
        rows.share(
            "rewrites shown whole",
            counts["complete"],
            len(faithful),
            at_least=0.95,
        )
        extra_share = counts["superfluous"] / counts["written"]
        rows.row(
            "superfluous for each sentence written",
            extra_share,
            "sentences",
            at_most=0.25,
        )
        rows.row(
            "nothing shown",
            counts["nothing"],
            "rewrites",
            at_most=0,
        )


def halves(bench: Benchmark) -> None:
    paths = [*sorted(SETS.glob("fidelity_*.jsonl")), SETS / "rewrites_by_hand.jsonl"]
    for path in paths:
        rows = bench.under(f"{path.stem.removeprefix('fidelity_')}: ")
        records = json_lines(path)
        right = []
        for r in records:
            if r.get("faithful", not r.get("wrong")):
                right.append(covers(sentences_of(r["source"]), r["written"]))
        covered = [all(found) for found in right]
        rows.right("faithful rewrites with every sentence covered", covered)
        empty = [not any(found) for found in right]
        rows.right("faithful rewrites of which nothing is shown", empty)
        foreign = []
        for n, r in enumerate(records):
            other = records[(n + len(records) // 2) % len(records)]["source"]
            if other != r["source"]:
                foreign.append(any(covers(sentences_of(other), r["written"])))
        rows.row("foreign texts", len(foreign), "texts")
        rows.row(
            "foreign texts given a source",
            sum(foreign),
            "texts",
            at_most=0,
        )


def questions(bench: Benchmark) -> None:
    sets = {}
    for path in sorted(SETS.glob("questions_*.jsonl")):
        sets[path.stem.removeprefix("questions_")] = json_lines(path)
    if bench.options.data is not None:
        records = json_lines(bench.options.data / "s2a_by_hand" / "questions.jsonl")
        sets["by hand"] = [
            {**r, "same": not r["wrong"], "language": "en"} for r in records
        ]
    for half, records in sets.items():
        accepted: dict[bool, list[bool]] = {True: [], False: []}
        for r in records:
            problem = same_question(r["asked"], r["cleared"], language=r["language"])
            accepted[r["same"]].append(problem is None)
        rows = bench.under(f"{half}: ")
        rows.row("questions", len(records), "questions")
        rows.right(
            "wrong questions accepted",
            accepted[False],
            at_most=0.03,
        )
        measure = "right questions accepted, the others left as they are"
        rows.right(measure, accepted[True])


def clauses(bench: Benchmark) -> None:
    """``choices`` names the clauses of each question that a model is to leave out, as the record has them."""
    records = [r for r in json_lines(RECORDED) if r["kind"] == "question"]
    cleared, left, refused = [], [], []
    for r in records:
        llm = FunctionLLM(lambda m, r=r: r["reply"])
        neutral = MessageDenoiser(llm).neutralize(r["asked"])
        cleared.append(bool(neutral.dropped))
        left.append(not neutral.dropped and neutral.fallback is None)
        refused.append(neutral.fallback is not None)
        assert neutral.question in r["asked"] or neutral.dropped
    rows = bench.under("recorded: ")
    rows.row("questions in clauses", len(records), "questions")
    rows.right("cleared of a clause", cleared)
    rows.right("left as they are, all clauses being named", left)
    rows.row("refused by the code", sum(refused), "questions")


def main(argv: list[str] | None = None) -> Benchmark:
    bench = Benchmark("s2a_fidelity", arguments(__doc__ or "", argv))
    questions(bench)
    clauses(bench)
    needed(bench)
    halves(bench)
    return bench.finish()


if __name__ == "__main__":
    main()
