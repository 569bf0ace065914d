"""The probe on a model: relevance of texts to a question, from the model's first layers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.end.calibration import Calibration
from denoise_core.end.probe import Probe
from denoise_core.end.reader import HiddenReader, ReadingSettings, max_over_windows
from denoise_core.local.layout import LAYOUTS
from denoise_core.protocols import ScoredTexts

if TYPE_CHECKING:
    from denoise_core.local.loading import LoadOptions


class ProbeScorer:
    """Early Noise Dropping's scorer: ``probe`` applied to a model's state after ``probe.reading.layer`` blocks
    (arXiv 2502.18915, sections 2.2 and 2.3).

    ``model`` is a name, a path, a loaded object or a `HiddenReader`. By name only the blocks that the probe
    needs are loaded. ``settings.layout`` is needed only for a layout of your own; pooling and normalisation
    come from the probe. The first use raises `ProbeMismatch` when the model is not the one the probe was
    fitted on, naming each difference. What the model computed for a passage is kept by the reader, see
    `HiddenReader`.
    """

    def __init__(
        self,
        model: Any,
        probe: Probe,
        *,
        tokenizer: Any = None,
        settings: ReadingSettings | None = None,
        load: LoadOptions | None = None,
    ) -> None:
        self.probe = probe
        if isinstance(model, HiddenReader):
            self.reader = model
        else:
            self.reader = HiddenReader(
                model,
                tokenizer=tokenizer,
                settings=_settings(probe, settings or ReadingSettings()),
                load=load,
                first_layers=max(1, probe.reading.layer),
            )
        self._checked = False
        self._checking = threading.Lock()

    @property
    def calibration(self) -> Calibration | None:
        """The probe's, for ``keep="calibrated"``."""
        return self.probe.calibration

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Logits, higher is more relevant; float32 ``(len(texts),)``."""
        return self.score_with_windows(query, texts).scores

    def score_with_windows(self, query: str, texts: Sequence[str]) -> ScoredTexts:
        """`score`, with what it cost. Raises `ProbeMismatch`; else what `HiddenReader.read` raises."""
        return self.score_batch([(query, texts)])[0]

    def score_batch(
        self, asked: Sequence[tuple[str, Sequence[str]]]
    ) -> list[ScoredTexts]:
        """`scored` for several questions, their prompts in common batches."""
        pairs = [(query, t) for query, texts in asked for t in texts]
        if not pairs:
            return [ScoredTexts(np.zeros(0, dtype=np.float32), ()) for _ in asked]
        self._check()
        layer = self.probe.reading.layer
        found = self.reader.read(pairs, [layer])
        best = max_over_windows(
            self.probe.score(found.by_layer[layer]), found.text_index, len(pairs)
        )
        parts = np.bincount(
            found.text_index, minlength=len(pairs)
        ).tolist()  # windows that each text was read in
        ends = np.cumsum([0, *(len(texts) for _, texts in asked)])
        return [
            ScoredTexts(best[a:b], tuple(parts[a:b]))
            for a, b in pairwise(ends.tolist())
        ]

    def _check(self) -> None:
        with self._checking:
            if not self._checked:
                self.probe.check(self.reader.reading(self.probe.reading.layer))
                self._checked = True


def _settings(probe: Probe, given: ReadingSettings) -> ReadingSettings:
    """The probe's own reading, where the settings do not say otherwise."""
    return replace(
        given,
        layout=given.layout or LAYOUTS.get(probe.reading.layout.partition(":")[0]),
        pooling=given.pooling or probe.reading.pooling,
        normalisation=given.normalisation or probe.reading.normalisation,
    )
