"""Knowledge consolidator (paper, section 2.3.1): from queries to evidence.

Queries -> retrieve -> link -> chain -> denoise -> evidence. Read ``consolidate`` first: it
asks several sources at once and denoises the results. Retrievers are in ``retrieve`` and
``chain``.
"""

from denoise_core.augmenter.knowledge.chain import (
    Chain,
    ChainDenoiser,
    ChainRetriever,
)
from denoise_core.augmenter.knowledge.consolidate import Consolidator, GatheredEvidence
from denoise_core.augmenter.knowledge.link import Link
from denoise_core.augmenter.knowledge.queries import LLMQueries
from denoise_core.augmenter.knowledge.retrieve import (
    BM25Retriever,
    DenseRetriever,
    HybridRetriever,
)

__all__ = [
    "BM25Retriever",
    "Chain",
    "ChainDenoiser",
    "ChainRetriever",
    "Consolidator",
    "DenseRetriever",
    "GatheredEvidence",
    "HybridRetriever",
    "LLMQueries",
    "Link",
]
