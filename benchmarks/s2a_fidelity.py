"""What S2A shows for rewrites, and which rewritten questions it takes for a person's own words.

Rewrites: for each, the source sentences that cover it (`denoise_core.s2a.alignment`). For rewrites that others
wrote (``rewrites_by_hand``, with the sentences that are needed): how many of those are shown, and how many others.
For the halves of tests/data/s2a: rewrites of which a sentence has no cover, and texts given the source of another
record, which must have none.

Questions: pairs of what a person asked and what a model made of it. Only what is proved to be the person's own
words is accepted (`same_question`); anything else leaves the question as it is. And what a large language model
chose to leave out of 50 questions cut into clauses (benchmarks/recorded/s2a.jsonl): whether the rest still asks.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from _recorded import records
from _s2a_shared import split_sentences
from harness import Benchmark, json_lines

from denoise_core.s2a import MessageDenoiser, same_question
from denoise_core.s2a.alignment import SourceIndex
from denoise_core.testing import FunctionLLM

SETS = Path(__file__).parents[1] / "tests" / "data" / "s2a"


def main() -> None:
    bench = Benchmark("s2a_fidelity", __doc__)
    report_questions(bench)
    report_clauses(bench.under("recorded: "))
    report_needed_sentences(bench.under("by hand: "))
    report_covers(bench)
    bench.finish()


def report_questions(bench: Benchmark) -> None:
    sets = {}
    for path in sorted(SETS.glob("questions_*.jsonl")):
        sets[path.stem.removeprefix("questions_")] = json_lines(path)
    if bench.data is not None:
        sets["by hand"] = []
        folder = bench.data / "s2a_by_hand"
        for record in json_lines(folder / "questions.jsonl"):
            is_same = not record["wrong"]
            sets["by hand"].append({**record, "same": is_same, "language": "en"})
    for name, pairs in sets.items():
        accepted_by_label: dict[bool, list[bool]] = {True: [], False: []}
        for record in pairs:
            problem = same_question(
                record["asked"], record["cleared"], language=record["language"]
            )
            accepted_by_label[record["same"]].append(problem is None)
        rows = bench.under(f"{name}: ")
        rows.row("questions", len(pairs), "questions")
        rows.right("wrong questions accepted", accepted_by_label[False], at_most=0.03)
        rows.right(
            "right questions accepted, the others left as they are",
            accepted_by_label[True],
        )


def report_clauses(bench: Benchmark) -> None:
    """Replay the model's choice of clauses to leave out of each question."""
    is_cleared = []
    is_whole = []
    refused_count = 0
    for record in records("s2a"):
        if record["kind"] != "question":
            continue
        denoiser = MessageDenoiser(replay(record["reply"]))
        neutral = denoiser.neutralize(record["asked"])
        is_refused = neutral.fallback is not None
        refused_count += is_refused
        is_cleared.append(bool(neutral.dropped))
        is_whole.append(not neutral.dropped and not is_refused)
        assert neutral.question in record["asked"] or neutral.dropped
    bench.row("questions in clauses", len(is_cleared), "questions")
    bench.right("cleared of a clause", is_cleared)
    bench.right("left as they are, all clauses being named", is_whole)
    bench.row("refused by the code", refused_count, "questions")


def replay(text: str) -> FunctionLLM:
    return FunctionLLM(lambda messages: text)


def report_needed_sentences(bench: Benchmark) -> None:
    rewrite_count = needed_count = shown_count = extra_count = sentence_count = 0
    for record in json_lines(SETS / "rewrites_by_hand.jsonl"):
        if record["wrong"]:
            continue
        covers = cover_sentences(record["source"], record["written"])
        shown_indices = set(chain.from_iterable(covers))
        needed_indices = set(record["needed_sentences"])
        rewrite_count += 1
        needed_count += len(needed_indices)
        shown_count += len(needed_indices & shown_indices)
        extra_count += len(shown_indices - needed_indices)
        sentence_count += len(covers)
    bench.row("faithful rewrites", rewrite_count, "rewrites")
    bench.share(
        "needed source sentences shown", shown_count, needed_count, at_least=0.98
    )
    extra_share = extra_count / sentence_count
    bench.row(
        "superfluous for each sentence written", extra_share, "sentences", at_most=0.25
    )


def report_covers(bench: Benchmark) -> None:
    """Give each rewrite its own source, and each text the source of another record."""
    paths = [*sorted(SETS.glob("fidelity_*.jsonl")), SETS / "rewrites_by_hand.jsonl"]
    for path in paths:
        rewrites = json_lines(path)
        is_covered = []
        is_empty = []
        is_foreign_covered = []
        for number, record in enumerate(rewrites):
            is_wrong = record.get("wrong", False)
            if record.get("faithful", not is_wrong):
                covers = cover_sentences(record["source"], record["written"])
                is_covered.append(all(covers))
                is_empty.append(not any(covers))
            other_number = (number + len(rewrites) // 2) % len(rewrites)
            other_source = rewrites[other_number]["source"]
            if other_source != record["source"]:
                covers = cover_sentences(other_source, record["written"])
                is_foreign_covered.append(any(covers))
        rows = bench.under(f"{path.stem.removeprefix('fidelity_')}: ")
        rows.right("faithful rewrites with every sentence covered", is_covered)
        rows.right("faithful rewrites of which nothing is shown", is_empty)
        rows.row("foreign texts", len(is_foreign_covered), "texts")
        foreign_count = sum(is_foreign_covered)
        rows.row("foreign texts given a source", foreign_count, "texts", at_most=0)


def cover_sentences(source: str, written_text: str) -> list[tuple[int, ...]]:
    """Return for each written sentence the indices of the source sentences that cover it."""
    index = SourceIndex(split_sentences(source))
    covers = []
    for sentence in split_sentences(written_text):
        covers.append(index.align(sentence))
    return covers


if __name__ == "__main__":
    main()
