"""The demo's second half: a right and a wrong answer to each real question, held against its passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from denoise_core.cli.plain import plain
from denoise_core.embedded.sample import Prepared
from denoise_core.evaluate.metrics import wilson
from denoise_core.support import Check, Reader, check

HEADING = "Answers held against their passages"
TOLD = (
    "Each question has a right answer and a wrong one, of the same kind and style, that stands in another passage "
    "found for it. The judge sees the question, the answer and all twenty passages."
)


@dataclass(frozen=True, slots=True)
class Judged:
    """One prepared question with what the checker says of both answers."""

    prepared: Prepared
    right: Check
    wrong: Check


def judged(items: Sequence[Prepared], reader: Reader | None = None) -> list[Judged]:
    """By the checker, with the reader that ships unless another is given."""
    if reader is None:
        from denoise_core.embedded import span_reader

        reader = span_reader()
    out = []
    for item in items:
        text, passages = item.question.text, item.question.passages
        out.append(Judged(item, *(check(text, said, passages, reader) for said in (item.right, item.wrong))))
    return out


def score(found: Sequence[Judged]) -> list[list[str]]:
    """Header and rows: how many right ones passed, how many wrong ones were stopped."""
    n = len(found)
    rows = [["answers", "passed", "stopped or unknown", "as it should be", "95 %"]]
    for name, passed, wanted in (
        ("right", sum(f.right.passed for f in found), True),
        ("wrong, from another passage", sum(f.wrong.passed for f in found), False),
    ):
        good = passed if wanted else n - passed
        low, high = wilson(good, n)
        rows.append([name, str(passed), str(n - passed), f"{good} of {n}", f"{low:.0%} to {high:.0%}"])
    return rows


def values_of(found: Sequence[Judged]) -> list[dict[str, str]]:
    """What the demo's page shows of each question."""
    return [
        {
            "question": f.prepared.question.text,
            "right": f.prepared.right,
            "right_said": _said(f.right),
            "right_rests_on": _rests_on(f.right),
            "wrong": f.prepared.wrong,
            "wrong_said": _said(f.wrong),
            "wrong_rests_on": _rests_on(f.wrong),
        }
        for f in found
    ]


def _said(found: Check) -> str:
    if found.passed:
        return "supported"
    return (
        f"{'not supported' if found.supported is False or found.answers is False else 'unknown'}: {found.reason}"
    )


def _rests_on(found: Check) -> str:
    """The characters of the passages that bear on the answer."""
    return " … ".join(q.text for claim in found.claims for q in claim.quotes)


def print_judged(console: Console, found: Sequence[Judged]) -> None:
    """The table, and above it three of the questions as examples."""
    console.print(Text(f"\n{HEADING}", style="bold"))
    console.print(Text(TOLD, style="dim"))
    for f in found[:3]:
        console.print(Text(plain(f"\n{f.prepared.question.text}"), style="bold"))
        console.print(Text(plain(f"   right: {f.prepared.right}  [{_said(f.right)}]")))
        console.print(Text(plain(f"   wrong: {f.prepared.wrong}  [{_said(f.wrong)}]")))
    rows = score(found)
    table = Table()
    for i, name in enumerate(rows[0]):
        table.add_column(name, justify="left" if i == 0 else "right")
    for row in rows[1:]:
        table.add_row(*row)
    console.print()
    console.print(table)
