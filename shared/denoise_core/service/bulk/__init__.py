"""Many rows: the input in chunks, workers that denoise them, parts that become the output; one row for each id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from denoise_core.errors import InputError
from denoise_core.protocols import Denoiser, expect_denoiser
from denoise_core.service.bulk.parts import Parts, files_of
from denoise_core.service.bulk.workers import Task, carried_out, on_ray

__all__ = ["Finished", "bulk"]


@dataclass(frozen=True, slots=True)
class Finished:
    """``rows`` written, and ``bad`` ones in ``OUT.bad.jsonl``; ``known`` of both by an earlier run; workers that
    ``died`` or were ended."""

    rows: int
    known: int
    bad: int
    died: int


def bulk(
    source: str | Path,
    out: str | Path,
    denoiser: Denoiser,
    *,
    query: str | None = None,
    engine: Literal["process", "ray"] = "process",
    workers: int | None = None,
    seconds: float = 300.0,
    job: str = "",
    progress: Callable[[int, int], object] = lambda done, all: None,
) -> Finished:
    """Denoise every row of ``source`` into ``out``: exactly one row for each id, in the order of the input.

    ``source`` is a ``.jsonl`` or ``.parquet`` file, or a folder of them. A row has an ``id``, a ``query`` and
    ``passages``, or an ``id`` and a ``text``, which is denoised for ``query``. ``out`` ends in ``.jsonl`` or
    ``.parquet``. What cannot be denoised goes to ``OUT.bad.jsonl`` with its reason. Killed at any moment, the same
    call goes on: what stands in ``OUT.parts`` is not done again. ``job`` describes the denoiser, so that another
    one does not go on with it.

    ``workers`` is the number of processes (all cores) or of Ray actors (all of the cluster's CPUs but one). A row
    has ``seconds``, loading the model included for a worker's first. A worker that dies or takes longer is
    replaced and its rows are done again; a row that does it each time is a bad one. ``progress`` hears of rows
    done, bad and known ones included, and of all.

    Raises `InputError` for input or output that do not fit, for an output that another process writes, and for a
    mistake that every row would meet, such as a missing extra.
    """
    expect_denoiser(denoiser)
    if engine not in ("process", "ray") or (workers is not None and workers < 1) or not seconds > 0:
        said = f"engine={engine!r}, workers={workers}, seconds={seconds}"
        raise InputError(f"{said}: expected 'process' or 'ray', 1 or more, and more than 0")
    files = files_of(source)
    with Parts(Path(out)) as parts:
        pieces = parts.begin(files, {"query": query, "job": job, "format": 3})
        left, total = parts.remaining(pieces), sum(p.count for p in pieces)
        known, found = total - sum(p.count for p in left), Counter[str]()
        task = Task(denoiser, parts.folder, query, seconds)
        carry = carried_out if engine == "process" else on_ray
        for more in carry(task, left, workers):
            found += more
            progress(known + found["rows"], total)
        if missing := sum(p.count for p in parts.remaining(pieces)):
            raise RuntimeError(f"{missing} rows have no part file: what is done stays in {parts.folder}")
        rows, refused = parts.finish()
    return Finished(rows, known, refused, found["died"])
