"""Two sets of twenty tool results, one a format, that nothing was chosen on: tables, documents, hits, logs.

Each case has the fields of the files of ``DATA/payloads``. The rows and texts of ``data/tables`` are invented; the
formats differ and the content does not. The shipments were written before the notes and the parsers; the loans
after both, and they were run once, by the code that the results name.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

TABLES = Path(__file__).parent / "data" / "tables"


def as_split(rows: Sequence[dict[str, Any]]) -> str:
    table = {
        "columns": list(rows[0]),
        "index": list(range(len(rows))),
        "data": [list(row.values()) for row in rows],
    }
    return json.dumps(table)


def as_columns(rows: Sequence[dict[str, Any]]) -> str:
    return json.dumps(
        {name: {str(n): row[name] for n, row in enumerate(rows)} for name in rows[0]}
    )


def as_csv(rows: Sequence[dict[str, Any]], delimiter: str = ",") -> str:
    output = io.StringIO()
    writer = csv.DictWriter(output, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return output.getvalue()


def as_yaml(rows: Sequence[dict[str, Any]], head: str = "", indent: str = "") -> str:
    lines = [head] if head else []
    for row in rows:
        for n, (name, value) in enumerate(row.items()):
            lines.append(f"{indent}{'  ' if n else '- '}{name}: {value}")
    return "\n".join(lines) + "\n"


def as_xml(rows: Sequence[dict[str, Any]], name: str) -> str:
    items = []
    for row in rows:
        fields = "".join(f"<{field}>{value}</{field}>" for field, value in row.items())
        items.append(f"<item>{fields}</item>")
    return f"<{name}><count>{len(rows)}</count>{''.join(items)}</{name}>"


def as_html_table(rows: Sequence[dict[str, Any]], title: str) -> str:
    head = "".join(f"<th>{name}</th>" for name in rows[0])
    lines = []
    for row in rows:
        cells = "".join(f"<td>{value}</td>" for value in row.values())
        lines.append(f"<tr>{cells}</tr>")
    body = "\n".join(lines)
    return f"<html><body><h1>{title}</h1><table><tr>{head}</tr>\n{body}\n</table></body></html>"


def as_markdown_table(rows: Sequence[dict[str, Any]], title: str) -> str:
    lines = [f"| {' | '.join(rows[0])} |", "|" + "---|" * len(rows[0])]
    for row in rows:
        lines.append(f"| {' | '.join(map(str, row.values()))} |")
    return f"# {title}\n\n" + "\n".join(lines) + "\n"


def as_hits(texts: Sequence[tuple[str, str]], site: str) -> str:
    hits = []
    for n, (title, text) in enumerate(texts, 1):
        hits.append(f"[{n}] {title}\nURL: https://{site}.example/{n}\nSnippet: {text}")
    return f"Found {len(texts)} results\n\n" + "\n---\n".join(hits)


def as_log(rows: Sequence[dict[str, Any]], site: str) -> str:
    lines = []
    for n, row in enumerate(rows):
        fields = " ".join(f"{name}={json.dumps(value)}" for name, value in row.items())
        lines.append(f"2026-10-02 06:{n:02}:17 INFO {site} {fields}")
    return "\n".join(lines) + "\n"


def as_chroma(texts: Sequence[tuple[str, str]]) -> str:
    answer = {
        "ids": [[f"d{n}" for n in range(len(texts))]],
        "documents": [[text for _, text in texts]],
        "metadatas": [[{"title": title} for title, _ in texts]],
        "distances": [[round(0.2 + n / 100, 2) for n in range(len(texts))]],
    }
    return json.dumps(answer)


def build_cases(
    table_name: str, other_formats: Sequence[str] = ("log", "sql rows")
) -> list[dict[str, Any]]:
    """Twenty cases, in the form of the files of ``DATA/payloads``; two formats are left to another set."""
    table = json.loads((TABLES / f"{table_name}.json").read_text("utf-8"))
    rows, texts, site = table["rows"], table["texts"], table["site"]
    asked = {name: table[name] for name in ("query", "task", "needed")}
    sections = "\n\n".join(f"## {title}\n\n{text}" for title, text in texts)
    articles = "".join(
        f"<article><h2>{title}</h2><p>{text}</p></article>" for title, text in texts
    )
    entries = "".join(
        f"<entry><title>{title}</title><summary>{text}</summary></entry>\n"
        for title, text in texts
    )
    hits = [{"title": title, "content": text} for title, text in texts]
    top = site.capitalize()
    yaml_head = f"count: {len(rows)}\n{table['list_name']}:"
    builders: dict[str, Callable[[], str]] = {
        "json records": lambda: json.dumps(rows),
        "json counted": lambda: json.dumps({"count": len(rows), "rows": rows}),
        "json split": lambda: as_split(rows),
        "json columns": lambda: as_columns(rows),
        "json index": lambda: json.dumps({str(n): row for n, row in enumerate(rows)}),
        "json values": lambda: json.dumps([list(row.values()) for row in rows]),
        "json lines": lambda: "".join(json.dumps(row) + "\n" for row in rows),
        "json hits": lambda: json.dumps({"query": table["word"], "results": hits}),
        "chroma": lambda: as_chroma(texts),
        "csv": lambda: as_csv(rows),
        "tsv": lambda: as_csv(rows, "\t"),
        "yaml": lambda: as_yaml(rows),
        "yaml nested": lambda: as_yaml(rows, yaml_head, "  "),
        "xml": lambda: as_xml(rows, table["list_name"]),
        "feed": lambda: f"<feed>\n<title>{top}</title>\n{entries}</feed>",
        "html table": lambda: as_html_table(rows, table["title"]),
        "html articles": lambda: f"<html><body><nav>Home</nav>{articles}</body></html>",
        "markdown table": lambda: as_markdown_table(rows, table["title"]),
        "markdown": lambda: f"# {top}\n\n{sections}\n",
        "hits": lambda: as_hits(texts, site),
        "log": lambda: as_log(rows, site),
        "sql rows": lambda: repr([tuple(row.values()) for row in rows]),
    }
    cases = []
    for name, build in builders.items():
        if name not in other_formats:
            case = {"id": name, "kind": name, "tool": "search", "must_stay": []}
            cases.append({**case, **asked, "result": build()})
    return cases
