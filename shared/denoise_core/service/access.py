"""The outer middleware: request ids, the access log, keys, and unexpected errors."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from denoise_core.service.keys import ApiKeys

OPEN_PATHS = (
    "/livez",
    "/readyz",
    "/health",
)  # need no key: for what monitors the process

log = logging.getLogger("denoise")
access = logging.getLogger("denoise.access")  # at INFO: no text, no address, no key


class AccessMiddleware:
    """ASGI middleware in front of everything.

    Nothing that a request holds is logged, whatever fails. ``seconds`` is a Prometheus
    histogram by path and status; ``scope["key"]`` is the name of the key.
    """

    def __init__(self, app: Any, keys: ApiKeys, seconds: Any) -> None:
        self.app = app
        self.keys = keys
        self.seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        start_time = time.perf_counter()
        status = 0
        request_id = _request_id(headers.get("x-request-id", ""))
        key_name = self.keys.identify(headers.get("authorization", ""))
        scope["key"] = key_name

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        try:
            if key_name is None and scope["path"] not in OPEN_PATHS:
                refusal = JSONResponse(
                    {"detail": "a key is needed: Authorization: Bearer ..."},
                    401,
                    {"www-authenticate": "Bearer", "connection": "close"},
                )
                await refusal(scope, receive, send_with_id)
            else:
                await self.app(scope, receive, send_with_id)
        except asyncio.CancelledError:
            # The service stops; raised further, it would be a traceback in the log.
            if not status:
                body = {"detail": "the service stops"}
                await JSONResponse(body, 503)(scope, receive, send_with_id)
        except (
            Exception
        ) as error:  # its text may be the user's: only its class is shown
            error_name = type(error).__name__
            log.error("request %s: %s", request_id, error_name)
            if not status:
                body = {"detail": f"{error_name}; request {request_id} in the log"}
                await JSONResponse(body, 500)(scope, receive, send_with_id)
        finally:
            seconds = time.perf_counter() - start_time
            # One label for all unknown paths: clients choose them.
            path = getattr(scope.get("route"), "path", "other")
            self.seconds.labels(path, str(status)).observe(seconds)
            access.info(
                "%s %s %s %s %d %.0f ms",
                request_id,
                key_name or "-",
                scope["method"],
                path,
                status,
                1000 * seconds,
            )


def _request_id(header: str) -> str:
    if 0 < len(header) <= 64 and header.replace("-", "").isalnum():
        return header
    return uuid.uuid4().hex
