"""Fit a probe on attention heads: read all heads once, keep the few that find what is asked.

Less than one head in a hundred turns to relevant passages (CoRe, arXiv 2510.02219), and
twenty to fifty labelled questions show which. A regularised logistic regression weighs all
heads; those with the largest weights are weighed again, alone. Their number and the highest
block decide what scoring costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from denoise_core.end.calibration import calibrate_scorer
from denoise_core.end.fit.probe import (
    FOLDS,
    Floats,
    Indices,
    Mask,
    RegressionFit,
    assign_folds,
    build_probe,
    check_apart,
    fit_regression,
    question_auc,
)
from denoise_core.end.fit.states import (
    HiddenStates,
    Progress,
    capture_states,
)
from denoise_core.end.heads import HeadReader
from denoise_core.end.probe import Head, Probe, format_heads
from denoise_core.end.scorer import ProbeScorer
from denoise_core.errors import InputError
from denoise_core.question import Question

MAX_HEADS = 12
READ_SHARE = 2 / 3  # of the blocks: retrieval heads are in the middle
# sklearn's C. Attention has fewer, more redundant columns than states.
PENALTIES = tuple(float(10**exponent) for exponent in range(-4, 0))


@dataclass(frozen=True, slots=True, eq=False)
class HeadFit:
    """A probe on heads, and how heads did on questions that their choice had not seen.

    Attributes:
        probe: The probe; `Probe.reading` names its heads.
        held_out: float32 ``(n,)``, each passage's logit from heads and weights that did
            not see its question.
        auc: Chance that a relevant passage outranks another of its question, by them.
    """

    probe: Probe
    held_out: Floats
    auc: float


def fit_heads(
    model: Any,
    questions: Sequence[Question],
    *,
    layers: Sequence[int] | None = None,
    max_heads: int = MAX_HEADS,
    folder: str | Path | None = None,
    calibration: Sequence[Question] = (),
    card: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> HeadFit:
    """Fit a probe on attention heads.

    Args:
        model: Name, path or object, or a `HeadReader` with its settings.
        questions: What to fit on, twenty to fifty are enough.
        layers: Layers whose heads are tried; the first two thirds when None.
        max_heads: How many heads the probe reads at most.
        folder: Keeps the attention, so that a killed run continues.
        calibration: Other questions, for ``keep="auto"``.
        card: Added to the probe's; say here where the data is from, and its licence.
        progress: Called with (questions read, all questions).

    Raises:
        InputError: Data that cannot be fitted or calibrated on, or a model whose
            attention cannot be read.
    """
    if max_heads < 1:
        raise InputError(f"max_heads={max_heads}: expected 1 or more")
    check_apart(questions, calibration)
    reader = model if isinstance(model, HeadReader) else HeadReader(model)
    if layers is None:
        layers = range(1, 1 + max(1, round(READ_SHARE * reader.layer_count)))
    states = capture_states(
        reader,
        questions,
        layers=layers,
        folder=folder,
        progress=progress,
    )
    heads, attention = _all_heads(states)
    groups = states.question_index
    held_out = _unseen_logits(attention, states.labels, groups, max_heads)
    columns, regression = _choose_heads(attention, states.labels, groups, max_heads)
    chosen_heads = [heads[column] for column in columns]
    head_reader = reader.with_heads(chosen_heads)
    auc = question_auc(held_out, states.labels, groups)
    probe_card = {
        "heads, by weight": format_heads(chosen_heads),
        "heads tried": len(heads),
        **(card or {}),
    }
    layer = 1 + max(block for block, _ in chosen_heads)
    # The regression's own quality is of heads that were chosen on every question.
    quality = {regression.penalty: auc}
    probe = build_probe(
        replace(regression, held_out=held_out, quality=quality),
        head_reader.reading(layer),
        states.labels,
        groups,
        card=probe_card,
    )
    if calibration:
        margins = calibrate_scorer(ProbeScorer(head_reader, probe), calibration)
        probe = replace(probe, calibration=margins)
    return HeadFit(probe, held_out, auc)


def _all_heads(states: HiddenStates) -> tuple[list[Head], Floats]:
    """Every head that was read, and its attention ``(n, heads)``."""
    heads = []
    for layer in sorted(states.by_layer):
        head_count = states.by_layer[layer].shape[1]
        heads += [(layer - 1, head) for head in range(head_count)]
    by_layer = [states.by_layer[layer] for layer in sorted(states.by_layer)]
    return heads, np.concatenate(by_layer, axis=1)


def _choose_heads(
    attention: Floats, labels: Mask, groups: Indices, max_heads: int
) -> tuple[list[int], RegressionFit]:
    """The columns with the largest weights, and the regression on them alone."""
    all_heads = fit_regression(attention, labels, groups, penalties=PENALTIES)
    # In units of each head's own spread; a head that turns away finds nothing.
    weights = all_heads.weight * attention.std(axis=0)
    by_weight = np.argsort(-weights)[:max_heads]
    columns = [int(column) for column in by_weight if weights[column] > 0]
    if not columns:
        columns = [int(by_weight[0])]
    regression = fit_regression(
        attention[:, columns], labels, groups, penalties=PENALTIES
    )
    return columns, regression


def _unseen_logits(
    attention: Floats, labels: Mask, groups: Indices, max_heads: int
) -> Floats:
    """Each row's logit by heads and weights from folds without its question."""
    fold_of_row = assign_folds(groups, labels, FOLDS)
    held_out = np.empty(len(labels), dtype=np.float32)
    for fold in range(int(fold_of_row.max()) + 1):
        is_fitted = fold_of_row != fold
        columns, regression = _choose_heads(
            attention[is_fitted],
            labels[is_fitted],
            groups[is_fitted],
            max_heads,
        )
        logits = attention[~is_fitted][:, columns] @ regression.weight + regression.bias
        held_out[~is_fitted] = logits
    return held_out
