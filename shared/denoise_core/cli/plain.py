"""Text of others on a terminal: shown as it is, but never obeyed."""

from __future__ import annotations

import re

# Control characters (a terminal acts on them), marks that turn the direction of what follows, and half characters,
# which no terminal takes.
_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    """The text with every character a terminal would act on replaced by U+FFFD; tabs and line breaks stay."""
    return _ACTING.sub("\ufffd", text.replace("\r\n", "\n"))
