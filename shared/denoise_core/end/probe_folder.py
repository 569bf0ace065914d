"""A probe on disk: ``probe.safetensors`` (numbers), ``probe.json`` (everything else), ``README.md`` (card).

No pickle anywhere. A folder is written beside its place and moved there whole, so that an interrupted
`save` leaves the old probe, or none, and never half of one.
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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.errors import InputError

FORMAT = "rag-denoise probe"
VERSION = 1
TENSORS, MANIFEST, CARD = "probe.safetensors", "probe.json", "README.md"
PREFIX = "calibration."
LARGEST = 1 << 30  # bytes of one file: a probe has some hundred kilobytes
OURS = frozenset({TENSORS, MANIFEST, CARD})


def save(folder: str | Path, arrays: Mapping[str, NDArray[Any]], told: Mapping[str, Any]) -> Path:
    """Write a probe as ``folder``; returns the folder.

    ``arrays`` are "weight" ``(d,)``, "bias" ``(1,)`` and the calibration's behind `PREFIX`; ``told`` is its
    reading (`Reading.to_dict`), threshold and card. An older probe there is replaced whole. Raises `InputError`
    when the folder holds anything else.
    """
    tensors = require("safetensors.numpy", extra="end").save({name: np.array(a) for name, a in arrays.items()})
    manifest = {"format": FORMAT, "version": VERSION, "sha256": hashlib.sha256(tensors).hexdigest(), **told}
    try:
        text = json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"the probe's card must hold plain, finite JSON values: {error}") from error
    with replacing(Path(folder), ours=OURS) as stage:
        (stage / TENSORS).write_bytes(tensors)
        (stage / MANIFEST).write_text(text + "\n", encoding="utf-8", errors="replace")  # a card holds users' words
        (stage / CARD).write_text(render(told, arrays["weight"].size), encoding="utf-8", errors="replace")
    return Path(folder)


def load(folder: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """What `save` was given. Raises `InputError` for a missing, foreign, newer or damaged folder."""
    folder = Path(folder)
    manifest = _manifest(folder)
    blob = read_file(folder / TENSORS)
    if hashlib.sha256(blob).hexdigest() != manifest.get("sha256"):
        raise InputError(f"{folder / TENSORS} is damaged or not from this probe: its sha256 is not the manifest's")
    try:
        arrays = require("safetensors.numpy", extra="end").load(blob)
    except Exception as error:  # safetensors raises its own class, which is no ValueError
        raise InputError(f"{folder / TENSORS} is not a safetensors file: {error}") from error
    if not {"weight", "bias"} <= set(arrays) or arrays["bias"].shape != (1,) or arrays["weight"].ndim != 1:
        raise InputError(
            f"{folder / TENSORS}: expected tensors 'weight' (d,) and 'bias' (1,), got {sorted(arrays)}"
        )
    bad = sorted(name for name, a in arrays.items() if a.dtype.kind not in "fiub" or not np.isfinite(a).all())
    if bad:
        raise InputError(f"{folder / TENSORS}: {bad[:3]} hold no finite numbers")
    threshold = manifest.get("threshold")
    number = isinstance(threshold, int | float) and not isinstance(threshold, bool) and math.isfinite(threshold)
    if not isinstance(manifest.get("card"), dict) or not number:
        raise InputError(f"{folder / MANIFEST}: expected 'card' as an object and 'threshold' as a number")
    return arrays, manifest


def read_file(path: Path) -> bytes:
    try:
        if path.stat().st_size > LARGEST:
            raise InputError(f"{path} is larger than {LARGEST} bytes: it is no part of a probe")
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
        raise InputError(f'{folder / MANIFEST} is not a probe: expected "format": {FORMAT!r}')
    if manifest.get("version") != VERSION:
        raise InputError(
            f"{folder / MANIFEST} is of version {manifest.get('version')!r}, this release reads {VERSION}: "
            "pip install --upgrade rag-denoise, or fit the probe again"
        )
    return manifest


@contextlib.contextmanager
def replacing(folder: Path, *, ours: frozenset[str]) -> Iterator[Path]:
    """A fresh folder to fill, which becomes ``folder`` when the block ends well and vanishes when it does not.

    ``ours`` are the only names an existing folder may hold; else `InputError`, and nothing is touched.
    """
    check_free(folder, ours)
    folder.parent.mkdir(parents=True, exist_ok=True)
    stage = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}.part")
    try:
        stage.mkdir()  # readable to whom the user's umask says
        yield stage
        check_free(folder, ours)  # filling may have taken hours
        _swap(stage, folder)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def check_free(folder: Path, ours: frozenset[str] = OURS) -> None:
    """Raises `InputError` when `replacing` would refuse: worth asking before hours of work."""
    try:
        inside = os.listdir(folder)  # one look: another saver may move the folder away at any time
    except FileNotFoundError:
        return
    except NotADirectoryError:
        inside = [folder.name]
    others = sorted(name for name in inside if name not in ours)
    if others:
        raise InputError(f"{folder} exists and holds {others[:3]}: choose another folder")


def _swap(stage: Path, folder: Path) -> None:
    """Two that write the same folder take turns: the last one's stays, whole."""
    old = stage.with_suffix(".old")
    for _ in range(100):
        with contextlib.suppress(FileNotFoundError):  # nothing there, or another one moved it just now
            os.rename(folder, old)
        try:
            os.rename(stage, folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                if old.exists() and not folder.exists():
                    os.rename(old, folder)
                raise
        else:
            shutil.rmtree(old, ignore_errors=True)
            return
        shutil.rmtree(old, ignore_errors=True)  # another one's is there by now: the next round moves it away
    raise InputError(f"{folder}: too many write it at the same time")


def render(told: Mapping[str, Any], width: int) -> str:
    """Markdown with the Hub's YAML head. Only what the card holds is said; nothing is filled in.

    ``told`` is `save`'s, ``width`` that of the states.
    """
    reading, card = told["reading"], told["card"]
    model = reading["model"]
    head = ["---", "library_name: rag-denoise", "tags: [early-noise-dropping, linear-probe, rag]"]
    if card.get("licence"):
        head.append(f"license: {json.dumps(_line(card['licence']))}")  # a JSON text is a YAML text
    head.append("---")
    facts = {
        "model": model["name"],
        "model weights (sha256 of a sample)": model["weights"] or "unknown",
        "layer (0 = embeddings)": reading["layer"],
        "prompt layout": reading["layout"],
        "pooling": reading["pooling"],
        "normalisation": reading["normalisation"],
        "width": width,
        "threshold (logit)": f"{told['threshold']:.4g}",
    }
    parts = ["\n".join(head), "# Early Noise Dropping probe", _table(["what", "value"], facts.items())]
    for name, value in card.items():
        if name != "licence":
            parts.append(f"## {_line(name)}\n\n{_section(value)}")
    return "\n\n".join(parts) + "\n"


def _section(value: Any) -> str:
    if isinstance(value, Mapping):
        return _table(["what", "value"], value.items()) if value else "none"
    if isinstance(value, list | tuple) and value and all(isinstance(row, Mapping) for row in value):
        columns = list(dict.fromkeys(key for row in value for key in row))
        return _table(columns, ([row.get(c, "") for c in columns] for row in value))
    if isinstance(value, list | tuple):
        return "\n".join(f"- {_line(item)}" for item in value) or "none"
    return _cell(value)


def _table(columns: list[str], rows: Any) -> str:
    lines = ["| " + " | ".join(map(_cell, columns)) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{_line(k)}: {_cell(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value))
    return _line(value).replace("|", "\\|")


def _line(value: Any) -> str:
    return " ".join(str(value).split())
