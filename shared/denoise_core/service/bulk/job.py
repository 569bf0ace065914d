"""The driver: reads as fast as workers take, writes what they give, and goes on where it was killed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from denoise_core.errors import InputError
from denoise_core.protocols import Denoiser, expect_denoiser
from denoise_core.running.fallbacks import fell_back
from denoise_core.service.bulk.journal import Journal, key
from denoise_core.service.bulk.rows import Bad, Row, files_of, read_rows
from denoise_core.service.bulk.spread import DEATHS, started
from denoise_core.service.bulk.worker import Answer, Denoises, Workers

CHUNK = 32  # rows that go to a worker together
AHEAD = 2  # chunks of a worker that are under way, so that it never waits for the driver
TRIES = 2  # of a chunk whose worker died; then its rows go one by one, and then it is the row


@dataclass(frozen=True, slots=True)
class Progress:
    """``done`` rows by now, ``known`` of them from an earlier run, ``bad`` ones; ``share`` of the input read;
    ``rate`` in rows a second of this run, ``left`` in seconds, None before it can be said."""

    done: int
    known: int
    bad: int
    share: float
    rate: float
    left: float | None


@dataclass(frozen=True, slots=True)
class Finished:
    """``rows`` written, ``known`` of them by an earlier run; ``bad`` ones in ``OUT.bad.jsonl``; workers that
    ``died``."""

    rows: int
    known: int
    bad: int
    died: int


@dataclass(slots=True)
class _Chunk:
    rows: list[Row]
    tries: int = 0


def bulk(
    source: str | Path,
    out: str | Path,
    denoiser: Denoiser,
    *,
    query: str | None = None,
    engine: Literal["process", "ray"] = "process",
    workers: int | None = None,
    job: str = "",
    progress: Callable[[Progress], None] = lambda found: None,
) -> Finished:
    """Denoise every row of ``source`` into ``out``: exactly one row for each id.

    ``source`` is a ``.jsonl`` or ``.parquet`` file, or a folder of them. A row has an ``id``, a ``query`` and
    ``passages``, or an ``id`` and a ``text``, which is denoised for ``query``. ``out`` ends in ``.jsonl`` or
    ``.parquet``; rows come in any order. What cannot be denoised goes to ``OUT.bad.jsonl`` with its reason, an id
    that came before included. Killed at any moment, the same call goes on: what is in ``OUT.journal`` is not done
    again. ``job`` describes the denoiser, so that another one does not go on with it.

    ``workers`` is the number of processes (all cores) or of Ray actors (all of the cluster's CPUs but one). A
    worker that dies is replaced and its chunks are done again; a row that kills its worker every time is a bad
    one.

    Raises `InputError` for input, output or a journal that do not fit, and for a mistake that every row would
    meet, such as a missing extra.
    """
    expect_denoiser(denoiser)
    files = files_of(source)
    about = {"files": [[f.name, f.stat().st_size] for f in files], "query": query, "job": job, "format": 1}
    journal = Journal(Path(out), about)
    try:
        found = _Driver(journal, progress).drive(files, query, started(Denoises(denoiser), engine, workers))
        journal.finish()
        return found
    finally:
        journal.close()


class _Driver:
    def __init__(self, journal: Journal, progress: Callable[[Progress], None]) -> None:
        self.journal = journal
        self.progress = progress
        self.share = 0.0
        self.died = self.in_a_row = 0
        self.again: deque[_Chunk] = deque()
        self.began = self.told = time.monotonic()

    def drive(self, files: list[Path], query: str | None, start: Callable[[], Workers]) -> Finished:
        chunks = self._chunks(files, query)
        workers: Workers | None = None
        try:
            chunk = self._next(chunks)
            if chunk is not None:
                workers = start()
                under_way: list[deque[_Chunk]] = [deque() for _ in range(workers.count)]
                while chunk is not None or any(under_way):
                    chunk = self._sent(workers, under_way, chunk, chunks)
                    for number, answer in workers.wait():
                        self._take(answer, under_way[number])
                    if chunk is None:
                        chunk = self._next(chunks)
                    self._tell()
        finally:
            if workers is not None:
                workers.close()
        self.share = 1.0
        self._tell(last=True)
        return Finished(len(self.journal.done), self.journal.known, self.journal.bad, self.died)

    def _sent(
        self, workers: Workers, under_way: list[deque[_Chunk]], chunk: _Chunk | None, chunks: Iterator[_Chunk]
    ) -> _Chunk | None:
        """Chunks to whoever has room, the emptiest first; the one that found none is given back."""
        for depth in range(AHEAD):
            for number, own in enumerate(under_way):
                if chunk is not None and len(own) == depth and workers.ready(number):
                    own.append(chunk)
                    workers.send(number, chunk.rows)
                    chunk = self._next(chunks)
        return chunk

    def _next(self, chunks: Iterator[_Chunk]) -> _Chunk | None:
        return self.again.popleft() if self.again else next(chunks, None)

    def _chunks(self, files: list[Path], query: str | None) -> Iterator[_Chunk]:
        seen: set[bytes] = set()
        rows: list[Row] = []
        for share, row in read_rows(files, query):
            self.share = share
            if isinstance(row, Bad):
                self.journal.refuse(row)
                continue
            own = key(row.id)
            if own in seen:
                self.journal.refuse(Bad("", row.id, "a row with this id came before"))
                continue
            seen.add(own)
            if own in self.journal.done:
                continue
            rows.append(row)
            if len(rows) == CHUNK:
                yield _Chunk(rows)
                rows = []
        if rows:
            yield _Chunk(rows)

    def _take(self, answer: Answer | None, own: deque[_Chunk]) -> None:
        if answer is None:
            self._lost(own)
            return
        self.in_a_row = 0
        own.popleft()
        if answer.fatal is not None:
            raise InputError(f"no row can be denoised: {answer.fatal}")
        self.journal.add((name, line) for name, line, _ in answer.rows if line is not None)
        for name, line, reason in answer.rows:
            if line is None:
                self.journal.refuse(Bad("", name, reason))

    def _lost(self, own: deque[_Chunk]) -> None:
        """A worker died: with the first of its chunks, since it takes them in order."""
        self.died += 1
        self.in_a_row += 1
        fell_back("bulk", "a worker died", "it was replaced, and its rows are done again")
        if self.in_a_row > DEATHS:
            raise InputError(
                f"{self.in_a_row} workers died one after the other without an answer: too little memory?"
            )
        if own:
            suspect = own.popleft()
            suspect.tries += 1
            if suspect.tries < TRIES:
                self.again.append(suspect)
            elif len(suspect.rows) > 1:
                self.again.extend(_Chunk([row]) for row in suspect.rows)
            else:
                self.in_a_row = 0
                self.journal.refuse(Bad("", suspect.rows[0].id, "its worker died each time"))
        self.again.extend(own)
        own.clear()

    def _tell(self, *, last: bool = False) -> None:
        now = time.monotonic()
        if not last and now - self.told < 1.0:
            return
        self.told = now
        done, seconds = len(self.journal.done), max(1e-9, now - self.began)
        left = None if self.share <= 0 or not done else (1 - self.share) / self.share * seconds
        rate = (done - self.journal.known) / seconds
        self.progress(Progress(done, self.journal.known, self.journal.bad, self.share, rate, left))
