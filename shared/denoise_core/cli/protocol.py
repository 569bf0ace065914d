"""``rag-denoise evaluate --protocol``: the tables of the three papers on a model of the user's."""

from __future__ import annotations

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table as Grid
from rich.text import Text

from denoise_core.cli.plain import plain
from denoise_core.errors import InputError
from denoise_core.evaluate.protocols.choose import Asked, sheets_of
from denoise_core.evaluate.protocols.sheet import Table, run_sheets
from denoise_core.evaluate.protocols.table import PAGE, RESULTS, TABLES, rows_of, save, told
from denoise_core.evaluate.trial.ledger import Ledger

SERVED, LOCAL = 8, 1  # cases at a time, unless said otherwise: of a server, and of a model on this machine


def protocol_own(asked: Asked, ledger: Ledger, model: str, out: Path, workers: int | None = None) -> None:
    """Ask, print, write. A dry ledger makes no call and nothing is written."""
    aside = Console(stderr=True)
    sheets = sheets_of(asked, ledger)
    if workers is None:
        workers = SERVED if model.startswith(("http://", "https://")) else LOCAL
    with Progress(console=aside, transient=True) as bar:
        task = bar.add_task("asking", total=None)
        tables = run_sheets(
            sheets,
            ledger,
            price=ledger.price,
            workers=workers,
            progress=lambda done, of: bar.update(task, completed=done, total=of),
        )
    if ledger.dry:
        return
    console = Console(highlight=False)
    for table in tables:
        show(console, table)
    save(tables, model, out)
    aside.print(Text(plain(f"\nwritten to {out}: {PAGE}, {TABLES}, {RESULTS}")), soft_wrap=True)
    if all(line.failed == line.cases for table in tables for line in table.lines):
        raise InputError(f"no case was answered; the first failure: {tables[0].lines[0].first_error}")


def show(console: Console, table: Table) -> None:
    """The table, and what must be said beside it."""
    rows = rows_of(table)
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title=table.title, title_justify="left")
    for i, name in enumerate(rows[0]):
        grid.add_column(name, justify="left" if i == 0 else "right")
    for row in rows[1:]:
        grid.add_row(*(Text(plain(cell)) for cell in row))
    console.print(grid)
    for line in told(table):
        console.print(Text(plain(line)), soft_wrap=True)
    console.print()
