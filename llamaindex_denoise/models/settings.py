"""The user's own `Settings`, where LlamaIndex's parts read them; what nobody set is an error, no hosted model."""

from __future__ import annotations

from typing import cast

from llama_index.core import Settings
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import LLM

from denoise_core import InputError


def llm_or_settings(llm: LLM | None, *, of: str) -> LLM:
    """``llm``, or the one the user put into `Settings`. Raises `InputError` when there is none.

    `Settings.llm` itself would make one there, which calls a hosted service.
    """
    found = llm if llm is not None else cast("LLM | None", getattr(Settings, "_llm", None))
    if found is None:
        raise InputError(f"{of} needs a model: pass llm=..., or set Settings.llm; no default is resolved")
    return found


def embed_model_or_settings(embed_model: BaseEmbedding | None, *, of: str) -> BaseEmbedding:
    """As `llm_or_settings`, for ``Settings.embed_model``."""
    set_by_user = cast("BaseEmbedding | None", getattr(Settings, "_embed_model", None))
    found = embed_model if embed_model is not None else set_by_user
    if found is None:
        raise InputError(
            f"{of} needs an embedding model: pass embed_model=..., or set Settings.embed_model; "
            "no default is resolved"
        )
    return found
