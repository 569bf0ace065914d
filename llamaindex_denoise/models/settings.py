"""The user's own `Settings`, where LlamaIndex's parts read them; what nobody set is an error, no hosted model."""

from __future__ import annotations

from typing import Any

from llama_index.core import Settings
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import LLM

from denoise_core import InputError


def llm_or_settings(llm: LLM | None, *, of: str) -> LLM:
    """``llm``, or the one the user put into `Settings`. Raises `InputError` when there is none.

    `Settings.llm` itself would make one there, which calls a hosted service.
    """
    found: LLM = _set("llm", llm, of)
    return found


def embed_model_or_settings(embed_model: BaseEmbedding | None, *, of: str) -> BaseEmbedding:
    """As `llm_or_settings`, for ``Settings.embed_model``."""
    found: BaseEmbedding = _set("embed_model", embed_model, of)
    return found


def _set(name: str, given: Any, of: str) -> Any:
    found = given if given is not None else getattr(Settings, f"_{name}", None)
    if found is None:
        raise InputError(f"{of} needs a model: pass {name}=..., or set Settings.{name}; no default is resolved")
    return found
