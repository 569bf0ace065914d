"""Scorers that need no probe: words, embeddings, cross-encoders, an LLM asked outright, and stacks of any."""

from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.scorers.embedding import EmbeddingScorer

__all__ = ["BM25Scorer", "EmbeddingScorer"]
