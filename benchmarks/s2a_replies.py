"""What S2A's grammar parses of replies in the forms of many model families.

The corpus (tests/data/replies, and ``s2a_by_hand`` of the data folder) was written by hand: thinking blocks,
channels, end tokens, preambles, notes, fences, lists of lists, refusals, cut-offs, eight languages; each with the
list that a person reads in it. What the grammar cannot parse is asked for once more in the same call. Recorded
replies are those of a large language model (benchmarks/recorded/s2a.jsonl). What is shown of rewritten text is the
source: see ``s2a_fidelity``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from _recorded import records
from harness import Benchmark, json_lines

from denoise_core import UnparsableReply
from denoise_core.s2a.replies import parse_selection, parse_texts

CORPUS = Path(__file__).parents[1] / "tests" / "data" / "replies"
LIST_REQUESTS = ("numbers", "grouped_numbers")
UNREADABLE = ("unreadable", "FAIL")  # no person reads a list in it
AMBIGUOUS = "?"  # may be read either way
MAX_PIECES = 60  # of the recorded requests


def main() -> None:
    bench = Benchmark("s2a_replies", __doc__)
    for path in sorted(CORPUS.glob("*.jsonl")):
        lists = []
        for row in json_lines(path):
            if row["request"] in LIST_REQUESTS and row["asked"] == "keep":
                lists.append(row)
        report_lists(bench.under(f"{path.stem}: "), lists)
    current = [row for row in records("s2a") if row["kind"] != "corrections"]
    report_recorded(bench.under("recorded, versions 5 and 6: "), current)
    if bench.data is not None:
        by_hand = []
        for row in json_lines(bench.data / "s2a_by_hand" / "replies.jsonl"):
            if row["expected"] != AMBIGUOUS:
                fields = {"n": 8, "read": row["expected"]}
                by_hand.append({**row, **fields})
        report_lists(bench.under("by another hand: "), by_hand)
        report_recorded(
            bench.under("recorded, version 4: "), earlier_replies(bench.data)
        )
    bench.finish()


def report_lists(bench: Benchmark, lists: Sequence[Mapping[str, Any]]) -> None:
    """Add how many lists are parsed at once, and how many to other numbers than a person reads."""
    is_right = []
    wrong_count = 0
    for row in lists:
        numbers = selected_numbers(row["reply"], row["n"])
        if row["read"] not in UNREADABLE:
            is_right.append(numbers == row["read"])
        wrong_count += numbers not in (None, row["read"])
    bench.row("lists", len(lists), "replies")
    share = sum(is_right) / len(is_right)
    bench.row("lists a person can read, read at once", share, "share")
    bench.row("lists read wrongly", wrong_count, "replies", at_most=0)


def selected_numbers(reply: str, count: int) -> list[int] | None:
    """Return the pieces of 1 to ``count`` that a reply keeps; None if it is asked for again."""
    try:
        return sorted(parse_selection(reply, count).numbers)
    except UnparsableReply:
        return None


def earlier_replies(data: Path) -> list[dict[str, Any]]:
    """Return the replies to version 4; the prompt says which kind it asks for."""
    recordings = []
    for name in ("select", "rewrite"):
        for record in json_lines(data / "recorded" / f"{name}.jsonl"):
            prompt = record["messages"][-1]["content"]
            kind = "select"
            if "Context:" in prompt:
                kind = "rewrite"
            elif "Question: (" in prompt:
                kind = "rewritten question"
            recordings.append({**record, "kind": kind})
    return recordings


def report_recorded(bench: Benchmark, recordings: Sequence[Mapping[str, Any]]) -> None:
    parsed_count = 0
    for record in recordings:
        with suppress(UnparsableReply):
            if record["kind"] == "rewrite":
                parse_texts(record["reply"], "context")
            elif record["kind"] == "rewritten question":
                parse_texts(record["reply"], "question")
            else:
                parse_selection(record["reply"], MAX_PIECES)
            parsed_count += 1
    bench.row("replies", len(recordings), "replies")
    share = parsed_count / len(recordings)
    bench.row("read without a corrective turn", share, "share", at_least=1.0)


if __name__ == "__main__":
    main()
