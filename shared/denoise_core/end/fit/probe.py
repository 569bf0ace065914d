"""From labelled questions to a probe: read all layers once, fit each, take the shallowest good one, write it up.

Recall of the relevant chunk rises over the early layers and then stays or falls (Early Noise Dropping, section
2.2). A shallower layer costs less, so the shallowest that loses little against the best is taken. A line is
logistic regression on standardised states, with the scaling folded into its weights. The penalty decides more than
anything else, and its best value lies far below the usual default of 1, so it is always swept. Folds are made of
whole questions: chunks of one question never stand on both sides.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denoise_core._optional import require
from denoise_core.end.calibration import calibrate
from denoise_core.end.fit.recall import RECALL_FRACTIONS, recall_table
from denoise_core.end.fit.states import (
    HiddenStates,
    MapFunction,
    Progress,
    capture_states,
)
from denoise_core.end.probe import HiddenStateSpec, Probe
from denoise_core.end.reader import HiddenReader
from denoise_core.end.scorer import ProbeScorer
from denoise_core.errors import InputError
from denoise_core.question import Question

Floats: TypeAlias = NDArray[np.float32]
Mask: TypeAlias = NDArray[np.bool_]

PENALTIES = tuple(
    float(10 ** (e / 2)) for e in range(-10, -1)
)  # C from 1e-5 to 1e-1, half a decade apart
FOLDS = 5
GOLD_KEPT_BY_THRESHOLD = 0.95
MARGIN = 0.02  # of gold kept, that a cheaper layer may lose


@dataclass(frozen=True, slots=True, eq=False)
class ProbeFit:
    """The probe, and the study behind it: one `LayerFit` a layer."""

    probe: Probe
    layers: tuple[LayerFit, ...]


def fit_probe(
    model: Any,
    questions: Sequence[Question],
    *,
    layers: Sequence[int] | None = None,
    fraction: float = 0.3,
    folder: str | Path | None = None,
    calibration: Sequence[Question] = (),
    card: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    map_blocks: MapFunction = map,
) -> ProbeFit:
    """Fit a probe on ``model``, given by name, path or object, or as a `HiddenReader` with its settings.

    ``layers`` are tried (all when None) and the shallowest that loses little against the best at ``share`` kept is
    taken (`choose_layer`; Early Noise Dropping, section 2.2).
    ``folder`` keeps the states, so that a killed run goes on; ``each`` has them read elsewhere (see `capture`).
    ``calibration`` are other questions, for ``keep="calibrated"``; a question that is also fitted on is refused.
    ``card`` is added to the probe's: say there where the data comes from and under which licence.

    Raises `InputError` for data that cannot be fitted or calibrated on.
    """
    overlap = {q.text for q in questions} & {q.text for q in calibration}
    if overlap:
        raise InputError(
            f"{len(overlap)} calibration question(s) are also fitted on, such as {min(overlap)[:80]!r}: the "
            "guarantee would be void; keep them apart"
        )
    reader = model if isinstance(model, HiddenReader) else HiddenReader(model)
    captured = capture_states(
        reader,
        questions,
        layers=layers,
        folder=folder,
        progress=progress,
        map_blocks=map_blocks,
    )
    fits = fit_layers(captured)
    chosen = choose_layer(fits, fraction)
    sizes = [len(q.passages) for q in questions]
    written = {
        "data": {
            "questions": len(questions),
            "without a relevant passage": sum(not q.gold for q in questions),
            "passages": sum(sizes),
            "relevant passages": sum(len(q.gold) for q in questions),
            "passages a question, median": float(np.median(sizes)),
        },
        "recall by layer, held-out questions": [f.summary() for f in fits],
        "layer": f"{chosen.layer}: the shallowest that loses at most {100 * MARGIN:g} points at {fraction:.0%} kept",
        **(card or {}),
    }
    reading = reader.reading(chosen.layer)
    probe = build_probe(
        chosen.line,
        reading,
        captured.labels,
        captured.question_index.tolist(),
        card=written,
    )
    if calibration:
        found = calibrate(ProbeScorer(reader, probe), calibration)
        told = {
            **probe.card,
            "calibration": {"questions": found.n, "used for fitting": False},
        }
        probe = replace(probe, card=told, calibration=found)
    return ProbeFit(probe, fits)


@dataclass(frozen=True, slots=True, eq=False)
class LayerFit:
    """One layer's line, and how it ranked held-out questions.

    ``recall`` maps "top 1", "20 %", "30 %", "50 %", "60 %" to one value for each question with a relevant
    chunk: whether the best chunk is relevant, and the share of relevant chunks among the best 20 % ... 60 %.
    """

    layer: int
    line: LineFit
    recall: Mapping[str, NDArray[np.float64]]

    def summary(self) -> dict[str, Any]:
        """The layer's row in a card: means over held-out questions, and the standard error of that of all cuts."""
        each = np.mean(list(self.recall.values()), axis=0)
        return {
            "layer": self.layer,
            **{cut: float(values.mean()) for cut, values in self.recall.items()},
            "mean": float(each.mean()),
            "s.e.": _error(each),
            "C": self.line.C,
        }


