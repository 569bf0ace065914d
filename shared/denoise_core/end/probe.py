"""The linear probe: one weight vector that reads relevance off a hidden state, and where to read it.

Early Noise Dropping, section 2.2: a logistic regression on the last token's state after ``layer``
blocks. The standardisation it was fitted with is folded into ``weight`` and ``bias``, so that scoring is
one dot product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.end import probe_folder
from denoise_core.end.calibration import Calibration
from denoise_core.errors import InputError, ProbeMismatch
from denoise_core.local.fingerprint import ModelFingerprint

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Reading:
    """Where a state was read: everything that has to agree between fitting and scoring.

    ``layer`` is the index into Hugging Face ``hidden_states``: 0 is the embeddings, L the residual after L
    blocks. ``layout`` is the fingerprint of the prompt layout, ``pooling`` says which tokens were pooled
    and how, ``normalisation`` what was done to the pooled state before the probe.
    """

    model: ModelFingerprint
    layer: int
    layout: str
    pooling: str = "last"
    normalisation: str = "rms"

    def __post_init__(self) -> None:
        if self.layer < 0:
            raise InputError(f"layer={self.layer}: expected 0 (embeddings) or more")

    def differences(self, other: Reading) -> list[str]:
        """Each way in which ``other`` reads other states; [] when it fits."""
        out = self.model.differences(other.model)
        for name in ("layer", "layout", "pooling", "normalisation"):
            mine, its = getattr(self, name), getattr(other, name)
            if mine != its:
                out.append(f"{name}: the probe was fitted with {mine!r}, this scorer uses {its!r}")
        return out

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: model, layer (an index into ``hidden_states``), layout, pooling, normalisation."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Reading:
        """Raises `InputError` for a missing or ill-typed field."""
        if not isinstance(data, Mapping):
            raise InputError(f"expected a reading as a JSON object, got {type(data).__name__}")
        layer = data.get("layer")
        if not isinstance(layer, int) or isinstance(layer, bool):
            raise InputError(f"'layer': expected an integer, got {layer!r}")
        texts = {k: data.get(k) for k in ("layout", "pooling", "normalisation")}
        for name, value in texts.items():
            if not isinstance(value, str):
                raise InputError(f"{name!r}: expected a string, got {value!r}")
        model = ModelFingerprint.from_dict(data.get("model") or {})
        return cls(model, layer, **{k: str(v) for k, v in texts.items()})


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """``score = states @ weight + bias``: a logit, higher is more relevant (Early Noise Dropping, section 2.2).

    A logit is for ranking and for thresholds, and is no probability: fitting weights both classes equally
    (``class_weight="balanced"``), whatever share of the chunks is relevant.

    ``weight`` is float32 of shape ``(d,)``; ``threshold`` is a logit, chosen at fitting; ``card`` holds
    plain JSON values about data, metrics and controls (`denoise_core.end.probe_folder` renders it);
    ``calibration`` lets a denoiser keep at a stated risk (``keep="calibrated"``).

    Raises `InputError` for a weight that is not a finite vector.
    """

    weight: Floats
    bias: float
    reading: Reading
    threshold: float = 0.0
    card: Mapping[str, Any] = field(default_factory=dict)
    calibration: Calibration | None = None

    def __post_init__(self) -> None:
        weight = np.array(self.weight, dtype=np.float32)
        if weight.ndim != 1 or not weight.size:
            raise InputError(f"a probe's weight is a vector of shape (d,), got shape {weight.shape}")
        if not np.isfinite(weight).all() or not np.isfinite(self.bias):
            raise InputError("a probe's weight and bias must be finite; was it fitted on states with NaN?")
        width = self.reading.model.hidden_size
        if width and weight.size % width:
            raise InputError(f"weight of {weight.size} values does not belong to states of width {width}")
        weight.setflags(write=False)
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "bias", float(self.bias))
        object.__setattr__(self, "threshold", float(self.threshold))

    @property
    def model(self) -> ModelFingerprint:
        """Which model's states it reads."""
        return self.reading.model

    @property
    def layer(self) -> int:
        """Index into ``hidden_states``, 0 = embeddings."""
        return self.reading.layer

    @property
    def layout(self) -> str:
        """How question and passage stood in the prompt when the probe was fitted."""
        return self.reading.layout

    @property
    def pooling(self) -> str:
        """Which positions of the prompt become one state."""
        return self.reading.pooling

    @property
    def normalisation(self) -> str:
        """What is done to a state before it is weighed."""
        return self.reading.normalisation

    def score(self, states: NDArray[np.floating[Any]]) -> Floats:
        """Logits of states, already pooled and normalised as `Reading` says: ``(n, d)`` to ``(n,)`` float32.

        Raises `ProbeMismatch` for another width, `InputError` for a state that is not finite.
        """
        states = np.asarray(states, dtype=np.float32)
        if states.ndim != 2 or states.shape[1] != self.weight.size:
            raise ProbeMismatch(
                f"states have shape {states.shape}, but this probe was fitted on {self.model.name!r} "
                f"and reads (n, {self.weight.size})"
            )
        logits = np.asarray(states @ self.weight + np.float32(self.bias), dtype=np.float32)
        if not np.isfinite(logits).all():
            rows = np.flatnonzero(~np.isfinite(logits)).tolist()
            raise InputError(
                f"states of rows {rows[:5]} are not finite (NaN or infinite): the model overflowed; "
                "load it in bfloat16 or float32 instead of float16"
            )
        return logits

    def check(self, reading: Reading) -> None:
        """Raises `ProbeMismatch` naming every way in which ``reading`` is not what this probe reads."""
        wrong = self.reading.differences(reading)
        if wrong:
            raise ProbeMismatch("this probe does not belong to these states: " + "; ".join(wrong))

    def save(self, folder: str | Path) -> Path:
        """Write the probe folder; see `denoise_core.end.probe_folder`."""
        arrays = {"weight": self.weight, "bias": np.array([self.bias])}
        if self.calibration is not None:
            arrays |= {probe_folder.PREFIX + k: v for k, v in self.calibration.to_arrays().items()}
        told = {"reading": self.reading.to_dict(), "threshold": self.threshold, "card": dict(self.card)}
        return probe_folder.save(folder, arrays, told)

    @classmethod
    def load(cls, folder: str | Path) -> Probe:
        """Read a probe folder; see `denoise_core.end.probe_folder`."""
        arrays, told = probe_folder.load(folder)
        prefix = probe_folder.PREFIX
        own = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
        try:
            calibration = Calibration.from_arrays(own) if own else None
            reading = Reading.from_dict(told.get("reading") or {})
            bias = float(arrays["bias"][0])
            return cls(arrays["weight"], bias, reading, told["threshold"], told["card"], calibration)
        except InputError as error:
            raise InputError(f"{Path(folder) / probe_folder.MANIFEST}: {error}") from error
