"""The service under 64 clients, at half load, and under attack.

make bench ONLY=service
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import get_context
from typing import Any, TypeAlias

# Before anything loads NumPy; the server's processes inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import httpx
import numpy as np
from _served import (
    DENOISE,
    TEXTS,
    draw_request,
    draw_words,
    start_service,
)
from harness import Benchmark

from denoise_core import Passage
from denoise_core.embedded import default_denoiser

CLIENT_COUNT = 64
UNFINISHED_COUNT = 60
BODY_SECONDS = 12  # after which a body that does not end is dropped
LONG_TEXT = 100_000  # characters of each form of text
MAX_LIVEZ = 100  # ms

Body: TypeAlias = Mapping[str, Any]


def main() -> None:
    bench = Benchmark("service", __doc__)
    bench.about = {
        "request": "a question and five passages of twenty words, none seen before",
        "cores": "server and clients share them",
    }
    pair_count, request_count = (1, 24) if bench.quick else (3, 96)
    report_load(bench, pair_count, request_count)
    report_attacks(bench)
    report_texts(bench)
    bench.finish()


# -- load ------------------------------------------------------------------------------


def report_load(bench: Benchmark, pair_count: int, request_count: int) -> None:
    """Add throughput in pairs with a bare denoiser's, and the latencies at half of it."""
    rng = random.Random(bench.seed)
    ratios = []
    error_count = 0
    with start_service() as (url, _):
        for _ in range(pair_count):
            bare_rate = measure_bare_rate(draw_requests(rng, request_count // 4))
            requests = draw_requests(rng, request_count)
            rate, failed_count = asyncio.run(ask_at_full_load(url, requests))
            ratios.append(rate / bare_rate)
            error_count += failed_count
        # As many as at full load: of fewer, the 99th percentile is the chance of one burst.
        requests = draw_requests(rng, pair_count * request_count)
        asking = ask_at_random_times(url, requests, rate / 2, rng)
        seconds, failed_count = asyncio.run(asking)
    error_count += failed_count
    measure = f"errors, {CLIENT_COUNT} clients and half load"
    bench.row(measure, error_count, "requests", at_most=0)
    ratio = float(np.median(ratios))
    measure = "throughput over the bare denoiser's, median of pairs"
    bench.row(measure, ratio, "ratio", at_least=0.9)
    median, p99 = np.percentile(seconds, [50, 99])
    measure = "99th percentile over the median at half load"
    bench.row(measure, p99 / median, "ratio", at_most=3)


def draw_requests(rng: random.Random, count: int) -> list[Body]:
    return [draw_request(rng, 5, 20) for _ in range(count)]


def measure_bare_rate(requests: Sequence[Body]) -> float:
    """Return the requests a second of a denoiser without a service; the first only loads it."""
    denoiser = default_denoiser()
    start_time = 0.0
    for number, body in enumerate(requests):
        if number == 1:
            start_time = time.perf_counter()
        passages = [Passage(text, str(n)) for n, text in enumerate(body["passages"])]
        denoiser.denoise(body["query"], passages)
    return (len(requests) - 1) / (time.perf_counter() - start_time)


async def ask_at_full_load(url: str, requests: Sequence[Body]) -> tuple[float, int]:
    """Ask with clients that ask again as soon as they have a reply.

    Returns requests a second, and how many failed.
    """
    waiting = iter(requests)
    failed_count = 0
    limits = httpx.Limits(max_connections=CLIENT_COUNT)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:

        async def ask_on() -> None:
            nonlocal failed_count
            for body in waiting:
                reply = await client.post(DENOISE, json=body)
                failed_count += reply.status_code != 200

        start_time = time.perf_counter()
        await asyncio.gather(*(ask_on() for _ in range(CLIENT_COUNT)))
        elapsed = time.perf_counter() - start_time
    return len(requests) / elapsed, failed_count


async def ask_at_random_times(
    url: str, requests: Sequence[Body], rate: float, rng: random.Random
) -> tuple[list[float], int]:
    """Ask ``rate`` requests a second on average.

    Returns the seconds of each request, and how many failed.
    """
    seconds = []
    failed_count = 0
    async with httpx.AsyncClient(base_url=url, timeout=120) as client:

        async def ask(body: Body) -> None:
            nonlocal failed_count
            start_time = time.perf_counter()
            reply = await client.post(DENOISE, json=body)
            seconds.append(time.perf_counter() - start_time)
            failed_count += reply.status_code != 200

        tasks = []
        for body in requests:
            tasks.append(asyncio.create_task(ask(body)))
            await asyncio.sleep(rng.expovariate(rate))
        await asyncio.gather(*tasks)
    return seconds, failed_count


# -- attacks ---------------------------------------------------------------------------


def report_attacks(bench: Benchmark) -> None:
    """Add how long `/livez` takes at worst while the service has bodies that cost much, or do not end."""
    rng = random.Random(0)
    passages = [draw_words(rng, 200)[:990] for _ in range(1000)]
    check_body = {"question": "q", "answer": "A clerk wrote it.", "passages": passages}
    denoise_body = {"query": "q", "passages": passages}
    empty_passages = {"query": "q", "passages": [""] * 1_000_000}
    one_text = {"query": "q", "passages": ["a" * 8_000_000]}
    with start_service() as (url, _):
        for name, path, body in (
            ("a million empty passages", DENOISE, empty_passages),
            ("8 MB of one text", DENOISE, one_text),
            ("a valid megabyte to /v1/check", "/v1/check", check_body),
            (f"a valid megabyte to {DENOISE}", DENOISE, denoise_body),
        ):
            with watch_livez(url) as (seconds,):
                httpx.post(url + path, json=body, timeout=120)
            report_livez(bench.under(f"{name}: "), seconds)
        report_unfinished_bodies(bench, url)


def report_unfinished_bodies(bench: Benchmark, url: str) -> None:
    """Open connections that send five of eight megabytes and wait."""
    port = httpx.URL(url).port
    head = f"POST {DENOISE} HTTP/1.1\r\nHost: localhost\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 8000000\r\n\r\n"
    connections = []
    with watch_livez(url) as (seconds,):
        for _ in range(UNFINISHED_COUNT):
            connection = socket.create_connection(("127.0.0.1", port))
            connection.settimeout(1)
            with contextlib.suppress(OSError):  # refused while it is sent
                connection.sendall(head.encode() + b"x" * 5_000_000)
            connections.append(connection)
        time.sleep(BODY_SECONDS)
    for connection in connections:
        connection.close()
    report_livez(bench.under("60 unfinished bodies of 5 MB: "), seconds)


def report_livez(bench: Benchmark, seconds: Sequence[float]) -> None:
    bench.row("/livez at worst", 1000 * max(seconds), "ms", at_most=MAX_LIVEZ)


def report_texts(bench: Benchmark) -> None:
    """Add `/livez` while each form of text is read, less an idle service's: a busy machine slows that too."""
    size = 5_000 if bench.quick else LONG_TEXT
    with (
        start_service() as (url, _),
        start_service() as (idle_url, _),
        watch_livez(url, idle_url) as (seconds, idle_seconds),
    ):
        for make_text in TEXTS.values():
            body = {"query": "Which item is one?", "passages": [make_text(size)]}
            httpx.post(url + DENOISE, json=body, timeout=120)
    rows = bench.under(f"{len(TEXTS)} forms of text of {size:,} characters: /livez ")
    slowest = 1000 * max(seconds)
    idle_slowest = 1000 * max(idle_seconds)
    difference = max(0.0, slowest - idle_slowest)
    rows.row("at worst", slowest, "ms")
    rows.row("of an idle service at worst", idle_slowest, "ms")
    rows.row("at worst, less an idle service's", difference, "ms", at_most=MAX_LIVEZ)


@contextlib.contextmanager
def watch_livez(*urls: str) -> Iterator[list[list[float]]]:
    """Ask `/livez` of each URL's service every hundredth of a second, in a process of its own.

    Yields a list for each URL, which has the seconds of each reply after the block.
    """
    spawning = get_context("spawn")
    is_over = spawning.Event()
    queue = spawning.Queue()
    livez_urls = [str(httpx.URL(url).join("/livez")) for url in urls]
    watcher = spawning.Process(target=ask_livez, args=(livez_urls, is_over, queue))
    watcher.start()
    queue.get()
    seconds: list[list[float]] = [[] for _ in urls]
    yield seconds
    is_over.set()
    for url_seconds, url_measurements in zip(seconds, queue.get(), strict=True):
        url_seconds += url_measurements
    watcher.join()


def ask_livez(urls: Sequence[str], is_over: Any, queue: Any) -> None:
    with httpx.Client(timeout=60) as client:
        for url in urls:
            client.get(url)
        seconds: list[list[float]] = [[] for _ in urls]
        gc.disable()  # a full collection took 80 ms and looked like the service's slowest reply
        queue.put(None)
        # Asked at least once, however soon the block is over.
        while not seconds[0] or not is_over.is_set():
            for url, url_seconds in zip(urls, seconds, strict=True):
                start_time = time.perf_counter()
                client.get(url)
                url_seconds.append(time.perf_counter() - start_time)
            time.sleep(0.01)
        queue.put(seconds)


if __name__ == "__main__":
    main()
