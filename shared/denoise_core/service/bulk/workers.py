"""Workers: processes of this machine under pebble, which ends what hangs and replaces what died.

Past one machine Ray Data hands pieces of the input to actors and starts lost ones anew. Chunks and parts lie where
every node finds them. Within an actor a process of its own does the work, so what hangs or kills costs its rows
and nothing else, as on one machine.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, TimeoutError, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from denoise_core._optional import require
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.errors import InputError, MissingExtra, ProbeMismatch, said
from denoise_core.protocols import Denoiser
from denoise_core.running.fallbacks import fell_back
from denoise_core.service.bulk.parts import Piece, Row, read, write_part

DEATHS = 16  # workers that end one after the other without an answer: the work cannot be done here
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
_EVERY_ROW = (MissingExtra, ProbeMismatch, ImportError, PermissionError)  # would go wrong for every row alike


@dataclass(frozen=True, slots=True)
class Task:
    """What is done with a piece: its rows denoised into a part of ``folder``, ``seconds`` a row at most."""

    denoiser: Denoiser
    folder: Path
    query: str | None
    seconds: float

    def __call__(self, piece: Piece, wrong: str = "") -> Counter[str]:
        """How many ``rows`` there were, and how many of them ``bad``: all where ``wrong`` says why."""
        given = [replace(row, wrong=wrong or row.wrong) for row in read(piece, self.query)]
        rows, bad = [], [row for row in given if row.wrong]
        for row, found in self._denoised([row for row in given if not row.wrong]):
            if isinstance(found, _EVERY_ROW):
                raise InputError(f"no row can be denoised: {said(found)}")
            if isinstance(found, Exception):
                bad.append(replace(row, wrong=said(found)))
            else:
                rows.append({"id": row.id, **found.as_json()})
        write_part(self.folder, piece, rows, bad)
        return Counter(rows=len(given), bad=len(bad))

    def _denoised(self, rows: list[Row]) -> list[tuple[Row, Any]]:
        if isinstance(self.denoiser, ENDDenoiser) and len(rows) > 1:
            try:
                with _watched(self.seconds * len(rows)):
                    return list(zip(rows, self.denoiser.denoise_many([(r.query, r.passages) for r in rows])))
            except Exception as error:  # one of them spoils it for all: each by itself says which, and why
                fell_back("rows read together", error, "each was denoised by itself")
        return [(row, self._one(row)) for row in rows]

    def _one(self, row: Row) -> Any:
        try:
            with _watched(self.seconds):
                return self.denoiser.denoise(row.query, row.passages)
        except Exception as error:  # this row's own; the others go on
            return error


@contextmanager
def _watched(seconds: float) -> Iterator[None]:
    """Ends this process when the block takes longer, whatever holds it up: the watch needs no interpreter."""
    faulthandler.dump_traceback_later(seconds, exit=True)  # where it was, without values
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


@lru_cache(maxsize=1)
def _made(recipe: bytes) -> Any:
    read: Any = vars(ForkingPickler)["loads"]  # a function there, which a checker takes for a method
    return read(recipe)  # of the process that started this one


def _do(recipe: bytes, piece: Piece) -> Any:
    return _made(recipe)(piece)


def carried_out(task: Task, pieces: Iterable[Piece], count: int | None = None) -> Iterator[Counter[str]]:
    """Every piece done by ``count`` processes (one a core), in any order: ``rows``, those of them that are
    ``bad``, and workers that ``died`` or were ended.

    The rows of a piece whose worker died, or took too long, are done one by one; one that does it twice is bad.
    Raises `InputError` for a mistake that every row meets and after `DEATHS` deaths without an answer between, and
    what writing the task's recipe raises.
    """
    pebble, left, again = require("pebble", extra="bulk"), iter(pieces), deque[Piece]()
    recipe = bytes(ForkingPickler.dumps(task))  # as multiprocessing sends arguments, but made once
    tried, deaths, under_way, count = set[Piece](), 0, dict[Any, Piece](), count or os.cpu_count() or 1
    with cores_shared(count):
        started = partial(pebble.ProcessPool, count, context=multiprocessing.get_context("spawn"))
        pool = started()
        try:
            while True:
                if not pool.active:  # pebble gives up where a worker dies while none is at work
                    again.extend(under_way.values())
                    under_way.clear()
                    pool.stop()
                    pool.join()
                    pool = started()
                while len(under_way) < 2 * count and (piece := again.pop() if again else next(left, None)):
                    most = task.seconds * piece.count + 5  # the watch in the worker comes first, where it can
                    try:
                        under_way[pool.schedule(_do, args=(recipe, piece), timeout=most)] = piece
                    except RuntimeError:  # just now
                        again.append(piece)
                        break
                if not under_way and not again:
                    return
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    piece = under_way.pop(future)
                    try:
                        yield future.result()
                        deaths = 0
                    except (TimeoutError, pebble.ProcessExpired, BrokenProcessPool) as error:
                        deaths += 1
                        yield Counter(died=1)
                        fell_back("bulk", "a worker died or took too long", "its rows are done again")
                        if deaths > DEATHS:
                            raise InputError(
                                f"{deaths} workers ended one after the other without an answer: too little "
                                f"memory, or more than {task.seconds:g} seconds to load the model?"
                            ) from error
                        if isinstance(error, BrokenProcessPool):  # of no piece's making
                            again.append(piece)
                        elif piece.count > 1 or piece not in tried:
                            again.extend(reversed(piece.singles()))
                            tried |= {piece}
                        else:
                            deaths = 0
                            why = f"its worker died each time, or took longer than {task.seconds:g} seconds"
                            yield task(piece, why)
        finally:
            pool.stop()
            pool.join()


@contextmanager
def cores_shared(workers: int) -> Iterator[None]:
    """Numeric libraries of processes that the block starts share the cores; what the user has set holds."""
    each = str(max(1, (os.cpu_count() or 1) // workers))
    new = () if any(name in os.environ for name in _THREADS) else _THREADS
    os.environ.update(dict.fromkeys(new, each))
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]


class Actor:
    """One of the cluster: a batch of pieces in, what became of them out."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        parts = self.task.folder
        pieces = [p for p in batch["item"] if not (parts / f"{p.name}.jsonl").exists()]  # else a lost actor's
        done = sum(carried_out(self.task, pieces, 1), Counter[str]())
        return {name: [done[name]] for name in ("rows", "bad", "died")}


def on_ray(task: Task, pieces: Sequence[Piece], count: int | None) -> Iterator[Counter[str]]:
    """As `carried_out`, on ``count`` actors of one CPU each (all of the cluster's but one, left out).

    Raises `InputError` when the cluster has no room for a single actor.
    """
    if not pieces:
        return
    ray = begun()
    data = require("ray.data", extra="ray")
    room = int(ray.cluster_resources().get("CPU", 0))
    if room < 1:
        raise InputError("the Ray cluster has no CPU for a worker")
    count = max(1, min(count or room, room - 1))  # actors on every CPU would starve whoever feeds them
    given = data.from_items(list(pieces), override_num_blocks=min(len(pieces), max(8 * count, len(pieces) // 64)))
    done = given.map_batches(
        Actor, fn_constructor_args=(task,), batch_size=8, compute=data.ActorPoolStrategy(size=count), num_cpus=1
    )
    yield from map(Counter[str], done.iter_rows())


def begun() -> Any:
    """Ray, connected to the cluster there is, or to a local one begun here."""
    ray = require("ray", extra="ray")
    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False)
    return ray
