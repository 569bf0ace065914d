"""The default scorer: late interaction of MiniLM's word pieces, and what its scores mean for ``keep="auto"``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from denoise_core.embedded.encoder import SentenceEncoder
from denoise_core.embedded.minilm import HUB_NAME, minilm_folder
from denoise_core.end.denoiser import DEFAULT_KEEP, ENDDenoiser, OnIrrelevant
from denoise_core.end.selection import KeepSetting, ScoreCalibration
from denoise_core.errors import InputError
from denoise_core.protocols import ScoredTexts, Scorer
from denoise_core.runtime.caches import SingleLoadCache
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.scorers.encoders import (
    CrossEncoderScorer,
    EmbeddingModel,
    EmbeddingScorer,
    PairFunction,
    PairModel,
)
from denoise_core.scorers.stack import Stack
from denoise_core.text.chunk import Chunker


class DefaultScorer:
    """The stack that ships over the signals of `encoder`; the model is loaded at the first call, once a process.

    What is read of a passage is kept, so a second question about it costs little more than reading the question;
    with ``folder`` also on disk, for other processes. `warm` reads passages before any question. ``second_look``
    raises what belongs to the best passages (`SentenceEncoder.second_look`), for questions of two steps: of more
    than `denoise_core.end.selection.SHORT_LIST` passages ``keep="auto"`` keeps all that it keeps without, and more.
    """

    listwise = True  # the word weights of late interaction come from the list

    def __init__(
        self, *, cache_folder: str | Path | None = None, boost_multi_hop: bool = False
    ) -> None:
        self.folder = cache_folder
        self.second_look = boost_multi_hop

    @property
    def scale(self) -> ScoreCalibration:
        """For ``keep="auto"``: the margins that ship, and what they were calibrated on."""
        return default_scale()

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Higher is better, about 0 for an average passage; float32 ``(len(texts),)``.

        Raises `MissingExtra` without the extra ``embedded``.
        """
        return self.score_with_windows(query, texts).scores

    def score_with_windows(self, query: str, texts: Sequence[str]) -> ScoredTexts:
        """`score`, and in how many windows each text was read: a long one counts by its best part."""
        read = shared_encoder(self.folder)
        signals, windows = read.signals_with_windows(query, texts)
        scores = default_stack().combine(signals)
        if self.second_look:
            scores = read.boost_multi_hop(query, texts, scores)
        return ScoredTexts(scores, windows)

    def score_batch(
        self, asked: Sequence[tuple[str, Sequence[str]]]
    ) -> list[ScoredTexts]:
        """`scored` for several questions; their passages are read together first."""
        self.precompute(list(dict.fromkeys(t for _, texts in asked for t in texts)))
        return [self.score_with_windows(query, texts) for query, texts in asked]

    def precompute(self, texts: Sequence[str]) -> int:
        """Read texts before any question, such as at indexing time; returns how many had to be read."""
        return shared_encoder(self.folder).precompute(texts)


def default_denoiser(
    keep: KeepSetting = "auto",
    *,
    encoder: EmbeddingModel | Scorer | None = None,
    reranker: PairFunction | PairModel | str | None = None,
    risk: float | None = None,
    chunker: Chunker | Literal["auto"] = "auto",
    on_irrelevant: OnIrrelevant = "keep",
    cache_folder: str | Path | None = None,
    boost_multi_hop: bool = False,
) -> ENDDenoiser:
    """END with `DefaultScorer`. See `ENDDenoiser` for the settings; ``folder`` keeps what is read of passages, and
    ``second_look`` also keeps what belongs to the best passages: for questions of two steps.

    ``encoder`` takes the place of the model that ships: whatever `EmbeddingScorer` takes (the name or folder of a
    sentence-transformers model, such a model, a framework's embeddings), or any scorer; ``reranker`` whatever
    `CrossEncoderScorer` takes. What their scores mean is not known, so ``keep="auto"`` keeps a share of them and
    logs that, until `rag-denoise fit` calibrates it. Raises `InputError` for two of them, or with what is the
    shipped model's alone.
    """
    if (encoder, reranker, cache_folder or boost_multi_hop or None).count(None) < 2:
        raise InputError(
            "default_denoiser: give one of encoder=, reranker=, or folder= and second_look="
        )
    scorer: Scorer = (
        DefaultScorer(cache_folder=cache_folder, boost_multi_hop=boost_multi_hop)
        if reranker is None
        else CrossEncoderScorer(reranker)
    )
    if encoder is not None:
        scorer = encoder if isinstance(encoder, Scorer) else EmbeddingScorer(encoder)
    if keep == "auto" and risk is None and getattr(scorer, "scale", None) is None:
        keep = DEFAULT_KEEP
        log_fallback(
            "default_denoiser",
            "keep='auto' is not calibrated for this model",
            f"keep={keep} is used",
        )
    return ENDDenoiser(
        scorer, keep=keep, risk=risk, chunker=chunker, on_irrelevant=on_irrelevant
    )


_encoders: SingleLoadCache[SentenceEncoder] = SingleLoadCache(keep_recent=None)


def shared_encoder(folder: str | Path | None = None) -> SentenceEncoder:
    """MiniLM-L6 as a sentence encoder, shared by all in a process that keep readings in the same ``folder``."""
    where = None if folder is None else Path(folder).resolve()
    return _encoders(
        where,
        lambda: SentenceEncoder(minilm_folder(), name=HUB_NAME, cache_folder=where),
    )


@cache
def default_stack() -> Stack:
    """The weights of the signals."""
    return Stack.from_dict(_shipped("stack.json"))


@cache
def default_scale() -> ScoreCalibration:
    """Margins and floor of the default's scores."""
    return ScoreCalibration.from_dict(_shipped("scale.json"))


def embedding_scorer() -> EmbeddingScorer:
    """Cosine of MiniLM's sentence embeddings alone."""
    return EmbeddingScorer(_vectors)


def _vectors(texts: Sequence[str]) -> NDArray[np.float32]:
    return shared_encoder().embed_texts(texts)


def _shipped(name: str) -> Any:
    return json.loads(
        (files("denoise_core.embedded") / "data" / name).read_text("utf-8")
    )
