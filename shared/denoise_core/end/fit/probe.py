"""From labelled questions to a probe: read all layers once, fit each, choose one, control it, write it up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from denoise_core.end.calibration import Calibration, calibrate
from denoise_core.end.fit.controls import random_weights, without_question
from denoise_core.end.fit.readings import Each, Progress, capture
from denoise_core.end.fit.regression import probe_of
from denoise_core.end.fit.sweep import MARGIN, LayerFit, choose_layer, sweep
from denoise_core.end.probe import Probe
from denoise_core.end.reader import HiddenReader
from denoise_core.end.scorer import ProbeScorer
from denoise_core.errors import InputError
from denoise_core.question import Question


@dataclass(frozen=True, slots=True, eq=False)
class ProbeFit:
    """The probe, and the study behind it: one `LayerFit` a layer, and the controls by name."""

    probe: Probe
    layers: tuple[LayerFit, ...]
    controls: Mapping[str, LayerFit]


def fit_probe(
    model: Any,
    questions: Sequence[Question],
    *,
    layers: Sequence[int] | None = None,
    share: float = 0.3,
    folder: str | Path | None = None,
    calibration: Sequence[Question] = (),
    controls: bool = True,
    card: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    each: Each = map,
) -> ProbeFit:
    """Fit a probe on ``model``, given by name, path or object, or as a `HiddenReader` with its settings.

    ``layers`` are tried (all when None) and the shallowest that loses little against the best at ``share`` kept is
    taken (`choose_layer`; Early Noise Dropping, section 2.2).
    ``folder`` keeps the states, so that a killed run goes on; ``each`` has them read elsewhere (see `capture`).
    ``calibration`` are other questions, for ``keep="calibrated"``; a question that is also fitted on is refused.
    ``controls`` fits the chosen layer twice more, on random weights and without the question. ``card`` is added to
    the probe's: say there where the data comes from and under which licence.

    Raises `InputError` for data that cannot be fitted or calibrated on.
    """
    overlap = {q.text for q in questions} & {q.text for q in calibration}
    if overlap:
        raise InputError(
            f"{len(overlap)} calibration question(s) are also fitted on, such as {min(overlap)[:80]!r}: the "
            "guarantee would be void; keep them apart"
        )
    reader = model if isinstance(model, HiddenReader) else HiddenReader(model)
    captured = capture(reader, questions, layers=layers, folder=folder, progress=progress, each=each)
    fits = sweep(captured)
    chosen = choose_layer(fits, share)
    controlled = (
        {
            "random weights": random_weights(reader, questions, chosen.layer),
            "no question": without_question(reader, questions, chosen.layer),
        }
        if controls
        else {}
    )
    written = {
        "data": _data(questions),
        "recall by layer, held-out questions": [f.summary() for f in fits],
        "layer": f"{chosen.layer}: the shallowest that loses at most {100 * MARGIN:g} points at {share:.0%} kept",
        "controls, same layer, held-out questions": [
            {"control": name, **control.summary()} for name, control in controlled.items()
        ],
        **(card or {}),
    }
    probe = probe_of(
        chosen.line, reader.reading(chosen.layer), captured.labels, captured.groups.tolist(), card=written
    )
    if calibration:
        probe = _calibrated(probe, calibrate(ProbeScorer(reader, probe), calibration))
    return ProbeFit(probe, fits, controlled)


def _data(questions: Sequence[Question]) -> dict[str, Any]:
    sizes = [len(q.passages) for q in questions]
    return {
        "questions": len(questions),
        "without a relevant passage": sum(not q.gold for q in questions),
        "passages": sum(sizes),
        "relevant passages": sum(len(q.gold) for q in questions),
        "passages a question, median": float(np.median(sizes)),
    }


def _calibrated(probe: Probe, calibration: Calibration) -> Probe:
    card = {**probe.card, "calibration": {"questions": calibration.n, "used for fitting": False}}
    return Probe(probe.weight, probe.bias, probe.reading, probe.threshold, card, calibration)
