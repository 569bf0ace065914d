"""The three methods as LlamaIndex parts. Names load their module when first used, so importing this costs nothing.

`DenoisePostprocessor` takes the noise out of retrieved nodes; `S2AQueryEngine` answers from what is left;
`AugmentedQueryEngine` checks the answer. `LlamaLLM` and `RetrieverAdapter` carry models and retrievers over.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llamaindex_denoise._convert import record
    from llamaindex_denoise.agent import VerifiedFunctionAgent, VerifiedQueryTool
    from llamaindex_denoise.augmenter import AugmentedQueryEngine
    from llamaindex_denoise.citations import Origin, cited, origins
    from llamaindex_denoise.clients import LlamaLLM, RetrieverAdapter
    from llamaindex_denoise.evaluator import EvaluatorUtility, UtilityEvaluator
    from llamaindex_denoise.events import AnswerEvent, DenoiseEvent
    from llamaindex_denoise.ingestion import DenoiseTransform
    from llamaindex_denoise.local import local_model
    from llamaindex_denoise.postprocessor import DenoisePostprocessor
    from llamaindex_denoise.s2a import S2AQueryEngine
    from llamaindex_denoise.workflow import AugmentedWorkflow

_HOME = {
    "AnswerEvent": "events",
    "AugmentedQueryEngine": "augmenter",
    "AugmentedWorkflow": "workflow",
    "DenoiseEvent": "events",
    "DenoisePostprocessor": "postprocessor",
    "DenoiseTransform": "ingestion",
    "EvaluatorUtility": "evaluator",
    "LlamaLLM": "clients",
    "Origin": "citations",
    "RetrieverAdapter": "clients",
    "S2AQueryEngine": "s2a",
    "UtilityEvaluator": "evaluator",
    "VerifiedFunctionAgent": "agent",
    "VerifiedQueryTool": "agent",
    "cited": "citations",
    "local_model": "local",
    "origins": "citations",
    "record": "_convert",
}

__all__ = [
    "AnswerEvent",
    "AugmentedQueryEngine",
    "AugmentedWorkflow",
    "DenoiseEvent",
    "DenoisePostprocessor",
    "DenoiseTransform",
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
