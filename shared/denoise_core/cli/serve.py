"""``rag-denoise serve``: denoising, reranking and checking over HTTP."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

import typer
from rich.console import Console

from denoise_core._optional import require
from denoise_core.cli.options import app
from denoise_core.cli.run import denoiser_for, fitted
from denoise_core.cli.terminal import say
from denoise_core.errors import InputError
from denoise_core.service.settings import HOSTS, Service, ServiceLimits
from denoise_core.types import Passage

PREFIX = "RAG_DENOISE_"
_LIMITS = {f.name for f in fields(ServiceLimits)}


def settings_type() -> Any:
    """The settings of ``serve``, each a flag, a variable ``RAG_DENOISE_...`` and a key of the file at
    ``RAG_DENOISE_CONFIG``: the first that gives a value holds. Needs the extra ``serve``."""
    pydantic, given = require("pydantic", extra="serve"), require("pydantic_settings", extra="serve")
    field, limits = pydantic.Field, ServiceLimits()

    class Settings(given.BaseSettings):  # type: ignore[misc, name-defined, unused-ignore]
        """Serve denoising over HTTP, in the shapes that rerank clients speak. Nothing leaves the machine.

        curl localhost:8000/v1/rerank --json '{"query": "who wrote it?", "documents": ["A clerk did.", "Rain."]}'
        """

        model_config = given.SettingsConfigDict(
            env_prefix=PREFIX,
            extra="forbid",
            cli_prog_name="rag-denoise serve",
            cli_kebab_case=True,
            cli_implicit_flags=True,
            cli_hide_none_type=True,
        )
        method: Literal["end", "bm25", "embedding"] = field("end", description="'end' is the embedded default")
        keep: str | None = field(None, description="as for 'run': 5, 0.3, 30% or auto")
        denoiser: Path | None = field(None, description="a folder of 'rag-denoise fit', instead of method")
        port: int = field(8000, ge=0, le=65535, description="0 takes a free one")
        host: str = field("127.0.0.1", description="127.0.0.1 is for this machine only")
        name: list[str] = field(
            [], description="a name that clients may call the service by, * for any; again for more"
        )
        keys: Path | None = field(
            None, description="a TOML file of keys: [name] key or sha256, quota='600/minute'"
        )
        access_log: bool = field(False, description="a line a request on standard error, without text")
        body: int = field(limits.body, gt=0, description="bytes of a request")
        bodies: int = field(limits.bodies, gt=0, description="bytes of all requests that are read at a time")
        body_seconds: float = field(limits.body_seconds, gt=0, description="until a body must have come")
        passages: int = field(limits.passages, gt=0, le=10_000, description="of a request")
        characters: int = field(limits.characters, gt=0, description="of a request")
        waiting: int = field(limits.waiting, gt=0, description="requests that may wait")
        seconds: float = field(limits.seconds, gt=0, description="until a request is given up")
        stalled: float = field(limits.stalled, gt=0, description="without progress until /readyz fails")
        workers: int | None = field(None, gt=0, description="threads that compute; one for each core, at most 4")

        @classmethod
        def settings_customise_sources(cls, settings_cls: Any, **sources: Any) -> tuple[Any, ...]:
            file = os.environ.get(f"{PREFIX}CONFIG")
            read = (given.TomlConfigSettingsSource(settings_cls, Path(file)),) if file else ()
            return (sources["init_settings"], sources["env_settings"], *read)

    return Settings


def read_settings(arguments: Sequence[str]) -> Any:
    """From flags, the environment and a file. Raises `InputError` for a value that cannot be."""
    made = settings_type()
    file = os.environ.get(f"{PREFIX}CONFIG")
    if file and not Path(file).is_file():
        raise InputError(f"{PREFIX}CONFIG={file!r}: there is no such file")
    try:
        return made(_cli_parse_args=list(arguments))
    except require("pydantic", extra="serve").ValidationError as error:
        wrong = error.errors(include_input=False, include_url=False)[0]
        name = "-".join(map(str, wrong["loc"])).replace("_", "-")
        raise InputError(f"--{name}: {wrong['msg']}") from None


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
def serve(context: typer.Context) -> None:
    """Serve denoising over HTTP, in the shapes that rerank clients speak; 'serve --help' has the settings.

    POST /v1/denoise, /v1/rerank (Jina, Cohere, vLLM, text-embeddings-inference) and /v1/check; GET /livez,
    /readyz, /metrics (Prometheus) and /docs (OpenAPI).
    """
    asked = read_settings(context.args)
    uvicorn = require("uvicorn", extra="serve")
    require("fastapi", extra="serve")
    require("prometheus_client", extra="serve")
    from denoise_core.augmenter.utilities.default import default_judge
    from denoise_core.service.app import make_app
    from denoise_core.service.desk import for_serving
    from denoise_core.service.outside import access

    aside = Console(stderr=True, highlight=False)
    own = asked.denoiser
    served = denoiser_for(asked.method, asked.keep) if own is None else fitted(own, asked.keep)
    hosts = tuple(asked.name) or (() if asked.host in HOSTS else (asked.host,))
    limits = ServiceLimits(**{name: getattr(asked, name) for name in _LIMITS})
    name = asked.method if own is None else own.name
    service = Service(served, name, default_judge(), asked.keys, hosts, limits)
    app = make_app(service)
    if asked.access_log:
        access.addHandler(logging.StreamHandler())
        access.setLevel(logging.INFO)
    with aside.status("loading ..."):
        served.denoise("Is it there?", [Passage("It is there.", "0")])
    host, port = asked.host, asked.port
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as error:
        raise InputError(f"cannot listen on {host} port {port}: {error}; take another --port, or 0") from error
    if host not in HOSTS and asked.keys is None:
        say(aside, f"{host} can be reached from other machines, and asks for no key: add --keys", "yellow")
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listener.getsockname()[1]}"
    say(aside, f"serving {service.name!r} at {url}/v1/denoise, /v1/rerank and /v1/check; {url}/docs says how")
    for_serving()
    for each in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises again what ended it
        signal.signal(each, lambda *_: None)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=30)).run(sockets=[listener])
    say(aside, "closed")
