"""Reading a request with bounded work: how long its body is, how slow, of how many parts; parsed off the loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import anyio
from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute

from denoise_core.service import ServiceLimits
from denoise_core.service.keys import ApiKeys
from denoise_core.service.request_queue import RequestQueue

EACH = 64  # quotes, commas and brackets for each passage, metadata included


def make_route_class(
    limits: ServiceLimits, desk: RequestQueue, keys: ApiKeys
) -> type[APIRoute]:
    """The class of all routes of a service. Where even a short body would be refused, none is read."""
    one, held = (
        anyio.CapacityLimiter(1),
        [0],
    )  # bodies are parsed one at a time; bytes of all there are

    class Read(Request):
        own = 0  # bytes of ``held``

        async def stream(self) -> AsyncGenerator[bytes, None]:
            length = self.headers.get("content-length", "")
            too_long = (
                length.isascii()
                and length.isdigit()
                and int(length[:20]) > limits.max_body_bytes
            )
            try:
                async with asyncio.timeout(limits.body_timeout):
                    async for part in super().stream():
                        self.own, held[0] = self.own + len(part), held[0] + len(part)
                        if too_long or self.own > limits.max_body_bytes:
                            raise refused(
                                413,
                                f"the body is longer than {limits.max_body_bytes:,} bytes",
                            )
                        if held[0] > limits.max_read_bytes:
                            raise refused(
                                503,
                                "too many bodies are being read",
                                {"retry-after": "1"},
                            )
                        yield part
            except TimeoutError:
                raise refused(
                    408, f"the body did not come within {limits.body_timeout:g} s"
                ) from None

        async def json(self) -> Any:
            try:
                return await anyio.to_thread.run_sync(
                    parse_body, await self.body(), limits, limiter=one
                )
            except OverflowError:
                most = f"at most {limits.max_passages} passages of {limits.max_characters:,} characters in all"
                raise HTTPException(413, f"too much at once: {most}") from None
            except (ValueError, RecursionError):
                raise HTTPException(
                    422, "expected a JSON object in UTF-8 with finite numbers"
                ) from None

    class Route(APIRoute):
        def get_route_handler(
            self,
        ) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def read(request: Request) -> Response:
                if request.method != "POST":
                    return await handle(request)
                if (
                    request.headers.get("content-type", "")
                    .partition(";")[0]
                    .strip()
                    .lower()
                    != "application/json"
                ):
                    raise refused(
                        415, "send the body with Content-Type: application/json"
                    )
                if after := keys.wait(request.scope["key"]):
                    raise refused(
                        429,
                        "the quota of this key is spent",
                        {"retry-after": str(after)},
                    )
                desk.admit()
                reading = Read(request.scope, request.receive)
                try:
                    return await handle(reading)
                finally:
                    held[0] -= reading.own

            return read

    return Route


def refused(
    status: int, detail: str, headers: dict[str, str] | None = None
) -> HTTPException:
    """What of a body is still on its way is not read."""
    return HTTPException(status, detail, {"connection": "close", **(headers or {})})


def parse_body(body: bytes, limits: ServiceLimits) -> Any:
    """The JSON of a body. Raises `OverflowError` for one of more parts than its limits could need, before anything
    is built of them, and `ValueError` for what is no JSON object."""
    most = EACH * limits.max_passages + 2000
    parts = body.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"', most)
    outside = b"".join(parts[::2])  # of the texts
    if len(parts) > most or sum(map(outside.count, (b",", b"[", b"{"))) > most:
        raise OverflowError
    if isinstance(found := json.loads(body), dict):
        return found
    raise ValueError("no object")
