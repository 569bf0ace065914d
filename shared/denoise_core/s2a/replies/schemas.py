"""The JSON schemas of replies, for models that can be held to one."""

from __future__ import annotations

from typing import Any

_NUMBER_LIST = {"type": "array", "items": {"type": ["integer", "string"]}}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT = {"type": "string"}
QUESTION = _object(question=_TEXT)
PARTED = _object(context=_TEXT, question=_TEXT)


def schema(variant: str) -> dict[str, Any] | None:
    """The schema of a variant's reply about documents; None for the one that replies with bare text."""
    if variant in ("select", "remove"):
        return _object(**{"keep" if variant == "select" else "drop": _NUMBER_LIST})
    if variant == "auto":
        # One of the two lists, so that the model writes the shorter one.
        return {
            "type": "object",
            "properties": {"keep": _NUMBER_LIST, "drop": _NUMBER_LIST},
            "minProperties": 1,
            "maxProperties": 1,
        }
    return None if variant == "single" else _object(context=_TEXT)


def message_schema(variant: str) -> dict[str, Any] | None:
    """The same about a person's message."""
    return schema(variant) if variant in ("select", "remove", "auto", "single") else PARTED
