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
from denoise_core.end.selection import ScoreCalibration
from denoise_core.errors import InputError, ProbeMismatch
from denoise_core.local.fingerprint import ModelFingerprint, read_fields

Floats = NDArray[np.float32]
Tensors: TypeAlias = dict[str, NDArray[Any]]
Head: TypeAlias = tuple[int, int]  # block and head, both counted from 0

FORMAT_NAME = "rag-denoise probe"
FORMAT_VERSION = 1
TENSOR_FILE = "probe.safetensors"
MANIFEST_FILE = "probe.json"
CARD_FILE = "README.md"
PROBE_FILES = frozenset({TENSOR_FILE, MANIFEST_FILE, CARD_FILE})
MAX_FILE_BYTES = 1 << 30  # of one file; a probe has some hundred kilobytes
MAX_SWAP_ATTEMPTS = 100
ATTENTION = "attention"  # the pooling of a probe on heads, before their names


@dataclass(frozen=True, slots=True)
class HiddenStateSpec:
    """Where a state is read: everything that fitting and scoring must agree on.

    Attributes:
        model: The model's fingerprint.
        layer: Index into Hugging Face ``hidden_states``: 0 is the embeddings, L the
            residual stream after L blocks.
        layout: Fingerprint of the prompt layout.
        pooling: Which tokens are pooled, and how; or which attention heads are read.
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

    @property
    def heads(self) -> tuple[Head, ...]:
        """The attention heads that are read; () for a probe on hidden states."""
        kind, *head_names = self.pooling.split()
        if kind != ATTENTION:
            return ()
        heads = []
        try:
            for name in head_names:
                block, head = name.split(".")
                heads.append((int(block), int(head)))
        except ValueError as error:
            raise InputError(f"pooling={self.pooling!r}: {error}") from error
        return tuple(heads)

    @property
    def width(self) -> int:
        """Values that a state has for each pooled part; 0 when it is not known."""
        return len(self.heads) or self.model.hidden_size

    def differences(self, other_spec: HiddenStateSpec) -> list[str]:
        """Each way in which ``other`` reads other states; [] when it fits."""
        named_differences = self.model.differences(other_spec.model)
        for field_name in ("layer", "layout", "pooling", "normalisation"):
            fitted_value = getattr(self, field_name)
            other_value = getattr(other_spec, field_name)
            if fitted_value != other_value:
                named_differences.append(
                    f"{field_name}: the probe was fitted with {fitted_value!r}, this scorer "
                    f"uses {other_value!r}"
                )
        return named_differences

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; `from_dict` reads it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HiddenStateSpec:
        """Raises `InputError` for a missing or ill-typed field."""
        field_types: dict[str, Any] = {"layer": int}
        field_types |= dict.fromkeys(("layout", "pooling", "normalisation"), str)
        field_values = read_fields(data, field_types, "reading")
        model_fingerprint = ModelFingerprint.from_dict(data.get("model") or {})
        return cls(model_fingerprint, **field_values)


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """``score = states @ weight + bias``: a logit, higher is more relevant.

    Early Noise Dropping, section 2.2. A logit is for ranking. It is no probability: fitting
    weights both classes equally (``class_weight="balanced"``), whatever fraction of the
    chunks is relevant.

    Attributes:
        weight: float32 ``(d,)``.
        bias: Added to the dot product.
        reading: Which states the probe reads.
        card: Plain JSON values about data and metrics.
        calibration: Lets a denoiser keep at a stated risk (``keep="auto"``).

    Raises:
        InputError: The weight is not a finite vector.
    """

    weight: Floats
    bias: float
    reading: HiddenStateSpec
    card: Mapping[str, Any] = field(default_factory=dict)
    calibration: ScoreCalibration | None = None

    def __post_init__(self) -> None:
        probe_weight = np.array(self.weight, dtype=np.float32)
        if probe_weight.ndim != 1 or not probe_weight.size:
            raise InputError(
                f"a probe's weight is a vector of shape (d,), got shape {probe_weight.shape}"
            )
        if not np.isfinite(probe_weight).all() or not np.isfinite(self.bias):
            raise InputError(
                "a probe's weight and bias must be finite; was it fitted on states with "
                "NaN?"
            )
        state_width = self.reading.width
        if state_width and probe_weight.size % state_width:
            raise InputError(
                f"weight of {probe_weight.size} values does not belong to states of width "
                f"{state_width}"
            )
        probe_weight.setflags(write=False)
        object.__setattr__(self, "weight", probe_weight)
        object.__setattr__(self, "bias", float(self.bias))

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
        state_logits = states @ self.weight + np.float32(self.bias)
        is_finite = np.isfinite(state_logits)
        if not is_finite.all():
            bad_rows = np.flatnonzero(~is_finite).tolist()
            raise InputError(
                f"states of rows {bad_rows[:5]} are not finite (NaN or infinite): the "
                "model overflowed; load it in bfloat16 or float32 instead of float16"
            )
        return np.asarray(state_logits, dtype=np.float32)

    def check(self, reading: HiddenStateSpec) -> None:
        """Raises `ProbeMismatch` that names every difference from the probe's states."""
        named_differences = self.reading.differences(reading)
        if named_differences:
            raise ProbeMismatch(
                "this probe does not belong to these states: "
                + "; ".join(named_differences)
            )

    def save(self, folder: str | Path) -> Path:
        """Write the probe folder, replacing an older probe there.

        Raises:
            InputError: The card is not JSON, or the folder holds anything else.
        """
        folder = Path(folder)
        named_tensors: Tensors = {
            "weight": self.weight,
            "bias": np.array([self.bias], dtype=np.float64),
        }
        tensor_library = require("safetensors.numpy", extra="end")
        tensor_bytes = tensor_library.save(named_tensors)
        card_contents = {
            "reading": self.reading.to_dict(),
            "card": dict(self.card),
        }
        if self.calibration is not None:
            card_contents["calibration"] = self.calibration.to_dict()
        probe_manifest = {
            "format": FORMAT_NAME,
            "version": FORMAT_VERSION,
            "sha256": hashlib.sha256(tensor_bytes).hexdigest(),
            **card_contents,
        }
        try:
            manifest_text = json.dumps(
                probe_manifest, indent=1, ensure_ascii=False, allow_nan=False
            )
        except (TypeError, ValueError) as error:
            raise InputError(
                f"the probe's card must hold plain, finite JSON values: {error}"
            ) from error
        with replace_folder(folder, own_names=PROBE_FILES) as stage_folder:
            (stage_folder / TENSOR_FILE).write_bytes(tensor_bytes)
            # A card holds users' words, which may have half characters.
            for field_name, file_content in (
                (MANIFEST_FILE, manifest_text + "\n"),
                (CARD_FILE, render_card(card_contents)),
            ):
                (stage_folder / field_name).write_text(
                    file_content, encoding="utf-8", errors="replace"
                )
        return folder

    @classmethod
    def load(cls, folder: str | Path) -> Probe:
        """Read a probe folder.

        Raises:
            InputError: A missing, foreign, newer or damaged folder.
        """
        folder = Path(folder)
        probe_manifest = _load_manifest(folder / MANIFEST_FILE)
        named_tensors = _load_tensors(
            folder / TENSOR_FILE, probe_manifest.get("sha256")
        )
        try:
            probe_calibration = None
            if "calibration" in probe_manifest:
                probe_calibration = ScoreCalibration.from_dict(
                    probe_manifest["calibration"]
                )
            return cls(
                named_tensors["weight"],
                float(named_tensors["bias"][0]),
                HiddenStateSpec.from_dict(probe_manifest.get("reading") or {}),
                probe_manifest["card"],
                probe_calibration,
            )
        except InputError as error:
            raise InputError(f"{folder / MANIFEST_FILE}: {error}") from error


