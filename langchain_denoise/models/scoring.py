"""What LangChain scores with as the core's `Scorer`, and the encoder that ships as LangChain's `Embeddings`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable
from numpy.typing import NDArray
from typing_extensions import override

from denoise_core import Denoiser, InputError, Scorer
from denoise_core.end import Probe, ProbeScorer
from denoise_core.end.calibration import Calibration
from denoise_core.protocols import ScoredTexts
from denoise_core.runtime.caches import SingleLoadCache
from denoise_core.scorers.encoders import CrossEncoderScorer, EmbeddingScorer


def as_scorer(scorer: Any, name: str = "scorer") -> Scorer:
    """`Embeddings`, a `BaseCrossEncoder` or a core `Scorer`, as a core `Scorer`.

    Raises `InputError` that says what came for anything else.
    """
    if isinstance(scorer, Embeddings):
        return EmbeddingScorer(scorer)
    if isinstance(scorer, BaseCrossEncoder):
        return CrossEncoderScorer(scorer.score)
    if isinstance(scorer, Denoiser):
        raise InputError(
            f"{name}: {type(scorer).__name__} is a denoiser; pass denoiser=..."
        )
    if isinstance(scorer, Scorer) and not isinstance(scorer, (type, Runnable)):
        return scorer
    hint = f"{type(scorer).__name__}; a chat model goes to from_llm(...)"
    raise InputError(
        f"{name}: expected embeddings, a cross-encoder or a denoise_core scorer, got "
        f"{hint if isinstance(scorer, Runnable) else repr(scorer)[:80]}"
    )


class EmbeddedEmbeddings(Embeddings):
    """The sentence encoder that ships (MiniLM-L6, 384 values of length 1), for a vector store or a splitter.

    Loaded at the first call; needs the extra ``embedded`` and no network.

    >>> len(EmbeddedEmbeddings().embed_query("How tall is the tower?"))
    384
    """

    @override
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        from denoise_core.embedded import shared_encoder

        vectors: list[list[float]] = (
            shared_encoder().embed_texts(texts).tolist() if texts else []
        )
        return vectors

    @override
    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


class FolderProbe:
    """END's probe from a folder, loaded with its model at the first score, so in a thread and once.

    ``model`` is a name, a folder or a loaded one; None is the model that the probe's card names. By name it is
    loaded once a process, so that a compressor rebuilt for each call does not load it again.
    """

    def __init__(self, folder: str, model: Any = None) -> None:
        self.folder = folder
        self.model = model
        self._made: ProbeScorer | None = None

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `ProbeScorer.score`."""
        return self._scorer().score(query, texts)

    def score_with_windows(self, query: str, texts: Sequence[str]) -> ScoredTexts:
        """As `ProbeScorer.score_with_windows`."""
        return self._scorer().score_with_windows(query, texts)

    @property
    def calibration(self) -> Calibration | None:
        """What the folder's probe was calibrated to; reads the folder."""
        return self._scorer().calibration

    def _scorer(self) -> ProbeScorer:
        if self.model is None or isinstance(self.model, str):
            return _loaded(self.folder, self.model)
        if self._made is None:
            model, tokenizer = (
                self.model if isinstance(self.model, tuple) else (self.model, None)
            )
            self._made = ProbeScorer(
                model, Probe.load(self.folder), tokenizer=tokenizer
            )
        return self._made


_probes: SingleLoadCache[ProbeScorer] = SingleLoadCache(keep_recent=8)


def _loaded(folder: str, model: str | None) -> ProbeScorer:
    def fresh() -> ProbeScorer:
        probe = Probe.load(folder)
        return ProbeScorer(model or probe.reading.model.name, probe)

    return _probes((folder, model), fresh)
