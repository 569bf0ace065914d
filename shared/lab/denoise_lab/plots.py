"""Draw a fit: recall by layer and pooling, with intervals and controls."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from denoise_core._optional import require
from denoise_core.end.fit import ProbeFit
from denoise_core.end.fit.probe import LayerFit
from denoise_core.evaluate.metrics import bootstrap_interval

RECALL_KEY = "30 %"
CONTROL_MARKERS = "xs+d"


def plot_layers(
    training: ProbeFit, path: str | Path, controls: Mapping[str, LayerFit] | None = None
) -> Path:
    """Draw recall of relevant chunks by layer into ``path`` (.png, .svg, .pdf) and return it.

    One line per pooling: the share of relevant chunks in the best 30 %, with 95 % intervals by question. The
    chosen layer is marked; ``controls`` (`denoise_lab.controls`) are single points. Needs the extra ``evaluate``.
    """
    figure = require("matplotlib.figure", extra="evaluate").Figure(
        figsize=(7.0, 4.2), layout="constrained"
    )
    axes = figure.add_subplot()
    poolings = dict.fromkeys(layer_fit.pooling for layer_fit in training.layers)
    for pooling in poolings:
        pooling_fits = [fit for fit in training.layers if fit.pooling == pooling]
        _draw_pooling(axes, pooling, pooling_fits)
    if controls:
        _draw_controls(axes, controls)
    reading = training.probe.reading
    axes.axvline(
        reading.layer, color="gray", linestyle=":", label=f"chosen: {reading.layer}"
    )
    axes.set(
        xlabel="layer (0 = embeddings)",
        ylabel="relevant chunks in the best 30 %",
        ylim=(0, 1.02),
    )
    axes.set_xticks(sorted({layer_fit.layer for layer_fit in training.layers}))
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, ncols=2, loc="lower right")
    model_name = _shorten_name(reading.model.name)
    axes.set_title(f"Held-out questions, {model_name}", fontsize=10)
    figure.savefig(path, dpi=150)
    return Path(path)


def _draw_pooling(axes: Any, pooling: str, layer_fits: Sequence[LayerFit]) -> None:
    layers = [layer_fit.layer for layer_fit in layer_fits]
    means = []
    lows = []
    highs = []
    for layer_fit in layer_fits:
        recalls = layer_fit.recall[RECALL_KEY]
        low, high = bootstrap_interval(recalls)
        means.append(float(recalls.mean()))
        lows.append(low)
        highs.append(high)
    (line,) = axes.plot(layers, means, marker="o", markersize=3, label=pooling)
    axes.fill_between(
        layers, lows, highs, color=line.get_color(), alpha=0.15, linewidth=0
    )


def _draw_controls(axes: Any, controls: Mapping[str, LayerFit]) -> None:
    for marker, (name, control) in zip(CONTROL_MARKERS, controls.items(), strict=False):
        mean_recall = control.recall[RECALL_KEY].mean()
        axes.plot([control.layer], [mean_recall], marker, color="black", label=name)


def _shorten_name(name: str) -> str:
    """A model's name on the hub, or the last folder of its path: a picture shows nobody's home folder."""
    parts = [part for part in re.split(r"[\\/]", name) if part]
    is_path = len(parts) > 2 or name[:1] in ("/", "\\", "~")
    if is_path and parts:
        return parts[-1]
    return name
