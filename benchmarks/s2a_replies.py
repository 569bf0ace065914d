"""What S2A's grammar parses of replies in the forms of many model families, and what one corrective turn adds.

The corpus (tests/data/replies, and ``s2a_by_hand`` of the data folder) was written by hand: thinking blocks,
channels, end tokens, preambles, notes, fences, lists of lists, refusals, cut-offs, eight languages; each with the
list that a person reads in it. What the grammar cannot parse is asked for once more in the same call. Replies to
such a second request were recorded from a large language model (benchmarks/recorded/s2a.jsonl) for the held-out
halves and for replies that others wrote; the share parsed after one corrective turn is estimated with them. What
is shown of rewritten text is the source: see ``s2a_fidelity``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _s2a_shared import RECORDED_PATH, selected_numbers
from harness import Benchmark, arguments, json_lines

from denoise_core import UnparsableReply
from denoise_core.s2a.replies import parse_selection, parse_texts

CORPUS = Path(__file__).parents[1] / "tests" / "data" / "replies"
LIST_REQUESTS = ("numbers", "grouped_numbers")
UNREADABLE = "unreadable"  # no person reads a list in it
MAX_PIECES = 60  # of the recorded requests


def main(argv: list[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("s2a_replies", options)
    corrected_share = report_corrections(bench.under("recorded corrective turns"))
    sets: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(CORPUS.glob("*.jsonl")):
        sets[path.stem] = []
        for record in json_lines(path):
            if record["request"] in LIST_REQUESTS:
                sets[path.stem].append(record)
    if options.data is not None:
        sets["by another hand"] = read_by_hand(options.data)
    wrong_count = 0
    for name, records in sets.items():
        wrong_count += report_lists(bench.under(f"{name}: "), records, corrected_share)
    bench.row("all lists: read wrongly", wrong_count, "replies", at_most=0)
    report_recorded(bench, "versions 5 and 6", recorded_replies())
    if options.data is not None:
        report_recorded(bench, "version 4", earlier_replies(options.data))
    return bench.finish()


# -- handwritten lists -----------------------------------------------------------------


def read_by_hand(data: Path) -> list[dict[str, Any]]:
    """Read the replies that others wrote in the corpus's terms, without those that may be read either way."""
    records = []
    for row in json_lines(data / "s2a_by_hand" / "replies.jsonl"):
        expected_list = row["expected"]
        if expected_list == "FAIL":
            expected_list = UNREADABLE
        if expected_list != "?":
            record = {
                "n": 8,
                "asked": "keep",
                "read": expected_list,
                "reply": row["reply"],
            }
            records.append(record)
    return records


def report_corrections(bench: Benchmark) -> float:
    """Return the share of corrective turns whose list is what a person reads in the first reply."""
    records = [row for row in json_lines(RECORDED_PATH) if row["kind"] == "corrections"]
    right_count = wrong_count = 0
    for record in records:
        request = "keep" if record["asked"] == "keep" else "leave_out"
        numbers = try_parsing(record["reply"], record["n_pieces"], request)
        right_count += numbers == record["expected"]
        wrong_count += numbers not in (None, record["expected"])
    share = right_count / len(records)
    bench.row("", len(records), "replies")
    bench.row(": read as a person reads the first", share, "share")
    bench.row(": read wrongly", wrong_count, "replies", at_most=0)
    return share


def report_lists(
    bench: Benchmark, records: Sequence[Mapping[str, Any]], corrected_share: float
) -> int:
    """Return how many lists are parsed wrongly."""
    readable_count = right_count = wrong_count = again_count = 0
    for record in records:
        numbers = try_parsing(record["reply"], record["n"], record["asked"])
        is_readable = record["read"] != UNREADABLE
        readable_count += is_readable
        if numbers == record["read"]:
            right_count += 1
        elif numbers is not None:
            wrong_count += 1
        elif is_readable:
            again_count += 1
    corrected_count = right_count + corrected_share * again_count
    bench.row("lists", len(records), "replies")
    rows = bench.under("lists a person can read, read ")
    rows.row("at once", right_count / readable_count, "share")
    rows.share(
        "after at most one corrective turn",
        corrected_count,
        readable_count,
        at_least=0.97,
    )
    calls = 1 + again_count / readable_count
    bench.row("calls a readable list costs", calls, "calls")
    bench.row("lists read wrongly", wrong_count, "replies", at_most=0)
    return wrong_count


def try_parsing(reply: str, count: int, request: str) -> list[int] | None:
    """Return the selected numbers, or None for a reply that is asked for again."""
    try:
        return selected_numbers(reply, count, request)
    except UnparsableReply:
        return None


# -- recorded replies ------------------------------------------------------------------


def recorded_replies() -> list[tuple[str, str]]:
    """Return kind and text of the replies to the current prompts."""
    replies = []
    for record in json_lines(RECORDED_PATH):
        if record["kind"] != "corrections":
            replies.append((record["kind"], record["reply"]))
    return replies


def earlier_replies(data: Path) -> list[tuple[str, str]]:
    """Return kind and text of the replies to version 4; the prompt says which kind it asks for."""
    replies = []
    for name in ("select", "rewrite"):
        for record in json_lines(data / "recorded" / f"{name}.jsonl"):
            prompt = record["messages"][-1]["content"]
            kind = "select"
            if "Context:" in prompt:
                kind = "rewrite"
            elif "Question: (" in prompt:
                kind = "rewritten question"
            replies.append((kind, record["reply"]))
    return replies


def report_recorded(
    bench: Benchmark, version: str, replies: Sequence[tuple[str, str]]
) -> None:
    parsed_count = 0
    for kind, text in replies:
        try:
            if kind == "rewrite":
                parse_texts(text, "context")
            elif kind == "rewritten question":
                parse_texts(text, "question")
            else:
                parse_selection(text, MAX_PIECES)
            parsed_count += 1
        except UnparsableReply as error:
            print(f"{version}: {error}")
    rows = bench.under(f"recorded, {version}: ")
    rows.row("replies", len(replies), "replies")
    share = parsed_count / len(replies)
    rows.row("read without a corrective turn", share, "share", at_least=1.0)


if __name__ == "__main__":
    main()
