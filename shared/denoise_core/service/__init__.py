"""Denoising, reranking and checking over HTTP: what is served, and how much of it; `app.make_app` makes it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from denoise_core.errors import InputError
from denoise_core.protocols import Denoiser, Scorer, expect_denoiser
from denoise_core.support.judging import Judge

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]", "::1")
MOST_WORKERS = 4  # threads of one process; what Python itself does keeps more of them from being of use


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """``body`` bytes of one request, ``bodies`` of all that are read at a time; a body has ``body_seconds`` to
    come. ``passages`` and ``characters`` of one request. ``seconds`` until a request is given up (504); one that
    would wait longer, by what requests took so far, is refused at once (503), and so are more than ``waiting``.
    ``workers`` threads compute; None: one for each core, at most `MOST_WORKERS`. When work is under way and none
    was done for ``stalled`` seconds, ``/readyz`` says so.
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
        return self.workers or min(MOST_WORKERS, os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class Service:
    """``denoiser`` under the name ``name``. ``judge`` is whom ``/v1/check`` asks; without one words alone say what
    differs, and never "supported".

    ``keys`` is a TOML file of keys with names and quotas (`service.keys`), of which requests must bring one
    (``Authorization: Bearer``). ``hosts`` are the names by which the service may be called; those of this machine
    alone unless given, and ``("*",)`` for any: so no web page that a browser has open can reach it.
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
        """What scores inside the denoiser, for ``/v1/rerank``; None where nothing does."""
        inner: object = self.denoiser
        while inner is not None:
            if isinstance(found := getattr(inner, "scorer", None), Scorer):
                return found
            steps = getattr(inner, "denoisers", None)
            inner = steps[-1] if steps else getattr(inner, "denoiser", None)
        return None
