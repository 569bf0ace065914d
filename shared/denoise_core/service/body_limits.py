"""Request bodies with bounded work: size, seconds and parts; read into their models off the loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, get_type_hints

import anyio
from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute
from pydantic import ValidationError

from denoise_core.service import ServiceLimits
from denoise_core.service.bodies import TextBody
from denoise_core.service.problems import describe_problem
from denoise_core.service.request_queue import (
    RequestQueue,
    Turn,
    estimate_reading_cost,
)

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


class _LimitedRequest(Request):
    """A request whose body is refused as soon as it passes a limit."""

    reader: _BodyReader
    model: type[TextBody]
    turn: Turn | None = None
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

    async def body(self) -> bytes:
        return await super().body() or b" "  # FastAPI would answer an empty one itself

    async def json(self) -> TextBody:
        """Return the body as its model, which FastAPI takes as it is."""
        body = await self.body()
        queue = self.reader.queue
        # Counted only now: a body that comes slowly keeps nobody out.
        tokens = self.reader.estimate_tokens(len(body))
        self.turn = self.state.turn = queue.reserve(tokens)
        parsed_body, tokens = await anyio.to_thread.run_sync(
            parse_body,
            body,
            self.model,
            self.reader.limits,
            limiter=self.reader.parser_slot,
        )
        queue.confirm(self.turn, tokens, self.url.path)
        return parsed_body


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
            model = get_type_hints(self.endpoint).get("body")
            if model is None:
                return handle

            async def handle_limited(request: Request) -> Response:
                _check_media_type(request)
                length = _content_length(request)
                if length > limits.max_body_bytes:
                    raise _too_long(limits)
                queue.admit(reader.estimate_tokens(length))
                limited_request = _LimitedRequest(request.scope, request.receive)
                limited_request.reader = reader
                limited_request.model = model
                try:
                    return await handle(limited_request)
                finally:
                    reader.total_bytes -= limited_request.body_bytes
                    if limited_request.turn is not None:
                        queue.release(limited_request.turn)

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


def parse_body(
    body: bytes, model: type[TextBody], limits: ServiceLimits
) -> tuple[TextBody, int]:
    """Return a body as its model, and the tokens of its texts.

    Raises:
        HTTPException: It has more parts than its limits could need, which is checked
            before any Python object is built of them; it is no JSON object, or not the
            model's; or it has more passages or characters than the limits.
    """
    max_parts = PARTS_PER_PASSAGE * limits.max_passages + _OTHER_PARTS
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    parts = unescaped.split(b'"', max_parts)
    structure = b"".join(parts[::2])  # what is outside the strings
    separators = sum(structure.count(separator) for separator in (b",", b"[", b"{"))
    if len(parts) > max_parts or separators > max_parts:
        raise HTTPException(413, "too much at once: more parts than passages need")
    try:
        parsed_body = model.model_validate(json.loads(body))
    except ValidationError as error:
        raise HTTPException(422, describe_problem(error)) from None
    except (ValueError, RecursionError):
        raise HTTPException(
            422, "expected a JSON object in UTF-8 with finite numbers"
        ) from None
    passage_texts, other_texts = parsed_body.texts()
    texts = [*passage_texts, *other_texts]
    characters = sum(map(len, texts))
    counts = (
        ("passages", len(passage_texts), limits.max_passages),
        ("characters", characters, limits.max_characters),
    )
    for name, count, max_count in counts:
        if count > max_count:
            raise HTTPException(
                413, f"{count:,} {name}; at most {max_count:,} are taken at once"
            )
    return parsed_body, estimate_reading_cost(texts)
