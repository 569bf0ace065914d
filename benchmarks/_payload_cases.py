"""Twenty tool results, one a format, that nothing was chosen on: tables, documents, hits, logs.

Each case has the fields of the files of ``DATA/payloads``. The rows and texts are invented and built the same way
at every run, so that the formats differ and the content does not.
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

PLACES = (
    "Bergen", "Lisbon", "Turku", "Gdansk", "Cork", "Porto", "Aarhus", "Bilbao", "Malmo", "Trieste", "Ostend",
    "Rijeka",
)  # fmt: skip
GOODS = ("oak planks", "ceramic tiles", "copper pipe", "window glass", "roof slate")
REASONS = (
    "a crane was repaired during the night shift",
    "the customs papers named another importer",
    "two pallets were wet and had to be dried",
    "the driver waited for a free ramp until noon",
    "a strike of the pilots closed the harbour for a day",
    "nothing unusual was written down by the clerk",
)
QUESTION = "Why was the shipment of roof slate from Trieste late, and what does the delay cost?"
NEEDED_REASON = "the weighbridge at Trieste was out of order"
NEEDED_COST = "4370"


def build_rows() -> list[dict[str, Any]]:
    """Sixty shipments; one of them is the shipment in question."""
    draw = random.Random(7)
    rows = []
    for number in range(60):
        place, goods = PLACES[number % 12], GOODS[number % 5]
        row = {
            "shipment": f"SH-{7100 + number}",
            "port": place,
            "goods": goods,
            "tonnes": draw.randint(3, 90),
            "delay_cost": draw.randint(100, 4000),
            "remark": f"{draw.choice(REASONS)}, {goods} for customer {draw.randint(100, 999)}",
        }
        if (place, goods) == ("Trieste", "roof slate"):
            row["goods"] = "oak planks"
        rows.append(row)
    rows[40] |= {
        "port": "Trieste",
        "goods": "roof slate",
        "delay_cost": 4370,
        "remark": f"{NEEDED_REASON}, so the roof slate was weighed in Koper",
    }
    return rows


def build_texts() -> list[tuple[str, str]]:
    """Thirty titles with a paragraph each; one answers the question."""
    texts = []
    for row in build_rows()[20:50]:
        title = f"{row['port']}: {row['goods']}, {row['shipment']}"
        text = (
            f"The shipment {row['shipment']} of {row['goods']} left {row['port']} with {row['tonnes']} tonnes. "
            f"In the file it says that {row['remark']}. "
            f"The delay costs {row['delay_cost']} euro, which the insurer pays after the usual deduction. "
            "The papers are kept in the harbour office for five years."
        )
        texts.append((title, text))
    return texts


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


def as_xml(rows: Sequence[dict[str, Any]], line_break: str = "") -> str:
    items = []
    for row in rows:
        fields = "".join(f"<{name}>{value}</{name}>" for name, value in row.items())
        items.append(f"<item>{fields}</item>{line_break}")
    body = line_break + "".join(items)
    return f"<shipments><count>{len(rows)}</count>{body}</shipments>"


def as_html_table(rows: Sequence[dict[str, Any]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in rows[0])
    lines = []
    for row in rows:
        cells = "".join(f"<td>{value}</td>" for value in row.values())
        lines.append(f"<tr>{cells}</tr>")
    body = "\n".join(lines)
    return f"<html><body><h1>Shipments</h1><table><tr>{head}</tr>\n{body}\n</table></body></html>"


def as_markdown_table(rows: Sequence[dict[str, Any]]) -> str:
    lines = [f"| {' | '.join(rows[0])} |", "|" + "---|" * len(rows[0])]
    for row in rows:
        lines.append(f"| {' | '.join(map(str, row.values()))} |")
    return "# Shipments\n\n" + "\n".join(lines) + "\n"


def as_hits(texts: Sequence[tuple[str, str]]) -> str:
    hits = []
    for n, (title, text) in enumerate(texts, 1):
        hits.append(f"[{n}] {title}\nURL: https://harbour.example/{n}\nSnippet: {text}")
    return f"Found {len(texts)} results\n\n" + "\n---\n".join(hits)


def as_log(rows: Sequence[dict[str, Any]]) -> str:
    lines = []
    for n, row in enumerate(rows):
        fields = " ".join(f"{name}={json.dumps(value)}" for name, value in row.items())
        lines.append(f"2026-10-02 06:{n:02}:17 INFO harbour {fields}")
    return "\n".join(lines) + "\n"


def as_chroma(texts: Sequence[tuple[str, str]]) -> str:
    answer = {
        "ids": [[f"d{n}" for n in range(len(texts))]],
        "documents": [[text for _, text in texts]],
        "metadatas": [[{"title": title} for title, _ in texts]],
        "distances": [[round(0.2 + n / 100, 2) for n in range(len(texts))]],
    }
    return json.dumps(answer)


def build_cases() -> list[dict[str, Any]]:
    """The twenty cases, in the form of the files of ``DATA/payloads``."""
    rows, texts = build_rows(), build_texts()
    sections = "\n\n".join(f"## {title}\n\n{text}" for title, text in texts)
    articles = "".join(
        f"<article><h2>{title}</h2><p>{text}</p></article>" for title, text in texts
    )
    entries = "".join(
        f"<entry><title>{title}</title><summary>{text}</summary></entry>\n"
        for title, text in texts
    )
    hits = [{"title": title, "content": text} for title, text in texts]
    builders: dict[str, Callable[[], str]] = {
        "json records": lambda: json.dumps(rows),
        "json counted": lambda: json.dumps({"count": len(rows), "rows": rows}),
        "json split": lambda: as_split(rows),
        "json columns": lambda: as_columns(rows),
        "json index": lambda: json.dumps({str(n): row for n, row in enumerate(rows)}),
        "json values": lambda: json.dumps([list(row.values()) for row in rows]),
        "json lines": lambda: "".join(json.dumps(row) + "\n" for row in rows),
        "json hits": lambda: json.dumps({"query": "slate", "results": hits}),
        "chroma": lambda: as_chroma(texts),
        "csv": lambda: as_csv(rows),
        "tsv": lambda: as_csv(rows, "\t"),
        "yaml": lambda: as_yaml(rows),
        "yaml nested": lambda: as_yaml(rows, "count: 60\nshipments:", "  "),
        "xml": lambda: as_xml(rows),
        "feed": lambda: f"<feed>\n<title>Harbour</title>\n{entries}</feed>",
        "html table": lambda: as_html_table(rows),
        "html articles": lambda: f"<html><body><nav>Home</nav>{articles}</body></html>",
        "markdown table": lambda: as_markdown_table(rows),
        "markdown": lambda: f"# Harbour\n\n{sections}\n",
        "hits": lambda: as_hits(texts),
    }
    cases = []
    for name, build in builders.items():
        cases.append(
            {
                "id": name,
                "kind": name,
                "tool": "search",
                "query": "roof slate Trieste delay",
                "task": QUESTION,
                "result": build(),
                "needed": [NEEDED_REASON, NEEDED_COST],
                "must_stay": [],
            }
        )
    return cases
