"""Text of others on a terminal: shown as it is, but never obeyed."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

# Control characters (a terminal acts on them) and marks that turn the direction of what follows.
_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """The text with every character a terminal would act on replaced by U+FFFD; tabs and line breaks stay."""
    return _ACTING.sub("\ufffd", text.replace("\r\n", "\n"))


def write_whole(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all; an interrupted write leaves nothing behind."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    part = Path(name)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        part.chmod(0o644)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
