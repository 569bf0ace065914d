"""Scorers that need no probe: words, embeddings, cross-encoders, an LLM asked directly.

A query and texts go in, one float32 score per text comes out, higher is better (the
`Scorer` protocol). Read `bm25` first, the smallest. `encoders` takes embedding models and
cross-encoders, `reranker` served ones, `decisions` asks an LLM, `stack`
combines several.
A new scorer is a class with ``score(query, texts)`` in a module here.
"""

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
