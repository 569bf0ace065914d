"""The linear probe: one weight vector that reads relevance off a hidden state, and where to read it.

Early Noise Dropping, section 2.2: a logistic regression on the last token's state after ``layer``
blocks. The standardisation it was fitted with is folded into ``weight`` and ``bias``, so that scoring is
one dot product.

On disk a probe is a folder: ``probe.safetensors`` (numbers), ``probe.json`` (everything else), ``README.md`` (its
card); no pickle anywhere. It is written beside its place and moved there whole, so that an interrupted save
leaves the old probe, or none, and never half of one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.end.calibration import Calibration
from denoise_core.errors import InputError, ProbeMismatch
from denoise_core.local.fingerprint import ModelFingerprint

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class HiddenStateSpec:
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

    def differences(self, other: HiddenStateSpec) -> list[str]:
        """Each way in which ``other`` reads other states; [] when it fits."""
        out = self.model.differences(other.model)
        for name in ("layer", "layout", "pooling", "normalisation"):
            mine, its = getattr(self, name), getattr(other, name)
            if mine != its:
                out.append(
                    f"{name}: the probe was fitted with {mine!r}, this scorer uses {its!r}"
                )
        return out

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: model, layer (an index into ``hidden_states``), layout, pooling, normalisation."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HiddenStateSpec:
        """Raises `InputError` for a missing or ill-typed field."""
        if not isinstance(data, Mapping):
            raise InputError(
                f"expected a reading as a JSON object, got {type(data).__name__}"
            )
        kinds = {"layer": int, "layout": str, "pooling": str, "normalisation": str}
        for name, kind in kinds.items():
            if type(data.get(name)) is not kind:
                raise InputError(
                    f"{name!r}: expected {kind.__name__}, got {data.get(name)!r}"
                )
        return cls(
            ModelFingerprint.from_dict(data.get("model") or {}),
            **{name: data[name] for name in kinds},
        )


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """``score = states @ weight + bias``: a logit, higher is more relevant (Early Noise Dropping, section 2.2).

    A logit is for ranking and for thresholds, and is no probability: fitting weights both classes equally
    (``class_weight="balanced"``), whatever share of the chunks is relevant.

    ``weight`` is float32 of shape ``(d,)``; ``threshold`` is a logit, chosen at fitting; ``card`` holds
    plain JSON values about data and metrics (`render` makes a page of it);
    ``calibration`` lets a denoiser keep at a stated risk (``keep="calibrated"``).

    Raises `InputError` for a weight that is not a finite vector.
    """

    weight: Floats
    bias: float
    reading: HiddenStateSpec
    threshold: float = 0.0
    card: Mapping[str, Any] = field(default_factory=dict)
    calibration: Calibration | None = None

    def __post_init__(self) -> None:
        weight = np.array(self.weight, dtype=np.float32)
        if weight.ndim != 1 or not weight.size:
            raise InputError(
                f"a probe's weight is a vector of shape (d,), got shape {weight.shape}"
            )
        if not np.isfinite(weight).all() or not np.isfinite(self.bias):
            raise InputError(
                "a probe's weight and bias must be finite; was it fitted on states with NaN?"
            )
        width = self.reading.model.hidden_size
        if width and weight.size % width:
            raise InputError(
                f"weight of {weight.size} values does not belong to states of width {width}"
            )
        weight.setflags(write=False)
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "bias", float(self.bias))
        object.__setattr__(self, "threshold", float(self.threshold))

    def score(self, states: NDArray[np.floating[Any]]) -> Floats:
        """Logits of states, already pooled and normalised as `Reading` says: ``(n, d)`` to ``(n,)`` float32.

        Raises `ProbeMismatch` for another width, `InputError` for a state that is not finite.
        """
        states = np.asarray(states, dtype=np.float32)
        if states.ndim != 2 or states.shape[1] != self.weight.size:
            raise ProbeMismatch(
                f"states have shape {states.shape}, but this probe was fitted on {self.reading.model.name!r} "
                f"and reads (n, {self.weight.size})"
            )
        logits = np.asarray(
            states @ self.weight + np.float32(self.bias), dtype=np.float32
        )
        if not np.isfinite(logits).all():
            rows = np.flatnonzero(~np.isfinite(logits)).tolist()
            raise InputError(
                f"states of rows {rows[:5]} are not finite (NaN or infinite): the model overflowed; "
                "load it in bfloat16 or float32 instead of float16"
            )
        return logits

    def check(self, reading: HiddenStateSpec) -> None:
        """Raises `ProbeMismatch` naming every way in which ``reading`` is not what this probe reads."""
        wrong = self.reading.differences(reading)
        if wrong:
            raise ProbeMismatch(
                "this probe does not belong to these states: " + "; ".join(wrong)
            )

    def save(self, folder: str | Path) -> Path:
        """Write the probe folder; see `denoise_core.end.probe`."""
        arrays = {"weight": self.weight, "bias": np.array([self.bias])}
        if self.calibration is not None:
            arrays |= {PREFIX + k: v for k, v in self.calibration.to_arrays().items()}
        told = {
            "reading": self.reading.to_dict(),
            "threshold": self.threshold,
            "card": dict(self.card),
        }
        return _save(folder, arrays, told)

    @classmethod
    def load(cls, folder: str | Path) -> Probe:
        """Read a probe folder; see `denoise_core.end.probe`."""
        arrays, told = _load(folder)
        own = {
            k.removeprefix(PREFIX): v for k, v in arrays.items() if k.startswith(PREFIX)
        }
        try:
            calibration = Calibration.from_arrays(own) if own else None
            reading = HiddenStateSpec.from_dict(told.get("reading") or {})
            bias = float(arrays["bias"][0])
            return cls(
                arrays["weight"],
                bias,
                reading,
                told["threshold"],
                told["card"],
                calibration,
            )
        except InputError as error:
            raise InputError(f"{Path(folder) / MANIFEST}: {error}") from error


FORMAT = "rag-denoise probe"
VERSION = 1
TENSORS, MANIFEST, CARD = "probe.safetensors", "probe.json", "README.md"
PREFIX = "calibration."
LARGEST = 1 << 30  # bytes of one file: a probe has some hundred kilobytes
PROBE_FILES = frozenset({TENSORS, MANIFEST, CARD})


def _save(
    folder: str | Path, arrays: Mapping[str, NDArray[Any]], told: Mapping[str, Any]
) -> Path:
    """Write a probe as ``folder``; returns the folder.

    ``arrays`` are "weight" ``(d,)``, "bias" ``(1,)`` and the calibration's behind `PREFIX`; ``told`` is its
    reading (`Reading.to_dict`), threshold and card. An older probe there is replaced whole. Raises `InputError`
    when the folder holds anything else.
    """
    tensors = require("safetensors.numpy", extra="end").save(
        {name: np.array(a) for name, a in arrays.items()}
    )
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "sha256": hashlib.sha256(tensors).hexdigest(),
        **told,
    }
    try:
        text = json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the probe's card must hold plain, finite JSON values: {error}"
        ) from error
    with replace_folder(Path(folder), own_names=PROBE_FILES) as stage:
        (stage / TENSORS).write_bytes(tensors)
        (stage / MANIFEST).write_text(
            text + "\n", encoding="utf-8", errors="replace"
        )  # a card holds users' words
        (stage / CARD).write_text(render_card(told), encoding="utf-8", errors="replace")
    return Path(folder)


def _load(folder: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """What `_save` was given. Raises `InputError` for a missing, foreign, newer or damaged folder."""
    folder = Path(folder)
    manifest = _manifest(folder)
    blob = read_file(folder / TENSORS)
    if hashlib.sha256(blob).hexdigest() != manifest.get("sha256"):
        raise InputError(
            f"{folder / TENSORS} is damaged or not from this probe: its sha256 is not the manifest's"
        )
    try:
        arrays = require("safetensors.numpy", extra="end").load(blob)
    except (
        Exception
    ) as error:  # safetensors raises its own class, which is no ValueError
        raise InputError(
            f"{folder / TENSORS} is not a safetensors file: {error}"
        ) from error
    if (
        not {"weight", "bias"} <= set(arrays)
        or arrays["bias"].shape != (1,)
        or arrays["weight"].ndim != 1
    ):
        raise InputError(
            f"{folder / TENSORS}: expected tensors 'weight' (d,) and 'bias' (1,), got {sorted(arrays)}"
        )
    bad = sorted(
        name
        for name, a in arrays.items()
        if a.dtype.kind not in "fiub" or not np.isfinite(a).all()
    )
    if bad:
        raise InputError(f"{folder / TENSORS}: {bad[:3]} hold no finite numbers")
    threshold = manifest.get("threshold")
    number = (
        isinstance(threshold, int | float)
        and not isinstance(threshold, bool)
        and math.isfinite(threshold)
    )
    if not isinstance(manifest.get("card"), dict) or not number:
        raise InputError(
            f"{folder / MANIFEST}: expected 'card' as an object and 'threshold' as a number"
        )
    return arrays, manifest


def read_file(path: Path) -> bytes:
    try:
        if path.stat().st_size > LARGEST:
            raise InputError(
                f"{path} is larger than {LARGEST} bytes: it is no part of a probe"
            )
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror or error}); a probe folder holds {TENSORS}, {MANIFEST} "
            f"and {CARD}, as Probe.save writes them"
        ) from error


def _manifest(folder: Path) -> dict[str, Any]:
    blob = read_file(folder / MANIFEST)
    try:
        manifest = json.loads(blob.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{folder / MANIFEST} is not JSON: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(
            f'{folder / MANIFEST} is not a probe: expected "format": {FORMAT!r}'
        )
    if manifest.get("version") != VERSION:
        raise InputError(
            f"{folder / MANIFEST} is of version {manifest.get('version')!r}, this release reads {VERSION}: "
            "pip install --upgrade rag-denoise, or fit the probe again"
        )
    return manifest


@contextlib.contextmanager
def replace_folder(folder: Path, *, own_names: frozenset[str]) -> Iterator[Path]:
    """A fresh folder to fill, which becomes ``folder`` when the block ends well and vanishes when it does not.

    ``ours`` are the only names an existing folder may hold; else `InputError`, and nothing is touched.
    """
    check_replaceable(folder, own_names)
    folder.parent.mkdir(parents=True, exist_ok=True)
    stage = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}.part")
    try:
        stage.mkdir()  # readable to whom the user's umask says
        yield stage
        check_replaceable(folder, own_names)  # filling may have taken hours
        _swap(stage, folder)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def check_replaceable(folder: Path, own_names: frozenset[str] = PROBE_FILES) -> None:
    """Raises `InputError` when `replacing` would refuse: worth asking before hours of work."""
    try:
        inside = os.listdir(
            folder
        )  # one look: another saver may move the folder away at any time
    except FileNotFoundError:
        return
    except NotADirectoryError:
        inside = [folder.name]
    others = sorted(name for name in inside if name not in own_names)
    if others:
        raise InputError(
            f"{folder} exists and holds {others[:3]}: choose another folder"
        )


def _swap(stage: Path, folder: Path) -> None:
    """Two that write the same folder take turns: the last one's stays, whole."""
    old = stage.with_suffix(".old")
    for _ in range(100):
        with contextlib.suppress(
            FileNotFoundError
        ):  # nothing there, or another one moved it just now
            os.rename(folder, old)
        try:
            os.rename(stage, folder)
            return
        except (
            OSError
        ) as error:  # another one's is there by now: the next round moves it away
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                if old.exists() and not folder.exists():
                    os.rename(old, folder)
                raise
        finally:
            shutil.rmtree(old, ignore_errors=True)
    raise InputError(f"{folder}: too many write it at the same time")


def render_card(told: Mapping[str, Any]) -> str:
    """Markdown with the Hub's YAML head, of what `_save` was told. Nothing is filled in."""
    head = [
        "---",
        "library_name: rag-denoise",
        "tags: [early-noise-dropping, linear-probe, rag]",
        "---",
    ]
    if licence := told["card"].get("licence"):
        head.insert(-1, f"license: {json.dumps(licence)}")  # JSON is YAML
    said = json.dumps(told, indent=1, ensure_ascii=False)
    return "\n".join(
        [*head, "", "# Early Noise Dropping probe", "", "```json", said, "```", ""]
    )


def markdown_table(rows: Iterable[Iterable[Any]]) -> str:
    """Markdown of rows, the first its header."""
    lines = [
        "| "
        + " | ".join(" ".join(str(c).split()).replace("|", "\\|") for c in row)
        + " |"
        for row in rows
    ]
    return "\n".join([lines[0], "|" + "---|" * (lines[0].count(" | ") + 1), *lines[1:]])
