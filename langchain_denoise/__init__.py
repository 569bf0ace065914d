"""System 2 Attention, Early Noise Dropping and LLM-Augmenter as parts of LangChain.

LangChain documents, messages, retrievers and chat models come in; documents, messages
and checked answers go out. The methods themselves are in `denoise_core`.

Read `compressor.py` first: `DenoiseCompressor` puts any denoiser of the core into a
retriever, a compressor pipeline, a chain or a graph; its settings are in `settings.py`,
and `DenoisingRetriever` shares them. `S2AMessages` removes opinion from a
conversation. `verified` adds judge, feedback and retry to a chain you have.
`ChatModelLLM` and `RetrieverAdapter` let the core use your chat model and your retriever,
as in ``Augmenter(ChatModelLLM(model), RetrieverAdapter(retriever))``, which is the whole
loop. Agent middleware is in `langchain_denoise.middleware`.

Where a new part goes: a conversion between the two worlds in `convert`, a kind of model
or scorer in `models`, a check of answers in `verification`, a part of an agent in
`middleware`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from denoise_core import MissingExtra

if TYPE_CHECKING:
    from langchain_denoise.compressor import DenoiseCompressor
    from langchain_denoise.models.chat_llm import ChatModelLLM
    from langchain_denoise.models.scoring import EmbeddedEmbeddings
    from langchain_denoise.retriever import DenoisingRetriever, RetrieverAdapter
    from langchain_denoise.s2a import S2AMessages
    from langchain_denoise.shadow import ShadowReport
    from langchain_denoise.verification.chain import verified
    from langchain_denoise.verification.verifier import Verifier

__all__ = [
    "ChatModelLLM",
    "DenoiseCompressor",
    "DenoisingRetriever",
    "EmbeddedEmbeddings",
    "RetrieverAdapter",
    "S2AMessages",
    "ShadowReport",
    "Verifier",
    "verified",
]

_MODULE_OF_NAME = {
    "ChatModelLLM": "models.chat_llm",
    "DenoiseCompressor": "compressor",
    "DenoisingRetriever": "retriever",
    "EmbeddedEmbeddings": "models.scoring",
    "RetrieverAdapter": "retriever",
    "S2AMessages": "s2a",
    "ShadowReport": "shadow",
    "Verifier": "verification.verifier",
    "verified": "verification.chain",
}


def __getattr__(name: str) -> object:
    """Import a name at its first use.

    A compressor does not pay for the imports of the verification loop.
    """
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
    """The public names."""
    return sorted(__all__)
