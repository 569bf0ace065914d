"""Connections of clients that send nothing: closed in time, and no bound for the others."""

from __future__ import annotations

import asyncio
from typing import Any


def make_protocol_class(header_timeout: float) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with a time limit for the first request's headers.

    uvicorn has one only between requests: a thousand connections with half a header
    each would keep all others out for ever.
    """
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    base_class: Any = AutoHTTPProtocol

    class TimedProtocol(base_class):  # type: ignore[misc]
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            loop = asyncio.get_running_loop()
            self.header_timer = loop.call_later(header_timeout, self.close_if_unused)

        def connection_lost(self, error: Exception | None) -> None:
            self.header_timer.cancel()
            super().connection_lost(error)

        def close_if_unused(self) -> None:
            if self.cycle is None:  # no request has begun
                self.transport.close()

    return TimedProtocol


def raise_open_files_limit() -> None:
    """Let this process open as many files, connections included, as the system allows."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    except (OSError, ValueError):  # not here; it works with what there is
        return
