"""Two sets of twenty tool results, one a format, that nothing was chosen on: tables, documents, hits, logs.

Each case has the fields of the files of ``DATA/payloads``. The rows and texts are invented and built the same way
at every run, so that the formats differ and the content does not. The shipments were written before the notes and
the parsers; the loans after both, and they were run once, by the code that the results name.
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

ROW_COUNT = 60
ANSWER_ROW = 40


@dataclass(frozen=True)
class Domain:
    """What a set of results is about.

    Attributes:
        title: Title of the tables.
        site: Who keeps the texts.
        names: Names of a row's six fields: its number, place, thing, amount, sum and remark.
        number_prefix: What a row's number begins with.
        first_number: Number of the first row.
        places: Twelve places.
        things: Five things.
        remarks: Remarks of rows that answer nothing.
        remark_form: A remark with its thing and a customer's number.
        text_form: The paragraph about a row, by the names of its fields.
        answer: What replaces the fields of the row that answers the question.
        other_thing: Replaces the answer's thing in other rows of its place.
        question: The user's question.
        query: What the tool is asked with.
        list_name: Name of the list in nested YAML and XML.
        word: The query of the hits.
        needed: What an answer needs.
    """

    title: str
    site: str
    names: tuple[str, str, str, str, str, str]
    number_prefix: str
    first_number: int
    places: tuple[str, ...]
    things: tuple[str, ...]
    remarks: tuple[str, ...]
    remark_form: str
    text_form: str
    answer: dict[str, Any]
    other_thing: str
    question: str
    query: str
    list_name: str
    word: str
    needed: tuple[str, str]


SHIPMENTS = Domain(
    title="Shipments",
    site="harbour",
    names=("shipment", "port", "goods", "tonnes", "delay_cost", "remark"),
    number_prefix="SH-",
    first_number=7100,
    places=(
        "Bergen", "Lisbon", "Turku", "Gdansk", "Cork", "Porto", "Aarhus", "Bilbao", "Malmo", "Trieste", "Ostend",
        "Rijeka",
    ),
    things=("oak planks", "ceramic tiles", "copper pipe", "window glass", "roof slate"),
    remarks=(
        "a crane was repaired during the night shift",
        "the customs papers named another importer",
        "two pallets were wet and had to be dried",
        "the driver waited for a free ramp until noon",
        "a strike of the pilots closed the harbour for a day",
        "nothing unusual was written down by the clerk",
    ),
    remark_form="{remark}, {thing} for customer {customer}",
    text_form=(
        "The shipment {shipment} of {goods} left {port} with {tonnes} tonnes. In the file it says that {remark}. "
        "The delay costs {delay_cost} euro, which the insurer pays after the usual deduction. The papers are kept "
        "in the harbour office for five years."
    ),
    answer={
        "port": "Trieste",
        "goods": "roof slate",
        "delay_cost": 4370,
        "remark": "the weighbridge at Trieste was out of order, so the roof slate was weighed in Koper",
    },
    other_thing="oak planks",
    question="Why was the shipment of roof slate from Trieste late, and what does the delay cost?",
    query="roof slate Trieste delay",
    list_name="shipments",
    word="slate",
    needed=("the weighbridge at Trieste was out of order", "4370"),
)  # fmt: skip

LOANS = Domain(
    title="Loans",
    site="museum",
    names=("loan", "lender", "object", "crates", "insured_sum", "condition"),
    number_prefix="L",
    first_number=310,
    places=(
        "Uppsala", "Dresden", "Leiden", "Krakow", "Toledo", "Ghent", "Siena", "Basel", "Vilnius", "Oxford", "Graz",
        "Evora",
    ),
    things=("astrolabe", "oil portrait", "silk robe", "bronze bell", "globe"),
    remarks=(
        "the varnish is dull in one corner",
        "an old repair at the base was photographed again",
        "no change was seen under the lamp",
        "the frame was tightened by the courier",
        "dust was brushed off before it was hung",
        "a label on the back is hard to read",
    ),
    remark_form="{thing}, {remark} (report {customer})",
    text_form=(
        "For loan {loan} the {object} came from {lender} in {crates} crates. The report of the conservator reads "
        "'{condition}'. It is insured for {insured_sum} francs from nail to nail. The couriers stayed until the "
        "case was locked."
    ),
    answer={
        "lender": "Leiden",
        "object": "globe",
        "insured_sum": 91250,
        "condition": "globe, the south pole was dented when the trolley tipped over (report 77)",
    },
    other_thing="silk robe",
    question="How was the globe from Leiden damaged, and for what sum is it insured?",
    query="globe Leiden damage insured",
    list_name="loans",
    word="globe",
    needed=("the south pole was dented when the trolley tipped over", "91250"),
)  # fmt: skip


def build_rows(domain: Domain) -> list[dict[str, Any]]:
    """Sixty rows; one of them answers the question."""
    draw = random.Random(7)
    number, place, thing, amount, total, remark = domain.names
    rows = []
    for n in range(ROW_COUNT):
        row = {
            number: f"{domain.number_prefix}{domain.first_number + n}",
            place: domain.places[n % 12],
            thing: domain.things[n % 5],
            amount: draw.randint(3, 90),
            total: draw.randint(100, 4000),
            remark: "",
        }
        row[remark] = domain.remark_form.format(
            remark=draw.choice(domain.remarks),
            thing=row[thing],
            customer=draw.randint(100, 999),
        )
        is_like_answer = (row[place], row[thing]) == (
            domain.answer[place],
            domain.answer[thing],
        )
        if is_like_answer:
            row[thing] = domain.other_thing
        rows.append(row)
    rows[ANSWER_ROW] |= domain.answer
    return rows


def build_texts(domain: Domain) -> list[tuple[str, str]]:
    """Thirty titles with a paragraph each; one answers the question."""
    number, place, thing, *_ = domain.names
    texts = []
    for row in build_rows(domain)[20:50]:
        title = f"{row[place]}: {row[thing]}, {row[number]}"
        texts.append((title, domain.text_form.format(**row)))
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
    domain: Domain, other_formats: Sequence[str] = ("log", "sql rows")
) -> list[dict[str, Any]]:
    """Twenty cases, in the form of the files of ``DATA/payloads``; two formats are left to another set."""
    rows, texts = build_rows(domain), build_texts(domain)
    sections = "\n\n".join(f"## {title}\n\n{text}" for title, text in texts)
    articles = "".join(
        f"<article><h2>{title}</h2><p>{text}</p></article>" for title, text in texts
    )
    entries = "".join(
        f"<entry><title>{title}</title><summary>{text}</summary></entry>\n"
        for title, text in texts
    )
    hits = [{"title": title, "content": text} for title, text in texts]
    site = domain.site.capitalize()
    yaml_head = f"count: {len(rows)}\n{domain.list_name}:"
    builders: dict[str, Callable[[], str]] = {
        "json records": lambda: json.dumps(rows),
        "json counted": lambda: json.dumps({"count": len(rows), "rows": rows}),
        "json split": lambda: as_split(rows),
        "json columns": lambda: as_columns(rows),
        "json index": lambda: json.dumps({str(n): row for n, row in enumerate(rows)}),
        "json values": lambda: json.dumps([list(row.values()) for row in rows]),
        "json lines": lambda: "".join(json.dumps(row) + "\n" for row in rows),
        "json hits": lambda: json.dumps({"query": domain.word, "results": hits}),
        "chroma": lambda: as_chroma(texts),
        "csv": lambda: as_csv(rows),
        "tsv": lambda: as_csv(rows, "\t"),
        "yaml": lambda: as_yaml(rows),
        "yaml nested": lambda: as_yaml(rows, yaml_head, "  "),
        "xml": lambda: as_xml(rows, domain.list_name),
        "feed": lambda: f"<feed>\n<title>{site}</title>\n{entries}</feed>",
        "html table": lambda: as_html_table(rows, domain.title),
        "html articles": lambda: f"<html><body><nav>Home</nav>{articles}</body></html>",
        "markdown table": lambda: as_markdown_table(rows, domain.title),
        "markdown": lambda: f"# {site}\n\n{sections}\n",
        "hits": lambda: as_hits(texts, domain.site),
        "log": lambda: as_log(rows, domain.site),
        "sql rows": lambda: repr([tuple(row.values()) for row in rows]),
    }
    cases = []
    for name, build in builders.items():
        if name in other_formats:
            continue
        cases.append(
            {
                "id": name,
                "kind": name,
                "tool": "search",
                "query": domain.query,
                "task": domain.question,
                "result": build(),
                "needed": list(domain.needed),
                "must_stay": [],
            }
        )
    return cases
