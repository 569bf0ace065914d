"""What is wrong with a body, in a sentence that repeats nothing of its text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_EXPECTED = {
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "too_long": "at most {max_length:,} {unit}",
    "string_too_long": "at most {max_length:,} {unit}",
    "greater_than_equal": "{ge} or more",
}
_VALUE_NAMES = (
    (str, "text"),
    (bool, "true or false"),
    (int | float, "a number"),
    (list, "a list"),
    (dict, "an object"),
)


def describe_problem(errors: Sequence[Any], body: Any) -> str:
    """Return where the deepest of pydantic's errors is, what was expected, and what came.

    Of a value that may have several forms the error of the form that it comes
    nearest to is the deepest.

    >>> wrong = {"type": "string_type", "loc": ("body", "query"), "input": 3}
    >>> describe_problem([wrong], {"query": 3})
    'query: expected text, got a number'
    """
    error = max(errors, key=lambda error: len(_location(error, body)))
    location = ""
    for part in _location(error, body):
        location += f"[{part}]" if isinstance(part, int) else f".{part}"
    sentence = _sentence(error)
    if not location:
        return sentence
    return f"{location.removeprefix('.')}: {sentence}"


def _location(error: Any, body: Any) -> list[str | int]:
    """Return the names and numbers that lead to a value, without pydantic's own."""
    parts: list[str | int] = []
    value = body
    for part in error["loc"][1:]:
        if (isinstance(value, dict) and part in value) or (
            isinstance(value, list) and isinstance(part, int)
        ):
            value = value[part]
        elif error["type"] != "missing" or part != error["loc"][-1]:
            continue  # the name of one of several forms
        parts.append(part)
    if error["type"] == "extra_forbidden":
        parts[-1] = "?"  # a name that the client chose
    return parts


def _sentence(error: Any) -> str:
    kind = error["type"]
    if kind == "missing":
        return "it is missing"
    if kind == "extra_forbidden":
        return "no such field"
    if kind == "same_id":
        return str(error["msg"])
    expected = _EXPECTED.get(kind)
    if expected is None:
        return f"it cannot be used: {kind.replace('_', ' ')}"
    value = error.get("input")
    unit = "characters" if isinstance(value, str) else "items"
    expected = expected.format(unit=unit, **error.get("ctx", {}))
    if kind.endswith(("too_long", "equal", "parsing")):
        return f"expected {expected}"
    for value_type, name in _VALUE_NAMES:
        if isinstance(value, value_type):
            return f"expected {expected}, got {name}"
    return f"expected {expected}, got null"
