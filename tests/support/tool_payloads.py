"""Tables as tools return them: one table in every shape, and the reader of each shape."""

import ast
import csv
import io
import json
import xml.etree.ElementTree as ElementTree

import yaml
from hypothesis import strategies as st

NAMES = ("key", "place", "rain", "remark")
_WORDS = st.sampled_from(
    ("wet", "dry", 'a "quote"', "x; y", "3, 4", "Ärger", "a: b", "<b>", "#1", "東京")
)


@st.composite
def tables(draw):
    """Rows whose values name their row, so that a value under another record shows."""
    count = draw(st.integers(9, 30))
    rows = []
    for n in range(count):
        words = " ".join(draw(st.lists(_WORDS, min_size=2, max_size=12)))
        rows.append((f"k{n}", f"place {n}", n * 31, f"{n} {words} {n}"))
    return rows


def _objects(rows):
    return [dict(zip(NAMES, row, strict=True)) for row in rows]


def _split(rows):
    return {
        "columns": list(NAMES),
        "index": list(range(len(rows))),
        "data": [list(row) for row in rows],
    }


def _from_split(value):
    rows = list(map(tuple, value["data"]))
    assert [row[2] for row in rows] == [31 * index for index in value["index"]]
    return rows


def _parallel(rows):
    return {name: [row[column] for row in rows] for column, name in enumerate(NAMES)}


def _from_parallel(value):
    return list(zip(*(value[name] for name in NAMES), strict=True))


def _columns(rows):
    columns = _parallel(rows)
    return {name: dict(enumerate(column)) for name, column in columns.items()}


def _from_columns(value):
    assert len({tuple(value[name]) for name in NAMES}) == 1, "one set of row numbers"
    return _from_parallel({name: value[name].values() for name in NAMES})


def _from_objects(value):
    return [tuple(item.values()) for item in value if "left_out" not in item]


def _without_notes(value):
    return {key: item for key, item in value.items() if key != "left_out"}


def _with_numbers(rows):
    return [(key, place, int(rain), remark) for key, place, rain, remark in rows]


def _as_csv(rows):
    output = io.StringIO()
    csv.writer(output, lineterminator="\n").writerows([NAMES, *rows])
    return output.getvalue()


def _from_csv(text):
    rows = [row for row in csv.reader(io.StringIO(text)) if len(row) > 1]
    assert tuple(rows[0]) == NAMES
    return _with_numbers(rows[1:])


def _as_xml(rows):
    root = ElementTree.Element("rows", count=str(len(rows)))
    for item in _objects(rows):
        element = ElementTree.SubElement(root, "row")
        for name, value in item.items():
            ElementTree.SubElement(element, name).text = str(value)
    return ElementTree.tostring(root, encoding="unicode")


def _from_xml(text):
    rows = []
    for element in ElementTree.fromstring(text):
        rows.append([child.text for child in element])
    return _with_numbers(rows)


def _lines(rows):
    return "".join(json.dumps(item) + "\n" for item in _objects(rows))


def _as_yaml(value):
    return yaml.safe_dump(value, allow_unicode=True, sort_keys=False)


def _as_yaml_texts(rows):
    """Remarks as blocks of several lines."""
    items = []
    for key, place, rain, remark in rows:
        block = remark.replace(" ", "\n    ", 3)
        items.append(
            f"- key: {key}\n  place: {place}\n  rain: {rain}\n  remark: |-\n    {block}\n"
        )
    return "".join(items)


def _from_yaml_texts(text):
    rows = []
    for *others, remark in _from_objects(yaml.safe_load(text)):
        rows.append((*others, remark.replace("\n", " ")))
    return rows


def _json(build, read):
    return (
        lambda rows: json.dumps(build(rows), ensure_ascii=False),
        lambda text: read(json.loads(text)),
    )


def _after_byte_order_mark(write, read):
    return (
        lambda rows: "\ufeff" + write(rows),
        lambda text: read(text.removeprefix("\ufeff")),
    )


# Name of a shape: how a table is written, and how its rows are read again.
SHAPES = {
    "json records": _json(_objects, _from_objects),
    "byte order mark and json": _after_byte_order_mark(*_json(_objects, _from_objects)),
    "json in an object": _json(
        lambda rows: {"count": len(rows), "rows": _objects(rows), "next": "c2"},
        lambda value: _from_objects(value["rows"]),
    ),
    "json split": _json(_split, _from_split),
    "json tight": _json(
        lambda rows: {**_split(rows), "index_names": [None], "column_names": [None]},
        _from_split,
    ),
    "json columns": _json(_columns, _from_columns),
    "json index": _json(
        lambda rows: dict(enumerate(_objects(rows))),
        lambda value: _from_objects(_without_notes(value).values()),
    ),
    "json values": _json(
        lambda rows: list(map(list, rows)),
        lambda value: [tuple(row) for row in value if len(row) > 1],
    ),
    "json parallel lists": _json(_parallel, _from_parallel),
    "json answers of a vector store": _json(
        lambda rows: {name: [column] for name, column in _parallel(rows).items()},
        lambda value: _from_parallel({name: value[name][0] for name in NAMES}),
    ),
    "json lines": (
        _lines,
        lambda text: _from_objects(map(json.loads, text.splitlines())),
    ),
    "python rows": (
        lambda rows: repr(list(map(tuple, rows))),
        lambda text: [row for row in ast.literal_eval(text) if len(row) > 1],
    ),
    "csv": (_as_csv, _from_csv),
    "yaml": (
        lambda rows: _as_yaml(_objects(rows)),
        lambda text: _from_objects(yaml.safe_load(text)),
    ),
    "yaml in an object": (
        lambda rows: _as_yaml({"count": len(rows), "rows": _objects(rows)}),
        lambda text: _from_objects(yaml.safe_load(text)["rows"]),
    ),
    "yaml with blocks of text": (_as_yaml_texts, _from_yaml_texts),
    "xml": (_as_xml, _from_xml),
    "byte order mark and xml": _after_byte_order_mark(_as_xml, _from_xml),
}