def format_heads(heads: Iterable[Head]) -> str:
    """The pooling of a probe on these heads; `HiddenStateSpec.heads` reads it."""
    pooling_words = [ATTENTION]
    for block, head in heads:
        pooling_words.append(f"{block}.{head}")
    return " ".join(pooling_words)


def _load_manifest(file_path: Path) -> dict[str, Any]:
    try:
        manifest_bytes = _read_file(file_path)
        probe_manifest = json.loads(manifest_bytes.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file_path} is not JSON: {error}") from error
    if (
        not isinstance(probe_manifest, dict)
        or probe_manifest.get("format") != FORMAT_NAME
    ):
        raise InputError(
            f'{file_path} is not a probe: expected "format": {FORMAT_NAME!r}'
        )
    if probe_manifest.get("version") != FORMAT_VERSION:
        raise InputError(
            f"{file_path} is of version {probe_manifest.get('version')!r}, this release reads "
            f"{FORMAT_VERSION}: pip install --upgrade rag-denoise, or fit the probe again"
        )
    if not isinstance(probe_manifest.get("card"), dict):
        raise InputError(f"{file_path}: expected 'card' as an object")
    return probe_manifest


def _load_tensors(file_path: Path, sha256: object) -> Tensors:
    tensor_bytes = _read_file(file_path)
    if hashlib.sha256(tensor_bytes).hexdigest() != sha256:
        raise InputError(
            f"{file_path} is damaged or not from this probe: its sha256 is not the manifest's"
        )
    tensor_library = require("safetensors.numpy", extra="end")
    try:
        named_tensors: Tensors = tensor_library.load(tensor_bytes)
    except Exception as error:  # safetensors raises its own class, not a ValueError
        raise InputError(f"{file_path} is not a safetensors file: {error}") from error
    bias = named_tensors.get("bias")
    if "weight" not in named_tensors or bias is None or bias.shape != (1,):
        raise InputError(
            f"{file_path}: expected tensors 'weight' (d,) and 'bias' (1,), got "
            f"{sorted(named_tensors)}"
        )
    return named_tensors


