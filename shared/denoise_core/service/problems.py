"""What is wrong with a body, in a sentence that repeats nothing of its text."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

_SENTENCES = {
    "missing": "it is missing",
    "extra_forbidden": "no such field; /docs names those that there are",
    "same_id": "two passages have the same id",
}
_EXPECTED = {
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "text_or_object": "text or an object",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "too_long": "at most {max_length:,} items",
    "string_too_long": "at most {max_length:,} characters",
    "greater_than_equal": "{ge} or more",
}
_VALUE_NAMES = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def describe_problem(error: ValidationError) -> str:
    """Return where the first of pydantic's errors is, what was expected, and what came.

    >>> from denoise_core.service.bodies import DenoiseRequest
    >>> try:
    ...     DenoiseRequest.model_validate({"query": 3, "passages": []})
    ... except ValidationError as error:
    ...     describe_problem(error)
    'query: expected text, got a number'
    """
    first_error: Any = error.errors(include_url=False)[0]
    kind = first_error["type"]
    names = list(first_error["loc"])
    if kind == "extra_forbidden":
        names[-1] = "?"  # a name that the client chose
    location = ""
    for name in names:
        location += f"[{name}]" if isinstance(name, int) else f".{name}"
    sentence = _sentence(kind, first_error)
    if not location:
        return sentence
    return f"{location.removeprefix('.')}: {sentence}"


def _sentence(kind: str, error: Any) -> str:
    if kind in _SENTENCES:
        return _SENTENCES[kind]
    if kind not in _EXPECTED:
        return f"it cannot be used: {kind.replace('_', ' ')}"
    expected = _EXPECTED[kind].format(**error.get("ctx", {}))
    if kind.endswith(("_type", "_object")):
        value_name = _VALUE_NAMES[type(error["input"])]
        return f"expected {expected}, got {value_name}"
    return f"expected {expected}"
