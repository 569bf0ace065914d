"""Where in a model a passage's relevance can be read: by layer, by prompt layout, across tasks; with controls.

Early Noise Dropping, Figures 2 and 5 and Tables 3 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.end.fit.probe import LayerFit, choose_layer, sweep
from denoise_core.end.fit.readings import Capture, capture
from denoise_core.end.reader import HiddenReader, ReadingSettings
from denoise_core.evaluate.metrics import bootstrap, recall_table
from denoise_core.local.layout import SCQ, Layout
from denoise_core.question import Question
from denoise_core.text.chunk import sentences
from denoise_core.types import Passage
from denoise_lab.controls import with_fresh_blocks
from denoise_lab.experiments.end import Loaded
from denoise_lab.layouts import DISTINGUISH, QSC, SC, SQC
from denoise_lab.noisy_retrieval import LEVELS, NoisyRetrieval
from denoise_lab.probe_data import CHARACTERS, noisy_questions, scene_questions
from denoise_lab.worlds.prose import prose as training_prose

CUT = "30 %"


SEED = 200  # apart from the seeds of the shipped probes and of noisy_retrieval


Recall = Mapping[str, NDArray[np.float64]]  # by cut, one value for each question


@dataclass(frozen=True)
class Sizes:
    """Questions to fit on and to judge with: for each level of NoisyRetrieval, and scenes."""

    fit: int = 20
    test: int = 12
    scenes_fit: int = 100
    scenes_test: int = 60
    characters: int = CHARACTERS


@dataclass(frozen=True)
class Data:
    noisy_fit: tuple[Question, ...]
    noisy_test: tuple[Question, ...]
    scenes_fit: tuple[Question, ...]
    scenes_test: tuple[Question, ...]

    @property
    def levels(self) -> NDArray[np.intp]:
        """The level of each test question of NoisyRetrieval."""
        return np.repeat(LEVELS, len(self.noisy_test) // len(LEVELS))


@dataclass
class Study:
    """``curves`` maps what was fitted and judged to recall by layer; ``layouts`` holds SCQ's probe on each layout.

    ``layer`` is where the layouts were read; it was chosen on the questions fitted on.
    """

    layer: int = 0
    curves: dict[str, dict[int, Recall]] = field(default_factory=dict)
    layouts: dict[str, Recall] = field(default_factory=dict)


NOISY, FRESH, OUTRIGHT = (
    "NoisyRetrieval",
    "NoisyRetrieval, random weights",
    "NoisyRetrieval, distinguishing prompt",
)


SCENES, TO_SCENES, TO_NOISY = (
    "people and towns",
    "NoisyRetrieval -> people, towns",
    "people, towns -> NoisyRetrieval",
)


LAYOUTS: dict[str, Layout] = {"[S|C|Q]": SCQ, "[S|Q|C]": SQC, "[Q|S|C]": QSC, "[S|C]": SC}


def draw(prose: str, sizes: Sizes, seed: int) -> Data:
    own = "\n".join(training_prose())
    fit: list[Question] = []
    test: list[Question] = []
    for level in LEVELS:
        kind = NoisyRetrieval(level, characters=sizes.characters)
        fit += noisy_questions(kind, own, sizes.fit, seed=SEED + seed)
        test += noisy_questions(kind, prose, sizes.test, seed=SEED + seed, test=True)
    unseen = [prose[s.start : s.end].strip() for s in sentences(Passage(prose, "haystack"))]
    unseen = [" ".join(s.split()) for s in unseen if 12 < len(s) < 400]
    kinds = ("people", "towns")
    return Data(
        tuple(fit),
        tuple(test),
        scene_questions(sizes.scenes_fit, seed=SEED + seed, kinds=kinds),
        scene_questions(sizes.scenes_test, seed=SEED + seed, kinds=kinds, test=True, sentences=unseen),
    )


def study(loaded: Loaded, data: Data) -> Study:
    out = Study()
    by = loaded.reading(SCQ)
    fits = {NOISY: sweep(capture(by, data.noisy_fit))}
    out.layer = choose_layer(fits[NOISY]).layer
    noisy_test = capture(by, data.noisy_test)
    scenes_test = capture(by, data.scenes_test)
    fits[SCENES] = sweep(capture(by, data.scenes_fit))
    out.curves[NOISY] = _judged(fits[NOISY], noisy_test)
    out.curves[SCENES] = _judged(fits[SCENES], scenes_test)
    out.curves[TO_SCENES] = _judged(fits[NOISY], scenes_test)
    out.curves[TO_NOISY] = _judged(fits[SCENES], noisy_test)
    out.layouts["[S|C|Q]"] = out.curves[NOISY][out.layer]
    chosen = [f for f in fits[NOISY] if f.layer == out.layer]
    for name, layout in list(LAYOUTS.items())[1:]:
        seen = capture(loaded.reading(layout), data.noisy_test, layers=[out.layer])
        out.layouts[name] = _judged(chosen, seen)[out.layer]
    fresh = HiddenReader(
        with_fresh_blocks(by.backbone), tokenizer=loaded.tokenizer, settings=ReadingSettings(layout=SCQ)
    )
    for name, reading in ((OUTRIGHT, loaded.reading(DISTINGUISH)), (FRESH, fresh)):
        lines = sweep(capture(reading, data.noisy_fit))
        out.curves[name] = _judged(lines, capture(reading, data.noisy_test))
    return out


def _judged(fits: Sequence[LayerFit], seen: Capture) -> dict[int, Recall]:
    out: dict[int, Recall] = {}
    for f in fits:
        logits = seen.by_layer[f.layer].astype(np.float32) @ f.line.weight + np.float32(f.line.bias)
        out[f.layer] = recall_table(logits, seen.labels, seen.groups)
    return out


def table(found: Study, data: Data, with_what: str) -> str:
    """Markdown: recall by layer, then what the chosen layer reaches by layout, across tasks and by level."""
    lines = [f"Recall of the gold passage on held-out questions, 95 % intervals by question; {with_what}.", ""]
    cuts = list(next(iter(found.curves[NOISY].values())))
    lines += [f"| fitted and judged on | layer | {' | '.join(cuts)} |", "|---|---|" + "---|" * len(cuts)]
    for name, by_layer in found.curves.items():
        for layer, recall in by_layer.items():
            mark = f"{layer} (chosen)" if layer == found.layer else str(layer)
            lines.append(f"| {name} | {mark} | {' | '.join(_share(recall[c]) for c in cuts)} |")
    lines += ["", f"At layer {found.layer}, gold among the best {CUT}:", "", "| what | recall |", "|---|---|"]
    lines += [
        f"| fitted on [S\\|C\\|Q], judged on {n.replace('|', chr(92) + '|')} | {_share(r[CUT])} |"
        for n, r in found.layouts.items()
    ]
    own = found.curves[NOISY][found.layer][CUT]
    lines += [f"| NoisyRetrieval, level {n} | {_share(own[data.levels == n])} |" for n in LEVELS]
    lines += [f"| {name} | {_share(by[found.layer][CUT])} |" for name, by in found.curves.items() if name != NOISY]
    return "\n".join(lines) + "\n"


def _share(values: NDArray[np.float64]) -> str:
    low, high = bootstrap(values)
    return f"{values.mean():.2f} ({low:.2f} to {high:.2f})"


def plot(found: Study, path: Path, with_what: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.0, 5.0), layout="constrained")
    cuts, curves, bars = figure.subplots(1, 3)
    own = found.curves[NOISY]
    for cut in own[found.layer]:
        _line(cuts, own, cut, cut if cut == "top 1" else f"best {cut}")
    _line(cuts, found.curves[FRESH], CUT, f"random weights, best {CUT}", color="black", linestyle=":")
    cuts.set_title("NoisyRetrieval, [S|C|Q]", fontsize=10)
    cuts.set_ylabel("gold passages kept")
    for name, by_layer in found.curves.items():
        _line(curves, by_layer, CUT, name, **({"color": "black", "linestyle": ":"} if name == FRESH else {}))
    curves.set_title(f"best {CUT}: controls and other tasks", fontsize=10)
    for axes in (cuts, curves):
        axes.axvline(found.layer, color="gray", linestyle=":", linewidth=1)
        axes.set(xlabel=f"layer (chosen: {found.layer})", ylim=(-0.03, 1.05), xticks=list(own))
        axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
        axes.grid(alpha=0.25)
    names = list(found.layouts)
    means = np.array([found.layouts[n][CUT].mean() for n in names])
    ends = np.array([bootstrap(found.layouts[n][CUT]) for n in names]).T
    bars.bar(names, means, yerr=np.clip([means - ends[0], ends[1] - means], 0, None), capsize=3, color="tab:blue")
    bars.set(ylim=(0, 1.05), xlabel="judged on")
    bars.set_title(f"fitted on [S|C|Q], layer {found.layer}, best {CUT}", fontsize=10)
    bars.grid(alpha=0.25, axis="y")
    figure.suptitle(with_what, fontsize=9)
    figure.savefig(path, dpi=150)


def _line(axes: Any, by_layer: Mapping[int, Recall], cut: str, label: str, **style: Any) -> None:
    layers = list(by_layer)
    (line,) = axes.plot(
        layers, [by_layer[n][cut].mean() for n in layers], marker="o", markersize=3, label=label, **style
    )
    low, high = np.array([bootstrap(by_layer[n][cut]) for n in layers]).T
    axes.fill_between(layers, low, high, color=line.get_color(), alpha=0.1, linewidth=0)
