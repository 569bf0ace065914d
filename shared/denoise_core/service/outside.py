"""The service's outer wall: ids and the access log, keys, and bodies that are too long, too slow or not JSON."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from denoise_core.service.keys import Keys
from denoise_core.service.metrics import Metrics
from denoise_core.service.settings import Service

OPEN = ("/livez", "/readyz")  # answer without a key, for whoever watches over the process
HOSTS = ("localhost", "127.0.0.1", "[::1]", "::1")

log = logging.getLogger("denoise")
access = logging.getLogger("denoise.access")  # a line a request at INFO: no text, no address, no key


class Outside:
    """ASGI middleware in front of everything. Nothing that a request holds is logged, whatever goes wrong."""

    def __init__(self, app: Any, service: Service, keys: Keys, metrics: Metrics) -> None:
        self.app = app
        self.limits = service.limits
        self.keys = keys
        self.metrics = metrics
        self.held = 0  # bytes of bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        asked = headers.get("x-request-id", "")
        number = asked if 0 < len(asked) <= 64 and asked.replace("-", "").isalnum() else uuid.uuid4().hex
        began, status, who = time.perf_counter(), 0, "-"

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = number
            await send(message)

        held = [0]
        try:
            who = self._allowed(scope, headers)
            body = await self._body(receive, headers, held) if scope["method"] == "POST" else None
            await self.app(scope, receive if body is None else _once(body, receive), answer)
        except HTTPException as error:  # kept by no other name: it holds the body, and would until a collection
            await _reply(error)(scope, receive, answer)
        except Exception as error:  # its text may be the user's, so its class is all that is told
            log.error("request %s: %s", number, type(error).__name__)
            if not status:
                refused = HTTPException(500, f"{type(error).__name__}; request {number} in the log")
                await _reply(refused)(scope, receive, answer)
        finally:
            self.held -= held[0]
            seconds = time.perf_counter() - began
            path = getattr(scope.get("route"), "path", "other")  # paths that nobody serves would be a label each
            self.metrics.requests.labels(path, str(status)).inc()
            self.metrics.seconds.labels(path).observe(seconds)
            access.info(
                "%s %s %s %s %d %.0f ms", number, who or "-", scope["method"], path, status, 1000 * seconds
            )

    def _allowed(self, scope: Scope, headers: Headers) -> str:
        if scope["path"] in OPEN:
            return ""
        who = self.keys.who(headers.get("authorization", ""))
        if who is None:
            raise HTTPException(401, "a key is needed: Authorization: Bearer ...", {"www-authenticate": "Bearer"})
        if scope["method"] == "POST":
            if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                raise HTTPException(415, "send the body with Content-Type: application/json")
            if after := self.keys.wait(who):
                raise HTTPException(429, "the quota of this key is spent", {"retry-after": str(after)})
        return who

    async def _body(self, receive: Receive, headers: Headers, held: list[int]) -> bytes:
        """All of it, within its limits; ``held`` says what of `self.held` is its own."""
        most, length = self.limits.body, headers.get("content-length", "0")
        if length.isascii() and length.isdigit() and int(length[:20]) > most:
            raise HTTPException(413, f"the body is longer than {most:,} bytes")
        parts, more = [], True
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise HTTPException(400, "the body ended early")
                    part = message.get("body", b"")
                    held[0] += len(part)
                    self.held += len(part)
                    if held[0] > most:
                        raise HTTPException(413, f"the body is longer than {most:,} bytes")
                    if self.held > self.limits.bodies:
                        raise HTTPException(503, "too many bodies are being read", {"retry-after": "1"})
                    parts.append(part)
                    more = message.get("more_body", False)
        except TimeoutError as error:
            raise HTTPException(408, f"the body did not come within {self.limits.body_seconds:g} s") from error
        return b"".join(parts)


def _once(body: bytes, receive: Receive) -> Receive:
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def read() -> Message:
        return left.pop() if left else await receive()

    return read


def _reply(refused: HTTPException) -> JSONResponse:
    headers = {"connection": "close", **(refused.headers or {})}  # what of a body is still on its way is not read
    return JSONResponse({"detail": refused.detail}, refused.status_code, headers)
