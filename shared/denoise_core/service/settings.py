"""What a service serves, and how much of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from denoise_core.errors import InputError
from denoise_core.protocols import Denoiser, Scorer, expect_denoiser
from denoise_core.support.question import Reader

MOST_WORKERS = 4  # threads of one process; what Python itself does keeps more of them from being of use


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """``body`` in bytes, ``passages`` and ``characters`` of one request; ``waiting`` requests at most, more are
    sent away with the status 503; ``seconds`` until a request is given up (504). ``batch`` requests at most are
    worked on together, of ``together`` passages in all. ``workers`` threads compute; None: one for each core, at
    most `MOST_WORKERS`. One worker works on all that wait at once, which is what a GPU wants.
    """

    body: int = 8 << 20
    passages: int = 1000
    characters: int = 4_000_000
    waiting: int = 256
    seconds: float = 60.0
    batch: int = 16
    together: int = 400
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
    """``denoiser`` under the name ``name``. ``reader`` is the reader that ``/v1/check`` asks besides words, or a
    function that loads it at the first use.

    ``token_env`` names the environment variable with the token that requests must bring (``Authorization:
    Bearer``); None asks for none. ``hosts`` are the names by which the service may be called; those of this
    machine alone unless given, and ``("*",)`` for any: so no web page that a browser has open can reach a service
    on one's own machine.
    """

    denoiser: Denoiser
    name: str = "rag-denoise"
    reader: Reader | Callable[[], Reader] | None = None
    token_env: str | None = None
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
