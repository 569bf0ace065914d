"""Rendezvous hashing: each document has an order of replicas of its own; only those of a lost one move.

Highest random weight (Thaler and Ravishankar, 1998). What an engine has computed for a document is kept where it
was computed, so a document goes to the first replica of its order that lives.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from hashlib import blake2b


def rendezvous(key: bytes, names: Sequence[str]) -> list[str]:
    """The names in the order in which ``key`` takes them; the same in every process.

    >>> rendezvous(b"a document", ["a", "b", "c"])[0] == rendezvous(b"a document", ["c", "b", "a"])[0]
    True
    """

    def weight(name: str) -> bytes:
        return blake2b(key, digest_size=8, key=blake2b(name.encode(), digest_size=32).digest()).digest()

    return sorted(names, key=weight, reverse=True)


class Replicas:
    """Addresses, and which of them failed a moment ago: those are asked last for ``rest`` seconds."""

    def __init__(self, urls: Sequence[str], rest: float) -> None:
        self.urls = tuple(urls)
        self.rest = rest
        self._until: dict[str, float] = {}

    def choose(self, key: bytes) -> str:
        """The first in the order of ``key`` that is not known to be down; else the one that has rested longest."""
        now = time.monotonic()
        order = rendezvous(key, self.urls)
        alive = [u for u in order if self._until.get(u, 0.0) <= now]
        return alive[0] if alive else min(order, key=lambda u: self._until[u])

    def failed(self, url: str) -> None:
        self._until[url] = time.monotonic() + self.rest

    def answered(self, url: str) -> None:
        self._until.pop(url, None)

    @property
    def alive(self) -> int:
        """How many are not known to be down."""
        now = time.monotonic()
        return sum(self._until.get(u, 0.0) <= now for u in self.urls)
