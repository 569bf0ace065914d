"""Fit a probe: read all layers once, fit each, take the one that costs least.

Recall of the relevant chunk rises over the early layers and then stays or falls (Early
Noise Dropping, section 2.2). A shallower layer costs less to score with, a better one
leaves less text to read, so the one with the least operations for a stated recall is
taken; also over poolings, which one pass reads together.

A regression is logistic, on standardised states, with the scaling folded into its
weights. The penalty decides more than anything else, and its best value is far below
the usual default of 1, so it is always swept. Folds hold whole questions: chunks of one
question are never on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denoise_core._optional import require
from denoise_core.end.calibration import calibrate_scorer, required_text_fraction
from denoise_core.end.fit.recall import RECALL_FRACTIONS, recall_table
from denoise_core.end.fit.states import (
    HiddenStates,
    Progress,
    capture_states,
)
from denoise_core.end.probe import HiddenStateSpec, Probe
from denoise_core.end.reader import HiddenReader
from denoise_core.end.scorer import ProbeScorer
from denoise_core.errors import InputError
from denoise_core.local.layout import PASSAGE, QUERY
from denoise_core.question import Question

Floats: TypeAlias = NDArray[np.float32]
Mask: TypeAlias = NDArray[np.bool_]
Indices: TypeAlias = NDArray[np.intp]

# sklearn's C from 1e-5 to 1e-1, half a decade apart.
PENALTIES = tuple(float(10 ** (exponent / 2)) for exponent in range(-10, -1))
FOLDS = 5
RECALL = 0.9  # of the gold that has to be kept, where layers are compared
RESAMPLES = 200  # of the questions, for intervals of operations
# The question's tokens are pooled where they follow the passage.
SWEPT_POOLINGS = ("last", "mean_question", "last_mean_question")


@dataclass(frozen=True, slots=True, eq=False)
class ProbeFit:
    """The probe, and the study behind it: one `LayerFit` per layer and pooling.

    ``chosen`` is the one that the probe is from.
    """

    probe: Probe
    layers: tuple[LayerFit, ...]
    chosen: LayerFit

    @property
    def held_out(self) -> Floats:
        """The probe's logits by fold models that did not see the row's question."""
        return self.chosen.regression.held_out


@dataclass(frozen=True, slots=True, eq=False)
class LayerFit:
    """One layer's regression, and how it ranked held-out questions.

    Attributes:
        layer: Index into ``hidden_states``.
        regression: The fitted regression.
        recall: By "top 1", "20 %" ... "60 %" one value per question with a relevant
            chunk: whether the best chunk is relevant, and the fraction of relevant
            chunks among the best 20 % ... 60 %.
        scoring: What it costs to score all passages, as a share of reading them in one
            prompt through all blocks.
        text_needed: Fraction of the text that keeps `RECALL` of the gold, or as much as
            was stated; the estimate, then `RESAMPLES` bootstrap samples of questions.
        pooling: How its states are pooled.
    """

    layer: int
    regression: RegressionFit
    recall: Mapping[str, NDArray[np.float64]]
    scoring: float
    text_needed: NDArray[np.float64]
    pooling: str = "last"

    @property
    def operations(self) -> NDArray[np.float64]:
        """Scoring, then reading the text needed: shares of a full pass, as `text_needed`."""
        return self.scoring + self.text_needed

    def summary(self) -> dict[str, Any]:
        """The layer's row in a card: means over held-out questions."""
        low, high = np.quantile(self.operations[1:], (0.025, 0.975))
        recall = {cut: float(values.mean()) for cut, values in self.recall.items()}
        return {
            "layer": self.layer,
            "pooling": self.pooling,
            "AUC": self.regression.quality[self.regression.penalty],
            "operations": float(self.operations[1:].mean()),
            "operations, 95 %": f"{low:.2f} to {high:.2f}",
            **recall,
            "C": self.regression.penalty,
        }


