"""``rag-denoise serve``: denoising, reranking and checking over HTTP."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

from rich.console import Console
from rich.text import Text

from denoise_core._optional import require
from denoise_core.cli.plain import plain
from denoise_core.cli.run import denoiser_for, fitted
from denoise_core.errors import InputError
from denoise_core.types import Passage


def serve_own(
    denoiser: Path | None,
    method: str,
    keep: str | None,
    *,
    host: str,
    port: int,
    names: list[str],
    token: str | None,
    workers: int | None = None,
) -> None:
    """Serve until Ctrl-C or SIGTERM. Raises `InputError` for an address that cannot be had."""
    uvicorn = require("uvicorn", extra="serve")
    require("fastapi", extra="serve")
    require("prometheus_client", extra="serve")
    from denoise_core.embedded import span_reader
    from denoise_core.service.app import make_app
    from denoise_core.service.outside import loopback
    from denoise_core.service.settings import Service, ServiceLimits

    aside = Console(stderr=True, highlight=False)

    def say(line: str, style: str = "") -> None:
        aside.print(Text(plain(line), style=style), soft_wrap=True)

    served = denoiser_for(method, keep, None, "auto") if denoiser is None else fitted(denoiser, keep, None)
    hosts = tuple(names) or (() if loopback(host) else (host,))
    limits = ServiceLimits(workers=workers)
    service = Service(served, method if denoiser is None else denoiser.name, span_reader, token, hosts, limits)
    app = make_app(service)
    with aside.status("loading ..."):
        served.denoise("Is it there?", [Passage("It is there.", "0")])
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as error:
        raise InputError(f"cannot listen on {host} port {port}: {error}; take another --port, or 0") from error
    if not loopback(host) and token is None:
        say(f"{host} can be reached from other machines, and no token is asked for: add --token-env", "yellow")
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listener.getsockname()[1]}"
    say(f"serving {service.name!r} at {url}/v1/denoise, /v1/rerank and /v1/check; {url}/docs says how")
    for each in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # uvicorn raises again what ended it
        signal.signal(each, lambda *_: None)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=30)).run(sockets=[listener])
    say("closed")
