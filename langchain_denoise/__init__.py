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
    from langchain_denoise.augmenter import AugmentedRunnable
    from langchain_denoise.compressor import DenoiseCompressor
    from langchain_denoise.models.chat_llm import ChatModelLLM
    from langchain_denoise.models.decision_judge import DecisionJudge
    from langchain_denoise.models.decisions import DecisionScorer
    from langchain_denoise.models.local_chat import LocalChatModel
    from langchain_denoise.models.local_weights import local_model
    from langchain_denoise.models.retriever_adapter import RetrieverAdapter
    from langchain_denoise.models.scoring import EmbeddedEmbeddings
    from langchain_denoise.retriever import DenoisingRetriever
    from langchain_denoise.s2a import S2AMessages, S2ARunnable
    from langchain_denoise.verification.around import verified
    from langchain_denoise.verification.verifier import Verifier

__all__ = [
    "AugmentedRunnable",
    "ChatModelLLM",
    "DecisionJudge",
    "DecisionScorer",
    "DenoiseCompressor",
    "DenoisingRetriever",
    "EmbeddedEmbeddings",
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
    "ChatModelLLM": "models.chat_llm",
    "DecisionJudge": "models.decision_judge",
    "DecisionScorer": "models.decisions",
    "DenoiseCompressor": "compressor",
    "DenoisingRetriever": "retriever",
    "EmbeddedEmbeddings": "models.scoring",
    "LocalChatModel": "models.local_chat",
    "RetrieverAdapter": "models.retriever_adapter",
    "S2AMessages": "s2a",
    "S2ARunnable": "s2a",
    "Verifier": "verification.verifier",
    "local_model": "models.local_weights",
    "verified": "verification.around",
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
    return sorted(__all__)
