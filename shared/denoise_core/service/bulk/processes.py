"""Workers as spawned processes of this machine: one pipe each, so that a killed one costs its own chunks alone."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any

from denoise_core.service.bulk.worker import Task

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


class Processes:
    """``count`` spawned processes that do ``task``, which goes to them as a recipe."""

    def __init__(self, task: Task, count: int) -> None:
        self.count = count
        self._task = task
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[tuple[Any, Connection]] = [self._started() for _ in range(count)]

    def ready(self, worker: int) -> bool:
        return True

    def send(self, worker: int, chunk: Any) -> None:
        try:
            self._workers[worker][1].send(chunk)
        except OSError:  # it died just now: `wait` says so
            return

    def wait(self) -> list[tuple[int, Any]]:
        ready = wait([pipe for _, pipe in self._workers])
        out: list[tuple[int, Any]] = []
        for number, (process, pipe) in enumerate(self._workers):
            if pipe not in ready:
                continue
            try:
                out.append((number, pipe.recv()))
            except (EOFError, OSError):  # dead, perhaps in the middle of an answer
                pipe.close()
                process.join()
                self._workers[number] = self._started()
                out.append((number, None))
        return out

    @property
    def pids(self) -> list[int]:
        return [process.pid for process, _ in self._workers]

    def close(self) -> None:
        for process, pipe in self._workers:
            pipe.close()
            process.terminate()
        for process, _ in self._workers:
            process.join()

    def _started(self) -> tuple[Any, Connection]:
        here, there = self._context.Pipe()
        process = self._context.Process(target=_work, args=(there, self._task), daemon=True, name="denoise-bulk")
        with _threads(self.count):
            process.start()
        there.close()  # so that its death ends the pipe
        return process, here


@contextmanager
def _threads(workers: int) -> Iterator[None]:
    """Numeric libraries of a process started here share the cores; where the user has set any, that holds."""
    each = str(max(1, (os.cpu_count() or 1) // workers))
    new = () if any(name in os.environ for name in _THREADS) else _THREADS
    os.environ.update(dict.fromkeys(new, each))
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]


def _work(pipe: Connection, task: Task) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's
    while True:
        try:
            pipe.send(task(pipe.recv()))
        except (EOFError, BrokenPipeError, ConnectionResetError):  # the driver is gone
            return
