"""The linear probe: one weight vector that reads relevance off a hidden state.

Early Noise Dropping, section 2.2: a logistic regression on the last token's state after
``layer`` blocks. The standardisation it was fitted with is folded into ``weight`` and
``bias``, so that scoring is one dot product.

On disk a probe is a folder: ``probe.safetensors`` (numbers), ``probe.json`` (everything
else), ``README.md`` (its card); no pickle. It is written next to its destination and
moved there at once, so that an interrupted save leaves the old probe, or none, and
never half of one.
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
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.end.calibration import Calibration
from denoise_core.errors import InputError, ProbeMismatch
from denoise_core.local.fingerprint import ModelFingerprint

Floats = NDArray[np.float32]
Tensors: TypeAlias = dict[str, NDArray[Any]]

FORMAT_NAME = "rag-denoise probe"
FORMAT_VERSION = 1
TENSOR_FILE = "probe.safetensors"
MANIFEST_FILE = "probe.json"
CARD_FILE = "README.md"
PROBE_FILES = frozenset({TENSOR_FILE, MANIFEST_FILE, CARD_FILE})
CALIBRATION_PREFIX = "calibration."  # of the calibration's tensors
MAX_FILE_BYTES = 1 << 30  # of one file; a probe has some hundred kilobytes
MAX_SWAP_ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class HiddenStateSpec:
    """Where a state is read: everything that fitting and scoring must agree on.

    Attributes:
        model: The model's fingerprint.
        layer: Index into Hugging Face ``hidden_states``: 0 is the embeddings, L the
            residual stream after L blocks.
        layout: Fingerprint of the prompt layout.
        pooling: Which tokens are pooled, and how.
        normalisation: What is done to the pooled state before the probe.
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
        differences = self.model.differences(other.model)
        for name in ("layer", "layout", "pooling", "normalisation"):
            fitted_value = getattr(self, name)
            other_value = getattr(other, name)
            if fitted_value != other_value:
                differences.append(
                    f"{name}: the probe was fitted with {fitted_value!r}, this scorer "
                    f"uses {other_value!r}"
                )
        return differences

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; `from_dict` reads it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HiddenStateSpec:
        """Raises `InputError` for a missing or ill-typed field."""
        if not isinstance(data, Mapping):
            raise InputError(
                f"expected a reading as a JSON object, got {type(data).__name__}"
            )
        values: dict[str, Any] = {}
        for name in ("layer", "layout", "pooling", "normalisation"):
            expected_type = int if name == "layer" else str
            values[name] = data.get(name)
            if type(values[name]) is not expected_type:
                raise InputError(
                    f"{name!r}: expected {expected_type.__name__}, got {values[name]!r}"
                )
        model = ModelFingerprint.from_dict(data.get("model") or {})
        return cls(model, **values)


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """``score = states @ weight + bias``: a logit, higher is more relevant.

    Early Noise Dropping, section 2.2. A logit is for ranking and for thresholds. It is
    no probability: fitting weights both classes equally (``class_weight="balanced"``),
    whatever fraction of the chunks is relevant.

    Attributes:
        weight: float32 ``(d,)``.
        bias: Added to the dot product.
        reading: Which states the probe reads.
        threshold: A logit, chosen at fitting.
        card: Plain JSON values about data and metrics.
        calibration: Lets a denoiser keep at a stated risk (``keep="calibrated"``).

    Raises:
        InputError: The weight is not a finite vector.
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
                "a probe's weight and bias must be finite; was it fitted on states with "
                "NaN?"
            )
        width = self.reading.model.hidden_size
        if width and weight.size % width:
            raise InputError(
                f"weight of {weight.size} values does not belong to states of width "
                f"{width}"
            )
        weight.setflags(write=False)
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "bias", float(self.bias))
        object.__setattr__(self, "threshold", float(self.threshold))

    def score(self, states: NDArray[np.floating[Any]]) -> Floats:
        """Logits of states that are pooled and normalised as ``reading`` says.

        Args:
            states: ``(n, d)``.

        Returns:
            float32 ``(n,)``.

        Raises:
            ProbeMismatch: States of another width.
            InputError: A state is not finite.
        """
        states = np.asarray(states, dtype=np.float32)
        if states.ndim != 2 or states.shape[1] != self.weight.size:
            raise ProbeMismatch(
                f"states have shape {states.shape}, but this probe was fitted on "
                f"{self.reading.model.name!r} and reads (n, {self.weight.size})"
            )
        logits = states @ self.weight + np.float32(self.bias)
        is_finite = np.isfinite(logits)
        if not is_finite.all():
            bad_rows = np.flatnonzero(~is_finite).tolist()
            raise InputError(
                f"states of rows {bad_rows[:5]} are not finite (NaN or infinite): the "
                "model overflowed; load it in bfloat16 or float32 instead of float16"
            )
        return np.asarray(logits, dtype=np.float32)

    def check(self, reading: HiddenStateSpec) -> None:
        """Raises `ProbeMismatch` that names every difference from the probe's states."""
        differences = self.reading.differences(reading)
        if differences:
            raise ProbeMismatch(
                "this probe does not belong to these states: " + "; ".join(differences)
            )

    def save(self, folder: str | Path) -> Path:
        """Write the probe folder, replacing an older probe there.

        Raises:
            InputError: The card is not JSON, or the folder holds anything else.
        """
        folder = Path(folder)
        tensors: Tensors = {
            "weight": self.weight,
            "bias": np.array([self.bias], dtype=np.float64),
        }
        if self.calibration is not None:
            for name, values in self.calibration.to_arrays().items():
                tensors[CALIBRATION_PREFIX + name] = np.array(values)
        safetensors = require("safetensors.numpy", extra="end")
        tensor_bytes = safetensors.save(tensors)
        contents = {
            "reading": self.reading.to_dict(),
            "threshold": self.threshold,
            "card": dict(self.card),
        }
        manifest = {
            "format": FORMAT_NAME,
            "version": FORMAT_VERSION,
            "sha256": hashlib.sha256(tensor_bytes).hexdigest(),
            **contents,
        }
        try:
            text = json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"the probe's card must hold plain, finite JSON values: {error}"
            ) from error
        with replace_folder(folder, own_names=PROBE_FILES) as stage:
            (stage / TENSOR_FILE).write_bytes(tensor_bytes)
            # A card holds users' words, which may have half characters.
            for name, content in (
                (MANIFEST_FILE, text + "\n"),
                (CARD_FILE, render_card(contents)),
            ):
                (stage / name).write_text(content, encoding="utf-8", errors="replace")
        return folder

    @classmethod
    def load(cls, folder: str | Path) -> Probe:
        """Read a probe folder.

        Raises:
            InputError: A missing, foreign, newer or damaged folder.
        """
        folder = Path(folder)
        manifest = _load_manifest(folder / MANIFEST_FILE)
        tensors = _load_tensors(folder / TENSOR_FILE, manifest.get("sha256"))
        calibration_arrays: Tensors = {}
        for name, values in tensors.items():
            if name.startswith(CALIBRATION_PREFIX):
                array_name = name.removeprefix(CALIBRATION_PREFIX)
                calibration_arrays[array_name] = values
        try:
            calibration = None
            if calibration_arrays:
                calibration = Calibration.from_arrays(calibration_arrays)
            return cls(
                tensors["weight"],
                float(tensors["bias"][0]),
                HiddenStateSpec.from_dict(manifest.get("reading") or {}),
                manifest["threshold"],
                manifest["card"],
                calibration,
            )
        except InputError as error:
            raise InputError(f"{folder / MANIFEST_FILE}: {error}") from error


