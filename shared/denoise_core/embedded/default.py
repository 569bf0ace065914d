"""The default scorer: probe, embedding cosine, late interaction and BM25, stacked; each can be used alone.

The fit gave BM25 no weight (`stack`), so it is not computed; the stack of a fit of your own may use it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import as_file, files

import numpy as np
from numpy.typing import NDArray

from denoise_core.embedded.encoder import SentenceEncoder
from denoise_core.embedded.weights import HUB_NAME, minilm
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.end.probe import Probe
from denoise_core.end.scorer import ProbeScorer
from denoise_core.protocols import Scored
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.scorers.embedding import EmbeddingScorer
from denoise_core.scorers.stack import Stack, StackedScorer
from denoise_core.text.chunk import Chunker, whole


class DefaultScorer:
    """The stack over all four signals; the model is loaded at the first call, once in a process."""

    listwise = True  # the word weights of late interaction come from the list

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Higher is better, about 0 for an average passage; float32 ``(len(texts),)``.

        Raises `MissingExtra` without the extra ``embedded``.
        """
        return _stacked().score(query, texts)

    def scored(self, query: str, texts: Sequence[str]) -> Scored:
        """`score`, and in how many windows each text was read: a long one counts by its best part."""
        return _stacked().scored(query, texts)


def default_denoiser(keep: float | int = 0.3, *, min_keep: int = 1, chunker: Chunker = whole) -> ENDDenoiser:
    """END with `DefaultScorer`. See `ENDDenoiser` for the settings."""
    return ENDDenoiser(DefaultScorer(), keep=keep, min_keep=min_keep, chunker=chunker)


@cache
def encoder() -> SentenceEncoder:
    """MiniLM-L6 as a sentence encoder, shared by all that need it."""
    return SentenceEncoder(minilm(), name=HUB_NAME)  # not where it lies here: a probe's card may be shown around


@cache
def probe() -> Probe:
    """The probe that ships: its card says what it was fitted on and what it reached."""
    with as_file(files("denoise_core.embedded") / "data" / "probe") as folder:
        return Probe.load(folder)


@cache
def stack() -> Stack:
    """The weights of the four signals."""
    return Stack.from_dict(json.loads((files("denoise_core.embedded") / "data" / "stack.json").read_text("utf-8")))


@cache
def probe_scorer() -> ProbeScorer:
    """The probe alone: question and passage read together through the first layers."""
    return ProbeScorer(encoder().model, probe(), tokenizer=encoder().tokenizer)


@cache
def _stacked() -> StackedScorer:
    return StackedScorer([probe_scorer(), encoder(), BM25Scorer()], stack())


def embedding_scorer() -> EmbeddingScorer:
    """Cosine of MiniLM's sentence embeddings alone."""
    return EmbeddingScorer(lambda texts: encoder().vectors(texts))
