"""Who may send requests, and how often: keys from a file.

The file is TOML, a table for each name::

    [search]
    sha256 = "9f86d0..."       # of the key; or key = "..." itself
    quota = "600/minute"       # as the library `limits` reads it; optional
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


class KeyTable(BaseModel, extra="forbid", strict=True):
    """One table of the file: a key or its digest, and perhaps a quota."""

    key: str = Field("", min_length=1)
    sha256: str = Field("", pattern="^[0-9a-fA-F]{64}$")
    quota: Annotated[str, AfterValidator(parse)] | None = None


_KEY_FILE = TypeAdapter(Annotated[dict[str, KeyTable], Field(min_length=1)])


class ApiKeys:
    """The keys of a file by their digests; without a file no key is needed.

    Raises `InputError` for an invalid file.
    """

    def __init__(self, file: Path | None) -> None:
        self._rate_limiter = FixedWindowRateLimiter(MemoryStorage())
        self._quotas: dict[str, Any] = {}
        self._names: dict[str, str] = {}  # by the key's digest
        if file is not None:
            self._read_file(file)

    def _read_file(self, file: Path) -> None:
        try:
            file_text = file.read_text("utf-8")
            file_data = tomllib.loads(file_text)
            tables = _KEY_FILE.validate_python(file_data)
            for name, table in tables.items():
                has_key = bool(table.key)
                has_digest = bool(table.sha256)
                if has_key == has_digest:
                    raise ValueError
                digest = table.sha256.lower()
                if has_key:
                    digest = _digest(table.key)
                self._names[digest] = name
                self._quotas[name] = table.quota
            if len(self._names) < len(tables):
                raise ValueError
        except (OSError, ValueError) as error:  # its message may quote a key
            location: tuple[Any, ...] = ()
            if isinstance(error, ValidationError):
                location = error.errors()[0]["loc"][:1]
            raise InputError(
                f"keys: {file} {[*location]}: {type(error).__name__}; expected TOML "
                "with a table for each name, in it a key or its sha256 of 64 digits, "
                "each key once, and perhaps quota = '600/minute'"
            ) from None

    def identify(self, header: str) -> str | None:
        """Return the name of the key in an ``Authorization`` header.

        '' where no key is needed; None for a wrong one.
        """
        if not self._names:
            return ""
        scheme, key = get_authorization_scheme_param(header)
        if scheme.lower() != "bearer":
            return None
        digest = _digest(key)
        return self._names.get(digest)

    def wait(self, name: str) -> int:
        """Count one request; return the seconds until the next, 0 within the quota."""
        quota = self._quotas.get(name)
        if quota is None or self._rate_limiter.hit(quota, name):
            return 0
        window = self._rate_limiter.get_window_stats(quota, name)
        seconds = window.reset_time - time.time()
        return max(1, int(seconds) + 1)


def _digest(key: str) -> str:
    key_bytes = key.encode("utf-8", "surrogatepass")
    return sha256(key_bytes).hexdigest()
