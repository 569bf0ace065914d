"""A file that appears whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write ``content``, text as UTF-8; an interrupted write leaves the old file, or none, and nothing beside it.

    A program that has the old file open or mapped keeps that one.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    part = Path(name)
    try:
        with open(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        part.chmod(0o644)  # a temporary file is its owner's alone
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
