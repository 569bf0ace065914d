"""What LangChain scores with as the core's `Scorer`, and the encoder that ships as LangChain's `Embeddings`."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Any

from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable
from typing_extensions import override

from denoise_core import Denoiser, InputError, Scorer
from denoise_core.end import Probe, ProbeScorer
from denoise_core.scorers.cross_encoder import CrossEncoderScorer
from denoise_core.scorers.embedding import EmbeddingScorer
from langchain_denoise.models.decisions import DecisionScorer, is_decision_model


def as_scorer(scorer: Any, name: str = "scorer") -> Scorer:
    """`Embeddings`, a `BaseCrossEncoder`, a decision model or a core `Scorer`, as a core `Scorer`.

    Raises `InputError` that says what came for anything else.
    """
    if isinstance(scorer, Embeddings):
        return EmbeddingScorer(
            lambda texts: scorer.embed_documents(list(texts)),
            query_embed=lambda queries: [scorer.embed_query(q) for q in queries],
        )
    if isinstance(scorer, BaseCrossEncoder):
        return CrossEncoderScorer(scorer.score)
    if is_decision_model(scorer):
        return DecisionScorer(scorer)
    if isinstance(scorer, Runnable):
        raise InputError(
            f"{name}: expected embeddings, a cross-encoder, a decision model or a denoise_core scorer, got "
            f"{type(scorer).__name__}; a chat model goes to from_llm(...)"
        )
    if isinstance(scorer, Denoiser):
        raise InputError(f"{name}: {type(scorer).__name__} is a denoiser; pass denoiser=...")
    if isinstance(scorer, Scorer) and not isinstance(scorer, type):
        return scorer
    raise InputError(
        f"{name}: expected embeddings, a cross-encoder, a decision model or a denoise_core scorer, got "
        f"{scorer!r:.80}"
    )


class EmbeddedEmbeddings(Embeddings):
    """The sentence encoder that ships (MiniLM-L6, 384 values of length 1), for a vector store or a splitter.

    Loaded at the first call; needs the extra ``embedded`` and no network.
    """

    @override
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        from denoise_core.embedded import encoder

        vectors: list[list[float]] = encoder().vectors(texts).tolist() if texts else []
        return vectors

    @override
    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]

    @override
    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self.embed_documents, texts)

    @override
    async def aembed_query(self, text: str) -> list[float]:
        return await asyncio.to_thread(self.embed_query, text)


def probe_scorer(folder: str, model: Any = None, tokenizer: Any = None) -> Scorer:
    """The probe in ``folder`` on ``model``, a name or a loaded one; None is the model its card names.

    By name the scorer is made once a process, so that a compressor rebuilt for each call does not load it again.
    """
    if model is None or isinstance(model, str):
        return _loaded(str(folder), model)
    return ProbeScorer(model, Probe.load(folder), tokenizer=tokenizer)


@lru_cache(maxsize=8)
def _loaded(folder: str, model: str | None) -> Scorer:
    probe = Probe.load(folder)
    return ProbeScorer(model or probe.reading.model.name, probe)
