"""The command ``rag-denoise serve`` as a process, and requests for it."""

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

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from growing_texts import TEXTS as TEXTS

COMMAND = (
    "import sys; from denoise_core.cli import main; sys.argv[0] = 'rag-denoise'; main()"
)
DENOISE = "/v1/denoise"
WORDS = [
    "tower",
    "harbour",
    "bread",
    "rain",
    "clerk",
    "field",
    "river",
    "bridge",
    "goat",
    "swan",
    "market",
    "ship",
]
ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)/")


@contextlib.contextmanager
def start_service(*flags: str) -> Iterator[tuple[str, int]]:
    """Start the command on a free port; yield its address and the id of its process."""
    command = [sys.executable, "-c", COMMAND, "serve", "--port", "0", *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            address = None
            while address is None:
                line = server.stderr.readline()
                if not line:
                    raise SystemExit("the service ended before it named its address")
                address = ADDRESS.search(line)
            yield address[1], server.pid
        finally:
            server.terminate()


def draw_words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(WORDS, k=count))


def draw_request(rng: random.Random, count: int, words: int) -> dict[str, Any]:
    """Draw a question, and so many passages of so many words."""
    passages = [draw_words(rng, words) for _ in range(count)]
    return {"query": draw_words(rng, 6), "passages": passages}


def read_megabytes(process_id: int) -> float:
    """Return the resident megabytes of a process."""
    counts = Path(f"/proc/{process_id}/statm").read_text().split()
    return int(counts[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
