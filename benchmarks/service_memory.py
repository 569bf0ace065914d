"""Resident memory of the service during mixed requests: after ten minutes, at the end, and at most.

make bench ONLY=service_memory ARGS="--minutes 60"
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

os.environ.setdefault("OMP_NUM_THREADS", "1")

import httpx
import numpy as np
from _served import (
    DENOISE,
    TEXTS,
    draw_request,
    draw_words,
    read_megabytes,
    start_service,
)
from harness import Benchmark

from denoise_core.service import ServiceLimits

CLIENT_COUNT = 3
CACHE_BYTES = 2 * 2**20  # of each: they are full before ten minutes are over
FLAGS = ("--workers", "1", "--cache-bytes", str(CACHE_BYTES))
SAMPLE_SECONDS = 2.0
LEAVING_SECONDS = 0.05  # after which an impatient client leaves
LONG_TEXT = 5_000  # characters

Request: TypeAlias = tuple[str, Any]
"""Path and body."""


@dataclass
class Load:
    """Requests to the service so far, and the memory that it had meanwhile."""

    request_count: int = 0
    error_count: int = 0
    samples: list[tuple[float, float]] = field(default_factory=list)  # minute, MB

    def memory_before(self, end_minute: float) -> float:
        """Return the median of the megabytes in the minute before."""
        megabytes = []
        for minute, value in self.samples:
            if end_minute - 1 < minute <= end_minute:
                megabytes.append(value)
        return float(np.median(megabytes))


def main() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--minutes", type=float, default=15.0)
    bench = Benchmark("service_memory", __doc__, parser)
    bench.about = {
        "bound": "after a request of each kind, --max-read-bytes, and what /metrics "
        "says that the caches may hold",
        "flags": " ".join(FLAGS),
    }
    minutes = 0.2 if bench.quick else bench.given.minutes
    with start_service(*FLAGS) as (url, process_id):
        # What a part loads at its first use is not what requests leave behind.
        asyncio.run(ask_each_kind(url, bench.seed))
        before = read_megabytes(process_id)
        load = asyncio.run(put_under_load(url, process_id, bench.seed, minutes))
        bound = before + read_cache_limits(url)
    bound += ServiceLimits().max_read_bytes / 1e6
    early = min(10.0, minutes / 2)
    early_memory = load.memory_before(early)
    late_memory = load.memory_before(minutes)
    growth = late_memory / early_memory
    share_of_bound = max(megabytes for _, megabytes in load.samples) / bound
    bench.row(f"requests in {minutes:g} minutes", load.request_count, "requests")
    bench.row("server errors", load.error_count, "requests", at_most=0)
    bench.row(f"resident after {early:g} minutes", early_memory, "MB")
    bench.row(f"resident after {minutes:g} minutes", late_memory, "MB")
    bench.row("resident at the end over ten minutes'", growth, "ratio", at_most=1.05)
    bench.row(
        "resident at most over the flags' bound", share_of_bound, "ratio", at_most=1
    )
    bench.finish()


async def ask_each_kind(url: str, seed: int) -> None:
    rng = random.Random(seed)
    async with httpx.AsyncClient(base_url=url) as client:
        for draw in KINDS:
            await post(client, draw(rng), 120)


async def put_under_load(url: str, process_id: int, seed: int, minutes: float) -> Load:
    """Ask mixed requests for so many minutes."""
    load = Load()
    start_time = time.monotonic()
    end_time = start_time + 60 * minutes

    async def ask_on(client: httpx.AsyncClient, rng: random.Random) -> None:
        while time.monotonic() < end_time:
            (draw,) = rng.choices(list(KINDS), list(KINDS.values()))
            is_leaving = draw is leaving_request
            max_seconds = LEAVING_SECONDS if is_leaving else 120
            try:
                status = await post(client, draw(rng), max_seconds)
            except httpx.TimeoutException:
                status = 0 if is_leaving else 500
            load.request_count += 1
            load.error_count += status >= 500

    async def measure() -> None:
        while time.monotonic() < end_time:
            await asyncio.sleep(SAMPLE_SECONDS)
            minute = (time.monotonic() - start_time) / 60
            megabytes = read_megabytes(process_id)
            load.samples.append((minute, megabytes))

    async with httpx.AsyncClient(base_url=url) as client:
        clients = []
        for number in range(CLIENT_COUNT):
            clients.append(ask_on(client, random.Random(seed + number)))
        await asyncio.gather(measure(), *clients)
    return load


async def post(client: httpx.AsyncClient, request: Request, max_seconds: float) -> int:
    """Return the status of the reply."""
    path, body = request
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    reply = await client.post(path, content=body, headers=headers, timeout=max_seconds)
    return reply.status_code


# -- kinds of request ------------------------------------------------------------------


def denoise_request(rng: random.Random) -> Request:
    return DENOISE, draw_request(rng, rng.choice([2, 3]), 10)


def leaving_request(rng: random.Random) -> Request:
    return denoise_request(rng)


def repeated_request(rng: random.Random) -> Request:
    return denoise_request(random.Random(rng.randrange(50)))


def rerank_request(rng: random.Random) -> Request:
    body = draw_request(rng, 4, 10)
    return "/v1/rerank", {"query": body["query"], "documents": body["passages"]}


def check_request(rng: random.Random) -> Request:
    """Draw an answer that its last passage has; the number keeps it out of every cache."""
    body = draw_request(rng, 3, 10)
    words = draw_words(rng, 12).capitalize()
    answer = f"{words} in {rng.random():.4f}."
    passages = [*body["passages"], answer]
    check_body = {"question": body["query"], "answer": answer, "passages": passages}
    return "/v1/check", check_body


def long_request(rng: random.Random) -> Request:
    """Draw one text of any form; the number at its end keeps it out of every cache."""
    make_text = TEXTS[rng.choice(list(TEXTS))]
    text = make_text(rng.randrange(1_000, LONG_TEXT))
    passages = [f"{text}\n{rng.random()}"]
    return DENOISE, {"query": "Which item is one of two?", "passages": passages}


def wrong_request(rng: random.Random) -> Request:
    path = rng.choice([DENOISE, "/v1/rerank", "/v1/check"])
    long_query = "q" * rng.randrange(10_001, 200_000)
    bodies = [
        {"query": 3, "passages": "x"},
        [],
        b'{"query": "',
        b"\xff" * rng.randrange(10_000),
        {"query": "q", "passages": [""] * 2_000},
        {"query": long_query, "passages": ["a"]},
    ]
    return path, rng.choice(bodies)


# What draws a request of each kind, and how often.
KINDS: dict[Callable[[random.Random], Request], int] = {
    denoise_request: 30,
    rerank_request: 25,
    check_request: 10,
    long_request: 2,
    repeated_request: 23,
    wrong_request: 8,
    leaving_request: 2,
}


def read_cache_limits(url: str) -> float:
    """Return the megabytes that the service's caches may hold, by its own metrics."""
    megabytes = 0.0
    for line in httpx.get(url + "/metrics").text.splitlines():
        if 'is_limit="yes"' in line:
            megabytes += float(line.split()[-1]) / 1e6
    return megabytes


if __name__ == "__main__":
    main()
