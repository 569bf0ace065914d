"""What S2A's grammar reads of replies in the shapes of many model families, and what one corrective turn adds.

The corpus (tests/data/replies, and ``s2a_by_hand`` of the data folder) was written by hand: thinking blocks,
channels, end tokens, preambles, notes, fences, lists of lists, refusals, cut-offs, eight languages; each with what
a person reads in it. What the grammar does not have is asked for once more in the same call. What comes of that
was recorded from a large language model (benchmarks/recorded/s2a.jsonl) for replies of the held-out halves and of
another hand; the share read after one corrective turn is reckoned with it. Rewritten text is only counted as read
or asked for again: what is shown of it is the source, see ``s2a_fidelity``."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from _s2a_shared import NOT_ASKED, UNREADABLE, numbers_of, read_reply
from harness import Benchmark, arguments

from denoise_core import UnparsableReply
from denoise_core.s2a.replies import parse_selection, parse_texts

CORPUS = Path(__file__).parents[1] / "tests" / "data" / "replies"
RECORDED = Path(__file__).parent / "recorded" / "s2a.jsonl"
LISTS = ("numbers", "grouped_numbers")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def by_hand(folder: Path | None) -> list[dict[str, Any]]:
    """The replies of another hand in the corpus's terms; those that either reading will do for are left out."""
    path = folder / "s2a_by_hand" / "replies.jsonl" if folder else None
    if path is None or not path.exists():
        return []
    common = {"request": "numbers", "n": 8, "asked": "keep"}
    return [
        {
            **common,
            "reply": r["reply"],
            "read": UNREADABLE if r["expected"] == "FAIL" else r["expected"],
        }
        for r in lines(path)
        if r["expected"] != "?"
    ]


def corrected(bench: Benchmark) -> float:
    """The share of the recorded corrective turns that brought what a person reads in the first reply."""
    records = [r for r in lines(RECORDED) if r["kind"] == "corrections"]
    right = wrong = 0
    for r in records:
        try:
            asked = "keep" if r["asked"] == "keep" else "leave_out"
            got = numbers_of(
                parse_selection(r["reply"], r["n_pieces"]), asked, r["n_pieces"]
            )
        except UnparsableReply:
            continue
        right += got == r["expected"]
        wrong += got != r["expected"]
    bench.row("recorded corrective turns", len(records), "replies")
    bench.row(
        "recorded corrective turns: read as a person reads the first",
        right / len(records),
        "share",
    )
    bench.row("recorded corrective turns: read wrongly", wrong, "replies", at_most=0)
    return right / len(records)


def corpus(
    bench: Benchmark, half: str, records: list[dict[str, Any]], share: float
) -> int:
    found: Counter[str] = Counter()
    for record in records:
        if record["request"] not in LISTS:
            continue
        got, wanted = read_reply(record), record["read"]
        readable = wanted != UNREADABLE
        found["readable"] += readable
        outcome = (
            "asked"
            if got == UNREADABLE and readable
            else "refused"
            if got == UNREADABLE
            else "wrong"
        )
        found["right" if got == wanted and readable else outcome] += 1
    readable = found["readable"]
    after = found["right"] + share * found["asked"]
    bench.row(f"{half}: lists", sum(r["request"] in LISTS for r in records), "replies")
    bench.row(
        f"{half}: lists a person can read, read at once",
        found["right"] / readable,
        "share",
    )
    measure = f"{half}: lists a person can read, read after at most one corrective turn"
    bench.share(measure, after, readable, at_least=0.97)
    bench.row(
        f"{half}: calls a readable list costs", 1 + found["asked"] / readable, "calls"
    )
    bench.row(f"{half}: lists read wrongly", found["wrong"], "replies", at_most=0)
    rewritten = [
        read_reply(r)
        for r in records
        if r["request"] not in LISTS and r["read"] != UNREADABLE
    ]
    rewritten = [text for text in rewritten if text != NOT_ASKED]
    if rewritten:
        read = sum(text != UNREADABLE for text in rewritten)
        bench.row(
            f"{half}: rewritten text a person can read, read at once",
            read / len(rewritten),
            "share",
        )
    return found["wrong"]


def recorded(bench: Benchmark) -> None:
    """Replies of a large language model to prompts of version 4 (the data folder), 5 and 6 (here)."""
    mine = [r for r in lines(RECORDED) if r["kind"] != "corrections"]
    folder = bench.options.data / "recorded" if bench.options.data else None
    before = (
        [r for name in ("select", "rewrite") for r in lines(folder / f"{name}.jsonl")]
        if folder
        else []
    )
    for name, records in (("versions 5 and 6", mine), ("version 4", before)):
        read = 0
        for r in records:
            asked = r.get("messages", [{"content": ""}])[-1]["content"]
            try:
                if r["kind"] == "rewrite" if "kind" in r else "Context:" in asked:
                    parse_texts(r["reply"], "context")
                elif "Question: (" in asked:
                    parse_texts(r["reply"], "question")
                else:
                    parse_selection(r["reply"], 60)
                read += 1
            except UnparsableReply as error:
                print(f"{name}: {error}")
        if records:
            bench.row(f"recorded, {name}: replies", len(records), "replies")
            bench.row(
                f"recorded, {name}: read without a corrective turn",
                read / len(records),
                "share",
                at_least=1.0,
            )


def main(argv: list[str] | None = None) -> Benchmark:
    bench = Benchmark("s2a_replies", arguments(__doc__ or "", argv))
    share = corrected(bench)
    sets = {path.stem: lines(path) for path in sorted(CORPUS.glob("*.jsonl"))}
    sets["by another hand"] = by_hand(bench.options.data)
    wrong = sum(
        corpus(bench, half, records, share) for half, records in sets.items() if records
    )
    bench.row("all lists: read wrongly", wrong, "replies", at_most=0)
    recorded(bench)
    return bench.finish()


if __name__ == "__main__":
    main()
