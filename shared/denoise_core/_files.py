"""A file that appears whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write ``content``, text as UTF-8; half a character becomes "?". An interrupted write leaves the old
    file, or none, and no partial file.

    A program that has the old file open or mapped keeps that one.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    try:
        with open(
            part, "xb"
        ) as file:  # readable to whom the user's umask says, not to all
            file.write(data)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
