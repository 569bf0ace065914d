"""Keep untrusted text apart from instructions: lines with a marker that the text does not hold."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import count


def new_marker(texts: Iterable[str]) -> str:
    """Sixteen hexadecimal digits that occur in none of ``texts``; the same for the same texts.

    A text cannot close its own delimiters: a marker that it holds is not taken, and who wants to write one that is
    like it has to find a text that holds its own hash (2**64 tries), since every character changes the marker.
    That it follows from the texts makes prompts repeatable and lets a cache or a server know them again.
    """
    texts = tuple(texts)
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    for n in count():
        marker = hashlib.sha256(digest.digest() + n.to_bytes(8, "big")).hexdigest()[:16]
        if not any(marker in t for t in texts):
            return marker
    raise AssertionError("unreachable")
