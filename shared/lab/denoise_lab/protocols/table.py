"""Write tables of a protocol as rows of text, Markdown, JSON and HTML, with the papers' figures in brackets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from denoise_core._files import write_whole
from denoise_core.report.context import render_template
from denoise_lab.protocols.measure import ProtocolTable, TableRow

FORMAT, VERSION = "rag-denoise protocol", 1
RESULTS, PAGE, TABLES = "results.json", "report.html", "tables.md"


def format_rows(table: ProtocolTable) -> list[list[str]]:
    """A header and one row per system: percent, its 95 % interval, and the paper's figure if it has one."""
    headers = {"input_tokens": "read", "output_tokens": "written"}
    token_fields = []
    for field_name in headers:
        if any(getattr(row, field_name) for row in table.lines):
            token_fields.append(field_name)
    header_cells = ["system"]
    for column in table.columns:
        header_cells.append(column.replace("_", " "))
    for field_name in token_fields:
        header_cells.append(headers[field_name])
    text_rows = [header_cells]
    for row in table.lines:
        row_cells = [row.system]
        for column in table.columns:
            row_cells.append(_format_cell(row, column))
        for field_name in token_fields:
            token_count = getattr(row, field_name)
            token_text = ""
            if token_count is not None:
                token_text = f"{token_count:,.0f}"
            row_cells.append(token_text)
        text_rows.append(row_cells)
    return text_rows


def _format_cell(row: TableRow, column: str) -> str:
    own_value = row.cells.get(column)
    paper_value = row.paper.get(column)
    cell_text = "-"
    if own_value is not None:
        interval_text = f"{own_value.low:.0f}-{own_value.high:.0f}"
        cell_text = f"{own_value.value:.0f} ({interval_text})"
    if paper_value is None:
        return cell_text
    return f"{cell_text} [{paper_value:g}]"


def describe_table(table: ProtocolTable) -> list[str]:
    """The notes below a table, one sentence each."""
    case_count = max((row.cases for row in table.lines), default=0)
    sentences = [
        f"{table.measure} over {case_count} cases, 95 % intervals in brackets.",
        f"In square brackets the paper's figures: {table.source}.",
    ]
    for note in table.notes:
        first_letter = note[:1].upper()
        sentences.append(f"{first_letter}{note[1:]}.")
    for row in table.lines:
        if row.failed:
            sentences.append(
                f"{row.system} failed on {row.failed} cases, the first: {row.first_error}."
            )
        if row.unknown:
            sentences.append(
                f"{row.system}: {row.unknown} answers could not be judged."
            )
        if row.fell_back:
            sentences.append(
                f"{row.system} fell back to the text as it came on {row.fell_back} cases."
            )
    return sentences


def format_markdown(table: ProtocolTable) -> str:
    """Title, table and notes as Markdown."""
    row_texts = []
    for row_cells in format_rows(table):
        escaped_cells = [cell.replace("|", "\\|") for cell in row_cells]
        joined_cells = " | ".join(escaped_cells)
        row_texts.append(f"| {joined_cells} |")
    rule_marks = "|---" * len(escaped_cells)
    lines = [f"## {table.title}", "", row_texts[0], f"{rule_marks}|", *row_texts[1:]]
    lines += ["", *describe_table(table), ""]
    return "\n".join(lines)


def render_page(tables: Sequence[ProtocolTable], model: str) -> str:
    """A complete HTML page without scripts or outside parts; all texts are escaped. Needs the extra ``cli``."""
    shown_tables = []
    for table in tables:
        shown_tables.append((table.title, format_rows(table), describe_table(table)))
    return render_template(
        "tables.html",
        "denoise_lab.protocols",
        title="The papers' tables on another model",
        model=model,
        tables=shown_tables,
    )


def tables_to_dict(tables: Sequence[ProtocolTable], model: str) -> dict[str, Any]:
    """Plain JSON values of all figures."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": model,
        "tables": [asdict(table) for table in tables],
    }


def save_tables(
    tables: Sequence[ProtocolTable], model: str, folder: str | Path
) -> Path:
    """Write all figures, the tables as Markdown, and a page. Needs the extra ``cli``."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    page_html = render_page(tables, model)
    record = tables_to_dict(tables, model)
    record_text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(folder / RESULTS, record_text + "\n")
    table_texts = [format_markdown(table) for table in tables]
    joined_tables = "\n".join(table_texts)
    write_whole(folder / TABLES, f"# {model}\n\n{joined_tables}")
    write_whole(folder / PAGE, page_html)
    return folder
