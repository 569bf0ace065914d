"""The three methods as LangChain parts.

`DenoiseCompressor` takes any denoiser of `denoise_core` into a retriever, a compressor pipeline or a chain;
`DenoisingRetriever` is a retriever of its own; `AugmentedRunnable` is the whole verify-and-retry loop.
`S2ARunnable` answers from a cleared context, `S2AMessages` clears a conversation; `verified` puts judge,
feedback and retry around a chain you have. `ChatModelLLM` and `RetrieverAdapter` let the core use your chat
model and your retriever; `LocalChatModel` is the other way round, a local model as a chat model. Agent middleware
is in `langchain_denoise.middleware`, pieces for graphs in `langchain_denoise.nodes`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from denoise_core import MissingExtra

if TYPE_CHECKING:
    from langchain_denoise._convert import ChatModelLLM, RetrieverAdapter
    from langchain_denoise.augmenter import AugmentedRunnable
    from langchain_denoise.chat import LocalChatModel
    from langchain_denoise.compressor import DenoiseCompressor
    from langchain_denoise.local import local_model
    from langchain_denoise.retriever import DenoisingRetriever
    from langchain_denoise.s2a import S2AMessages, S2ARunnable
    from langchain_denoise.verification import verified
    from langchain_denoise.verifier import Verifier

__all__ = [
    "AugmentedRunnable",
    "ChatModelLLM",
    "DenoiseCompressor",
    "DenoisingRetriever",
    "LocalChatModel",
    "RetrieverAdapter",
    "S2AMessages",
    "S2ARunnable",
    "Verifier",
    "local_model",
    "verified",
]

_WHERE = {
    "AugmentedRunnable": "augmenter",
    "ChatModelLLM": "_convert",
    "DenoiseCompressor": "compressor",
    "DenoisingRetriever": "retriever",
    "LocalChatModel": "chat",
    "RetrieverAdapter": "_convert",
    "S2AMessages": "s2a",
    "S2ARunnable": "s2a",
    "Verifier": "verifier",
    "local_model": "local",
    "verified": "verification",
}


def __getattr__(name: str) -> object:
    """Import a name at its first use: a compressor need not pay for what the loop imports."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{__name__}.{_WHERE[name]}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "langchain_core":
            raise
        raise MissingExtra("langchain_core is not installed; run: pip install 'rag-denoise[langchain]'") from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
