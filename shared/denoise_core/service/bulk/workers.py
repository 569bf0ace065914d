"""Workers: processes of this machine under pebble, which ends what hangs and replaces what died."""

from __future__ import annotations

import faulthandler
import json
import multiprocessing
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, TimeoutError, wait
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from denoise_core._optional import require
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.errors import InputError, MissingExtra, ProbeMismatch, said
from denoise_core.protocols import Denoiser
from denoise_core.running.fallbacks import fell_back
from denoise_core.service.bulk.parts import bad_line, whole
from denoise_core.service.bulk.rows import Bad, Piece, Row, read

DEATHS = 16  # workers that end one after the other without an answer: the work cannot be done here
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
_EVERY_ROW = (MissingExtra, ProbeMismatch, ImportError, PermissionError)  # would go wrong for every row alike


@dataclass(frozen=True, slots=True)
class Task:
    """What is done with a piece: its rows denoised into a part file of ``folder``, ``seconds`` a row at most."""

    denoiser: Denoiser
    folder: Path
    query: str | None
    seconds: float

    def __call__(self, piece: Piece) -> Done:
        rows = list(read(piece, self.query))
        lines: list[str] = []
        bad = 0
        for row, found in zip(rows, self._denoised(rows), strict=True):
            if isinstance(found, _EVERY_ROW):
                raise InputError(f"no row can be denoised: {said(found)}")
            if isinstance(row, Row) and not isinstance(found, Exception):
                lines.append(json.dumps({"id": row.id, **found.as_json()}))
                continue
            bad += 1
            lines.append(bad_line(row if isinstance(row, Bad) else Bad("", row.id, said(found))))
        whole(self.folder / f"{piece.name}.jsonl", lines)
        return Done(len(rows) - bad, bad, 0)

    def refuse(self, piece: Piece, reason: str) -> Done:
        """The one row of the piece is a bad one."""
        (row,) = read(piece, self.query)
        whole(self.folder / f"{piece.name}.jsonl", [bad_line(Bad("", row.id, reason))])
        return Done(0, 1, 0)

    def _denoised(self, rows: list[Row | Bad]) -> list[Any]:
        asked = [r for r in rows if isinstance(r, Row)]
        if isinstance(self.denoiser, ENDDenoiser) and len(asked) > 1:
            try:
                with _watched(self.seconds * len(asked)):
                    found = iter(self.denoiser.denoise_many([(r.query, r.passages) for r in asked]))
                    return [next(found) if isinstance(r, Row) else None for r in rows]
            except Exception as error:  # one of them spoils it for all: each by itself says which, and why
                fell_back("rows read together", error, "each was denoised by itself")
        return [self._one(r) if isinstance(r, Row) else None for r in rows]

    def _one(self, row: Row) -> Any:
        try:
            with _watched(self.seconds):
                return self.denoiser.denoise(row.query, row.passages)
        except Exception as error:  # this row's own; the others go on
            return error


@dataclass(frozen=True, slots=True)
class Done:
    """Rows written, bad rows written, and workers that died or were ended on the way."""

    rows: int
    bad: int
    died: int


@contextmanager
def _watched(seconds: float) -> Iterator[None]:
    """Ends this process when the block takes longer, whatever holds it up: the watch needs no interpreter."""
    with Path(os.devnull).open("w") as nowhere:
        faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


@contextmanager
def _pool(task: Any, count: int) -> Iterator[Any]:
    """A pebble pool of ``count`` spawned processes that know ``task``, which goes to them as a recipe. Raises what
    writing it raises. Python ends them when the block does."""
    pebble = require("pebble", extra="bulk")
    recipe = bytes(ForkingPickler.dumps(task))  # as multiprocessing sends arguments, but here what fails is raised
    with cores_shared(count):
        context = multiprocessing.get_context("spawn")
        workers = pebble.ProcessPool(count, initializer=_begin, initargs=(recipe,), context=context)
        try:
            yield workers
        finally:
            workers.stop()
            workers.join()


_task: Any = None
_read: Any = vars(ForkingPickler)["loads"]  # a function there, which a checker takes for a method


def _begin(recipe: bytes) -> None:
    global _task
    try:
        _task = _read(recipe)  # of the process that started this one
    except Exception as error:  # raised where the work was asked for
        _task = error


def _do(item: Any) -> Any:
    """In a worker: what the task gives for the item. Raises what it raises."""
    if isinstance(_task, Exception):
        raise _task
    return _task(item)


def carried_out(task: Task, pieces: Iterable[Piece], count: int) -> Iterator[Done]:
    """Every piece done by ``count`` processes, in any order.

    A piece whose worker died, or took too long, is cut in halves; a row alone that does it twice is a bad one.
    Raises `InputError` for a mistake that every row meets, and after `DEATHS` deaths without an answer between.
    """
    left, again = iter(pieces), deque[Piece]()
    tries: dict[str, int] = {}
    died = in_a_row = 0
    with _pool(task, count) as workers:
        under_way: dict[Any, Piece] = {}
        while True:
            while len(under_way) < 2 * count and (piece := again.popleft() if again else next(left, None)):
                most = task.seconds * piece.count + 5  # the watch in the worker comes first, where it can
                under_way[workers.schedule(_do, args=(piece,), timeout=most)] = piece
            if not under_way:
                return
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                piece = under_way.pop(future)
                try:
                    found = future.result()
                    in_a_row = 0
                    yield Done(found.rows, found.bad, died)
                except (TimeoutError, require("pebble", extra="bulk").ProcessExpired) as error:
                    died, in_a_row = died + 1, in_a_row + 1
                    fell_back("bulk", "a worker died or took too long", "it was replaced, its rows are done again")
                    if in_a_row > DEATHS:
                        raise InputError(
                            f"{in_a_row} workers ended one after the other without an answer: too little memory, "
                            f"or more than {task.seconds:g} seconds to load the model?"
                        ) from error
                    tries[piece.name] = tries.get(piece.name, 0) + 1
                    if piece.count > 1:
                        again.extend(piece.halves())
                    elif tries[piece.name] < 2:
                        again.append(piece)
                    else:
                        in_a_row = 0
                        why = f"its worker died each time, or took longer than {task.seconds:g} seconds"
                        done = task.refuse(piece, why)
                        yield Done(done.rows, done.bad, died)


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
