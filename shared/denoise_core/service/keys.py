"""Who may ask, and how often: one key from the environment, or several from a file.

The file is TOML, a table for each name::

    [search]
    sha256 = "9f86d0..."       # of the key; or key = "..." itself
    quota = "600/minute"       # as the library `limits` reads it; without it there is none
"""

from __future__ import annotations

import os
import time
import tomllib
from hashlib import sha256
from typing import Any

from fastapi.security.utils import get_authorization_scheme_param

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.service.settings import Service


class Keys:
    """The keys of a service by their digests. Raises `InputError` for a variable or a file that holds none."""

    def __init__(self, service: Service) -> None:
        limits = require("limits", extra="serve")
        self._hits = limits.strategies.FixedWindowRateLimiter(limits.storage.MemoryStorage())
        self._known: dict[str, tuple[str, Any]] = {}
        if service.token_env:
            if not (token := os.environ.get(service.token_env)):
                raise InputError(f"token_env={service.token_env!r}: that environment variable is not set")
            self._known[_digest(token)] = ("token", None)
        if service.keys is None:
            return
        try:
            tables = tomllib.loads(service.keys.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"keys: {service.keys} cannot be read as TOML ({type(error).__name__})") from None
        for name, table in tables.items():
            known = isinstance(table, dict) and table.keys() <= {"key", "sha256", "quota"}
            if not known or len(table.keys() & {"key", "sha256"}) != 1 or not all(map(_text, table.values())):
                raise InputError(
                    f"keys: [{name}] in {service.keys}: expected a key or its sha256, and a quota if any"
                )
            digest = table["sha256"].lower() if "sha256" in table else _digest(table["key"])
            try:
                quota = limits.parse(table["quota"]) if "quota" in table else None
            except ValueError as error:
                raise InputError(f"keys: [{name}] quota: expected such as '600/minute'") from error
            if len(digest) != 64 or digest in self._known:
                raise InputError(f"keys: [{name}]: expected a sha256 of 64 digits, and each key once")
            self._known[digest] = (name, quota)
        if not tables:
            raise InputError(f"keys: {service.keys} names no key, so nobody could ask")

    def who(self, header: str) -> str | None:
        """The name of the key in an ``Authorization`` header, '' where none is needed; None for a wrong one."""
        if not self._known:
            return ""
        scheme, key = get_authorization_scheme_param(header)
        found = self._known.get(_digest(key)) if scheme.lower() == "bearer" else None
        return None if found is None else found[0]

    def wait(self, name: str) -> int:
        """Counts one request; the seconds until the next may come, 0 while the quota lasts."""
        quota = next((q for n, q in self._known.values() if n == name), None)
        if quota is None or self._hits.hit(quota, name):
            return 0
        return max(1, int(self._hits.get_window_stats(quota, name).reset_time - time.time()) + 1)


def _digest(key: str) -> str:
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _text(value: object) -> bool:
    return isinstance(value, str) and bool(value)
