"""The command `rag-denoise serve` as a process, for the benchmarks of the service."""

from __future__ import annotations

import contextlib
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _words import WORDS

START = (
    "import sys; from denoise_core.cli import main; sys.argv[0] = 'rag-denoise'; main()"
)


@contextlib.contextmanager
def started(*flags: str) -> Iterator[tuple[str, int]]:
    """The command's address, and its process."""
    command = [sys.executable, "-c", START, "serve", "--port", "0", *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            found = map(re.compile(r"(http://127\.0\.0\.1:\d+)/").search, server.stderr)
            yield next(m[1] for m in found if m), server.pid
        finally:
            server.terminate()


def draw_request(drawn: random.Random, count: int, words: int) -> dict[str, Any]:
    """A question, and so many passages of so many words."""
    passages = [" ".join(drawn.choices(WORDS, k=words)) for _ in range(count)]
    query = " ".join(drawn.choices(WORDS, k=6))
    return {"query": query, "passages": passages}


def read_megabytes(process_id: int) -> float:
    """Resident megabytes of a process."""
    pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
