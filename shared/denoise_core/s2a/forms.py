"""The forms of replies as JSON schemas, strict: every property required, no other allowed; an empty list for
none."""

from __future__ import annotations

from typing import Any


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT: dict[str, Any] = {"type": "string"}
_NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": "integer"}}
_PIECES: dict[str, Any] = {"type": "array", "items": _object(n={"type": "integer"}, starts=_TEXT)}

KEEP = _object(keep=_PIECES)
DROP = _object(drop=_PIECES)
EITHER = _object(list={"type": "string", "enum": ["keep", "drop"]}, pieces=_PIECES)
PARTS = _object(request=_NUMBERS, opinion=_NUMBERS)
CONTEXT = _object(context=_TEXT)
BOTH = _object(context=_TEXT, question=_TEXT)
MESSAGE = _object(message=_TEXT)

_VARIANTS = {"select": KEEP, "remove": DROP, "auto": EITHER, "single": MESSAGE}


def schema(variant: str) -> dict[str, Any]:
    """The schema of a variant's reply about documents."""
    return _VARIANTS.get(variant, CONTEXT)


def message_schema(variant: str) -> dict[str, Any]:
    """The same about a person's message; the extractive variants part it in pieces."""
    return MESSAGE if variant == "single" else PARTS if variant in ("select", "remove", "auto") else BOTH


def said_again(wanted: dict[str, Any]) -> str:
    """The form in words, for the turn that asks for it again; without an example that might be copied."""
    return {
        id(KEEP): '{"keep": [numbers]}, {"keep": []} for none',
        id(DROP): '{"drop": [numbers]}, {"drop": []} for none',
        id(EITHER): '{"list": "keep" or "drop", "pieces": [numbers]}',
        id(PARTS): '{"request": [numbers], "opinion": [numbers]}',
        id(CONTEXT): '{"context": "the text that is left, or nothing"}',
        id(BOTH): '{"context": "the facts that are left, or nothing", "question": "the neutral request"}',
        id(MESSAGE): '{"message": "the message"}',
    }[id(wanted)]
