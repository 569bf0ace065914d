"""Texts in a Redis server: the store of a `Cache` for many processes and machines (extra ``redis``)."""

from __future__ import annotations

import hashlib
import os
import threading
from typing import Any
from urllib.parse import urlsplit

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.running.recipes import Travels


class RedisStore(Travels):
    """Texts at ``url`` (``redis://host:6379/0``, ``rediss://`` with encryption), for ``expiry`` seconds each.

    ``tenant`` is part of every key, hashed: two tenants of one server share nothing, and neither can be named by
    what the other writes. (`Cache(scope=...)` keeps tenants apart who change from call to call.) ``prefix`` comes
    first, for servers that hold other things too. ``password_env`` names the environment variable with the
    password; in the address it is refused, so that it stands in no log and travels in no pickle.

    A server that is down, slow (``timeout`` seconds) or full raises here, and `Cache` then makes its calls without
    it for a minute. Nothing that it holds is executed or unpickled; a text that is not UTF-8 counts as missing.
    """

    def __init__(
        self,
        url: str,
        *,
        tenant: str = "",
        expiry: float | None = 7 * 24 * 3600.0,
        prefix: str = "denoise",
        password_env: str | None = None,
        timeout: float = 0.5,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("redis", "rediss", "unix"):
            raise InputError("url: expected redis://, rediss:// or unix://")
        if parts.password:
            raise InputError("url: leave the password out; name an environment variable with password_env=")
        if expiry is not None and not expiry >= 1:
            raise InputError(f"expiry={expiry}: expected seconds, 1 or more, or None for ever")
        if not timeout > 0:
            raise InputError(f"timeout={timeout}: expected seconds, above 0")
        self.url = url
        self.tenant = tenant
        self.expiry = expiry
        self.prefix = prefix
        self.password_env = password_env
        self.timeout = timeout
        self._lock = threading.Lock()
        self._client: Any = None
        self._of = 0  # the process that opened it: a connection does not outlive a fork

    def get(self, key: str) -> str | None:
        found = self._opened().get(self._name(key))
        try:
            return None if found is None else found.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return None

    def put(self, key: str, text: str) -> None:
        self._opened().set(
            self._name(key),
            text.encode("utf-8", "surrogatepass"),
            px=None if self.expiry is None else round(self.expiry * 1000),
        )

    def _name(self, key: str) -> str:
        tenant = hashlib.sha256(self.tenant.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return f"{self.prefix}:{tenant}:{key}"

    def _opened(self) -> Any:
        with self._lock:
            if self._client is None or self._of != os.getpid():
                redis = require("redis", extra="redis")
                password = os.environ.get(self.password_env) if self.password_env else None
                if self.password_env and not password:
                    raise InputError(f"password_env={self.password_env!r}: that environment variable is not set")
                self._client = redis.Redis.from_url(
                    self.url,
                    password=password,
                    socket_timeout=self.timeout,
                    socket_connect_timeout=self.timeout,
                )
                self._of = os.getpid()
            return self._client
