"""Scorers that need no probe: words, embeddings, cross-encoders, an LLM asked outright, and stacks of any."""

from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.scorers.decisions import DecisionScorer, LLMDiscrim
from denoise_core.scorers.encoders import CrossEncoderScorer, EmbeddingScorer
from denoise_core.scorers.reranker import RemoteReranker
from denoise_core.scorers.stack import Stack, StackedScorer

__all__ = [
    "BM25Scorer",
    "CrossEncoderScorer",
    "DecisionScorer",
    "EmbeddingScorer",
    "LLMDiscrim",
    "RemoteReranker",
    "Stack",
    "StackedScorer",
]
