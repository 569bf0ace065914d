"""Tables of a protocol as rows of text, Markdown, JSON, HTML; with the papers' figures in brackets."""

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


def format_rows(table: Table) -> list[list[str]]:
    """Header and one row a system: percent, its 95 % interval, and the paper's figure where it has one."""
    headers = {"input_tokens": "read", "output_tokens": "written"}
    shown = []
    for name in headers:
        if any(getattr(line, name) for line in table.lines):
            shown.append(name)
    header_row = ["system"]
    for column in table.columns:
        header_row.append(column.replace("_", " "))
    for name in shown:
        header_row.append(headers[name])
    rows = [header_row]
    for line in table.lines:
        table_row = [line.system]
        for column in table.columns:
            table_row.append(_cell(line, column))
        for name in shown:
            token_count = getattr(line, name)
            token_text = ""
            if token_count is not None:
                token_text = f"{token_count:,.0f}"
            table_row.append(token_text)
        rows.append(table_row)
    return rows


def _cell(line: Line, column: str) -> str:
    own_value = line.cells.get(column)
    paper_value = line.paper.get(column)
    cell_text = "-"
    if own_value is not None:
        interval_text = f"{own_value.low:.0f}-{own_value.high:.0f}"
        cell_text = f"{own_value.value:.0f} ({interval_text})"
    if paper_value is None:
        return cell_text
    return f"{cell_text} [{paper_value:g}]"


def describe_table(table: Table) -> list[str]:
    """The notes below a table, one sentence each."""
    cases = max((line.cases for line in table.lines), default=0)
    out = [
        f"{table.measure} over {cases} cases, 95 % intervals in brackets.",
        f"In square brackets the paper's figures: {table.source}.",
    ]
    for note in table.notes:
        first_letter = note[:1].upper()
        out.append(f"{first_letter}{note[1:]}.")
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
    """Title, table and notes as Markdown."""
    row_texts = []
    for row in format_rows(table):
        escaped_cells = [cell.replace("|", "\\|") for cell in row]
        joined_cells = " | ".join(escaped_cells)
        row_texts.append(f"| {joined_cells} |")
    rule_marks = "|---" * len(escaped_cells)
    lines = [
        f"## {table.title}",
        "",
        row_texts[0],
        f"{rule_marks}|",
    ]
    lines += row_texts[1:]
    lines.append("")
    lines += describe_table(table)
    lines.append("")
    return "\n".join(lines)


def page(tables: Sequence[Table], model: str) -> str:
    """A complete page without scripts or outside parts. All texts are escaped. Needs the extra ``cli``."""
    shown = []
    for table in tables:
        table_rows = format_rows(table)
        shown.append((table.title, table_rows, describe_table(table)))
    title = "The papers' tables on another model"
    return render_template(
        "tables.html", "denoise_lab.protocols", title=title, model=model, tables=shown
    )


def fragment(table: Table) -> str:
    """One table for a notebook, with its own styles."""
    shown = [(table.title, format_rows(table), describe_table(table))]
    return render_template("tables.html", "denoise_lab.protocols", tables=shown)


def to_dict(tables: Sequence[Table], model: str) -> dict[str, Any]:
    """Plain JSON values."""
    table_records = [asdict(table) for table in tables]
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": model,
        "tables": table_records,
    }


def save(tables: Sequence[Table], model: str, folder: str | Path) -> Path:
    """Write all figures, the tables as Markdown, and a page. Needs the extra ``cli``."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = page(tables, model)
    study_record = to_dict(tables, model)
    record = json.dumps(study_record, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(folder / RESULTS, record + "\n")
    table_texts = [markdown(table) for table in tables]
    joined_tables = "\n".join(table_texts)
    write_whole(folder / TABLES, f"# {model}\n\n{joined_tables}")
    write_whole(folder / PAGE, written)
    return folder
