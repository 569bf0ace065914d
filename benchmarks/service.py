"""The service under 64 clients and at half load, at four times its capacity, and under attack.

make bench ONLY=service
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
from _words import WORDS
from harness import Benchmark, arguments

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from service_server import serving

from denoise_core import DenoiseResult, Passage
from denoise_core.embedded import default_denoiser
from denoise_core.service import Service, ServiceLimits

CLIENTS = 64
PAUSE = 0.1
START = "import sys; from denoise_core.cli import main; sys.argv = ['rag-denoise', 'serve', '--port', '0']; main()"


def main(argv: list[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("service", options)
    bench.about = {
        "request": "a question and five passages of twenty words, none seen before",
        "cores": "server and clients share them",
    }
    count, pairs = (24, 1) if options.quick else (96, 3)
    drawn = random.Random(options.seed)
    with subprocess.Popen([sys.executable, "-c", START], stderr=subprocess.PIPE, text=True) as server:
        try:
            url = _address(server)
            ratios, errors, rate = [], 0, 0.0
            for _ in range(pairs):
                bare = _bare(_requests(drawn, count // 4))
                rate, failed = asyncio.run(_full(url, _requests(drawn, count)))
                ratios.append(rate / bare)
                errors += failed
            ratios.sort()
            # As many as at full load: of fewer, the 99th percentile is the chance of one burst.
            latencies, failed = asyncio.run(_half(url, _requests(drawn, pairs * count), rate / 2, drawn))
            errors += failed
        finally:
            server.terminate()
    bench.row(f"errors, {CLIENTS} clients and half load", errors, "requests", at_most=0)
    bench.row("requests a second, bare denoiser", bare, "1/s")
    bench.row(f"requests a second, {CLIENTS} clients", rate, "1/s")
    bench.row(
        "throughput over the bare denoiser's, median of pairs", ratios[len(ratios) // 2], "ratio", at_least=0.9
    )
    median, p99 = latencies[len(latencies) // 2], latencies[int(0.99 * (len(latencies) - 1))]
    bench.row("median at half load", 1000 * median, "ms")
    bench.row("99th percentile at half load", 1000 * p99, "ms")
    bench.row("99th percentile over the median at half load", p99 / median, "ratio", at_most=3)
    for workers in (1, 2):
        ratio = asyncio.run(_pausing(workers, pairs * count, drawn))
        bench.row(f"the same of a denoiser that takes {PAUSE} s and no core, {workers} workers", ratio, "ratio")
    asyncio.run(_overload(bench, 5 if options.quick else 20))
    _attacked(bench)
    return bench.finish()


async def _overload(bench: Benchmark, seconds: float) -> None:
    """Requests of .2 s at four times what two workers can do, each given up after a second."""
    each, limit, workers = 0.2, 1.0, 2
    capacity = workers / each
    with serving(Service(Pausing(each), limits=ServiceLimits(workers=workers, seconds=limit))) as url:
        found: list[tuple[int, float]] = []
        limits = httpx.Limits(max_connections=500)
        async with httpx.AsyncClient(base_url=url, timeout=30, limits=limits) as client:

            async def one() -> None:
                began = time.perf_counter()
                reply = await client.post("/v1/denoise", json={"query": "q", "passages": ["a"]})
                found.append((reply.status_code, time.perf_counter() - began))

            tasks, began = [], time.perf_counter()
            for n in range(int(4 * capacity * seconds)):
                await asyncio.sleep(max(0.0, began + n / (4 * capacity) - time.perf_counter()))
                tasks.append(asyncio.create_task(one()))
            sent = time.perf_counter() - began
            await asyncio.gather(*tasks)
    good = sum(status == 200 and took <= limit for status, took in found)
    refused = sorted(took for status, took in found if status == 503)
    bench.row("overload: requests", len(found), "requests")
    bench.row("overload: answered in time over capacity", good / (capacity * sent), "ratio", at_least=0.8)
    bench.row("overload: refused", len(refused), "requests")
    late = sum(status not in (200, 503) for status, _ in found)
    bench.row("overload: admitted and too late", late, "requests")
    bench.row("overload: refusal, median", 1000 * refused[len(refused) // 2], "ms", at_most=50)
    bench.row("overload: refusal, 99th percentile", 1000 * refused[int(0.99 * len(refused))], "ms", at_most=50)


def _attacked(bench: Benchmark) -> None:
    """A service in a process of its own; `/livez` is asked all the while. Then 60 bodies that do not end."""
    objects = {f"k{i}": 1 for i in range(300_000)}
    attacks = {
        "a million empty passages": {"query": "q", "passages": [""] * 1_000_000},
        "300 kB of wrong items": {"query": "q", "passages": [{"a": 1}] * 33_000},
        "300,000 unknown fields": {"query": "q", "passages": [], **objects},
        "a million numbers": {"query": "q", "passages": [1] * 1_000_000},
        "500,000 objects in metadata": {
            "query": "q",
            "passages": [{"text": "a", "metadata": {"a": [{}] * 500_000}}],
        },
        "8 MB of one text": {"query": "q", "passages": ["a" * 8_000_000]},
    }
    with subprocess.Popen([sys.executable, "-c", START], stderr=subprocess.PIPE, text=True) as server:
        try:
            url = _address(server)
            for name, body in attacks.items():
                content, times, over = json.dumps(body).encode(), list[float](), threading.Event()
                watch = threading.Thread(target=_watch, args=(url, times, over))
                watch.start()
                replies = []
                with httpx.Client(timeout=60) as client:
                    for _ in range(3):
                        headers = {"content-type": "application/json"}
                        replies.append(client.post(url + "/v1/denoise", content=content, headers=headers))
                over.set()
                watch.join()
                bench.row(f"{name}: /livez at worst", 1000 * max(times), "ms", at_most=100)
                bench.row(
                    f"{name}: bytes of the reply", max(len(r.content) for r in replies), "bytes", at_most=1000
                )
            before = _memory(server.pid)
            times, over = [], threading.Event()
            watch = threading.Thread(target=_watch, args=(url, times, over))
            watch.start()
            port, head = int(url.rsplit(":", 1)[1]), "POST /v1/denoise HTTP/1.1\r\nHost: localhost\r\n"
            head += "Content-Type: application/json\r\nContent-Length: 8000000\r\n\r\n"
            slow = []
            for _ in range(60):
                sock = socket.create_connection(("127.0.0.1", port))
                sock.settimeout(1)
                with contextlib.suppress(OSError):  # refused while it is sent
                    sock.sendall(head.encode() + b"x" * 5_000_000)
                slow.append(sock)
            held = _memory(server.pid)
            time.sleep(12)  # past the limit of a body
            over.set()
            watch.join()
            for sock in slow:
                sock.close()
            time.sleep(2)
            after = _memory(server.pid)
        finally:
            server.terminate()
    bench.row("60 unfinished bodies of 5 MB: /livez at worst", 1000 * max(times), "ms", at_most=100)
    bench.row("60 unfinished bodies: memory while they wait, above before", held - before, "MB")
    bench.row("60 unfinished bodies: memory after, over before", after / before, "ratio", at_most=1.2)


def _watch(url: str, times: list[float], over: threading.Event) -> None:
    with httpx.Client(timeout=60) as client:
        client.get(url + "/livez")
        while not (times and over.is_set()):  # once at least, however soon it is over
            began = time.perf_counter()
            client.get(url + "/livez")
            times.append(time.perf_counter() - began)
            time.sleep(0.01)


def _memory(pid: int) -> float:
    """Resident megabytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


