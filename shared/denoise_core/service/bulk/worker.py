"""What a worker does with a chunk of rows, and what the driver needs of workers of any kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from denoise_core.errors import MissingExtra, ProbeMismatch, said
from denoise_core.protocols import Denoiser
from denoise_core.service.bulk.rows import Row
from denoise_core.service.settings import Service
from denoise_core.service.work import ToDenoise, Worker

_EVERY_ROW = (MissingExtra, ProbeMismatch, ImportError, PermissionError)  # would go wrong for every row alike


@dataclass(frozen=True, slots=True)
class Answer:
    """Of one chunk: each row's id with its line, or None and why; ``fatal`` ends the job."""

    rows: tuple[tuple[str, str | None, str], ...] = ()
    fatal: str | None = None


Task = Callable[[Any], Any]
"""What workers do with a chunk. It travels to them, and raises nothing."""


class Workers(Protocol):
    """``count`` workers by number. Each answers its chunks in the order in which they were sent."""

    count: int

    def ready(self, worker: int) -> bool:
        """Whether it is there; one of a cluster that has no room for it yet is not."""
        ...

    def send(self, worker: int, chunk: Any) -> None: ...

    def wait(self) -> list[tuple[int, Any]]:
        """What has come since; None for a worker that died: it has been replaced, and knows nothing of what was
        sent to it. Returns when a worker has answered, died or become ready."""
        ...

    def close(self) -> None: ...


class Denoises:
    """The task of a bulk job."""

    def __init__(self, denoiser: Denoiser) -> None:
        self.denoiser = denoiser

    def __call__(self, chunk: Sequence[Row]) -> Answer:
        """The chunk's rows denoised, together where the denoiser can."""
        found = Worker(Service(self.denoiser))([ToDenoise(r.query, r.passages) for r in chunk])
        out: list[tuple[str, str | None, str]] = []
        for row, result in zip(chunk, found, strict=True):
            if isinstance(result, _EVERY_ROW):
                return Answer(fatal=said(result))
            if isinstance(result, Exception):
                out.append((row.id, None, said(result)))
                continue
            record: dict[str, Any] = {"id": row.id, **result.as_json()}
            out.append((row.id, json.dumps(record), ""))
        return Answer(tuple(out))
