"""``rag-denoise serve``: denoising, reranking and checking over HTTP."""

from __future__ import annotations

import logging
import signal
import socket
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from denoise_core._optional import require
from denoise_core.cli.options import KeepOption, MethodOption, app
from denoise_core.cli.run import build_denoiser
from denoise_core.cli.terminal import print_line
from denoise_core.embedded.encoder import CACHE_BYTES
from denoise_core.errors import InputError
from denoise_core.service import LOCAL_HOSTS, Service, ServiceLimits
from denoise_core.types import Passage
from denoise_core.weighted_cache import limit_caches

DEFAULT_LIMITS = ServiceLimits()


@app.command(context_settings={"auto_envvar_prefix": "RAG_DENOISE"})
def serve(
    context: typer.Context,
    denoiser: MethodOption = "end",
    keep: KeepOption = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")
    ] = 8000,
    host: Annotated[
        str,
        typer.Option(
            help="The address to listen on; 127.0.0.1 is reached from this machine only."
        ),
    ] = "127.0.0.1",
    name: Annotated[
        list[str] | None,
        typer.Option(
            help="A name or address that clients call it by, besides localhost; * for any; repeat it for more."
        ),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            help="A TOML file with one table for each client: its key or sha256."
        ),
    ] = None,
    access_log: Annotated[
        bool,
        typer.Option(
            "--access-log", help="Log one line for each request, without its text."
        ),
    ] = False,
    max_body_bytes: Annotated[
        int, typer.Option(help="The largest body of a request, in bytes.")
    ] = DEFAULT_LIMITS.max_body_bytes,
    max_read_bytes: Annotated[
        int,
        typer.Option(help="The most bytes of bodies that are read at the same time."),
    ] = DEFAULT_LIMITS.max_read_bytes,
    body_timeout: Annotated[
        float, typer.Option(help="Seconds in which a body must have arrived.")
    ] = DEFAULT_LIMITS.body_timeout,
    max_passages: Annotated[
        int, typer.Option(max=10_000, help="The most passages in a request.")
    ] = DEFAULT_LIMITS.max_passages,
    max_characters: Annotated[
        int, typer.Option(help="The most characters in a request.")
    ] = DEFAULT_LIMITS.max_characters,
    max_waiting: Annotated[
        int,
        typer.Option(help="The most requests that wait; others are refused with 503."),
    ] = DEFAULT_LIMITS.max_waiting,
    timeout: Annotated[
        float, typer.Option(help="Seconds until a request is given up.")
    ] = DEFAULT_LIMITS.timeout,
    stall_timeout: Annotated[
        float, typer.Option(help="Seconds without progress until /readyz fails.")
    ] = DEFAULT_LIMITS.stall_timeout,
    cache_bytes: Annotated[
        int, typer.Option(min=0, help="The size of each cache in memory, in bytes.")
    ] = CACHE_BYTES,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Threads that score; by default one for each core, at most 4."
        ),
    ] = None,
) -> None:
    """Serve denoising over HTTP, in the shapes that rerank clients speak. Nothing leaves the machine.

    POST /v1/denoise, /v1/rerank (Jina, Cohere, vLLM) and /v1/check; GET /livez,
    /readyz, /metrics (Prometheus) and /docs (OpenAPI). Every option is a variable too: RAG_DENOISE_PORT=8080.

    **Example**

    curl localhost:8000/v1/rerank --json '{"query": "who wrote it?", "documents": ["A clerk did.", "Rain."]}'
    """
    uvicorn = require("uvicorn", extra="serve")
    require("fastapi", extra="serve")
    require("prometheus_client", extra="serve")
    from denoise_core.service.access import access
    from denoise_core.service.app import make_app
    from denoise_core.service.connections import (
        make_protocol_class,
        raise_open_files_limit,
    )
    from denoise_core.service.request_queue import tune_for_serving

    console = Console(stderr=True, highlight=False)
    served_denoiser = build_denoiser(denoiser, keep)
    limits = {name: context.params[name] for name in ServiceLimits.__slots__}
    service = Service(
        served_denoiser,
        Path(denoiser).name,
        None,
        keys,
        # What watches the process from inside its container calls it localhost.
        (*LOCAL_HOSTS, host, *(name or ())),
        ServiceLimits(**limits),
    )
    application = make_app(service)
    if access_log:
        access.addHandler(logging.StreamHandler())
        access.setLevel(logging.INFO)
    with console.status("loading ..."):  # so that the first request is not slow
        served_denoiser.denoise("Is it there?", [Passage("It is there.", "0")])
    limit_caches(cache_bytes)
    address_family = socket.AF_INET
    url_host = host
    if ":" in host:  # an address of IPv6
        address_family = socket.AF_INET6
        url_host = f"[{host}]"
    try:
        listener = socket.create_server((host, port), family=address_family)
    except (OSError, OverflowError) as error:
        raise InputError(
            f"cannot listen on {host} port {port}: {error}; take another --port, or 0"
        ) from error
    if host not in LOCAL_HOSTS and not name:
        print_line(
            console,
            f"requests that call it anything but {host} or localhost are refused (400): "
            "add --name for each name or address of it, or --name '*'",
            "yellow",
        )
    if host not in LOCAL_HOSTS and keys is None:
        print_line(
            console,
            f"{host} can be reached from other machines, and asks for no key: add "
            "--keys",
            "yellow",
        )
    server_url = f"http://{url_host}:{listener.getsockname()[1]}"
    print_line(
        console,
        f"serving {service.name!r} at {server_url}/v1/denoise, /v1/rerank and /v1/check; "
        f"{server_url}/docs says how",
    )
    tune_for_serving()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn raises the signal that stopped it again after it has shut down.
        signal.signal(signal_number, lambda *_: None)
    raise_open_files_limit()
    server_config = uvicorn.Config(
        application,
        http=make_protocol_class(body_timeout),
        log_level="warning",
        # No request takes longer, so that each gets its reply; what is idle is closed.
        timeout_graceful_shutdown=body_timeout + timeout,
    )
    uvicorn.Server(server_config).run(sockets=[listener])
    print_line(console, "closed")
