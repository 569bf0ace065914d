"""The user's own `Settings`, where LlamaIndex's parts read them; what nobody set is an error, no hosted model."""

from __future__ import annotations

from typing import Any, Literal

from llama_index.core import Settings

from denoise_core import InputError


def given_or_set(name: Literal["llm", "embed_model"], given: Any, *, of: str) -> Any:
    """``given``, or what the user put into `Settings`. Raises `InputError` when there is none.

    `Settings.llm` itself would make one there, which calls a hosted service.
    """
    found = given if given is not None else getattr(Settings, f"_{name}", None)
    if found is None:
        raise InputError(f"{of} needs a model: pass {name}=..., or set Settings.{name}; no default is resolved")
    return found
