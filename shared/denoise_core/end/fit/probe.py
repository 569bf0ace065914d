"""Fit a probe: read all layers once, fit each, take the shallowest good one.

Recall of the relevant chunk rises over the early layers and then stays or falls (Early
Noise Dropping, section 2.2). A shallower layer costs less, so the shallowest that loses
little against the best is taken. A line is logistic regression on standardised states,
with the scaling folded into its weights. The penalty decides more than anything else,
and its best value is far below the usual default of 1, so it is always swept. Folds
hold whole questions: chunks of one question are never on both sides.
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
Indices: TypeAlias = NDArray[np.intp]

# sklearn's C from 1e-5 to 1e-1, half a decade apart.
PENALTIES = tuple(float(10 ** (exponent / 2)) for exponent in range(-10, -1))
FOLDS = 5
GOLD_KEPT_BY_THRESHOLD = 0.95
LAYER_MARGIN = 0.02  # fraction of gold kept that a cheaper layer may lose


@dataclass(frozen=True, slots=True, eq=False)
class ProbeFit:
    """The probe, and the study behind it: one `LayerFit` per layer."""

    probe: Probe
    layers: tuple[LayerFit, ...]


@dataclass(frozen=True, slots=True, eq=False)
class LayerFit:
    """One layer's line, and how it ranked held-out questions.

    Attributes:
        layer: Index into ``hidden_states``.
        line: The fitted line.
        recall: By "top 1", "20 %" ... "60 %" one value per question with a relevant
            chunk: whether the best chunk is relevant, and the fraction of relevant
            chunks among the best 20 % ... 60 %.
    """

    layer: int
    line: LineFit
    recall: Mapping[str, NDArray[np.float64]]

    def summary(self) -> dict[str, Any]:
        """The layer's row in a card.

        Means over held-out questions, and the standard error of the mean of all cuts.
        """
        mean_recall = np.mean(list(self.recall.values()), axis=0)
        return {
            "layer": self.layer,
            **{cut: float(values.mean()) for cut, values in self.recall.items()},
            "mean": float(mean_recall.mean()),
            "s.e.": _standard_error(mean_recall),
            "C": self.line.penalty,
        }


@dataclass(frozen=True, slots=True, eq=False)
class LineFit:
    """A fitted line and how good it was on questions it had not seen.

    Attributes:
        weight: float32 ``(d,)``.
        bias: Added to the dot product.
        penalty: The chosen C.
        held_out: float32 ``(n,)``, each row's logit from the fold model that did not
            see the row's question.
        quality: For each C the `question_auc` on held-out questions.
    """

    weight: Floats
    bias: float
    penalty: float
    held_out: Floats
    quality: Mapping[float, float]


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
    """Fit a probe on labelled questions.

    Args:
        model: Name, path or object, or a `HiddenReader` with its settings.
        questions: What to fit on.
        layers: Layers to try; all when None. The shallowest that loses little against
            the best is taken (`choose_layer`; Early Noise Dropping, section 2.2).
        fraction: Fraction of the chunks that will be kept, for choosing the layer.
        folder: Keeps the states, so that a killed run continues.
        calibration: Other questions, for ``keep="calibrated"``; a question that is also
            fitted on is refused.
        card: Added to the probe's; say here where the data is from, and its licence.
        progress: Called with (questions read, all questions).
        map_blocks: Has the states read elsewhere (see `capture_states`).

    Raises:
        InputError: Data that cannot be fitted or calibrated on.
    """
    fitted_texts = {question.text for question in questions}
    overlap = fitted_texts & {question.text for question in calibration}
    if overlap:
        raise InputError(
            f"{len(overlap)} calibration question(s) are also fitted on, such as "
            f"{min(overlap)[:80]!r}: the guarantee would be void; keep them apart"
        )
    reader = model if isinstance(model, HiddenReader) else HiddenReader(model)
    states = capture_states(
        reader,
        questions,
        layers=layers,
        folder=folder,
        progress=progress,
        map_blocks=map_blocks,
    )
    fits = fit_layers(states)
    best_fit = choose_layer(fits, fraction)
    sizes = [len(question.passages) for question in questions]
    probe_card = {
        "data": {
            "questions": len(questions),
            "without a relevant passage": sum(not q.gold for q in questions),
            "passages": sum(sizes),
            "relevant passages": sum(len(q.gold) for q in questions),
            "passages a question, median": float(np.median(sizes)),
        },
        "recall by layer, held-out questions": [fit.summary() for fit in fits],
        "layer": f"{best_fit.layer}: the shallowest that loses at most "
        f"{100 * LAYER_MARGIN:g} points at {fraction:.0%} kept",
        **(card or {}),
    }
    probe = build_probe(
        best_fit.line,
        reader.reading(best_fit.layer),
        states.labels,
        states.question_index.tolist(),
        card=probe_card,
    )
    if calibration:
        ranks = calibrate(ProbeScorer(reader, probe), calibration)
        note = {"questions": ranks.n, "used for fitting": False}
        probe_card = {**probe.card, "calibration": note}
        probe = replace(probe, card=probe_card, calibration=ranks)
    return ProbeFit(probe, fits)


def fit_layers(states: HiddenStates) -> tuple[LayerFit, ...]:
    """A line for each layer, shallow to deep; folds are the same at every layer."""
    fits: list[LayerFit] = []
    groups = states.question_index.tolist()
    for layer, layer_states in sorted(states.by_layer.items()):
        line = fit_line(layer_states, states.labels, groups)
        recall = recall_table(line.held_out, states.labels, groups)
        fits.append(LayerFit(layer, line, recall))
    return tuple(fits)


def choose_layer(
    fits: Sequence[LayerFit], fraction: float = 0.3, margin: float = LAYER_MARGIN
) -> LayerFit:
    """The shallowest layer that loses little against the best.

    Args:
        fits: One per layer.
        fraction: Fraction of chunks kept; `recall_table`'s nearest cut is compared.
        margin: Most that the loss, paired by question, may be: its mean plus its
            standard error.

    Raises:
        InputError: No layer was fitted.
    """
    if not fits:
        raise InputError("no layer was fitted: give at least one")
    nearest = min(RECALL_FRACTIONS, key=lambda known: abs(known - fraction))
    cut = f"{100 * nearest:g} %"
    by_depth = sorted(fits, key=lambda fit: fit.layer)
    best_recall = max((f.recall[cut] for f in by_depth), key=lambda r: float(r.mean()))
    good_fits: list[LayerFit] = []
    for fit in by_depth:
        loss = best_recall - fit.recall[cut]
        if float(loss.mean()) + _standard_error(loss) <= margin:
            good_fits.append(fit)
    return good_fits[0]


def _standard_error(values: NDArray[np.float64]) -> float:
    """Of a mean over questions."""
    if len(values) < 2:
        return 0.0
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def build_probe(
    line: LineFit,
    reading: HiddenStateSpec,
    labels: ArrayLike,
    groups: Sequence[Hashable],
    *,
    card: Mapping[str, Any] | None = None,
) -> Probe:
    """The probe of a line; its threshold keeps 95 % of the held-out relevant chunks.

    Args:
        line: The fitted line.
        reading: Which states it was fitted on.
        labels: ``(n,)``, of the rows it was fitted on.
        groups: The question of each row.
        card: Added to the fit's figures.
    """
    is_gold = np.asarray(labels, dtype=np.bool_)
    # "lower": a threshold between two relevant chunks would keep fewer than it promises.
    threshold = float(
        np.quantile(line.held_out[is_gold], 1 - GOLD_KEPT_BY_THRESHOLD, method="lower")
    )
    is_kept = line.held_out >= threshold
    auc = line.quality[line.penalty]
    gold_kept = float(is_kept[is_gold].mean())
    figures: dict[str, Any] = {
        "questions": len(set(groups)),
        "chunks": len(is_gold),
        "relevant chunks": int(is_gold.sum()),
        "C": line.penalty,
        "chance that a relevant chunk outranks another, held out": auc,
        "share of relevant chunks above the threshold, held out": gold_kept,
        "share of all chunks above the threshold, held out": float(is_kept.mean()),
    }
    probe_card = {"fit": figures, **(card or {})}
    return Probe(line.weight, line.bias, reading, threshold, probe_card)


def fit_line(
    states: ArrayLike,
    labels: ArrayLike,
    groups: Sequence[Hashable],
    *,
    penalties: Sequence[float] = PENALTIES,
) -> LineFit:
    """A line through states, with the best penalty on held-out questions.

    Args:
        states: ``(n, d)``.
        labels: ``(n,)``, True for relevant.
        groups: The question of each row.
        penalties: Values of C to try.

    Raises:
        InputError: States that are not finite, sizes that disagree, or fewer than two
            questions with a relevant chunk.
    """
    features, is_gold, question = _check_rows(states, labels, groups)
    if not penalties or min(penalties) <= 0:
        raise InputError(
            f"penalties={penalties!r}: expected one or more positive values of C"
        )
    fold_of_row = assign_folds(question, is_gold, FOLDS)
    is_constant = _constant_features(features)
    features[:, is_constant] = 0
    ascending = sorted(penalties)
    joblib = require("joblib", extra="end")
    fold_masks = [fold_of_row == fold for fold in range(fold_of_row.max() + 1)]
    fold_logits = joblib.Parallel(n_jobs=-1, prefer="threads")(
        joblib.delayed(_held_out_logits)(features, is_gold, ~mask, ascending)
        for mask in fold_masks
    )
    logits = np.empty((len(is_gold), len(ascending)), dtype=np.float32)
    for mask, mask_logits in zip(fold_masks, fold_logits, strict=True):
        logits[mask] = mask_logits
    quality = {}
    for column, penalty in enumerate(ascending):
        quality[penalty] = question_auc(logits[:, column], is_gold, question)
    # Of equally good penalties the smallest C.
    best_penalty = max(ascending, key=lambda c: (round(quality[c], 6), -c))
    pipeline = _scaled_regression(best_penalty, tolerance=1e-6)
    scaler, regression = pipeline.fit(features, is_gold)
    # The scaling is folded into the weights.
    weight = np.asarray(regression.coef_[0], dtype=np.float64) / scaler.scale_
    bias = float(regression.intercept_[0]) - float(scaler.mean_ @ weight)
    weight[is_constant] = 0
    return LineFit(
        np.asarray(weight, dtype=np.float32),
        bias,
        best_penalty,
        logits[:, ascending.index(best_penalty)],
        quality,
    )


def _scaled_regression(penalty: float, *, tolerance: float = 1e-4) -> Any:
    """Scaling, then a logistic regression in which both classes weigh the same."""
    scaler = require("sklearn.preprocessing", extra="end").StandardScaler()
    linear_model = require("sklearn.linear_model", extra="end")
    regression = linear_model.LogisticRegression(
        C=penalty,
        class_weight="balanced",
        max_iter=400,
        tol=tolerance,
        warm_start=True,
    )
    return require("sklearn.pipeline", extra="end").make_pipeline(scaler, regression)


def _held_out_logits(
    features: Floats, is_gold: Mask, is_fitted: Mask, penalties: Sequence[float]
) -> Floats:
    """Logits of the other rows, a column per penalty; each fit starts from the last."""
    scaler, regression = _scaled_regression(penalties[0])
    fitted_features = scaler.fit_transform(features[is_fitted])
    other_features = scaler.transform(features[~is_fitted])
    logits = np.empty((len(other_features), len(penalties)), dtype=np.float32)
    for column, penalty in enumerate(penalties):
        regression.C = penalty
        regression.fit(fitted_features, is_gold[is_fitted])
        logits[:, column] = regression.decision_function(other_features)
    return logits


def assign_folds(question: Indices, is_gold: Mask, folds: int) -> Indices:
    """The fold of each row; a question's rows share a fold.

    Questions are dealt out in a fixed shuffled order, those with gold first.
    """
    if folds < 2:
        raise InputError(f"folds={folds}: expected 2 or more")
    has_gold = np.zeros(question.max() + 1, dtype=np.bool_)
    has_gold[question[is_gold]] = True
    gold_count = int(has_gold.sum())
    folds = min(folds, gold_count)
    if folds < 2:
        raise InputError(
            f"{gold_count} question(s) with a relevant chunk: expected at least 2, some "
            "hundred for a probe to be of use"
        )
    order = np.random.default_rng(0).permutation(len(has_gold))
    order = np.concatenate([order[has_gold[order]], order[~has_gold[order]]])
    fold_of_question = np.empty(len(order), dtype=np.intp)
    fold_of_question[order] = np.arange(len(order)) % folds
    return fold_of_question[question]


def question_auc(scores: Floats, is_gold: Mask, question: Indices) -> float:
    """Chance that a relevant chunk outranks another of its question; ties count half.

    The mean over questions; over all chunks when no question has both kinds.
    """
    areas: list[float] = []
    order = np.argsort(question, kind="stable")
    boundaries = np.flatnonzero(np.diff(question[order])) + 1
    for rows in np.split(order, boundaries):
        if is_gold[rows].any() and not is_gold[rows].all():
            areas.append(_area_under_curve(scores[rows], is_gold[rows]))
    if not areas:
        return _area_under_curve(scores, is_gold)
    return float(np.mean(areas))


def _area_under_curve(scores: Floats, is_gold: Mask) -> float:
    negatives = np.sort(scores[~is_gold])
    below = np.searchsorted(negatives, scores[is_gold], side="left")
    up_to = np.searchsorted(negatives, scores[is_gold], side="right")
    return float((below + up_to).mean() / (2 * len(negatives)))


def _check_rows(
    states: ArrayLike, labels: ArrayLike, groups: Sequence[Hashable]
) -> tuple[Floats, Mask, Indices]:
    features = np.array(states, dtype=np.float32)  # a copy, which `fit_line` changes
    label_array = np.asarray(labels)
    count = len(features)
    if features.ndim != 2 or label_array.shape != (count,) or len(groups) != count:
        raise InputError(
            "expected states (n, d), labels (n,) and n groups, got "
            f"{features.shape}, {label_array.shape} and {len(groups)}"
        )
    if not np.isin(label_array, (0, 1)).all():
        raise InputError("labels: expected True or False (1 or 0) for each chunk")
    is_gold = label_array.astype(np.bool_)
    if not is_gold.any() or is_gold.all():
        raise InputError(
            f"{int(is_gold.sum())} of {count} chunks are relevant: expected some of both "
            "kinds"
        )
    is_finite = np.isfinite(features).all(axis=1)
    if not is_finite.all():
        bad_rows = np.flatnonzero(~is_finite).tolist()
        raise InputError(
            f"states of rows {bad_rows[:5]} are not finite (NaN or infinite)"
        )
    numbers: dict[Hashable, int] = {}
    question = [numbers.setdefault(group, len(numbers)) for group in groups]
    return features, is_gold, np.array(question, dtype=np.intp)


def _constant_features(features: Floats) -> Mask:
    """Features that vary only by rounding, which scaling would blow up."""
    mean = features.mean(0, dtype=np.float64)
    deviation = features.std(0, dtype=np.float64)
    tolerance = 1e-6 * np.maximum(1.0, np.abs(mean))
    return np.asarray(deviation <= tolerance, dtype=np.bool_)
