"""From labelled questions to a probe: read all layers once, fit each, choose one, control it, write it up.

The controls are what a probe reaches without what it is supposed to use, the model's training and the question:

* random weights: the same architecture with fresh blocks, embeddings kept. What the probe still finds there
  is in the words, not in what the model understood (Early Noise Dropping, section 3.3).
* no question: every passage read under one and the same question. What the probe still finds there tells
  relevant passages by their style, so the data leaks.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from denoise_core._optional import require
from denoise_core.end.calibration import Calibration, calibrate
from denoise_core.end.fit.readings import Each, Progress, capture
from denoise_core.end.fit.regression import MARGIN, LayerFit, choose_layer, probe_of, sweep
from denoise_core.end.probe import Probe
from denoise_core.end.reader import HiddenReader, ReadingSettings
from denoise_core.end.scorer import ProbeScorer
from denoise_core.errors import InputError
from denoise_core.local.layout import LAYOUTS
from denoise_core.question import Question

NO_QUESTION = "What is this about?"


def without_question(reader: HiddenReader, questions: Sequence[Question], layer: int) -> LayerFit:
    """A probe fitted at ``layer`` on passages that were all read under the same question."""
    same = [replace(q, text=NO_QUESTION) for q in questions]
    return sweep(capture(reader, same, layers=[layer]))[0]


def random_weights(reader: HiddenReader, questions: Sequence[Question], layer: int, *, seed: int = 0) -> LayerFit:
    """A probe fitted at ``layer`` of a model whose blocks know nothing."""
    backbone = reader.backbone
    settings = ReadingSettings(
        layout=reader.settings.layout or LAYOUTS[reader.layout.name],
        pooling=reader.pooling,
        normalisation=reader.norm.kind,
        max_tokens=reader.settings.max_tokens,
    )
    fresh = HiddenReader(with_fresh_blocks(backbone, seed), tokenizer=backbone.tokenizer, settings=settings)
    return sweep(capture(fresh, questions, layers=[layer]))[0]


def with_fresh_blocks(backbone: Any, seed: int = 0) -> Any:
    """A model of the same configuration with newly initialised blocks and everything else copied.

    The global random state is left as it was.
    """
    torch = require("torch", extra="end")
    model = backbone.model
    blocks = {id(p) for p in backbone.early.blocks.parameters()}
    inside = {name for name, p in model.named_parameters() if id(p) in blocks}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = type(model)(copy.deepcopy(model.config))
    kept = {name: value for name, value in model.state_dict().items() if name not in inside}
    fresh.load_state_dict(kept, strict=False)
    sample = next(iter(backbone.early.blocks.parameters()))
    return fresh.to(device=sample.device, dtype=sample.dtype).eval()


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
