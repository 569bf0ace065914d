"""The three methods as LlamaIndex parts. Names load their module when first used, so importing this costs nothing.

`DenoisePostprocessor` takes the noise out of retrieved nodes; `S2AQueryEngine` answers from what is left;
`AugmentedQueryEngine` checks the answer. `LlamaLLM` and `RetrieverAdapter` carry models and retrievers over.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llamaindex_denoise.agents.chat import AugmentedChatEngine
    from llamaindex_denoise.agents.function_agent import VerifiedFunctionAgent, VerifiedQueryTool
    from llamaindex_denoise.agents.workflow import AugmentedWorkflow
    from llamaindex_denoise.engines.augmented import AugmentedQueryEngine
    from llamaindex_denoise.engines.s2a import S2AQueryEngine
    from llamaindex_denoise.evaluator import EvaluatorUtility, UtilityEvaluator
    from llamaindex_denoise.events import AnswerEvent, DenoiseEvent
    from llamaindex_denoise.models.llm import LlamaLLM
    from llamaindex_denoise.models.local import local_model
    from llamaindex_denoise.models.retriever import RetrieverAdapter
    from llamaindex_denoise.models.scorers import EmbeddedEmbedding
    from llamaindex_denoise.nodes.citations import Origin, cited, origins
    from llamaindex_denoise.nodes.records import record
    from llamaindex_denoise.postprocessor import DenoisePostprocessor
    from llamaindex_denoise.storage.ingestion import DenoiseTransform

_HOME = {
    "AnswerEvent": "events",
    "AugmentedChatEngine": "agents.chat",
    "AugmentedQueryEngine": "engines.augmented",
    "AugmentedWorkflow": "agents.workflow",
    "DenoiseEvent": "events",
    "DenoisePostprocessor": "postprocessor",
    "DenoiseTransform": "storage.ingestion",
    "EmbeddedEmbedding": "models.scorers",
    "EvaluatorUtility": "evaluator",
    "LlamaLLM": "models.llm",
    "Origin": "nodes.citations",
    "RetrieverAdapter": "models.retriever",
    "S2AQueryEngine": "engines.s2a",
    "UtilityEvaluator": "evaluator",
    "VerifiedFunctionAgent": "agents.function_agent",
    "VerifiedQueryTool": "agents.function_agent",
    "cited": "nodes.citations",
    "local_model": "models.local",
    "origins": "nodes.citations",
    "record": "nodes.records",
}

__all__ = [
    "AnswerEvent",
    "AugmentedChatEngine",
    "AugmentedQueryEngine",
    "AugmentedWorkflow",
    "DenoiseEvent",
    "DenoisePostprocessor",
    "DenoiseTransform",
    "EmbeddedEmbedding",
    "EvaluatorUtility",
    "LlamaLLM",
    "Origin",
    "RetrieverAdapter",
    "S2AQueryEngine",
    "UtilityEvaluator",
    "VerifiedFunctionAgent",
    "VerifiedQueryTool",
    "cited",
    "local_model",
    "origins",
    "record",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
