"""Two replicas, one killed (-9) in the middle: requests lost, scores wrong, and whose warm prefixes were lost.

make bench ONLY=remote
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
from harness import Benchmark, arguments

ROOT = Path(__file__).parents[1]
SUPPORT = ROOT / "tests" / "support"
sys.path.insert(0, str(SUPPORT))

from rerank_server import words  # noqa: E402

from denoise_core.runtime.engines import RemoteLimits, document_key, rendezvous_order  # noqa: E402
from denoise_core.scorers import RemoteReranker  # noqa: E402

SERVER = """
import sys
from rerank_server import Reranker

with Reranker(pause=0.002, keeps=int(sys.argv[1])) as served:
    print(served.url, flush=True)
    served.serve_forever()
"""
THREADS = 8


def main(argv: list[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("remote", options)
    bench.about = {
        "servers": "two processes that rank by shared words and keep texts they have seen, the least recently "
        "used leaving first; each has room for three quarters of all documents",
        "requests": f"20 documents each, drawn by rank (Zipf), from {THREADS} threads",
    }
    requests, documents = (200, 300) if options.quick else (1000, 2000)
    drawn = random.Random(options.seed)
    texts = [f"document {i} of the tower" for i in range(documents)]
    weights = [1 / (n + 1) for n in range(documents)]
    asked = [
        (f"tower {n}", drawn.choices(texts, weights, k=20)) for n in range(requests)
    ]
    with _replica(3 * documents // 4) as first, _replica(3 * documents // 4) as second:
        _run(bench, first, second, texts, asked)
    return bench.finish()


class _replica:
    """A server in a process of its own."""

    def __init__(self, keeps: int) -> None:
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(SUPPORT), *(p for p in sys.path if p)]),
        }
        command = [sys.executable, "-c", SERVER, str(keeps)]
        self.process = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()

    def __enter__(self) -> _replica:
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.kill()
        self.process.wait()

    def kept(self) -> dict[str, list[int]]:
        """Hits and misses of each text by now."""
        found: dict[str, list[int]] = httpx.get(f"{self.url}/kept").json()
        return found


def _run(
    bench: Benchmark,
    first: _replica,
    second: _replica,
    texts: list[str],
    asked: list[tuple[str, list[str]]],
) -> None:
    urls = [first.url, second.url]
    scorer = RemoteReranker(urls, limits=RemoteLimits(cooldown=30, concurrency=THREADS))
    lives = {
        t for t in texts if rendezvous_order(document_key(t), urls)[0] == second.url
    }
    scorer.score("warm", texts)
    lost, wrong, killed, at = [], [], [], iter(range(len(asked)))
    before: dict[str, list[int]] = {}
    lock, latencies = threading.Lock(), []

    def work() -> None:
        while True:
            with lock:
                n = next(at, None)
                if n == len(asked) // 2:
                    before.update(second.kept())
                    first.process.kill()
                    killed.append(time.perf_counter())
            if n is None:
                return
            query, some = asked[n]
            began = time.perf_counter()
            try:
                found = scorer.score(query, some).tolist()
            except Exception as error:  # counted: none may be lost
                lost.append(error)
                continue
            latencies.append((began, time.perf_counter() - began))
            if found != [words(query, t) for t in some]:
                wrong.append(n)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = second.kept()

    def rate(some: set[str]) -> float:
        hits, misses = (
            sum(after[t][i] - before.get(t, [0, 0])[i] for t in some if t in after)
            for i in (0, 1)
        )
        return hits / max(1, hits + misses)

    bench.row("requests lost", len(lost), "requests", at_most=0)
    bench.row("requests with a wrong score", len(wrong), "requests", at_most=0)
    bench.row(
        "hit rate after the kill, documents whose replica lived",
        rate(lives),
        "share",
        at_least=0.9,
    )
    bench.row(
        "hit rate after the kill, documents of the killed replica",
        rate(set(texts) - lives),
        "share",
    )
    times: list[Any] = sorted(s for t, s in latencies if t < killed[0])
    later = sorted(s for t, s in latencies if t >= killed[0])
    bench.row(
        "median of a request before the kill", 1000 * times[len(times) // 2], "ms"
    )
    bench.row("median of a request after it", 1000 * later[len(later) // 2], "ms")
    bench.row("longest request", 1000 * max(s for _, s in latencies), "ms")


if __name__ == "__main__":
    main()
