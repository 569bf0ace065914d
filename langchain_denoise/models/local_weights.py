"""The model that a local LangChain model has loaded, for END: loaded once, used by both."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBindingBase

from denoise_core import InputError
from langchain_denoise.models.chat_llm import ChatModelLLM


def local_model(model: ChatModelLLM | Runnable[Any, Any]) -> tuple[Any, Any]:
    """``(model, tokenizer)``: the very objects inside a ``HuggingFacePipeline`` or a ``ChatHuggingFace`` over one.

    ``ProbeScorer(model, probe, tokenizer=tokenizer)`` reads their first layers and changes nothing. Settings
    around the model (``bind``, ``with_retry``, `ChatModelLLM`) are looked through; nothing is loaded here. Raises
    `InputError` for a model that runs somewhere else (an endpoint, a hosted API) or holds no tokenizer.

    >>> from langchain_denoise.testing import FunctionChatModel
    >>> local_model(FunctionChatModel(reply=str))
    Traceback (most recent call last):
    denoise_core.errors.InputError: expected a HuggingFacePipeline or a ChatHuggingFace over one, got ...
    """
    found: Any = model.model if isinstance(model, ChatModelLLM) else model
    while getattr(found, "pipeline", None) is None:
        if isinstance(found, RunnableBindingBase):
            found = found.bound
        elif isinstance(getattr(found, "llm", None), Runnable):  # ChatHuggingFace keeps its pipeline model there
            found = found.llm
        else:
            raise InputError(
                f"expected a HuggingFacePipeline or a ChatHuggingFace over one, got {type(found).__name__}, which "
                "holds no pipeline; give END the model by name instead, or the object you loaded"
            )
    inner, tokenizer = getattr(found.pipeline, "model", None), getattr(found.pipeline, "tokenizer", None)
    if not callable(getattr(inner, "named_parameters", None)) or tokenizer is None:
        raise InputError(
            f"the pipeline of {type(found).__name__} holds no PyTorch model with its tokenizer: model is a "
            f"{type(inner).__name__}, tokenizer a {type(tokenizer).__name__}"
        )
    return inner, tokenizer
