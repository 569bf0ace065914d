"""What a pickle must not hold: keys, tokens and passwords that stand in an object's settings."""

from __future__ import annotations

import re
from typing import Any

from denoise_core.errors import mask_secrets

_NAME = re.compile(
    r"(?:.*[-_.])?(?:api[-_]?key|key[-_]?id|secret(?:[-_]?(?:access[-_]?)?key)?|password|passwd|credentials?|authorization"
    r"|(?:access|auth|bearer|session|refresh|api|hf|security)[-_]?token|token|(?:access|private|account)[-_]?key)",
    re.IGNORECASE,
)
_LONGEST_NAME = 100


def is_secret(name: object, value: object) -> bool:
    """Whether a setting of this name holds something that is nobody else's business."""
    if callable(
        getattr(value, "get_secret_value", None)
    ):  # pydantic's SecretStr and its kind
        return True
    if not isinstance(value, str | bytes) or not value:
        return False
    named = (
        isinstance(name, str)
        and len(name) <= _LONGEST_NAME
        and _NAME.fullmatch(name) is not None
    )
    return named or (isinstance(value, str) and mask_secrets(value) != value)


def without_secrets(value: Any, seen: dict[int, Any] | None = None) -> Any:
    """A copy of a pydantic model, or of what it holds, with None for each secret; a dict loses the entry.

    The original stays whole. Other objects are handed on as they are.
    """
    seen = {} if seen is None else seen
    if id(value) in seen:
        return seen[id(value)]
    if type(value) is dict:
        found = seen[id(value)] = {}
        found.update(
            {
                k: without_secrets(v, seen)
                for k, v in value.items()
                if not is_secret(k, v)
            }
        )
        return found
    if type(value) in (list, tuple):
        return type(value)(
            None if is_secret(None, v) else without_secrets(v, seen) for v in value
        )
    if not (hasattr(type(value), "model_fields") and hasattr(value, "model_copy")):
        return value
    twin = seen[id(value)] = value.model_copy()
    for held in (twin.__dict__, twin.__pydantic_extra__, twin.__pydantic_private__):
        for name, inner in list((held or {}).items()):
            held[name] = (
                None if is_secret(name, inner) else without_secrets(inner, seen)
            )
    return twin
