"""The three methods as LlamaIndex parts."""

from llamaindex_denoise._convert import record
from llamaindex_denoise.augmenter import AugmentedQueryEngine
from llamaindex_denoise.citations import Origin, cited, origins
from llamaindex_denoise.clients import LlamaLLM, RetrieverAdapter
from llamaindex_denoise.evaluator import EvaluatorUtility, UtilityEvaluator
from llamaindex_denoise.events import AnswerEvent, DenoiseEvent
from llamaindex_denoise.postprocessor import DenoisePostprocessor
from llamaindex_denoise.s2a import S2AQueryEngine

__all__ = [
    "AnswerEvent",
    "AugmentedQueryEngine",
    "DenoiseEvent",
    "DenoisePostprocessor",
    "EvaluatorUtility",
    "LlamaLLM",
    "Origin",
    "RetrieverAdapter",
    "S2AQueryEngine",
    "UtilityEvaluator",
    "cited",
    "origins",
    "record",
]
