"""Keep untrusted text apart from instructions: a marker per call that nobody can guess or write."""

from __future__ import annotations

import secrets
from collections.abc import Iterable


def new_marker(texts: Iterable[str]) -> str:
    """Sixteen random hexadecimal digits that occur in none of ``texts``."""
    texts = tuple(texts)
    while True:
        marker = secrets.token_hex(8)
        if not any(marker in t for t in texts):
            return marker
