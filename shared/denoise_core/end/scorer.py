"""The probe on a model: relevance of texts to a question, from the first layers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.end.heads import HeadReader
from denoise_core.end.probe import Probe
from denoise_core.end.reader import HiddenReader, ReadingSettings
from denoise_core.local.batching import max_over_windows
from denoise_core.local.layout import LAYOUTS, POOLINGS

if TYPE_CHECKING:
    from denoise_core.end.selection import ScoreCalibration
    from denoise_core.local.loading import LoadOptions


class ProbeScorer:
    """Early Noise Dropping's scorer: a probe on the first layers' states, or on their heads.

    arXiv 2502.18915, sections 2.2 and 2.3. The first use raises `ProbeMismatch` when the
    model is not the one the probe was fitted on, naming each difference. The reader
    caches what the model computed for a passage, see `HiddenReader`.

    Args:
        model: A name, a path, a loaded object or a `HiddenReader` (for a probe on heads
            a `HeadReader`). By name only the blocks that the probe needs are loaded.
        probe: Reads ``probe.reading.layer``.
        tokenizer: As for `HiddenReader`.
        settings: Needed only for a prompt layout that is not built in; pooling comes
            from the probe.
        load: As for `HiddenReader`.
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
        reading = probe.reading
        if isinstance(model, HiddenReader):
            self.reader = model
            if model.settings.pooling is None and reading.pooling in POOLINGS:
                self.reader = model.with_pooling(reading.pooling)
        else:
            settings = settings or ReadingSettings()
            layout_name = reading.layout.partition(":")[0]
            settings = replace(
                settings,
                layout=settings.layout or LAYOUTS.get(layout_name),
                pooling=None if reading.heads else reading.pooling,
            )
            reader_class = HeadReader if reading.heads else HiddenReader
            self.reader = reader_class(
                model,
                tokenizer=tokenizer,
                settings=settings,
                load=load,
                first_layers=max(1, reading.layer),
            )
        if isinstance(self.reader, HeadReader):
            self.reader = self.reader.with_heads(probe.reading.heads)
        self._is_checked = False
        self._check_lock = threading.Lock()

    @property
    def scale(self) -> ScoreCalibration | None:
        """The probe's calibration, for ``keep="auto"``."""
        return self.probe.calibration

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Logits, higher is more relevant; float32 ``(len(texts),)``.

        A text that does not fit the model's window is read in parts; its score is the best one's.

        Raises:
            ProbeMismatch: The model is not the probe's. Else what `HiddenReader.read`
                raises.
        """
        if not texts:
            return np.zeros(0, dtype=np.float32)
        probe_layer = self.probe.reading.layer
        with self._check_lock:
            if not self._is_checked:
                self.probe.check(self.reader.reading(probe_layer))
                self._is_checked = True
        layer_states = self.reader.read(
            [(query, text) for text in texts], [probe_layer]
        )
        window_logits = self.probe.score(layer_states.by_layer[probe_layer])
        return max_over_windows(window_logits, layer_states.text_index, len(texts))