def _read_file(file_path: Path) -> bytes:
    try:
        if file_path.stat().st_size > MAX_FILE_BYTES:
            raise InputError(
                f"{file_path} is larger than {MAX_FILE_BYTES} bytes: it is no part of a probe"
            )
        return file_path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{file_path} cannot be read ({error.strerror or error}); a probe folder holds "
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
    random_suffix = secrets.token_hex(8)
    stage_folder = folder.with_name(f".{folder.name}.{random_suffix}.part")
    try:
        stage_folder.mkdir()  # with the permissions of the user's umask
        yield stage_folder
        check_replaceable(folder, own_names)  # filling may have taken hours
        _swap(stage_folder, folder)
    finally:
        shutil.rmtree(stage_folder, ignore_errors=True)


def check_replaceable(folder: Path, own_names: frozenset[str] = PROBE_FILES) -> None:
    """Raises `InputError` if `replace_folder` would: worth asking before long work."""
    try:
        # One look: another process may move the folder away at any time.
        file_names = os.listdir(folder)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        file_names = [folder.name]
    other_names = sorted(set(file_names) - own_names)
    if other_names:
        raise InputError(
            f"{folder} exists and holds {other_names[:3]}: choose another folder"
        )


def _swap(stage_folder: Path, folder: Path) -> None:
    """Move ``stage`` to ``folder``; of two processes that do, the last one wins."""
    old_folder = stage_folder.with_suffix(".old")
    for _ in range(MAX_SWAP_ATTEMPTS):
        # It may be missing, or another process may have moved it just now.
        with contextlib.suppress(FileNotFoundError):
            os.rename(folder, old_folder)
        try:
            os.rename(stage_folder, folder)
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


def render_card(card_contents: Mapping[str, Any]) -> str:
    """The manifest's contents as Markdown with the Hub's YAML head."""
    card_head = [
        "---",
        "library_name: rag-denoise",
        "tags: [early-noise-dropping, linear-probe, rag]",
    ]
    card_licence = card_contents["card"].get("licence")
    if card_licence:
        card_head.append(f"license: {json.dumps(card_licence)}")  # JSON is YAML
    contents_json = json.dumps(card_contents, indent=1, ensure_ascii=False)
    card_body = [
        "# Early Noise Dropping probe",
        "",
        "```json",
        contents_json,
        "```",
        "",
    ]
    return "\n".join([*card_head, "---", "", *card_body])


def markdown_table(table_rows: Iterable[Iterable[Any]]) -> str:
    """Rows as a Markdown table; the first is its header."""
    table_lines = []
    for table_row in table_rows:
        row_cells = [
            " ".join(str(cell_value).split()).replace("|", "\\|")
            for cell_value in table_row
        ]
        row_text = " | ".join(row_cells)
        table_lines.append(f"| {row_text} |")
        if len(table_lines) == 1:
            table_lines.append("|" + "---|" * len(row_cells))
    return "\n".join(table_lines)
