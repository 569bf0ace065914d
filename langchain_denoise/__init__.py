"""The three methods as LangChain parts.

`DenoiseCompressor` takes any denoiser of `denoise_core` into a retriever, a compressor pipeline, a chain or a
graph; `DenoisingRetriever` is a retriever of its own; `Denoise` holds the settings of both. `S2AMessages` clears a
conversation. `verified` puts judge, feedback and retry around a chain you have; `AugmentedRunnable` is the whole
loop. `ChatModelLLM` and `RetrieverAdapter` let the core use your chat model and your retriever; `LocalChatModel`
is the other way round. Agent middleware is in `langchain_denoise.middleware`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from denoise_core import MissingExtra

if TYPE_CHECKING:
    from langchain_denoise.augmenter import AugmentedRunnable
    from langchain_denoise.compressor import DenoiseCompressor
    from langchain_denoise.models.chat_llm import ChatModelLLM
    from langchain_denoise.models.local import LocalChatModel, local_model
    from langchain_denoise.models.scoring import EmbeddedEmbeddings
    from langchain_denoise.retriever import DenoisingRetriever, RetrieverAdapter
    from langchain_denoise.s2a import S2AMessages
    from langchain_denoise.settings import Denoise
    from langchain_denoise.verification.chain import verified
    from langchain_denoise.verification.verifier import Verifier

__all__ = [
    "AugmentedRunnable",
    "ChatModelLLM",
    "Denoise",
    "DenoiseCompressor",
    "DenoisingRetriever",
    "EmbeddedEmbeddings",
    "LocalChatModel",
    "RetrieverAdapter",
    "S2AMessages",
    "Verifier",
    "local_model",
    "verified",
]

_MODULE_OF_NAME = {
    "AugmentedRunnable": "augmenter",
    "ChatModelLLM": "models.chat_llm",
    "Denoise": "settings",
    "DenoiseCompressor": "compressor",
    "DenoisingRetriever": "retriever",
    "EmbeddedEmbeddings": "models.scoring",
    "LocalChatModel": "models.local",
    "RetrieverAdapter": "retriever",
    "S2AMessages": "s2a",
    "Verifier": "verification.verifier",
    "local_model": "models.local",
    "verified": "verification.chain",
}


def __getattr__(name: str) -> object:
    """Import a name at its first use: a compressor need not pay for what the loop imports."""
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{__name__}.{_MODULE_OF_NAME[name]}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "langchain_core":
            raise
        raise MissingExtra(
            "langchain_core is not installed; run: pip install 'rag-denoise[langchain]'"
        ) from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
