"""Request bodies with bounded work: size, seconds and parts; parsed off the loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import anyio
from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute

from denoise_core.service import ServiceLimits
from denoise_core.service.request_queue import RequestQueue

PARTS_PER_PASSAGE = 64  # quotes, commas and brackets, metadata included
_OTHER_PARTS = 2000
BYTES_PER_TOKEN = 3  # of a body that is not parsed yet: of prose rather too few


class _BodyReader:
    """What all requests of a service share: one parser, and the bytes being read."""

    def __init__(self, limits: ServiceLimits, queue: RequestQueue) -> None:
        self.limits = limits
        self.queue = queue
        self.parser_slot = anyio.CapacityLimiter(1)  # bodies are parsed one at a time
        self.total_bytes = 0

    def estimate_tokens(self, length: int) -> int:
        """Estimate what a body of so many bytes costs: not too much for its metadata."""
        return min(length, self.limits.max_characters) // BYTES_PER_TOKEN

    async def parse(self, body: bytes) -> Any:
        try:
            return await anyio.to_thread.run_sync(
                parse_body, body, self.limits, limiter=self.parser_slot
            )
        except OverflowError:
            raise HTTPException(
                413,
                f"too much at once: at most {self.limits.max_passages} passages of "
                f"{self.limits.max_characters:,} characters in all",
            ) from None
        except (ValueError, RecursionError):
            raise HTTPException(
                422, "expected a JSON object in UTF-8 with finite numbers"
            ) from None


class _LimitedRequest(Request):
    """A request whose body is refused as soon as it passes a limit."""

    reader: _BodyReader
    body_bytes = 0

    async def stream(self) -> AsyncGenerator[bytes, None]:
        limits = self.reader.limits
        try:
            async with asyncio.timeout(limits.body_timeout):
                async for part in super().stream():
                    self.body_bytes += len(part)
                    self.reader.total_bytes += len(part)
                    if self.body_bytes > limits.max_body_bytes:
                        raise _too_long(limits)
                    if self.reader.total_bytes > limits.max_read_bytes:
                        raise refuse_body(
                            503, "too many bodies are being read", {"retry-after": "1"}
                        )
                    yield part
        except TimeoutError:
            raise refuse_body(
                408, f"the body did not come within {limits.body_timeout:g} s"
            ) from None

    async def json(self) -> Any:
        body = await self.body()
        # Counted only now: a body that comes slowly keeps nobody out.
        tokens = self.reader.estimate_tokens(len(body))
        self.state.turn = self.reader.queue.reserve(tokens)
        return await self.reader.parse(body)


def make_route_class(limits: ServiceLimits, queue: RequestQueue) -> type[APIRoute]:
    """Return the class of all routes of a service.

    A request is admitted by the length of its body, before that is read and again before
    it is parsed: a refusal is fast because nothing was done for it.
    """
    reader = _BodyReader(limits, queue)

    class Route(APIRoute):
        def get_route_handler(
            self,
        ) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def handle_limited(request: Request) -> Response:
                if request.method != "POST":
                    return await handle(request)
                _check_media_type(request)
                length = _content_length(request)
                if length > limits.max_body_bytes:
                    raise _too_long(limits)
                queue.admit(reader.estimate_tokens(length))
                limited_request = _LimitedRequest(request.scope, request.receive)
                limited_request.reader = reader
                try:
                    return await handle(limited_request)
                finally:
                    reader.total_bytes -= limited_request.body_bytes
                    turn = getattr(request.state, "turn", None)
                    if turn is not None:
                        queue.release(turn)

            return handle_limited

    return Route


def _too_long(limits: ServiceLimits) -> HTTPException:
    return refuse_body(413, f"the body is longer than {limits.max_body_bytes:,} bytes")


def _content_length(request: Request) -> int:
    """Return the length that the client declares; 0 where it declares none."""
    header = request.headers.get("content-length", "")
    is_number = header.isascii() and header.isdigit()
    return int(header[:20]) if is_number else 0


def _check_media_type(request: Request) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0]
    if media_type.strip().lower() != "application/json":
        raise refuse_body(415, "send the body with Content-Type: application/json")


def refuse_body(
    status: int, detail: str, headers: dict[str, str] | None = None
) -> HTTPException:
    """Return an error that closes the connection: the rest of the body is not read."""
    return HTTPException(status, detail, {"connection": "close", **(headers or {})})


def parse_body(body: bytes, limits: ServiceLimits) -> Any:
    """Return the JSON object of a body.

    Raises:
        OverflowError: It has more parts than its limits could need. This is checked
            before any Python object is built of them.
        ValueError: It is no JSON object.
    """
    max_parts = PARTS_PER_PASSAGE * limits.max_passages + _OTHER_PARTS
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    parts = unescaped.split(b'"', max_parts)
    structure = b"".join(parts[::2])  # what is outside the strings
    separators = sum(structure.count(separator) for separator in (b",", b"[", b"{"))
    if len(parts) > max_parts or separators > max_parts:
        raise OverflowError
    data = json.loads(body)
    if not isinstance(data, dict):
        raise ValueError("no object")
    return data
