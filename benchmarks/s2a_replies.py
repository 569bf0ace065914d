"""What S2A's grammar reads of replies in the shapes of many model families, and what one corrective turn adds.

The corpus (tests/data/replies, and ``s2a_by_hand`` of the data folder) was written by hand: thinking blocks,
channels, end tokens, preambles, notes, fences, lists of lists, refusals, cut-offs, eight languages; each with what
a person reads in it. What the grammar does not have is asked for once more in the same call. What comes of that
was recorded from a large language model (benchmarks/recorded/s2a.jsonl) for replies of the held-out halves and of
another hand; the share read after one corrective turn is reckoned with it. Rewritten text is only counted as read
or asked for again: what is shown of it is the source, see ``s2a_fidelity``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from _s2a_shared import NOT_ASKED, UNREADABLE, numbers_of, read_reply
from harness import Benchmark, arguments, json_lines

from denoise_core import UnparsableReply
from denoise_core.s2a.replies import parse_selection, parse_texts

CORPUS = Path(__file__).parents[1] / "tests" / "data" / "replies"
RECORDED = Path(__file__).parent / "recorded" / "s2a.jsonl"
LISTS = ("numbers", "grouped_numbers")


def by_hand(folder: Path | None) -> list[dict[str, Any]]:
    """The replies of another hand in the corpus's terms; those that either reading will do for are left out."""
    if folder is None:
        return []
    records = []
    for r in json_lines(folder / "s2a_by_hand" / "replies.jsonl"):
        if r["expected"] != "?":
            read = UNREADABLE if r["expected"] == "FAIL" else r["expected"]
            record = {"request": "numbers", "n": 8, "asked": "keep", "read": read}
            records.append({**record, "reply": r["reply"]})
    return records


def corrected(bench: Benchmark) -> float:
    """The share of the recorded corrective turns that brought what a person reads in the first reply."""
    records = [r for r in json_lines(RECORDED) if r["kind"] == "corrections"]
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
    rows = bench.under("recorded corrective turns")
    rows.row("", len(records), "replies")
    share = right / len(records)
    rows.row(": read as a person reads the first", share, "share")
    rows.row(
        ": read wrongly",
        wrong,
        "replies",
        at_most=0,
    )
    return share


def corpus(
    bench: Benchmark, half: str, records: list[dict[str, Any]], share: float
) -> int:
    rows = bench.under(f"{half}: ")
    found: Counter[str] = Counter()
    rewritten = []
    for record in records:
        got, wanted = read_reply(record), record["read"]
        is_readable = wanted != UNREADABLE
        if record["request"] not in LISTS:
            if is_readable and got != NOT_ASKED:
                rewritten.append(got != UNREADABLE)
            continue
        found["lists"] += 1
        found["readable"] += is_readable
        if got != UNREADABLE:
            found["right" if got == wanted else "wrong"] += 1
        elif is_readable:
            found["asked"] += 1
    readable = found["readable"]
    after = found["right"] + share * found["asked"]
    rows.row("lists", found["lists"], "replies")
    can_read = rows.under("lists a person can read, read ")
    can_read.row("at once", found["right"] / readable, "share")
    can_read.share(
        "after at most one corrective turn",
        after,
        readable,
        at_least=0.97,
    )
    calls = 1 + found["asked"] / readable
    rows.row("calls a readable list costs", calls, "calls")
    rows.row(
        "lists read wrongly",
        found["wrong"],
        "replies",
        at_most=0,
    )
    if rewritten:
        measure = "rewritten text a person can read, read at once"
        rows.row(measure, sum(rewritten) / len(rewritten), "share")
    return found["wrong"]


def recorded(bench: Benchmark) -> None:
    """Replies of a large language model to prompts of version 4 (the data folder), 5 and 6 (here)."""
    by_version = {
        "versions 5 and 6": [
            r for r in json_lines(RECORDED) if r["kind"] != "corrections"
        ]
    }
    if bench.options.data is not None:
        folder = bench.options.data / "recorded"
        by_version["version 4"] = [
            *json_lines(folder / "select.jsonl"),
            *json_lines(folder / "rewrite.jsonl"),
        ]
    for name, records in by_version.items():
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
        rows = bench.under(f"recorded, {name}: ")
        rows.row("replies", len(records), "replies")
        share = read / len(records)
        rows.row(
            "read without a corrective turn",
            share,
            "share",
            at_least=1.0,
        )


def main(argv: list[str] | None = None) -> Benchmark:
    bench = Benchmark("s2a_replies", arguments(__doc__ or "", argv))
    share = corrected(bench)
    sets = {path.stem: json_lines(path) for path in sorted(CORPUS.glob("*.jsonl"))}
    sets["by another hand"] = by_hand(bench.options.data)
    wrong = sum(
        corpus(bench, half, records, share) for half, records in sets.items() if records
    )
    bench.row(
        "all lists: read wrongly",
        wrong,
        "replies",
        at_most=0,
    )
    recorded(bench)
    return bench.finish()


if __name__ == "__main__":
    main()
