"""The model that a local LlamaIndex LLM has loaded, for END: loaded once, used by both."""

from __future__ import annotations

from typing import Any

from llama_index.core.llms import LLM

from denoise_core import InputError
from llamaindex_denoise.models.llm import LlamaLLM


def local_model(llm: LlamaLLM | LLM) -> tuple[Any, Any]:
    """``(model, tokenizer)``: the very objects inside a ``HuggingFaceLLM``.

    ``ProbeScorer(model, probe, tokenizer=tokenizer)`` reads their first layers and changes nothing. Nothing is
    loaded here. Raises `InputError` for an LLM that runs somewhere else.
    """
    found = llm.model if isinstance(llm, LlamaLLM) else llm
    inner, tokenizer = (
        getattr(found, "_model", None),
        getattr(found, "_tokenizer", None),
    )
    if not callable(getattr(inner, "named_parameters", None)) or tokenizer is None:
        raise InputError(
            f"expected a HuggingFaceLLM, got {type(found).__name__}, which holds no loaded model with its "
            "tokenizer; give END the model by name instead, or the object you loaded"
        )
    return inner, tokenizer
