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

from fastapi.security.utils import get_authorization_scheme_param
from limits import RateLimitItem, parse
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from pydantic import BaseModel, Field

from denoise_core.errors import InputError
from denoise_core.service.settings import Service


class Key(BaseModel, extra="forbid", strict=True):
    key: str = Field("", min_length=1)
    sha256: str = Field("", pattern="^[0-9a-fA-F]{64}$")
    quota: str = Field("", min_length=1)


class Keys:
    """The keys of a service by their digests. Raises `InputError` for a variable or a file that holds none."""

    def __init__(self, service: Service) -> None:
        self._hits = FixedWindowRateLimiter(MemoryStorage())
        self._known: dict[str, tuple[str, RateLimitItem | None]] = {}
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
        if not tables:
            raise InputError(f"keys: {service.keys} names no key, so nobody could ask")
        for name, table in tables.items():
            try:
                found = Key.model_validate(table)
                digest, quota = (
                    found.sha256.lower() or _digest(found.key),
                    parse(found.quota) if found.quota else None,
                )
                if len(found.model_fields_set - {"quota"}) != 1 or digest in self._known:
                    raise ValueError
            except ValueError:  # of pydantic it repeats what it was given
                raise InputError(
                    f"keys: [{name}] in {service.keys}: expected a key or its sha256 of 64 digits, each key once, "
                    "and if any a quota such as '600/minute'"
                ) from None
            self._known[digest] = name, quota

    def who(self, header: str) -> str | None:
        """The name of the key in an ``Authorization`` header, '' where none is needed; None for a wrong one."""
        scheme, key = get_authorization_scheme_param(header)
        nobody = (None, None)
        name, _ = self._known.get(_digest(key), nobody) if scheme.lower() == "bearer" else nobody
        return name if self._known else ""

    def wait(self, name: str) -> int:
        """Counts one request; the seconds until the next may come, 0 while the quota lasts."""
        quota = next((q for n, q in self._known.values() if n == name), None)
        if quota is None or self._hits.hit(quota, name):
            return 0
        return max(1, int(self._hits.get_window_stats(quota, name).reset_time - time.time()) + 1)


def _digest(key: str) -> str:
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
