"""The demo's second half: a right and a wrong answer to each real question, held against its passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from denoise_core.cli.terminal import say, show
from denoise_core.embedded.sample import Prepared
from denoise_core.evaluate.metrics import wilson
from denoise_core.support.judging import Claim, Judge, Judged

HEADING = "Answers held against their passages"
TOLD = (
    "Each question has a right answer and a wrong one, of the same kind and style, that stands in another passage "
    "found for it. The judge that ships, at its operating point 'even', sees the question, the answer and all "
    "twenty passages."
)


@dataclass(frozen=True, slots=True)
class Pair:
    """One prepared question with what the judge says of both answers."""

    prepared: Prepared
    right: Judged
    wrong: Judged


def judged(items: Sequence[Prepared], judge: Judge | None = None) -> list[Pair]:
    """By the judge that ships at ``even`` unless another is given."""
    if judge is None:
        from denoise_core.embedded import judge as shipped

        judge = shipped()
    out = []
    for item in items:
        text, passages = item.question.text, item.question.passages
        right, wrong = (
            judge.judge(text, (Claim(said, 0, len(said)),), passages)[0] for said in (item.right, item.wrong)
        )
        out.append(Pair(item, right, wrong))
    return out


def score(found: Sequence[Pair]) -> list[list[str]]:
    """Header and rows: how many right ones passed, how many wrong ones were stopped."""
    n = len(found)
    rows = [["answers", "passed", "stopped or unknown", "as it should be", "95 %"]]
    for name, passed, wanted in (
        ("right", sum(f.right.supported is True for f in found), True),
        ("wrong, from another passage", sum(f.wrong.supported is True for f in found), False),
    ):
        good = passed if wanted else n - passed
        low, high = wilson(good, n)
        rows.append([name, str(passed), str(n - passed), f"{good} of {n}", f"{low:.0%} to {high:.0%}"])
    return rows


def values_of(found: Sequence[Pair]) -> list[dict[str, str]]:
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


def _said(found: Judged) -> str:
    sure = "" if found.probability is None else f", probability {found.probability:.2f}"
    if found.supported:
        return f"supported{sure}"
    return f"{'unknown' if found.supported is None else 'not supported'}{sure}: {found.why}"


def _rests_on(found: Judged) -> str:
    """The characters of the passages that bear on the answer."""
    return " … ".join(q.text for q in found.quotes)


def print_judged(console: Console, found: Sequence[Pair]) -> None:
    """The table, and above it three of the questions as examples."""
    console.print(Text(f"\n{HEADING}", style="bold"))
    console.print(Text(TOLD, style="dim"))
    for f in found[:3]:
        say(console, f"\n{f.prepared.question.text}", "bold")
        say(console, f"   right: {f.prepared.right}  [{_said(f.right)}]")
        say(console, f"   wrong: {f.prepared.wrong}  [{_said(f.wrong)}]")
    console.print()
    show(console, score(found))
