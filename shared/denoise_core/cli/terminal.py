"""Lines, tables and progress bars on a terminal, with control characters escaped."""

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
    """Print a line without wrapping it."""
    console.print(Text(escape_control(text), style=style), soft_wrap=True)


def print_table(
    console: Console, rows: Sequence[Sequence[str]], title: str | None = None
) -> None:
    """Print a table; the first row is its header, the first column is text."""
    table = Table(
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title=title,
        title_justify="left",
    )
    header_row, *body_rows = rows
    for index, column_name in enumerate(header_row):
        table.add_column(column_name, justify="right" if index else "left")
    for table_row in body_rows:
        table.add_row(*(Text(escape_control(cell)) for cell in table_row))
    console.print(table)


@contextmanager
def progress_bar(
    console: Console, task_name: str
) -> Iterator[Callable[[int, int | None], None]]:
    """Show a bar during the block; yields ``on_progress(done, total)``."""
    with Progress(console=console, transient=True) as progress_display:
        task = progress_display.add_task(task_name, total=None)
        yield lambda done, total: progress_display.update(
            task, completed=done, total=total
        )