def _load_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(_read_file(path).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not JSON: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT_NAME:
        raise InputError(f'{path} is not a probe: expected "format": {FORMAT_NAME!r}')
    if manifest.get("version") != FORMAT_VERSION:
        raise InputError(
            f"{path} is of version {manifest.get('version')!r}, this release reads "
            f"{FORMAT_VERSION}: pip install --upgrade rag-denoise, or fit the probe again"
        )
    threshold = manifest.get("threshold")
    is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    has_card = isinstance(manifest.get("card"), dict)
    if not has_card or not is_number or not math.isfinite(threshold):
        raise InputError(
            f"{path}: expected 'card' as an object and 'threshold' as a number"
        )
    return manifest


def _load_tensors(path: Path, sha256: object) -> Tensors:
    tensor_bytes = _read_file(path)
    if hashlib.sha256(tensor_bytes).hexdigest() != sha256:
        raise InputError(
            f"{path} is damaged or not from this probe: its sha256 is not the manifest's"
        )
    safetensors = require("safetensors.numpy", extra="end")
    try:
        tensors: Tensors = safetensors.load(tensor_bytes)
    except Exception as error:  # safetensors raises its own class, not a ValueError
        raise InputError(f"{path} is not a safetensors file: {error}") from error
    shapes = {name: values.shape for name, values in tensors.items()}
    if shapes.get("bias") != (1,) or len(shapes.get("weight", ())) != 1:
        raise InputError(
            f"{path}: expected tensors 'weight' (d,) and 'bias' (1,), got "
            f"{sorted(shapes)}"
        )
    for name, values in sorted(tensors.items()):
        if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
            raise InputError(f"{path}: {name!r} holds no finite numbers")
    return tensors


def _read_file(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputError(
                f"{path} is larger than {MAX_FILE_BYTES} bytes: it is no part of a probe"
            )
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror or error}); a probe folder holds "
            f"{TENSOR_FILE}, {MANIFEST_FILE} and {CARD_FILE}, as Probe.save writes them"
        ) from error


