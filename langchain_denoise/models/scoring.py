"""LangChain's scorers as the core's `Scorer`; the bundled encoder as `Embeddings`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
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
        received = f"{type_name}; a chat model goes to from_llm(...)"
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


class FolderProbe:
    """END's probe from a folder, loaded with its model at the first score.

    ``model`` is a name, a folder or a loaded one; None is the model that the probe's card
    names. By name it is loaded once a process, so that a compressor rebuilt for each call
    does not load it again.
    """

    def __init__(self, folder: str, model: Any = None) -> None:
        self.folder = folder
        self.model = model
        self._probe_scorer: ProbeScorer | None = None

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `ProbeScorer.score`."""
        return self._load_scorer().score(query, texts)

    def score_with_windows(self, query: str, texts: Sequence[str]) -> ScoredTexts:
        """As `ProbeScorer.score_with_windows`."""
        return self._load_scorer().score_with_windows(query, texts)

    @property
    def calibration(self) -> Calibration | None:
        """The calibration of the folder's probe; reads the folder."""
        return self._load_scorer().calibration

    def _load_scorer(self) -> ProbeScorer:
        if self.model is None or isinstance(self.model, str):
            load = partial(_load_by_name, self.folder, self.model)
            return _probe_scorers((self.folder, self.model), load)
        if self._probe_scorer is None:
            model = self.model
            tokenizer = None
            if isinstance(self.model, tuple):
                model, tokenizer = self.model
            probe = Probe.load(self.folder)
            self._probe_scorer = ProbeScorer(model, probe, tokenizer=tokenizer)
        return self._probe_scorer


_probe_scorers: SingleLoadCache[ProbeScorer] = SingleLoadCache(keep_recent=8)


def _load_by_name(folder: str, model: str | None) -> ProbeScorer:
    probe = Probe.load(folder)
    return ProbeScorer(model or probe.reading.model.name, probe)
