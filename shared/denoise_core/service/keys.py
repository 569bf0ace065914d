"""Who may ask, and how often: keys from a file.

The file is TOML, a table for each name::

    [search]
    sha256 = "9f86d0..."       # of the key; or key = "..." itself
    quota = "600/minute"       # as the library `limits` reads it; without it there is none
"""

from __future__ import annotations

import time
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from fastapi.security.utils import get_authorization_scheme_param
from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError

from denoise_core.errors import InputError


class Key(BaseModel, extra="forbid", strict=True):
    key: str = Field("", min_length=1)
    sha256: str = Field("", pattern="^[0-9a-fA-F]{64}$")
    quota: Annotated[str, AfterValidator(parse)] | None = None


_FILE = TypeAdapter(Annotated[dict[str, Key], Field(min_length=1)])


class ApiKeys:
    """The keys of a file by their digests; without one anybody may ask. Raises `InputError` for another file."""

    def __init__(self, file: Path | None) -> None:
        self._hits = FixedWindowRateLimiter(MemoryStorage())
        self._known: dict[str, tuple[str, Any]] = {}
        if file is None:
            return
        try:
            found = _FILE.validate_python(tomllib.loads(file.read_text("utf-8")))
            for name, key in found.items():
                self._known[key.sha256.lower() or _digest(key.key)] = name, key.quota
            if len(self._known) < len(found) or any(
                bool(k.key) == bool(k.sha256) for k in found.values()
            ):
                raise ValueError
        except (OSError, ValueError) as error:  # what it says repeats what it was given
            table = (
                error.errors()[0]["loc"][:1]
                if isinstance(error, ValidationError)
                else ()
            )
            raise InputError(
                f"keys: {file} {[*table]}: {type(error).__name__}; expected TOML with a table for each name, in "
                "it a key or its sha256 of 64 digits, each key once, and perhaps quota = '600/minute'"
            ) from None

    def identify(self, header: str) -> str | None:
        """The name of the key in an ``Authorization`` header, '' where none is needed; None for a wrong one."""
        scheme, key = get_authorization_scheme_param(header)
        found = self._known.get(_digest(key)) if scheme.lower() == "bearer" else None
        return found[0] if found else None if self._known else ""

    def wait(self, name: str) -> int:
        """Counts one request; the seconds until the next may come, 0 while the quota lasts."""
        quota = next(
            (quota for known, quota in self._known.values() if known == name), None
        )
        if quota is None or self._hits.hit(quota, name):
            return 0
        return max(
            1,
            int(self._hits.get_window_stats(quota, name).reset_time - time.time()) + 1,
        )


def _digest(key: str) -> str:
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
