"""A claim in words of its own: does a window of the evidence mean the same, by a sentence encoder?

An encoder sees a paraphrase that shares few words, and hardly sees a changed number, name or negation. So it is
asked only about a claim of which no fact differs, and the window it finds must have none that differs either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denoise_core.errors import InputError
from denoise_core.support.coverage import Asked
from denoise_core.support.evidence import Evidence, Window
from denoise_core.support.result import Claim
from denoise_core.text.facts.difference import compare
from denoise_core.text.facts.reading import Reading

Embed = Callable[[Sequence[str]], ArrayLike]
ALIKE = 0.75  # cosine from which a window means what a claim says, for MiniLM; chosen on one half of MTRAG
_MOST = 96  # windows that are embedded
_TRIED = 3  # of them, whose facts are read


class Meaning:
    """The evidence as vectors, made at the first question; ``embed`` gives one for each text, in order."""

    def __init__(self, embed: Embed, evidence: Evidence) -> None:
        self._embed = embed
        self._evidence = evidence
        self._windows: list[Window] = []
        self._vectors: NDArray[np.float64] | None = None

    def held(self, claim: Claim, asked: Asked) -> Claim:
        """The claim, supported if a window says the same in other words, else as it was."""
        if claim.supported is not False or claim.differences or not self._evidence.sentences:
            return claim
        if self._vectors is None:
            self._windows = list(self._evidence.pairs())[:_MOST]
            self._vectors = self._unit([w.text for w in self._windows])
        near = self._vectors @ self._unit([claim.text])[0]
        said = Reading.of(claim.text, self._evidence.language)
        for i in sorted(range(len(near)), key=lambda i: (-near[i], i))[:_TRIED]:
            if near[i] < ALIKE:
                break
            window = self._windows[i]
            if not compare(said, Reading.of(window.text, self._evidence.language), asked.reading):
                score = max(claim.score, min(1.0, float(near[i])))
                spans = window.spans(self._evidence.ids)
                return replace(claim, supported=True, score=round(score, 6), evidence=spans, missing=(), why="")
        return claim

    def _unit(self, texts: Sequence[str]) -> NDArray[np.float64]:
        found = np.asarray(self._embed(texts), dtype=np.float64)
        if found.ndim != 2 or len(found) != len(texts) or not np.isfinite(found).all():
            raise InputError(f"embed: expected finite vectors ({len(texts)}, width), got shape {found.shape}")
        return np.asarray(found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12))
