"""What stands between the network and the service: by which name it is called, the token, the size of a body."""

from __future__ import annotations

import hmac
import ipaddress
import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from denoise_core.errors import InputError
from denoise_core.service.settings import Service

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

OPEN = "/healthz"  # answers without a token, for whoever watches over the process


class Outside:
    """ASGI middleware in front of everything."""

    def __init__(self, app: Any, service: Service, token: str | None) -> None:
        self.app = app
        self.service = service
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {k.lower(): v.decode("latin-1") for k, v in scope["headers"]}
        refused = self._refused(scope, headers)
        if refused is not None:
            await _reply(send, *refused)
            return
        most, seen = self.service.limits.body, 0

        async def limited() -> MutableMapping[str, Any]:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > most:
                raise _TooLong
            return message

        async def unless(message: MutableMapping[str, Any]) -> None:
            if seen <= most:  # else the application answers what it made of a body that it could not read
                await send(message)

        with suppress(_TooLong):
            await self.app(scope, limited, unless)
        if seen > most:
            await _reply(send, 413, f"the body is longer than {most:,} bytes")

    def _refused(self, scope: Scope, headers: dict[bytes, str]) -> tuple[int, str] | None:
        name = headers.get(b"host", "").rsplit("@")[-1]
        bare = name[1 : name.find("]")] if name.startswith("[") else name.partition(":")[0]
        hosts = self.service.hosts
        if not (bare in hosts or "*" in hosts or (not hosts and loopback(bare))):
            called = ", ".join(hosts) or "localhost or 127.0.0.1"
            return 403, f"this service does not go by that name: call it {called}"
        if self._token is not None and scope["path"] != OPEN:
            given = headers.get(b"authorization", "")
            if not hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
                return 401, "a token is needed: Authorization: Bearer ..."
        if scope["method"] == "POST":
            if headers.get(b"content-type", "").partition(";")[0].strip().lower() != "application/json":
                return 415, "send the body with Content-Type: application/json"
            length = headers.get(b"content-length", "0")
            if length.isascii() and length.isdigit() and int(length) > self.service.limits.body:
                return 413, f"the body has {int(length):,} bytes; at most {self.service.limits.body:,} are read"
        return None


def token_of(service: Service) -> str | None:
    """The token that requests must bring. Raises `InputError` when its variable is not set."""
    token = os.environ.get(service.token_env) if service.token_env else None
    if service.token_env and not token:
        raise InputError(f"token_env={service.token_env!r}: that environment variable is not set")
    return token


class _TooLong(Exception):
    """A body without a length, or of more bytes than it said."""


def loopback(host: str) -> bool:
    """Whether a name is this machine's own."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _reply(send: Send, status: int, detail: str) -> None:
    body = json.dumps({"detail": detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 413:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
