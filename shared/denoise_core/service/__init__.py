"""Denoising, reranking and checking over HTTP.

A `Service` names a denoiser, a judge and limits; `app.make_app` builds the ASGI
application from it. Read `app` first, then `bodies` (the JSON shapes). A new path goes
into `app`, a new kind of key into `keys`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from denoise_core.errors import InputError
from denoise_core.protocols import Denoiser, Scorer, expect_denoiser
from denoise_core.support.judging import Judge

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]", "::1")
MAX_WORKERS = 4  # threads of one process; what Python itself does keeps more of them from being of use


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """Limits of a service.

    Args:
        max_body_bytes: Of one request.
        max_read_bytes: Of all bodies that are read at a time.
        body_timeout: Seconds in which a body must come.
        max_passages: Of one request.
        max_characters: Of one request.
        max_waiting: Requests that may wait; more are refused at once (503).
        timeout: Seconds until a request is given up (504). One that would wait longer,
            judging by earlier requests, is refused at once (503).
        stall_timeout: Seconds without progress until ``/readyz`` fails.
        workers: Threads that compute; None: one for each core, at most `MAX_WORKERS`.
    """

    max_body_bytes: int = 8 << 20
    max_read_bytes: int = 64 << 20
    body_timeout: float = 10.0
    max_passages: int = 1000
    max_characters: int = 1_000_000
    max_waiting: int = 256
    timeout: float = 60.0
    stall_timeout: float = 120.0
    workers: int | None = None

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"ServiceLimits({name}={value}): expected more than 0")

    @property
    def threads(self) -> int:
        """How many threads compute."""
        return self.workers or min(MAX_WORKERS, os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class Service:
    """What is served.

    Args:
        denoiser: Answers ``/v1/denoise``; its scorer answers ``/v1/rerank``.
        name: What clients give as their model.
        judge: Answers ``/v1/check``; without one only differing words are found, and
            the verdict is never "supported".
        keys: A TOML file of keys with names (`service.keys`); requests must
            then send one (``Authorization: Bearer``).
        hosts: Names by which the service may be called; by default this machine's, so
            that no web page in a browser can reach it. ``("*",)`` allows any.
        limits: Sizes and times.
    """

    denoiser: Denoiser
    name: str = "rag-denoise"
    judge: Judge | None = None
    keys: Path | None = None
    hosts: tuple[str, ...] = ()
    limits: ServiceLimits = field(default_factory=ServiceLimits)

    def __post_init__(self) -> None:
        expect_denoiser(self.denoiser)
        if not self.name.strip():
            raise InputError("name is empty: it is what clients give as their model")

    @property
    def scorer(self) -> Scorer | None:
        """The denoiser's scorer, for ``/v1/rerank``; None when it has none."""
        part: object = self.denoiser
        while part is not None:
            scorer = getattr(part, "scorer", None)
            if isinstance(scorer, Scorer):
                return scorer
            steps = getattr(part, "denoisers", None)
            part = steps[-1] if steps else getattr(part, "denoiser", None)
        return None
