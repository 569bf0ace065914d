"""Lines, tables and progress on a terminal; what a terminal would act on is shown instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from denoise_core.cli import escape_control


def print_line(console: Console, text: str, style: str = "") -> None:
    """A line, as long as it is."""
    console.print(Text(escape_control(text), style=style), soft_wrap=True)


def print_table(
    console: Console, rows: Sequence[Sequence[str]], title: str | None = None
) -> None:
    """A table under its header, the first row; numbers, all columns but the first, to the right."""
    table = Table(
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title=title,
        title_justify="left",
    )
    for i, name in enumerate(rows[0]):
        table.add_column(name, justify="left" if i == 0 else "right")
    for row in rows[1:]:
        table.add_row(*(Text(escape_control(cell)) for cell in row))
    console.print(table)


@contextmanager
def progress_bar(
    console: Console, doing: str
) -> Iterator[Callable[[int, int | None], None]]:
    """A bar as long as the block takes; what it gives is told how many are done, and of how many."""
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(doing, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)
