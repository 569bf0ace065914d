"""A picture of a fit: recall by layer, with intervals and controls."""

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

    One line for each cut (the best chunk, and the best 20 to 60 %), with 95 % intervals by question at
    30 %; the chosen layer is marked, ``controls`` (`denoise_lab.controls`) stand as single points at 30 %.
    Needs the extra ``evaluate``.
    """
    figure = require("matplotlib.figure", extra="evaluate").Figure(
        figsize=(7.0, 4.2), layout="constrained"
    )
    axes = figure.add_subplot()
    layers = [f.layer for f in training.layers]
    for cut in training.layers[0].recall:
        means = [float(f.recall[cut].mean()) for f in training.layers]
        (line,) = axes.plot(
            layers,
            means,
            marker="o",
            markersize=3,
            label=cut if cut == "top 1" else f"best {cut}",
        )
        if cut == "30 %":
            low, high = zip(
                *(bootstrap_interval(f.recall[cut]) for f in training.layers),
                strict=True,
            )
            axes.fill_between(
                layers, low, high, color=line.get_color(), alpha=0.15, linewidth=0
            )
    for marker, (name, control) in zip("xs+d", (controls or {}).items(), strict=False):
        axes.plot(
            [control.layer],
            [control.recall["30 %"].mean()],
            marker,
            color="black",
            label=f"{name}, best 30 %",
        )
    chosen = training.probe.reading.layer
    axes.axvline(chosen, color="gray", linestyle=":", label=f"chosen: {chosen}")
    axes.set(
        xlabel="layer (0 = embeddings)", ylabel="relevant chunks kept", ylim=(0, 1.02)
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
