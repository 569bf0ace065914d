"""Knowledge consolidator: queries -> retrieve -> denoise -> evidence (paper, section 2.3.1)."""

from denoise_core.augmenter.knowledge.consolidate import Consolidator, Gathered
from denoise_core.augmenter.knowledge.retrieve import BM25Retriever

__all__ = ["BM25Retriever", "Consolidator", "Gathered"]