def fit_layers(captured: HiddenStates) -> tuple[LayerFit, ...]:
    """A line for each captured layer, from shallow to deep; folds are the same questions at every layer."""
    out = []
    for layer, states in sorted(captured.by_layer.items()):
        line = fit_line(states, captured.labels, captured.question_index.tolist())
        out.append(
            LayerFit(
                layer,
                line,
                recall_table(line.held_out, captured.labels, captured.question_index),
            )
        )
    return tuple(out)


def choose_layer(
    fits: Sequence[LayerFit], fraction: float = 0.3, margin: float = MARGIN
) -> LayerFit:
    """The shallowest layer that loses little against the best at ``share`` kept; a layer more costs as much again.

    The loss is paired by question: its mean plus its standard error lies within ``margin``. `recall_table`'s cut
    nearest to ``share`` is compared. Raises `InputError` when there is no layer.
    """
    if not fits:
        raise InputError("no layer was fitted: give at least one")
    cut = f"{100 * min(RECALL_FRACTIONS, key=lambda s: abs(s - fraction)):g} %"
    best = max(fits, key=lambda f: (float(f.recall[cut].mean()), -f.layer)).recall[cut]

    def loss(fit: LayerFit) -> float:
        lost = best - fit.recall[cut]
        return float(lost.mean()) + _error(lost)

    return min((f for f in fits if loss(f) <= margin), key=lambda f: f.layer)