class Pausing:
    """A denoiser of equal times, whatever else the machine does: what is left is how requests wait."""

    def __init__(self, pause: float = PAUSE) -> None:
        self.pause = pause

    def denoise(self, query: str, passages: Any) -> DenoiseResult:
        time.sleep(self.pause)
        return DenoiseResult(query, tuple(passages), ())

    async def adenoise(self, query: str, passages: Any) -> DenoiseResult:
        raise NotImplementedError


async def _pausing(workers: int, count: int, drawn: random.Random) -> float:
    with serving(Service(Pausing(), limits=ServiceLimits(workers=workers))) as url:
        times, _ = await _half(url, _requests(drawn, count), workers / PAUSE / 2, drawn)
    return times[int(0.99 * (len(times) - 1))] / times[len(times) // 2]


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stderr is not None
    for line in server.stderr:
        if found := re.search(r"(http://127\.0\.0\.1:\d+)/", line):
            return found[1]
    raise SystemExit("the service did not start")


def _requests(drawn: random.Random, count: int) -> list[dict[str, Any]]:
    def text(n: int) -> str:
        return " ".join(drawn.choice(WORDS) for _ in range(n))

    return [{"query": text(6), "passages": [text(20) for _ in range(5)]} for _ in range(count)]


def _bare(requests: list[dict[str, Any]]) -> float:
    denoiser = default_denoiser()
    work = [(r["query"], [Passage(t, str(i)) for i, t in enumerate(r["passages"])]) for r in requests]
    denoiser.denoise(*work[0])
    began = time.perf_counter()
    for query, passages in work[1:]:
        denoiser.denoise(query, passages)
    return (len(work) - 1) / (time.perf_counter() - began)


async def _full(url: str, requests: list[dict[str, Any]]) -> tuple[float, int]:
    """Requests a second, and how many failed, with every client asking again as soon as it is answered."""
    waiting, failed = iter(requests), 0
    limits = httpx.Limits(max_connections=CLIENTS)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:

        async def one() -> None:
            nonlocal failed
            for body in waiting:
                reply = await client.post("/v1/denoise", json=body)
                failed += reply.status_code != 200

        began = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(CLIENTS)))
    return len(requests) / (time.perf_counter() - began), failed


async def _half(
    url: str, requests: list[dict[str, Any]], rate: float, drawn: random.Random
) -> tuple[list[float], int]:
    """Seconds of each request, sorted; they come at random times, ``rate`` a second on average."""
    times: list[float] = []
    failed = 0
    async with httpx.AsyncClient(base_url=url, timeout=120) as client:

        async def one(body: dict[str, Any]) -> None:
            nonlocal failed
            began = time.perf_counter()
            reply = await client.post("/v1/denoise", json=body)
            times.append(time.perf_counter() - began)
            failed += reply.status_code != 200

        tasks = []
        for body in requests:
            tasks.append(asyncio.create_task(one(body)))
            await asyncio.sleep(drawn.expovariate(rate))
        await asyncio.gather(*tasks)
    return sorted(times), failed


if __name__ == "__main__":
    main()
