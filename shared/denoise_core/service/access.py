"""The outer middleware: the access log, keys, and unexpected errors."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from starlette.datastructures import Headers
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
    histogram by path and status.
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
        key_name = self.keys.identify(headers.get("authorization", ""))

        async def send_noting_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if key_name is None and scope["path"] not in OPEN_PATHS:
                refusal = JSONResponse(
                    {"detail": "a key is needed: Authorization: Bearer ..."},
                    401,
                    {"www-authenticate": "Bearer", "connection": "close"},
                )
                await refusal(scope, receive, send_noting_status)
            else:
                await self.app(scope, receive, send_noting_status)
        except asyncio.CancelledError:
            # The service stops; raised further, it would be a traceback in the log.
            if not status:
                body = {"detail": "the service stops"}
                await JSONResponse(body, 503)(scope, receive, send_noting_status)
        except (
            Exception
        ) as error:  # its text may be the user's: only its class is shown
            error_name = type(error).__name__
            log.error("a request failed: %s", error_name)
            if not status:
                body = {"detail": f"this request failed in the service: {error_name}"}
                await JSONResponse(body, 500)(scope, receive, send_noting_status)
        finally:
            seconds = time.perf_counter() - start_time
            # One label for all unknown paths: clients choose them.
            path = getattr(scope.get("route"), "path", "other")
            self.seconds.labels(path, str(status)).observe(seconds)
            access.info(
                "%s %s %s %d %.0f ms",
                key_name or "-",
                scope["method"],
                path,
                status,
                1000 * seconds,
            )
