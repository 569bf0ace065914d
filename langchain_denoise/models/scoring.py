"""LangChain's scorers as the core's `Scorer`; the bundled encoder as `Embeddings`."""

from __future__ import annotations

from typing import Any

from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable
from typing_extensions import override

from denoise_core import Denoiser, InputError, Scorer
from denoise_core.scorers.encoders import CrossEncoderScorer, EmbeddingScorer


def as_scorer(scorer: Any, argument: str = "scorer") -> Scorer:
    """`Embeddings`, a `BaseCrossEncoder` or a core `Scorer`, as a core `Scorer`.

    Raises:
        InputError: For anything else; ``argument`` names it in the message.
    """
    if isinstance(scorer, Embeddings):
        return EmbeddingScorer(scorer)
    if isinstance(scorer, BaseCrossEncoder):
        return CrossEncoderScorer(scorer.score)
    type_name = type(scorer).__name__
    if isinstance(scorer, Denoiser):
        raise InputError(f"{argument}: {type_name} is a denoiser; pass denoiser=...")
    if isinstance(scorer, Scorer) and not isinstance(scorer, (type, Runnable)):
        return scorer
    received = repr(scorer)[:80]
    if isinstance(scorer, Runnable):
        received = f"{type_name}; a chat model goes to model="
    raise InputError(
        f"{argument}: expected embeddings, a cross-encoder or a denoise_core scorer, "
        f"got {received}"
    )


class EmbeddedEmbeddings(Embeddings):
    """The bundled sentence encoder (MiniLM-L6, 384 values of length 1).

    For a vector store or a splitter. Loaded at the first call; needs the extra
    ``embedded`` and no network.

    >>> len(EmbeddedEmbeddings().embed_query("How tall is the tower?"))
    384
    """

    @override
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        # Imported here: it loads the weights' package.
        from denoise_core.embedded import shared_encoder

        if not texts:
            return []
        vectors: list[list[float]] = shared_encoder().embed_texts(texts).tolist()
        return vectors

    @override
    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]
