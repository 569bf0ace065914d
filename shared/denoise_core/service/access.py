"""The service's outer wall: an id and a line for each request, keys, and errors that nobody foresaw."""

from __future__ import annotations

import logging
import time
import uuid
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from denoise_core.service.keys import ApiKeys

OPEN = (
    "/livez",
    "/readyz",
)  # answer without a key, for whoever watches over the process

log = logging.getLogger("denoise")
access = logging.getLogger(
    "denoise.access"
)  # a line a request at INFO: no text, no address, no key


class AccessMiddleware:
    """ASGI middleware in front of everything. Nothing that a request holds is logged, whatever goes wrong.

    ``seconds`` is a histogram of Prometheus by path and status; ``scope["key"]`` is the name of the key.
    """

    def __init__(self, app: Any, keys: ApiKeys, seconds: Any) -> None:
        self.app = app
        self.keys = keys
        self.seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, began, status = Headers(scope=scope), time.perf_counter(), 0
        asked = headers.get("x-request-id", "")
        number = (
            asked
            if 0 < len(asked) <= 64 and asked.replace("-", "").isalnum()
            else uuid.uuid4().hex
        )
        who = scope["key"] = self.keys.identify(headers.get("authorization", ""))

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = number
            await send(message)

        try:
            if who is None and scope["path"] not in OPEN:
                about = {"www-authenticate": "Bearer", "connection": "close"}
                refused = JSONResponse(
                    {"detail": "a key is needed: Authorization: Bearer ..."}, 401, about
                )
                await refused(scope, receive, answer)
            else:
                await self.app(scope, receive, answer)
        except (
            Exception
        ) as error:  # its text may be the user's, so its class is all that is told
            log.error("request %s: %s", number, type(error).__name__)
            if not status:
                told = {
                    "detail": f"{type(error).__name__}; request {number} in the log"
                }
                await JSONResponse(told, 500)(scope, receive, answer)
        finally:
            taken = time.perf_counter() - began
            path = getattr(
                scope.get("route"), "path", "other"
            )  # paths that nobody serves would be a label each
            self.seconds.labels(path, str(status)).observe(taken)
            access.info(
                "%s %s %s %s %d %.0f ms",
                number,
                who or "-",
                scope["method"],
                path,
                status,
                1000 * taken,
            )
