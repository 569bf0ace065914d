"""Knowledge consolidator (paper, section 2.3.1): from queries to evidence.

Queries -> retrieve -> link -> chain -> denoise -> evidence. Read ``consolidate`` first: it
asks several sources at once and denoises the results. ``retrieve`` and ``chain``
have retrievers over passages in memory; any other object with ``retrieve`` and
``aretrieve`` is a source too.
"""

from denoise_core.augmenter.knowledge.chain import (
    Chain,
    ChainDenoiser,
    ChainRetriever,
)
from denoise_core.augmenter.knowledge.consolidate import Consolidator, GatheredEvidence
from denoise_core.augmenter.knowledge.link import Link
from denoise_core.augmenter.knowledge.queries import LLMQueries
from denoise_core.augmenter.knowledge.retrieve import BM25Retriever

__all__ = [
    "BM25Retriever",
    "Chain",
    "ChainDenoiser",
    "ChainRetriever",
    "Consolidator",
    "GatheredEvidence",
    "LLMQueries",
    "Link",
]
