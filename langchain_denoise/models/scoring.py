"""LangChain's scorers as the core's `Scorer`; the bundled encoder as `Embeddings`."""

from __future__ import annotations

from typing import Any

from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable
from typing_extensions import override

from denoise_core import Denoiser, InputError, Scorer
from denoise_core.scorers.encoders import CrossEncoderScorer, EmbeddingScorer
from langchain_denoise.convert.documents import describe_value


def as_scorer(scorer: Any) -> Scorer:
    """`Embeddings`, a `BaseCrossEncoder` or a core `Scorer`, as a core `Scorer`.

    Raises:
        InputError: For anything else.
    """
    if isinstance(scorer, Embeddings):
        return EmbeddingScorer(scorer)
    if isinstance(scorer, BaseCrossEncoder):
        return CrossEncoderScorer(scorer.score)
    is_other = isinstance(scorer, (type, Runnable, Denoiser))
    if isinstance(scorer, Scorer) and not is_other:
        return scorer
    raise InputError(
        "scorer: expected embeddings, a cross-encoder or a denoise_core scorer, got "
        f"{describe_value(scorer)}; a chat model goes to model=, a denoiser to denoiser="
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
