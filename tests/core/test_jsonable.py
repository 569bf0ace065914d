"""What `to_jsonable` writes, `from_jsonable` reads: laws over our dataclasses, and what is rejected."""

import json
import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import Drop, Keep, Message, Passage, Span, Usage
from denoise_core.augmenter.answer import Outcome, StopReason
from denoise_core.augmenter.memory import Attempt
from denoise_core.jsonable import from_jsonable, to_jsonable
from denoise_core.support.judging import AnswerVerdict, ClaimVerdict, Quote

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
PLAIN_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | st.text(),
    lambda inner_values: (
        st.lists(inner_values, max_size=3)
        | st.dictionaries(st.text(), inner_values, max_size=3)
    ),
    max_leaves=8,
)
st.register_type_strategy(float, NUMBERS)
SPANS = st.builds(Span)
PASSAGES = st.builds(
    Passage,
    score=...,
    metadata=st.dictionaries(st.text(), PLAIN_VALUES, max_size=3),
    spans=st.lists(SPANS, max_size=3).map(tuple),
    header=...,
)
TOKENS = st.integers(0, 10**9)
QUOTES = st.builds(Quote)
CLAIMS = st.builds(
    ClaimVerdict,
    probability=st.none() | st.floats(0, 1),
    quotes=st.lists(QUOTES, max_size=2).map(tuple),
)
VERDICTS = st.builds(
    AnswerVerdict, score=st.floats(0, 1), units=st.lists(CLAIMS, max_size=2).map(tuple)
)
VALUES_OF_CLASS = {
    Span: SPANS,
    Passage: PASSAGES,
    Keep: st.builds(Keep),
    Drop: st.builds(Drop, score=...),
    Message: st.builds(Message),
    Usage: st.builds(Usage, TOKENS, TOKENS, st.booleans(), TOKENS),
    Quote: QUOTES,
    ClaimVerdict: CLAIMS,
    AnswerVerdict: VERDICTS,
    Attempt: st.builds(
        Attempt,
        verdict=VERDICTS,
        evidence=st.lists(PASSAGES, max_size=2).map(tuple),
        fields=st.none() | st.dictionaries(st.text(), PLAIN_VALUES, max_size=2),
        origin=st.none(),
    ),
}


def through_json(value):
    return json.loads(json.dumps(value, allow_nan=False))


@pytest.mark.parametrize("kind", VALUES_OF_CLASS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_written_values_are_read_back(kind, data):
    value = data.draw(VALUES_OF_CLASS[kind])
    for expected, expected_type in (
        (value, kind),
        ((value, value), tuple[kind, ...]),
        ({"a": value}, dict[str, kind] | None),
    ):
        json_value = through_json(to_jsonable(expected))
        assert from_jsonable(expected_type, json_value) == expected
    json_value = through_json(to_jsonable(value, list_classes=(Span,)))
    assert from_jsonable(kind, json_value) == value


@given(PLAIN_VALUES)
def test_plain_values_stay(value):
    assert to_jsonable(value) == value
    assert from_jsonable(Any, to_jsonable(value)) == value


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Mixed:
    pair: tuple[int, str]
    colour: Colour
    names: list[str]
    kind: Literal["a", "b"] = "a"
    either: int | str | None = None
    model: Any = field(default=None, compare=False)


def test_types_of_all_kinds():
    value = Mixed((1, "x"), Colour.RED, ["n"], "b", "text", model=object())
    json_value = through_json(to_jsonable(value))
    assert json_value == {
        "pair": [1, "x"],
        "colour": "red",
        "names": ["n"],
        "kind": "b",
        "either": "text",
    }
    assert from_jsonable(Mixed, json_value) == value
    assert from_jsonable(Mixed, {**json_value, "of another version": 1}) == value
    for member in (*Outcome, *StopReason):
        assert from_jsonable(type(member), to_jsonable(member)) is member


def test_values_that_json_does_not_have_are_converted():
    json_value = to_jsonable(
        {
            1: (math.inf, math.nan),
            "object": object,
            "number": np.float32(0.5),
            "n": np.int64(3),
        }
    )
    assert json_value == {
        "1": [None, None],
        "object": str(object),
        "number": 0.5,
        "n": 3,
    }
    assert type(json_value["number"]) is float
    assert math.isnan(
        from_jsonable(Keep, to_jsonable(Keep(Span("a", 0, 1), -math.inf))).score
    )


@pytest.mark.parametrize(
    ("kind", "data", "match"),
    [
        (
            Span,
            {"passage_id": "a", "start": "0", "end": 3},
            "Span.start: expected int, got str",
        ),
        (Span, {"passage_id": "a"}, "end"),
        (Span, "a", "Span: expected an object, got str"),
        (
            Drop,
            {"span": ["a", 0, True], "reason": ""},
            "Drop.span: Span.end: expected int, got bool",
        ),
        (Message, {"role": "nobody", "content": ""}, "Message.role: expected one of"),
        (tuple[Span, ...], {"a": 1}, "expected a list, got dict"),
        (dict[str, int], [1], "expected an object, got list"),
        (tuple[int, str], [1], "shorter"),
        (Colour, "blue", "blue"),
        (int | str, 0.5, "expected int, got float; expected str, got float"),
    ],
)
def test_other_data_is_an_error_that_names_the_field(kind, data, match):
    with pytest.raises((TypeError, ValueError), match=match):
        from_jsonable(kind, data)
