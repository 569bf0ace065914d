"""Stories on the terminal and as parts of the demo's page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from denoise_core.cli.plain import plain
from denoise_core.cli.story import Story
from denoise_core.report.context import Shown, values_of

TOLD = (
    "The reader that ships with the package, a small model of a synthetic world, answers questions about names "
    "it was never trained on: from everything that BM25 found, and from what a method left of it. The same model "
    "then judges whether what it was given supports the answer. So few questions show how it works, not how well: "
    "for that see benchmarks/results."
)
PRINTED = 4  # stories on the terminal; all are on the page

_STYLES = {"right": "green", "wrong": "bold red", "no answer": "dim"}


def print_stories(console: Console, stories: Sequence[Story]) -> None:
    console.print(Text("\nFound, denoised, answered, verified", style="bold"))
    console.print(TOLD)
    for number, story in enumerate(stories[:PRINTED], 1):
        console.print(
            Text(plain(f"\n{number}. {story.question.text}  "), style="bold").append(f"({_facts(story)})", "dim")
        )
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        for way in story.ways:
            mark = Text(way.mark, _STYLES[way.mark])
            table.add_row(f"   {way.name}", Text(plain(way.answer)), mark, f"{way.kept}; {way.judged}")
        console.print(table)
    if len(stories) > PRINTED:
        console.print(f"\nAll {len(stories)}, of which the page shows the other {len(stories) - PRINTED} as well:")
    console.print(_table(score(stories)))


def score(stories: Sequence[Story]) -> list[list[str]]:
    """Header and rows: how many answers are right, wrong or missing, and how often the judge agrees."""
    rows = [["way", "right", "wrong", "no answer", "right ones trusted", "wrong ones trusted"]]
    for ways in zip(*(story.ways for story in stories), strict=True):
        by_mark = {mark: [way for way in ways if way.mark == mark] for mark in _STYLES}
        counts = [f"{len(found)} of {len(ways)}" for found in by_mark.values()]
        trusted = [
            f"{sum(w.trusted for w in found)} of {len(found)}" for found in (by_mark["right"], by_mark["wrong"])
        ]
        rows.append([ways[0].name, *counts, *trusted])
    return rows


def story_values(story: Story) -> dict[str, Any]:
    """What ``demo.html`` shows of a story."""
    return {
        "question": story.question.text,
        "answer": " / ".join(story.question.answers),
        "found": _facts(story),
        "ways": story.ways,
        "shown": [
            {"name": way.name, "item": values_of([Shown(story.found, way.result, story.question.gold)])[0]}
            for way in story.ways
            if way.result is not None
        ],
    }


def _facts(story: Story) -> str:
    held = "one of them holds the answer" if story.gold_found else "none of them holds the answer"
    return f"{len(story.found)} of {story.searched} passages found, {held}"


def _table(rows: Sequence[Sequence[str]]) -> Table:
    table = Table()
    for i, name in enumerate(rows[0]):
        table.add_column(name, justify="left" if i == 0 else "right")
    for row in rows[1:]:
        table.add_row(*row)
    return table