def _error(values: NDArray[np.float64]) -> float:
    """Standard error of a mean over questions."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class LineFit:
    """A fitted line and how good it was on questions it had not seen.

    ``held_out`` has each row's logit from the fold model that did not see the row's question;
    ``quality`` maps each penalty C to the mean over questions of the chance that a relevant chunk
    outranks another one, on held-out questions.
    """

    weight: Floats
    bias: float
    C: float
    held_out: Floats
    quality: Mapping[float, float]


def build_probe(
    found: LineFit,
    reading: HiddenStateSpec,
    labels: ArrayLike,
    groups: Sequence[Hashable],
    *,
    card: Mapping[str, Any] | None = None,
) -> Probe:
    """The probe of a line that was fitted on rows with these labels and groups; its card says how it went.

    Its ``threshold`` keeps 95 % of the relevant chunks of held-out questions.
    """
    y = np.asarray(labels, dtype=np.bool_)
    # "lower": a threshold between two relevant chunks would keep fewer than it promises.
    threshold = float(
        np.quantile(found.held_out[y], 1 - GOLD_KEPT_BY_THRESHOLD, method="lower")
    )
    above = found.held_out >= threshold
    own: dict[str, Any] = {
        "fit": {
            "questions": len(set(groups)),
            "chunks": len(y),
            "relevant chunks": int(y.sum()),
            "C": found.C,
            "chance that a relevant chunk outranks another, held out": found.quality[
                found.C
            ],
            "share of relevant chunks above the threshold, held out": float(
                above[y].mean()
            ),
            "share of all chunks above the threshold, held out": float(above.mean()),
        }
    }
    return Probe(found.weight, found.bias, reading, threshold, {**own, **(card or {})})


def fit_line(
    states: ArrayLike,
    labels: ArrayLike,
    groups: Sequence[Hashable],
    *,
    penalties: Sequence[float] = PENALTIES,
) -> LineFit:
    """A line through states ``(n, d)``, labels ``(n,)`` (True: relevant) and the question of each row.

    Raises `InputError` for states that are not finite, sizes that disagree, or fewer than two questions with a
    relevant chunk.
    """
    x, y, question = _checked(states, labels, groups)
    if not penalties or min(penalties) <= 0:
        raise InputError(
            f"penalties={penalties!r}: expected one or more positive values of C"
        )
    fold = assign_folds(question, y, FOLDS)
    flat = _constant(x)
    x[:, flat] = 0
    ordered = sorted(penalties)
    parallel = require("joblib", extra="end").Parallel(n_jobs=-1, prefer="threads")
    delayed = require("joblib", extra="end").delayed
    logits = np.empty((len(y), len(ordered)), dtype=np.float32)
    for f, found in enumerate(
        parallel(
            delayed(_path)(x, y, fold != f, ordered) for f in range(fold.max() + 1)
        )
    ):
        logits[fold == f] = found
    held_out = {C: logits[:, i] for i, C in enumerate(ordered)}
    quality = {C: question_auc(s, y, question) for C, s in held_out.items()}
    C = max(quality, key=lambda c: (round(quality[c], 6), -c))
    scaler, line = _pipeline(C, tolerance=1e-6).fit(x, y)
    w = (
        np.asarray(line.coef_[0], dtype=np.float64) / scaler.scale_
    )  # the scaling is folded into the weights
    bias = float(line.intercept_[0]) - float(scaler.mean_ @ w)
    w[flat] = 0
    return LineFit(np.asarray(w, dtype=np.float32), bias, C, held_out[C], quality)


def _pipeline(C: float, *, tolerance: float = 1e-4) -> Any:
    """Scaling, and a logistic regression in which both classes weigh the same."""
    scaler = require("sklearn.preprocessing", extra="end").StandardScaler()
    line = require("sklearn.linear_model", extra="end").LogisticRegression
    line = line(
        C=C, class_weight="balanced", max_iter=400, tol=tolerance, warm_start=True
    )
    return require("sklearn.pipeline", extra="end").make_pipeline(scaler, line)


def _path(x: Floats, y: Mask, fitting: Mask, penalties: Sequence[float]) -> Floats:
    """Logits of the rows not in ``fitting``, a column for each penalty, each fit starting where the last ended."""
    scaler, line = _pipeline(penalties[0])
    seen, unseen = scaler.fit_transform(x[fitting]), scaler.transform(x[~fitting])
    out = np.empty((len(unseen), len(penalties)), dtype=np.float32)
    for i, C in enumerate(penalties):
        line.C = C
        line.fit(seen, y[fitting])
        out[:, i] = line.decision_function(unseen)
    return out


def assign_folds(question: NDArray[np.intp], y: Mask, folds: int) -> NDArray[np.intp]:
    """The fold of each row; questions are dealt out in a fixed shuffled order, those with a gold first."""
    if folds < 2:
        raise InputError(f"folds={folds}: expected 2 or more")
    has_gold = np.zeros(question.max() + 1, dtype=np.bool_)
    has_gold[question[y]] = True
    folds = min(folds, int(has_gold.sum()))
    if folds < 2:
        raise InputError(
            f"{int(has_gold.sum())} question(s) with a relevant chunk: expected at least 2, some hundred for a "
            "probe to be of use"
        )
    order = np.random.default_rng(0).permutation(len(has_gold))
    order = np.concatenate([order[has_gold[order]], order[~has_gold[order]]])
    fold_of_question = np.empty(len(order), dtype=np.intp)
    fold_of_question[order] = np.arange(len(order)) % folds
    return fold_of_question[question]


def question_auc(scores: Floats, y: Mask, question: NDArray[np.intp]) -> float:
    """Chance that a relevant chunk outranks another of its question (a tie counts half), mean of questions.

    When no question has both kinds of chunk, over all chunks together.
    """
    areas = []
    order = np.argsort(question, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(question[order])) + 1):
        if y[rows].any() and not y[rows].all():
            areas.append(_area(scores[rows], y[rows]))
    return float(np.mean(areas)) if areas else _area(scores, y)


def _area(scores: Floats, y: Mask) -> float:
    ordered = np.sort(scores[~y])
    below = np.searchsorted(ordered, scores[y], side="left")
    up_to = np.searchsorted(ordered, scores[y], side="right")
    return float((below + up_to).mean() / (2 * len(ordered)))


def _checked(
    states: ArrayLike, labels: ArrayLike, groups: Sequence[Hashable]
) -> tuple[Floats, Mask, NDArray[np.intp]]:
    x = np.array(states, dtype=np.float32)  # a copy: constant features are set to 0
    y = np.asarray(labels)
    if x.ndim != 2 or y.shape != (len(x),) or len(groups) != len(x):
        raise InputError(
            f"expected states (n, d), labels (n,) and n groups, got {x.shape}, {y.shape} and {len(groups)}"
        )
    if not np.isin(y, (0, 1)).all():
        raise InputError("labels: expected True or False (1 or 0) for each chunk")
    y = y.astype(np.bool_)
    if not y.any() or y.all():
        raise InputError(
            f"{int(y.sum())} of {len(y)} chunks are relevant: expected some of both kinds"
        )
    if not np.isfinite(x).all():
        rows = np.flatnonzero(~np.isfinite(x).all(axis=1)).tolist()
        raise InputError(f"states of rows {rows[:5]} are not finite (NaN or infinite)")
    number: dict[Hashable, int] = {}
    question = np.array(
        [number.setdefault(g, len(number)) for g in groups], dtype=np.intp
    )
    return x, y, question


def _constant(x: Floats) -> Mask:
    """Features that do not vary beyond rounding: they say nothing, and scaling them would blow up the rounding."""
    mean = x.mean(0, dtype=np.float64)
    deviation = x.std(0, dtype=np.float64)
    return np.asarray(deviation <= 1e-6 * np.maximum(1.0, np.abs(mean)), dtype=np.bool_)
