"""Tables of a protocol as rows of text, Markdown, JSON, HTML; the papers' figures in brackets beside ours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from denoise_core._files import write_whole
from denoise_core.report.context import render_template
from denoise_lab.protocols.sheet import Line, Table

FORMAT, VERSION = "rag-denoise protocol", 1
RESULTS, PAGE, TABLES = "results.json", "report.html", "tables.md"


def rows_of(table: Table) -> list[list[str]]:
    """Header and one row a system: percent, its 95 % interval, and the paper's figure where it has one."""
    headers = {"input_tokens": "read", "output_tokens": "written"}
    shown = [
        name for name in headers if any(getattr(line, name) for line in table.lines)
    ]
    rows = [
        [
            "system",
            *(c.replace("_", " ") for c in table.columns),
            *(headers[name] for name in shown),
        ]
    ]
    for line in table.lines:
        cells = [_cell(line, column) for column in table.columns]
        used = (getattr(line, name) for name in shown)
        rows.append(
            [
                line.system,
                *cells,
                *("" if v is None else f"{v:,.0f}" for v in used),
            ]
        )
    return rows


def _cell(line: Line, column: str) -> str:
    own, paper = line.cells.get(column), line.paper.get(column)
    said = "-" if own is None else f"{own.value:.0f} ({own.low:.0f}-{own.high:.0f})"
    return said if paper is None else f"{said} [{paper:g}]"


def told(table: Table) -> list[str]:
    """What must be said beside a table, a sentence each."""
    cases = max((line.cases for line in table.lines), default=0)
    out = [
        f"{table.measure} over {cases} cases, 95 % intervals in brackets.",
        f"In square brackets the paper's figures: {table.source}.",
        *(f"{note[:1].upper()}{note[1:]}." for note in table.notes),
    ]
    for line in table.lines:
        if line.failed:
            out.append(
                f"{line.system} failed on {line.failed} cases, the first: {line.first_error}."
            )
        if line.unknown:
            out.append(f"{line.system}: {line.unknown} answers could not be judged.")
        if line.fell_back:
            out.append(
                f"{line.system} fell back to the text as it came on {line.fell_back} cases."
            )
    return out


def markdown(table: Table) -> str:
    """Title, table and what must be said."""
    header, *rows = (
        [cell.replace("|", "\\|") for cell in row] for row in rows_of(table)
    )
    lines = [
        f"## {table.title}",
        "",
        f"| {' | '.join(header)} |",
        "|---" * len(header) + "|",
    ]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, "", *told(table), ""])


def page(tables: Sequence[Table], model: str) -> str:
    """A complete page without scripts or outside parts. All texts are escaped. Needs the extra ``cli``."""
    shown = [(t.title, rows_of(t), told(t)) for t in tables]
    title = "The papers' tables on another model"
    return render_template(
        "tables.html", "denoise_lab.protocols", title=title, model=model, tables=shown
    )


def fragment(table: Table) -> str:
    """One table for a notebook, with its own styles."""
    shown = [(table.title, rows_of(table), told(table))]
    return render_template("tables.html", "denoise_lab.protocols", tables=shown)


def to_dict(tables: Sequence[Table], model: str) -> dict[str, Any]:
    """Plain JSON values."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": model,
        "tables": [asdict(t) for t in tables],
    }


def save(tables: Sequence[Table], model: str, folder: str | Path) -> Path:
    """Write all figures, the tables as Markdown, and a page. Needs the extra ``cli``."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = page(tables, model)
    record = json.dumps(
        to_dict(tables, model), indent=1, ensure_ascii=False, allow_nan=False
    )
    write_whole(folder / RESULTS, record + "\n")
    write_whole(folder / TABLES, f"# {model}\n\n" + "\n".join(map(markdown, tables)))
    write_whole(folder / PAGE, written)
    return folder