@dataclass(frozen=True, slots=True, eq=False)
class RegressionFit:
    """A fitted regression and how good it was on questions it had not seen.

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
    fraction: float | None = 0.3,
    recall: float = RECALL,
    folder: str | Path | None = None,
    calibration: Sequence[Question] = (),
    card: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> ProbeFit:
    """Fit a probe on labelled questions.

    Args:
        model: Name, path or object, or a `HiddenReader` with its settings. Without
            a set pooling all of `SWEPT_POOLINGS` are tried.
        questions: What to fit on.
        layers: Layers to try; all when None. The cheapest is taken (`choose_layer`;
            Early Noise Dropping, section 2.2).
        fraction: Fraction of the chunks that will be kept; None for as much as each
            layer needs.
        recall: Fraction of the gold that has to be kept.
        folder: Keeps the states, so that a killed run continues.
        calibration: Other questions, for ``keep="auto"``; a question that is also
            fitted on is refused.
        card: Added to the probe's; say here where the data is from, and its licence.
        progress: Called with (questions read, all questions).

    Raises:
        InputError: Data that cannot be fitted or calibrated on.
    """
    check_apart(questions, calibration)
    reader = model if isinstance(model, HiddenReader) else HiddenReader(model)
    poolings = swept_poolings(reader)
    states = capture_states(
        # The last one's parts are those of all.
        reader.with_pooling(poolings[-1]),
        questions,
        layers=layers,
        folder=folder,
        progress=progress,
    )
    fits: list[LayerFit] = []
    for pooling in poolings:
        fits += fit_layers(states.with_pooling(pooling), recall)
    best_fit = choose_layer(fits, fraction, recall)
    reader = reader.with_pooling(best_fit.pooling)
    probe_card = {
        "recall by layer, held-out questions": [fit.summary() for fit in fits],
        "layer": f"{best_fit.layer}, pooling {best_fit.pooling!r}: the least operations "
        f"that keep {recall:.0%} of the relevant chunks",
        **(card or {}),
    }
    probe = build_probe(
        best_fit.regression,
        reader.reading(best_fit.layer),
        states.labels,
        states.question_index,
        card=probe_card,
    )
    if calibration:
        margins = calibrate_scorer(ProbeScorer(reader, probe), calibration)
        probe = replace(probe, calibration=margins)
    return ProbeFit(probe, tuple(fits), best_fit)


def check_apart(questions: Sequence[Question], calibration: Sequence[Question]) -> None:
    """Raises `InputError` for a calibration question that is also fitted on."""
    fitted_texts = {question.text for question in questions}
    overlap = fitted_texts & {question.text for question in calibration}
    if overlap:
        raise InputError(
            f"{len(overlap)} calibration question(s) are also fitted on, such as "
            f"{min(overlap)[:80]!r}: the guarantee would be void; keep them apart"
        )


def swept_poolings(reader: HiddenReader) -> tuple[str, ...]:
    """The poolings that `fit_probe` compares: one, if it is set or the model has no other."""
    if reader.settings.pooling or reader.layout.slots != [PASSAGE, QUERY]:
        return (reader.pooling,)
    return SWEPT_POOLINGS


def fit_layers(
    hidden_states: HiddenStates, recall: float = RECALL
) -> tuple[LayerFit, ...]:
    """A regression for each layer, shallow to deep; folds are the same at every layer."""
    layer_fits = []
    labels = hidden_states.labels
    groups = hidden_states.question_index
    for layer, layer_states in sorted(hidden_states.by_layer.items()):
        regression_fit = fit_regression(layer_states, labels, groups)
        layer_recall = recall_table(regression_fit.held_out, labels, groups)
        text_needed = required_text_fraction(
            regression_fit.held_out,
            labels,
            hidden_states.sizes,
            groups,
            fraction=recall,
            resamples=RESAMPLES,
        )
        scoring = layer * hidden_states.block_cost
        layer_fits.append(
            LayerFit(
                layer,
                regression_fit,
                layer_recall,
                scoring,
                text_needed,
                hidden_states.pooling,
            )
        )
    return tuple(layer_fits)


def choose_layer(
    layer_fits: Sequence[LayerFit],
    fraction: float | None = 0.3,
    recall: float = RECALL,
) -> LayerFit:
    """The fit that costs least at a stated recall.

    Args:
        layer_fits: One per layer and pooling.
        fraction: Fraction of the chunks kept: of the fits whose recall is enough there,
            the shallowest is taken, and the best where none is. `recall_table`'s
            nearest cut is compared. None for scoring and text needed together, by
            their means over bootstrap samples.
        recall: Fraction of the gold that has to be kept.

    Raises:
        InputError: No layer was fitted.
    """
    if not layer_fits:
        raise InputError("no layer was fitted: give at least one")
    # Of equal fits the shallower one, then the narrower one.
    by_cost = sorted(
        layer_fits, key=lambda fit: (fit.layer, len(fit.regression.weight))
    )
    if fraction is None:
        return min(by_cost, key=lambda fit: float(fit.operations[1:].mean()))
    nearest_cut = min(RECALL_FRACTIONS, key=lambda cut: abs(cut - fraction))
    recalls = [fit.recall[f"{100 * nearest_cut:g} %"].mean() for fit in by_cost]
    is_enough = np.array(recalls) >= min(recall, max(recalls))
    return by_cost[int(is_enough.argmax())]


def build_probe(
    regression: RegressionFit,
    reading: HiddenStateSpec,
    labels: Mask,
    groups: Indices,
    *,
    card: Mapping[str, Any] | None = None,
) -> Probe:
    """The probe of a fitted regression.

    Args:
        regression: The fitted regression.
        reading: Which states it was fitted on.
        labels: ``(n,)``, of the rows it was fitted on.
        groups: ``(n,)``, the question of each row.
        card: Added to the fit's figures.
    """
    auc = regression.quality[regression.penalty]
    figures: dict[str, Any] = {
        "questions": len(np.unique(groups)),
        "chunks": len(labels),
        "relevant chunks": int(labels.sum()),
        "C": regression.penalty,
        "chance that a relevant chunk outranks another, held out": auc,
    }
    probe_card = {"fit": figures, **(card or {})}
    return Probe(regression.weight, regression.bias, reading, probe_card)


def fit_regression(
    states: ArrayLike,
    labels: Mask,
    groups: Indices,
    *,
    penalties: Sequence[float] = PENALTIES,
) -> RegressionFit:
    """A logistic regression on states, with the best penalty on held-out questions.

    Args:
        states: ``(n, d)``.
        labels: ``(n,)``, True for relevant.
        groups: ``(n,)``, the question of each row.
        penalties: Values of C to try, ascending.

    Raises:
        InputError: States that are not finite, or fewer than two questions with a relevant
            chunk.
    """
    # A copy, which is changed below.
    state_rows = np.array(states, dtype=np.float32)
    if not np.isfinite(state_rows).all():
        raise InputError(
            "states that are not finite (NaN or infinite) cannot be fitted"
        )
    if labels.all():
        raise InputError("all chunks are relevant: expected some that are not")
    fold_of_row = assign_folds(groups, labels, FOLDS)
    is_constant = _constant_features(state_rows)
    state_rows[:, is_constant] = 0
    run_parallel = require("joblib", extra="end").Parallel(n_jobs=-1, prefer="threads")
    delayed = require("joblib", extra="end").delayed
    fold_masks = [fold_of_row == fold for fold in range(fold_of_row.max() + 1)]
    fold_logits = run_parallel(
        delayed(_held_out_logits)(state_rows, labels, ~fold_mask, penalties)
        for fold_mask in fold_masks
    )
    held_out = np.empty((len(labels), len(penalties)), dtype=np.float32)
    for fold_mask, mask_logits in zip(fold_masks, fold_logits, strict=True):
        held_out[fold_mask] = mask_logits
    quality = {}
    for column, penalty in enumerate(penalties):
        quality[penalty] = question_auc(held_out[:, column], labels, groups)
    # Of equally good penalties the smallest C.
    best_penalty = max(penalties, key=lambda c: (round(quality[c], 6), -c))
    fitted_pipeline = _scaled_regression(best_penalty, tolerance=1e-6)
    state_scaler, logistic_regression = fitted_pipeline.fit(state_rows, labels)
    # The scaling is folded into the weights.
    coefficients = np.asarray(logistic_regression.coef_[0], dtype=np.float64)
    line_weight = coefficients / state_scaler.scale_
    line_bias = float(logistic_regression.intercept_[0])
    line_bias -= float(state_scaler.mean_ @ line_weight)
    line_weight[is_constant] = 0
    return RegressionFit(
        np.asarray(line_weight, dtype=np.float32),
        line_bias,
        best_penalty,
        held_out[:, penalties.index(best_penalty)],
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
    state_rows: Floats, is_gold: Mask, is_fitted: Mask, penalties: Sequence[float]
) -> Floats:
    """Logits of the other rows, a column per penalty; each fit starts from the last."""
    state_scaler, logistic_regression = _scaled_regression(penalties[0])
    fitted_features = state_scaler.fit_transform(state_rows[is_fitted])
    other_features = state_scaler.transform(state_rows[~is_fitted])
    held_out_logits = np.empty((len(other_features), len(penalties)), dtype=np.float32)
    for penalty_column, penalty_value in enumerate(penalties):
        logistic_regression.C = penalty_value
        logistic_regression.fit(fitted_features, is_gold[is_fitted])
        held_out_logits[:, penalty_column] = logistic_regression.decision_function(
            other_features
        )
    return held_out_logits


def assign_folds(groups: Indices, is_gold: Mask, folds: int) -> Indices:
    """The fold of each row; a question's rows share a fold.

    Questions are dealt out in a fixed shuffled order, those with gold first.
    """
    question_of_row = np.unique(groups, return_inverse=True)[1]
    has_gold = np.zeros(len(np.unique(groups)), dtype=np.bool_)
    has_gold[question_of_row[is_gold]] = True
    gold_count = int(has_gold.sum())
    if gold_count < 2:
        raise InputError(
            f"{gold_count} question(s) with a relevant chunk: expected at least 2, some "
            "hundred for a probe to be of use"
        )
    question_order = np.random.default_rng(0).permutation(len(has_gold))
    is_later = ~has_gold[question_order]
    question_order = question_order[np.argsort(is_later, kind="stable")]
    fold_of_question = np.empty(len(question_order), dtype=np.intp)
    fold_of_question[question_order] = np.arange(len(question_order)) % min(
        folds, gold_count
    )
    return fold_of_question[question_of_row]


def question_auc(scores: Floats, is_gold: Mask, groups: Indices) -> float:
    """Chance that a relevant chunk outranks another of its question; ties count half.

    The mean over questions; over all chunks when no question has both kinds.
    """
    question_areas = []
    row_order = np.argsort(groups, kind="stable")
    question_starts = np.flatnonzero(np.diff(groups[row_order])) + 1
    for rows in np.split(row_order, question_starts):
        if is_gold[rows].any() and not is_gold[rows].all():
            question_areas.append(_area_under_curve(scores[rows], is_gold[rows]))
    if not question_areas:
        return _area_under_curve(scores, is_gold)
    return float(np.mean(question_areas))


def _area_under_curve(scores: Floats, is_gold: Mask) -> float:
    lead = scores[is_gold][:, None] - scores[~is_gold]
    return float((np.sign(lead).mean() + 1) / 2)


def _constant_features(state_rows: Floats) -> Mask:
    """Features that vary only by rounding, which scaling would blow up."""
    feature_mean = state_rows.mean(0, dtype=np.float64)
    feature_deviation = state_rows.std(0, dtype=np.float64)
    constant_tolerance = 1e-6 * np.maximum(1.0, np.abs(feature_mean))
    return np.asarray(feature_deviation <= constant_tolerance, dtype=np.bool_)
