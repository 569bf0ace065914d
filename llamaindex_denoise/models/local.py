"""The loaded model of a local LlamaIndex LLM, so that END reads the same weights."""

from __future__ import annotations

from typing import Any

from llama_index.core.llms import LLM

from denoise_core import InputError
from llamaindex_denoise.models.llm import LlamaLLM


def local_model(llm: LlamaLLM | LLM) -> tuple[Any, Any]:
    """Return the ``(model, tokenizer)`` objects inside a ``HuggingFaceLLM``.

    ``ProbeScorer(model, probe, tokenizer=tokenizer)`` reads their first layers and
    changes nothing. Nothing is loaded here.

    Raises:
        InputError: The LLM runs somewhere else.
    """
    wrapped_llm = llm.model if isinstance(llm, LlamaLLM) else llm
    model = getattr(wrapped_llm, "_model", None)
    tokenizer = getattr(wrapped_llm, "_tokenizer", None)
    if not callable(getattr(model, "named_parameters", None)) or tokenizer is None:
        raise InputError(
            f"expected a HuggingFaceLLM, got {type(wrapped_llm).__name__}, which has no "
            "loaded model and tokenizer; give END the model by name, or pass the model "
            "object that you loaded"
        )
    return model, tokenizer
