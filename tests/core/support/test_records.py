"""Evidence as records: a value belongs to its own row, whatever the table is written in."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import Passage
from denoise_core.support import check
from denoise_core.support.records import groups

ROWS = [("North tower", "Anna Berg", 412), ("South tower", "Otto Lund", 388), ("Mill", "Ida Voss", 97)]
HEAD = ("building", "keeper", "steps")
SHAPES = {
    "csv": "\n".join(",".join(map(str, row)) for row in (HEAD, *ROWS)),
    "markdown": "\n".join("| " + " | ".join(map(str, r)) + " |" for r in (HEAD, ("---",) * 3, *ROWS)),
    "html": "<table>" + "".join(
        "<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in (HEAD, *ROWS)
    ) + "</table>",
    "json": json.dumps([dict(zip(HEAD, row, strict=True)) for row in ROWS]),
    "sql": f"SELECT building, keeper, steps FROM houses;\n{ROWS}",
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_gives_the_same_records_at_their_places(shape):
    text = SHAPES[shape]
    (group,) = groups([Passage(text, "p")])
    assert [[f.value for f in r.fields] for r in group] == [[str(v) for v in row] for row in ROWS]
    assert [f.name for f in group[0].fields] == list(HEAD)
    assert all(text[f.start : f.end] == f.value for r in group for f in r.fields)


@pytest.mark.parametrize("shape", [*SHAPES, "metadata"])
def test_a_value_of_another_record_is_unsupported(shape):
    passages = [Passage(SHAPES.get(shape, ""), "p")]
    if shape == "metadata":
        told = "Its keeper is {1} and it has {2} steps to the top."
        passages = [Passage(told.format(*r), r[0], metadata={"building": r[0]}) for r in ROWS]
    question = "How many steps does the South tower have?"
    right = check(question, "The South tower has 388 steps.", passages)
    assert right.supported is not False, right
    for wrong in ("The South tower has 412 steps.", "The North tower has 388 steps."):
        found = check(question, wrong, passages)
        assert (found.supported, found.kind) == (False, "record")
        assert found.claims[0].quotes


def test_a_value_under_another_column_is_unsupported():
    table = "| Offence | Zone 1 | Zone 2 |\n|---|---|---|\n| No ticket | 60 | 45 |\n| Loading bay | 90 | 70 |"
    passages = [Passage(table, "p")]
    question = "What does parking without a ticket cost in zone 2?"
    assert check(question, "No ticket in zone 2 costs 45.", passages).supported is None
    assert check(question, "No ticket in zone 2 costs 60.", passages).kind == "record"


def test_passages_that_speak_of_different_things_are_no_records():
    passages = [
        Passage("The tower was completed in 1889.", "a", metadata={"source": "x"}),
        Passage("Bananas are yellow and grow in bunches.", "b", metadata={"source": "y"}),
    ]
    assert groups(passages) == []


@given(st.text(alphabet="|-,;[('){}\n\r\t\\\" <td>ab1é", max_size=80))
def test_any_text_has_records_or_none_and_their_places_are_its_own(text):
    for group in groups([Passage(text, "p")]):
        for record in group:
            for field in record.fields:
                assert 0 <= field.start <= field.end <= len(text)
