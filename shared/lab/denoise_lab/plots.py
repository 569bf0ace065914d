"""A picture of a fit: recall by layer and pooling, with intervals and controls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from denoise_core._optional import require
from denoise_core.end.fit import ProbeFit
from denoise_core.end.fit.probe import LayerFit
from denoise_core.evaluate.metrics import bootstrap_interval


def plot_layers(
    training: ProbeFit, path: str | Path, controls: Mapping[str, LayerFit] | None = None
) -> Path:
    """Draw recall of relevant chunks by layer into ``path`` (.png, .svg, .pdf); returns it.

    One line for each pooling: the share of relevant chunks in the best 30 %, with 95 % intervals by question. The
    chosen layer is marked; ``controls`` (`denoise_lab.controls`) are single points.
    Needs the extra ``evaluate``.
    """
    figure = require("matplotlib.figure", extra="evaluate").Figure(
        figsize=(7.0, 4.2), layout="constrained"
    )
    axes = figure.add_subplot()
    poolings = dict.fromkeys(layer_fit.pooling for layer_fit in training.layers)
    layers = sorted({layer_fit.layer for layer_fit in training.layers})
    for pooling in poolings:
        recalls = [f.recall["30 %"] for f in training.layers if f.pooling == pooling]
        means = [float(question_recalls.mean()) for question_recalls in recalls]
        (line,) = axes.plot(layers, means, marker="o", markersize=3, label=pooling)
        low, high = zip(*map(bootstrap_interval, recalls), strict=True)
        axes.fill_between(
            layers, low, high, color=line.get_color(), alpha=0.15, linewidth=0
        )
    for marker, (name, control) in zip("xs+d", (controls or {}).items(), strict=False):
        axes.plot(
            [control.layer],
            [control.recall["30 %"].mean()],
            marker,
            color="black",
            label=name,
        )
    chosen = training.probe.reading.layer
    axes.axvline(chosen, color="gray", linestyle=":", label=f"chosen: {chosen}")
    axes.set(
        xlabel="layer (0 = embeddings)",
        ylabel="relevant chunks in the best 30 %",
        ylim=(0, 1.02),
    )
    axes.set_xticks(layers)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, ncols=2, loc="lower right")
    axes.set_title(
        f"Held-out questions, {_short(training.probe.reading.model.name)}", fontsize=10
    )
    figure.savefig(path, dpi=150)
    return Path(path)


def _short(name: str) -> str:
    """A model's name on the hub, or the last folder of its path: a picture shows nobody's home folder."""
    parts = [part for part in re.split(r"[\\/]", name) if part]
    local = len(parts) > 2 or name[:1] in ("/", "\\", "~")
    return parts[-1] if local and parts else name
