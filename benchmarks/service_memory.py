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
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import httpx
import numpy as np
from _served import draw_request, read_megabytes, started
from _words import WORDS
from harness import Benchmark, arguments

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from growing_texts import TEXTS

from denoise_core.service import ServiceLimits

CLIENTS = 3
CACHE_BYTES = 2 * 2**20  # of each: they are full before ten minutes are over
SAMPLE_SECONDS = 2.0
LEFT_AFTER = 0.05  # seconds after which an impatient client leaves
LONG_TEXT = 5_000  # characters
Request = tuple[str, Any]  # path and body


@dataclass
class Load:
    """What was asked of the service, and the memory that it had meanwhile."""

    statuses: Counter[str] = field(default_factory=Counter)
    minutes: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)

    def memory_around(self, minute: float, width: float) -> float:
        """Median of the megabytes measured in ``width`` minutes before ``minute``."""
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
    minutes = 0.2 if options.quick else options.given.minutes
    early = min(10.0, minutes / 2)
    flags = ["--workers", "1", "--cache-bytes", str(CACHE_BYTES)]
    with started(*flags) as (url, process_id):
        asyncio.run(ask_each_kind(url, options.seed))
        before = read_megabytes(process_id)
        load = asyncio.run(put_under_load(url, process_id, options.seed, minutes))
        cache_megabytes = read_cache_bounds(url)
    read_limit = ServiceLimits().max_read_bytes / 1e6
    bound = before + cache_megabytes + read_limit
    width = min(1.0, early)
    early_memory = load.memory_around(early, width)
    late_memory = load.memory_around(minutes, width)
    for status, count in sorted(load.statuses.items()):
        bench.row(f"requests, {status}", count, "requests")
    total = sum(load.statuses.values())
    least = None if minutes < 60 else 20_000
    bench.row(
        f"requests in {minutes:g} minutes",
        total,
        "requests",
        at_least=least,
    )
    failures = sum(load.statuses[name] for name in load.statuses if name[0] == "5")
    bench.row(
        "server errors",
        failures,
        "requests",
        at_most=0,
    )
    bench.row("resident after a request of each kind", before, "MB")
    bench.row(f"resident after {early:g} minutes", early_memory, "MB")
    bench.row(f"resident after {minutes:g} minutes", late_memory, "MB")
    bench.row(
        "resident at the end over ten minutes'",
        late_memory / early_memory,
        "ratio",
        at_most=1.05,
    )
    bench.row(
        "resident at most over the flags' bound",
        max(load.megabytes) / bound,
        "ratio",
        at_most=1,
    )
    return bench.finish()


async def put_under_load(url: str, process_id: int, seed: int, minutes: float) -> Load:
    """Ask mixed requests for so many minutes."""
    load = Load()
    begin_time = time.monotonic()
    end_time = begin_time + 60 * minutes

    async def ask_on(client: httpx.AsyncClient, drawn: random.Random) -> None:
        while time.monotonic() < end_time:
            status = await ask_one(client, drawn)
            load.statuses[status] += 1

    async def measure() -> None:
        while time.monotonic() < end_time:
            await asyncio.sleep(SAMPLE_SECONDS)
            load.minutes.append((time.monotonic() - begin_time) / 60)
            load.megabytes.append(read_megabytes(process_id))
            if len(load.minutes) % 150 == 0:
                print(
                    f"{load.minutes[-1]:.0f} min, {load.megabytes[-1]:.0f} MB, "
                    f"{sum(load.statuses.values())} requests",
                    flush=True,
                )

    async with httpx.AsyncClient(base_url=url, timeout=120) as client:
        clients = (ask_on(client, random.Random(seed + n)) for n in range(CLIENTS))
        await asyncio.gather(measure(), *clients)
    return load


async def ask_each_kind(url: str, seed: int) -> None:
    """What a part loads at its first use is not what requests leave behind."""
    drawn = random.Random(seed)
    async with httpx.AsyncClient(base_url=url, timeout=120) as client:
        for path, body in [draw(drawn) for _, draw in KINDS.values()]:
            if not isinstance(body, bytes):
                await client.post(path, json=body)


async def ask_one(client: httpx.AsyncClient, drawn: random.Random) -> str:
    """Ask one request of a kind drawn at random; return its status, or how it ended."""
    kind = drawn.choices(list(KINDS), weights=[w for w, _ in KINDS.values()])[0]
    path, body = KINDS[kind][1](drawn)
    if isinstance(body, bytes):
        reply = await client.post(path, content=body)
    elif kind == "client that leaves":
        try:
            reply = await client.post(path, json=body, timeout=LEFT_AFTER)
        except httpx.TimeoutException:
            return "left by the client"
    else:
        reply = await client.post(path, json=body)
    return f"{reply.status_code}, {kind}"


def denoise_request(drawn: random.Random) -> Request:
    count = drawn.choice([2, 3])
    return "/v1/denoise", draw_request(drawn, count, drawn.choice([8, 15]))


def rerank_request(drawn: random.Random) -> Request:
    body = draw_request(drawn, 4, 10)
    return "/v1/rerank", {"query": body["query"], "documents": body["passages"]}


def score_request(drawn: random.Random) -> Request:
    body = draw_request(drawn, 3, 10)
    return "/score", {"text_1": body["query"], "text_2": body["passages"]}


def check_request(drawn: random.Random) -> Request:
    body = draw_request(drawn, 3, 10)
    answer = (
        " ".join(drawn.choices(WORDS, k=12)).capitalize() + f" in {drawn.random():.4f}."
    )
    return "/v1/check", {
        "question": body["query"],
        "answer": answer,
        "passages": [*body["passages"], answer],
    }


def long_request(drawn: random.Random) -> Request:
    """One text of any form, with its own end, so that no cache has it."""
    make = TEXTS[drawn.choice(list(TEXTS))]
    text = make(drawn.randrange(1_000, LONG_TEXT))
    return "/v1/denoise", {
        "query": "Which item is one of two?",
        "passages": [f"{text}\n{drawn.random()}"],
    }


def repeated_request(drawn: random.Random) -> Request:
    return denoise_request(random.Random(drawn.randrange(50)))


def wrong_request(drawn: random.Random) -> Request:
    path = drawn.choice(["/v1/denoise", "/v1/rerank", "/v1/check", "/score"])
    bodies: Sequence[Any] = [
        {"query": 3, "passages": "x"},
        {},
        [],
        b'{"query": "',
        b"\xff" * drawn.randrange(10_000),
        {"query": "q", "passages": [""] * 2_000, "documents": [""] * 2_000},
        {"query": "q" * drawn.randrange(10_001, 200_000), "passages": ["a"]},
    ]
    return path, drawn.choice(bodies)


KINDS = {
    "passages": (30, denoise_request),
    "ranking": (15, rerank_request),
    "scores": (10, score_request),
    "answers": (10, check_request),
    "a long text": (2, long_request),
    "passages again": (23, repeated_request),
    "wrong body": (8, wrong_request),
    "client that leaves": (2, denoise_request),
}  # by name: the weight, and what draws one


def read_cache_bounds(url: str) -> float:
    """Megabytes that the service's caches may hold, as it says itself."""
    total = 0.0
    for line in httpx.get(url + "/metrics").text.splitlines():
        if 'is_limit="yes"' in line:
            total += float(line.split()[-1]) / 1e6
    return total


if __name__ == "__main__":
    main()
