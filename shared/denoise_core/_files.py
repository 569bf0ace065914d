"""A file that appears whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from denoise_core.errors import InputError


def write_whole(path: Path, content: str | bytes) -> None:
    """Write ``content``, text as UTF-8; half a character becomes "?". An interrupted write leaves the old
    file, or none, and no partial file.

    A program that has the old file open or mapped keeps that one. A link stays; the file that it names is written.
    The new file has the old one's mode, or that of the user's umask.

    Raises:
        InputError: At ``path`` is a folder, a device or a pipe.
    """
    check_is_file(path)
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
    data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    try:
        with open(part, "xb") as file:
            with suppress(OSError):  # no old file, or a disk without modes
                shutil.copymode(target, part)
            file.write(data)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def check_is_file(path: Path) -> None:
    """Raise `InputError` if a path names what exists and is no ordinary file."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: expected a file, or a name that is free")