@contextlib.contextmanager
def replace_folder(folder: Path, *, own_names: frozenset[str]) -> Iterator[Path]:
    """A new folder to fill, moved to ``folder`` if the block ends without an error.

    Args:
        folder: The destination.
        own_names: The only names that an existing folder may hold.

    Raises:
        InputError: The folder holds anything else; nothing is touched.
    """
    check_replaceable(folder, own_names)
    folder.parent.mkdir(parents=True, exist_ok=True)
    stage = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}.part")
    try:
        stage.mkdir()  # with the permissions of the user's umask
        yield stage
        check_replaceable(folder, own_names)  # filling may have taken hours
        _swap(stage, folder)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def check_replaceable(folder: Path, own_names: frozenset[str] = PROBE_FILES) -> None:
    """Raises `InputError` if `replace_folder` would: worth asking before long work."""
    try:
        # One look: another process may move the folder away at any time.
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        names = [folder.name]
    other_names = sorted(set(names) - own_names)
    if other_names:
        raise InputError(
            f"{folder} exists and holds {other_names[:3]}: choose another folder"
        )


def _swap(stage: Path, folder: Path) -> None:
    """Move ``stage`` to ``folder``; of two processes that do, the last one wins."""
    old_folder = stage.with_suffix(".old")
    for _ in range(MAX_SWAP_ATTEMPTS):
        # It may be missing, or another process may have moved it just now.
        with contextlib.suppress(FileNotFoundError):
            os.rename(folder, old_folder)
        try:
            os.rename(stage, folder)
            return
        except OSError as error:
            # Another process put its folder there: the next attempt moves that away.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                if old_folder.exists() and not folder.exists():
                    os.rename(old_folder, folder)
                raise
        finally:
            shutil.rmtree(old_folder, ignore_errors=True)
    raise InputError(f"{folder}: too many processes write it at the same time")


def render_card(contents: Mapping[str, Any]) -> str:
    """The manifest's contents as Markdown with the Hub's YAML head."""
    head = [
        "---",
        "library_name: rag-denoise",
        "tags: [early-noise-dropping, linear-probe, rag]",
    ]
    licence = contents["card"].get("licence")
    if licence:
        head.append(f"license: {json.dumps(licence)}")  # JSON is YAML
    contents_json = json.dumps(contents, indent=1, ensure_ascii=False)
    body = ["# Early Noise Dropping probe", "", "```json", contents_json, "```", ""]
    return "\n".join([*head, "---", "", *body])


def markdown_table(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as a Markdown table; the first is its header."""
    lines: list[str] = []
    for row in rows:
        cells = [" ".join(str(cell).split()).replace("|", "\\|") for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
        if len(lines) == 1:
            lines.append("|" + "---|" * len(cells))
    return "\n".join(lines)
