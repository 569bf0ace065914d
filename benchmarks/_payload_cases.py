"""Two sets of twenty tool results, one a format, on which nothing was chosen: tables, documents, hits, logs.

Each case has the fields of the files of ``DATA/payloads``. The rows and texts of ``data/tables`` are invented; the
formats differ and the content does not. The shipments were written before the notes and the parsers; the loans
after both, and they were run once, by the code that the results name.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

FOLDER = Path(__file__).parent / "data" / "tables"
CASE_FIELDS = ("query", "task", "needed")

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class ToolTable:
    """Rows and titled texts that a tool returns.

    Attributes:
        rows: Records with the same fields.
        texts: Pairs of a title and a text.
        site: The name of the site or log.
        title: The title of the table.
        list_name: The name of the list of rows.
        word: A word of the query.
    """

    rows: list[Row]
    texts: list[tuple[str, str]]
    site: str
    title: str
    list_name: str
    word: str

    @property
    def field_names(self) -> list[str]:
        return list(self.rows[0])

    @property
    def values(self) -> list[list[Any]]:
        return [list(row.values()) for row in self.rows]


def build_cases(
    table_name: str, other_formats: Sequence[str] = ("log", "sql rows")
) -> list[dict[str, Any]]:
    """Build twenty cases; two formats are left to another set."""
    fields = json.loads((FOLDER / f"{table_name}.json").read_text("utf-8"))
    case_fields = {}
    for name in CASE_FIELDS:
        case_fields[name] = fields.pop(name)
    table = ToolTable(**fields)
    cases = []
    for name, write_format in FORMATS.items():
        if name in other_formats:
            continue
        case = {"id": name, "kind": name, "tool": "search", "must_stay": []}
        case.update(case_fields)
        case["result"] = write_format(table)
        cases.append(case)
    return cases


# -- JSON ------------------------------------------------------------------------------


def write_counted(table: ToolTable) -> str:
    return json.dumps({"count": len(table.rows), "rows": table.rows})


def write_split(table: ToolTable) -> str:
    numbers = list(range(len(table.rows)))
    parts = {"columns": table.field_names, "index": numbers, "data": table.values}
    return json.dumps(parts)


def write_columns(table: ToolTable) -> str:
    columns: dict[str, dict[str, Any]] = {}
    for name in table.field_names:
        columns[name] = {}
        for number, row in enumerate(table.rows):
            columns[name][str(number)] = row[name]
    return json.dumps(columns)


def write_index(table: ToolTable) -> str:
    return json.dumps(dict(enumerate(table.rows)))


def write_json_lines(table: ToolTable) -> str:
    lines = []
    for row in table.rows:
        lines.append(json.dumps(row) + "\n")
    return "".join(lines)


def write_json_hits(table: ToolTable) -> str:
    hits = []
    for title, text in table.texts:
        hits.append({"title": title, "content": text})
    return json.dumps({"query": table.word, "results": hits})


def write_chroma(table: ToolTable) -> str:
    ids = []
    documents = []
    metadatas = []
    distances = []
    for number, (title, text) in enumerate(table.texts):
        ids.append(f"d{number}")
        documents.append(text)
        metadatas.append({"title": title})
        distances.append(round(0.2 + number / 100, 2))
    answer = {
        "ids": [ids],
        "documents": [documents],
        "metadatas": [metadatas],
        "distances": [distances],
    }
    return json.dumps(answer)


# -- tables ----------------------------------------------------------------------------


def write_csv(table: ToolTable, delimiter: str = ",") -> str:
    output = io.StringIO()
    writer = csv.writer(output, delimiter=delimiter)
    writer.writerow(table.field_names)
    writer.writerows(table.values)
    return output.getvalue()


def write_yaml(table: ToolTable, indent: str = "") -> str:
    lines = []
    for row in table.rows:
        mark = "- "
        for name, value in row.items():
            lines.append(f"{indent}{mark}{name}: {value}\n")
            mark = "  "
    return "".join(lines)


def write_nested_yaml(table: ToolTable) -> str:
    head = f"count: {len(table.rows)}\n{table.list_name}:\n"
    return head + write_yaml(table, "  ")


def write_xml(table: ToolTable) -> str:
    items = []
    for row in table.rows:
        fields = ""
        for name, value in row.items():
            fields += f"<{name}>{value}</{name}>"
        items.append(f"<item>{fields}</item>")
    content = f"<count>{len(table.rows)}</count>" + "".join(items)
    return f"<{table.list_name}>{content}</{table.list_name}>"


def write_html_table(table: ToolTable) -> str:
    head = wrap_each("th", table.field_names)
    lines = []
    for values in table.values:
        lines.append(f"<tr>{wrap_each('td', values)}</tr>")
    body = "\n".join(lines)
    rows = f"<tr>{head}</tr>\n{body}\n"
    title = f"<h1>{table.title}</h1>"
    return f"<html><body>{title}<table>{rows}</table></body></html>"


def wrap_each(tag: str, values: Sequence[Any]) -> str:
    cells = [f"<{tag}>{value}</{tag}>" for value in values]
    return "".join(cells)


def write_markdown_table(table: ToolTable) -> str:
    rule = "|" + "---|" * len(table.field_names)
    lines = [f"# {table.title}", "", markdown_row(table.field_names), rule]
    for values in table.values:
        lines.append(markdown_row(values))
    return "\n".join(lines) + "\n"


def markdown_row(values: Sequence[Any]) -> str:
    cells = " | ".join(map(str, values))
    return f"| {cells} |"


def write_sql_rows(table: ToolTable) -> str:
    return repr([tuple(values) for values in table.values])


# -- documents, hits and logs ----------------------------------------------------------


def write_feed(table: ToolTable) -> str:
    entries = ""
    for title, text in table.texts:
        fields = f"<title>{title}</title><summary>{text}</summary>"
        entries += f"<entry>{fields}</entry>\n"
    title = table.site.capitalize()
    return f"<feed>\n<title>{title}</title>\n{entries}</feed>"


def write_html_articles(table: ToolTable) -> str:
    articles = ""
    for title, text in table.texts:
        articles += f"<article><h2>{title}</h2><p>{text}</p></article>"
    return f"<html><body><nav>Home</nav>{articles}</body></html>"


def write_markdown(table: ToolTable) -> str:
    sections = [f"# {table.site.capitalize()}"]
    for title, text in table.texts:
        sections.append(f"## {title}\n\n{text}")
    return "\n\n".join(sections) + "\n"


def write_hits(table: ToolTable) -> str:
    hits = []
    for number, (title, text) in enumerate(table.texts, 1):
        url = f"https://{table.site}.example/{number}"
        hits.append(f"[{number}] {title}\nURL: {url}\nSnippet: {text}")
    return f"Found {len(hits)} results\n\n" + "\n---\n".join(hits)


def write_log(table: ToolTable) -> str:
    lines = ""
    for number, row in enumerate(table.rows):
        fields = ""
        for name, value in row.items():
            fields += f" {name}={json.dumps(value)}"
        lines += f"2026-10-02 06:{number:02}:17 INFO {table.site}{fields}\n"
    return lines


FORMATS: Mapping[str, Callable[[ToolTable], str]] = {
    "json records": lambda table: json.dumps(table.rows),
    "json counted": write_counted,
    "json split": write_split,
    "json columns": write_columns,
    "json index": write_index,
    "json values": lambda table: json.dumps(table.values),
    "json lines": write_json_lines,
    "json hits": write_json_hits,
    "chroma": write_chroma,
    "csv": write_csv,
    "tsv": lambda table: write_csv(table, "\t"),
    "yaml": write_yaml,
    "yaml nested": write_nested_yaml,
    "xml": write_xml,
    "feed": write_feed,
    "html table": write_html_table,
    "html articles": write_html_articles,
    "markdown table": write_markdown_table,
    "markdown": write_markdown,
    "hits": write_hits,
    "log": write_log,
    "sql rows": write_sql_rows,
}
