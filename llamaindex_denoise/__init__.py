"""The three methods as LlamaIndex components; each name loads its module on first use.

Read `postprocessor` first: `DenoisePostprocessor` removes noise from retrieved nodes.
`checked` verifies the answers of engines, chats and agents, and `ingestion` denoises
when an index is built. `nodes` converts nodes, `models` adapts models, `engines` and
`agents` hold the wrapped components. A new component gets its module here and a line in
`_MODULE_OF_NAME`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llamaindex_denoise.agents.denoised import denoised
    from llamaindex_denoise.checked import Checked
    from llamaindex_denoise.events import VerificationEvent
    from llamaindex_denoise.ingestion import DenoiseTransform
    from llamaindex_denoise.models.llm import LlamaLLM
    from llamaindex_denoise.models.scorers import EmbeddedEmbedding
    from llamaindex_denoise.nodes.records import record
    from llamaindex_denoise.postprocessor import DenoisePostprocessor
    from llamaindex_denoise.shadow import ShadowHandler

_MODULE_OF_NAME = {
    "Checked": "checked",
    "DenoisePostprocessor": "postprocessor",
    "DenoiseTransform": "ingestion",
    "EmbeddedEmbedding": "models.scorers",
    "LlamaLLM": "models.llm",
    "ShadowHandler": "shadow",
    "VerificationEvent": "events",
    "denoised": "agents.denoised",
    "record": "nodes.records",
}

__all__ = [
    "Checked",
    "DenoisePostprocessor",
    "DenoiseTransform",
    "EmbeddedEmbedding",
    "LlamaLLM",
    "ShadowHandler",
    "VerificationEvent",
    "denoised",
    "record",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF_NAME[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
