"""Resident memory of the service during mixed requests: after ten minutes, at the end, and at most.

make bench ONLY=service_memory ARGS="--minutes 60"
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

os.environ.setdefault("OMP_NUM_THREADS", "1")

import httpx
import numpy as np
from _served import draw_request, draw_words, read_megabytes, start_service
from harness import Benchmark, arguments

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from growing_texts import TEXTS

from denoise_core.service import ServiceLimits

CLIENT_COUNT = 3
CACHE_BYTES = 2 * 2**20  # of each: they are full before ten minutes are over
SAMPLE_SECONDS = 2.0
PRINT_STEP = 150  # samples between two lines of progress
LEAVING_SECONDS = 0.05  # after which an impatient client leaves
LONG_TEXT = 5_000  # characters
LEAST_AN_HOUR = 20_000  # requests

Request: TypeAlias = tuple[str, Any]
"""Path and body, JSON or bytes."""


@dataclass
class Load:
    """Requests to the service so far, and the memory that it had meanwhile."""

    request_count: int = 0
    error_count: int = 0
    minutes: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)

    def memory_before(self, minute: float, width: float) -> float:
        """Return the median of the megabytes in ``width`` minutes before ``minute``."""
        times = np.asarray(self.minutes)
        is_near = (times > minute - width) & (times <= minute)
        return float(np.median(np.asarray(self.megabytes)[is_near]))


def main(argv: list[str] | None = None) -> Benchmark:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--minutes", type=float, default=15.0)
    options = arguments(__doc__ or "", argv, parser)
    bench = Benchmark("service_memory", options)
    bench.about = {
        "bound": "after a request of each kind, --max-read-bytes, and what /metrics "
        "says that the caches may hold",
        "flags": f"--workers 1 --cache-bytes {CACHE_BYTES}",
    }
    minutes = options.given.minutes
    if options.quick:
        minutes = 0.2
    with start_service("--workers", "1", "--cache-bytes", str(CACHE_BYTES)) as service:
        url, process_id = service
        # What a part loads at its first use is not what requests leave behind.
        asyncio.run(ask_each_kind(url, options.seed))
        before = read_megabytes(process_id)
        load = asyncio.run(put_under_load(url, process_id, options.seed, minutes))
        bound = before + read_cache_limits(url)
    bound += ServiceLimits().max_read_bytes / 1e6
    report_load(bench, load, minutes)
    early = min(10.0, minutes / 2)
    width = min(1.0, early)
    early_memory = load.memory_before(early, width)
    late_memory = load.memory_before(minutes, width)
    growth = late_memory / early_memory
    bench.row("resident after a request of each kind", before, "MB")
    bench.row(f"resident after {early:g} minutes", early_memory, "MB")
    bench.row(f"resident after {minutes:g} minutes", late_memory, "MB")
    bench.row("resident at the end over ten minutes'", growth, "ratio", at_most=1.05)
    share_of_bound = max(load.megabytes) / bound
    bench.row(
        "resident at most over the flags' bound", share_of_bound, "ratio", at_most=1
    )
    return bench.finish()


def report_load(bench: Benchmark, load: Load, minutes: float) -> None:
    least = LEAST_AN_HOUR if minutes >= 60 else None
    bench.row(
        f"requests in {minutes:g} minutes",
        load.request_count,
        "requests",
        at_least=least,
    )
    bench.row("server errors", load.error_count, "requests", at_most=0)


async def ask_each_kind(url: str, seed: int) -> None:
    rng = random.Random(seed)
    async with httpx.AsyncClient(base_url=url, timeout=120) as client:
        for draw, _ in KINDS.values():
            await post(client, draw(rng))


async def put_under_load(url: str, process_id: int, seed: int, minutes: float) -> Load:
    """Ask mixed requests for so many minutes."""
    load = Load()
    start_time = time.monotonic()
    end_time = start_time + 60 * minutes

    async def ask_on(client: httpx.AsyncClient, rng: random.Random) -> None:
        while time.monotonic() < end_time:
            status = await ask_one(client, rng)
            load.request_count += 1
            load.error_count += status >= 500

    async def measure() -> None:
        while time.monotonic() < end_time:
            await asyncio.sleep(SAMPLE_SECONDS)
            minute = (time.monotonic() - start_time) / 60
            megabytes = read_megabytes(process_id)
            load.minutes.append(minute)
            load.megabytes.append(megabytes)
            if len(load.minutes) % PRINT_STEP == 0:
                progress = f"{minute:.0f} min, {megabytes:.0f} MB"
                print(f"{progress}, {load.request_count} requests", flush=True)

    async with httpx.AsyncClient(base_url=url, timeout=120) as client:
        clients = []
        for number in range(CLIENT_COUNT):
            clients.append(ask_on(client, random.Random(seed + number)))
        await asyncio.gather(measure(), *clients)
    return load


async def ask_one(client: httpx.AsyncClient, rng: random.Random) -> int:
    """Ask a request of a kind drawn at random; return its status, 0 where the client left."""
    weights = [weight for _, weight in KINDS.values()]
    (kind,) = rng.choices(list(KINDS), weights)
    draw, _ = KINDS[kind]
    if kind != "client that leaves":
        return await post(client, draw(rng))
    try:
        return await post(client, draw(rng), LEAVING_SECONDS)
    except httpx.TimeoutException:
        return 0


async def post(
    client: httpx.AsyncClient, request: Request, max_seconds: float = 120
) -> int:
    path, body = request
    if isinstance(body, bytes):
        reply = await client.post(path, content=body, timeout=max_seconds)
    else:
        reply = await client.post(path, json=body, timeout=max_seconds)
    return reply.status_code


# -- kinds of request ------------------------------------------------------------------


def denoise_request(rng: random.Random) -> Request:
    count = rng.choice([2, 3])
    return "/v1/denoise", draw_request(rng, count, rng.choice([8, 15]))


def rerank_request(rng: random.Random) -> Request:
    body = draw_request(rng, 4, 10)
    return "/v1/rerank", {"query": body["query"], "documents": body["passages"]}


def check_request(rng: random.Random) -> Request:
    """Draw an answer that its last passage has; the number keeps it out of every cache."""
    body = draw_request(rng, 3, 10)
    answer = f"{draw_words(rng, 12).capitalize()} in {rng.random():.4f}."
    passages = [*body["passages"], answer]
    check_body = {"question": body["query"], "answer": answer, "passages": passages}
    return "/v1/check", check_body


def long_request(rng: random.Random) -> Request:
    """Draw one text of any form; the number at its end keeps it out of every cache."""
    make_text = TEXTS[rng.choice(list(TEXTS))]
    text = make_text(rng.randrange(1_000, LONG_TEXT))
    passages = [f"{text}\n{rng.random()}"]
    return "/v1/denoise", {"query": "Which item is one of two?", "passages": passages}


def repeated_request(rng: random.Random) -> Request:
    return denoise_request(random.Random(rng.randrange(50)))


def wrong_request(rng: random.Random) -> Request:
    path = rng.choice(["/v1/denoise", "/v1/rerank", "/v1/check"])
    many_texts = [""] * 2_000
    long_query = "q" * rng.randrange(10_001, 200_000)
    bodies = [
        {"query": 3, "passages": "x"},
        {},
        [],
        b'{"query": "',
        b"\xff" * rng.randrange(10_000),
        {"query": "q", "passages": many_texts, "documents": many_texts},
        {"query": long_query, "passages": ["a"]},
    ]
    return path, rng.choice(bodies)


# By name: what draws a request of the kind, and how often.
KINDS: dict[str, tuple[Callable[[random.Random], Request], int]] = {
    "passages": (denoise_request, 30),
    "ranking": (rerank_request, 25),
    "answers": (check_request, 10),
    "a long text": (long_request, 2),
    "passages again": (repeated_request, 23),
    "wrong body": (wrong_request, 8),
    "client that leaves": (denoise_request, 2),
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
