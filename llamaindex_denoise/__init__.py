"""The three methods as LlamaIndex parts."""

from llamaindex_denoise._convert import record
from llamaindex_denoise.clients import LlamaLLM, RetrieverAdapter
from llamaindex_denoise.events import DenoiseEvent
from llamaindex_denoise.postprocessor import DenoisePostprocessor

__all__ = ["DenoiseEvent", "DenoisePostprocessor", "LlamaLLM", "RetrieverAdapter", "record"]
