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
from typing import Annotated, Any

from fastapi.security.utils import get_authorization_scheme_param
from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError

from denoise_core.errors import InputError
from denoise_core.service.settings import Service


class Key(BaseModel, extra="forbid", strict=True):
    key: str = Field("", min_length=1)
    sha256: str = Field("", pattern="^[0-9a-fA-F]{64}$")
    quota: Annotated[str, AfterValidator(parse)] | None = None

    @property
    def digest(self) -> str:
        """Raises `ValueError` where not one of both is given."""
        if bool(self.key) == bool(self.sha256):
            raise ValueError
        return self.sha256.lower() or _digest(self.key)


class Keys:
    """The keys of a service by their digests. Raises `InputError` for a variable or a file that holds none."""

    def __init__(self, service: Service) -> None:
        self._hits = FixedWindowRateLimiter(MemoryStorage())
        self._names: dict[str, str] = {}
        self._quotas: dict[str, Any] = {}
        if service.token_env:
            if not (token := os.environ.get(service.token_env)):
                raise InputError(f"token_env={service.token_env!r}: that environment variable is not set")
            self._names[_digest(token)] = "token"
        if service.keys is None:
            return
        try:
            tables = tomllib.loads(service.keys.read_text("utf-8"))
            found = TypeAdapter(Annotated[dict[str, Key], Field(min_length=1)]).validate_python(tables)
            self._names |= {key.digest: name for name, key in found.items()}
            self._quotas = {name: key.quota for name, key in found.items() if key.quota}
            if len(self._names) < len(found) + bool(service.token_env):
                raise ValueError
        except (OSError, ValueError) as error:  # what it says repeats what it was given
            table = error.errors()[0]["loc"][:1] if isinstance(error, ValidationError) else ()
            raise InputError(
                f"keys: {service.keys} {[*table]}: {type(error).__name__}; expected TOML with a table for each "
                "name, in it a key or its sha256 of 64 digits, each key once, and perhaps quota = '600/minute'"
            ) from None

    def who(self, header: str) -> str | None:
        """The name of the key in an ``Authorization`` header, '' where none is needed; None for a wrong one."""
        scheme, key = get_authorization_scheme_param(header)
        found = self._names.get(_digest(key)) if scheme.lower() == "bearer" else None
        return found if self._names else ""

    def wait(self, name: str) -> int:
        """Counts one request; the seconds until the next may come, 0 while the quota lasts."""
        quota = self._quotas.get(name)
        if quota is None or self._hits.hit(quota, name):
            return 0
        return max(1, int(self._hits.get_window_stats(quota, name).reset_time - time.time()) + 1)


def _digest(key: str) -> str:
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
