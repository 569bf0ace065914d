"""Lines, JSON, tables and progress bars on a terminal, with control characters escaped."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from denoise_core.cli import escape_control, escape_json

LINE_SECONDS = 10.0  # between lines on progress where there is no terminal


def print_line(console: Console, text: str, style: str = "") -> None:
    """Print a line without wrapping it."""
    console.print(Text(escape_control(text), style=style), soft_wrap=True)


def print_json(value: Any, indent: int | None = None) -> None:
    """Print JSON; a terminal gets what it would obey as escapes, which mean the same."""
    json_text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    if sys.stdout.isatty():
        json_text = escape_json(json_text)
    echo(json_text)


def echo(text: str) -> None:
    """Print a text as it is: without ``color`` a pipe would lose its escape sequences."""
    typer.echo(text.encode("utf-8", "replace").decode(), color=True)


def print_warnings(console: Console, warnings: Iterable[str]) -> None:
    """Print what the user should know, a line each."""
    for warning in warnings:
        print_line(console, warning, "yellow")


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
        cells = [Text(escape_control(cell)) for cell in table_row]
        table.add_row(*cells)
    console.print(table)


@contextmanager
def progress_bar(
    console: Console, task_name: str
) -> Iterator[Callable[[int, int | None], None]]:
    """Show a bar during the block; yields ``on_progress(done, total)``.

    What is no terminal gets a line every `LINE_SECONDS`: a pipe that says nothing for
    minutes looks as if it hung.
    """
    if not console.is_terminal:
        yield _progress_lines(console, task_name)
        return
    with Progress(console=console, transient=True) as progress_display:
        task = progress_display.add_task(task_name, total=None)
        yield lambda done, total: progress_display.update(
            task, completed=done, total=total
        )


def _progress_lines(
    console: Console, task_name: str
) -> Callable[[int, int | None], None]:
    last_time = monotonic()

    def on_progress(done: int, total: int | None) -> None:
        nonlocal last_time
        if monotonic() - last_time < LINE_SECONDS:
            return
        last_time = monotonic()
        total_text = "" if total is None else f" of {total:,}"
        print_line(console, f"{task_name}: {done:,}{total_text}")

    return on_progress
