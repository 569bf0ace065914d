"""A real engine, vLLM on this machine's cores: are its scores ours, what does it cache, and what if it is killed?

make engines            an environment for the engine, then this

Random shapes are exported and served. Of each: its scores next to those computed here, and prefixes cached for a
second question. Then two replicas of one shape, of which one is killed (-9) in the middle of 1,000 requests.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from _engine_server import Server, versions
from _engine_shapes import DECODERS, WINDOW, export_shape
from _served import draw_words
from harness import Benchmark
from numpy.typing import ArrayLike

from denoise_core.end.remote import RemoteScorer
from denoise_core.protocols import Scorer
from denoise_core.runtime.engines import RemoteLimits

PREFIX_CACHING = ("--enable-prefix-caching",)
SERVER_FLAGS = {
    "llama": PREFIX_CACHING,
    "qwen3": PREFIX_CACHING,
    "gemma3_text": (
        *PREFIX_CACHING,
        "--hf-overrides",
        '{"architectures": ["Gemma3ForCausalLM"]}',
        "--convert",
        "classify",
    ),
}
TEXT_COUNT = 40
TEXT_WORDS = 90
REQUEST_COUNT = 1000
REQUEST_LENGTH = 3  # texts of a request to the replicas
THREAD_COUNT = 8
TOLERANCE = 1e-3  # of logits in float32


def main() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--engine",
        type=Path,
        required=True,
        help="the Python interpreter that has vLLM",
    )
    bench = Benchmark("engines", __doc__, parser)
    # Not resolved: a link of a virtual environment is what makes it one.
    python = bench.given.engine.absolute()
    if not python.is_file():
        raise SystemExit(f"{python} is not there: `make engines` makes it")
    bench.about = {
        "engine": versions(python),
        "shapes": "random weights, 8 blocks of 256 cut to 4, one token a byte; float32, eager, one thread",
    }
    for shape in DECODERS:
        with tempfile.TemporaryDirectory() as folder:
            report_shape(bench.under(f"{shape}: "), python, Path(folder), shape)
    with tempfile.TemporaryDirectory() as folder:
        report_replicas(bench.under("replicas: "), python, Path(folder))
    bench.finish()
    if any(row.holds is False for row in bench.rows):
        raise SystemExit("a target is missed")


def draw_texts(count: int, words: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [draw_words(rng, words) for _ in range(count)]


def start_servers(
    stack: ExitStack, python: Path, folder: Path, shape: str, count: int
) -> list[Server]:
    """Serve the shape in ``folder`` so many times, until the stack is closed."""
    servers = []
    for number in range(count):
        log_path = folder / f"log-{number}"
        server = Server(python, folder / shape, log_path, SERVER_FLAGS[shape], WINDOW)
        servers.append(stack.enter_context(server))
    for server in servers:
        server.wait_until_ready()
    return servers


def remote_scorer(
    servers: Sequence[Server], folder: Path, shape: str, limits: RemoteLimits
) -> RemoteScorer:
    urls = [server.url for server in servers]
    return RemoteScorer(urls, folder / shape, model=str(folder / shape), limits=limits)


def largest_difference(scores: ArrayLike, other_scores: ArrayLike) -> float:
    return float(np.abs(np.subtract(scores, other_scores)).max())


def report_shape(bench: Benchmark, python: Path, folder: Path, shape: str) -> None:
    local = export_shape(shape, folder / shape)
    texts = draw_texts(TEXT_COUNT, TEXT_WORDS, seed=1)
    edge_texts = [*texts, "", "Rain.", "שלום 😀"]
    query, second_query = draw_texts(2, 6, seed=2)
    with ExitStack() as stack:
        (server,) = start_servers(stack, python, folder, shape, count=1)
        limits = RemoteLimits(timeout=300)
        remote = remote_scorer([server], folder, shape, limits)
        expected = np.asarray(local.score(query, edge_texts))
        difference = largest_difference(remote.score(query, edge_texts), expected)
        bench.row("deviation of scores", float(expected.std()), "score")
        bench.row(
            "largest difference to local scores", difference, "score", at_most=TOLERANCE
        )
        second_scores = local.score(second_query, texts)
        report_cache(bench, server, remote, texts, second_query, second_scores)


def report_cache(
    bench: Benchmark,
    server: Server,
    remote: Scorer,
    texts: Sequence[str],
    query: str,
    expected: ArrayLike,
) -> None:
    """Ask a second question about texts whose prefixes the engine has cached."""
    server.empty_cache()
    start_time = time.perf_counter()
    remote.score("who wrote it", texts)
    first_seconds = time.perf_counter() - start_time
    first_tokens, first_hits = server.count_prefix_tokens()
    start_time = time.perf_counter()
    scores = remote.score(query, texts)
    second_seconds = time.perf_counter() - start_time
    tokens, hits = server.count_prefix_tokens()
    share = (hits - first_hits) / max(1.0, tokens - first_tokens)
    bench.row("tokens of a second question found kept", share, "share", at_least=0.8)
    difference = largest_difference(scores, expected)
    bench.row(
        "largest difference to local scores, from what was kept",
        difference,
        "score",
        at_most=TOLERANCE,
    )
    ratio = first_seconds / second_seconds
    bench.row("seconds of the first question over those of the second", ratio, "ratio")


def report_replicas(bench: Benchmark, python: Path, folder: Path) -> None:
    """Ask two replicas, and kill one of them in the middle."""
    shape = DECODERS[0]
    local = export_shape(shape, folder / shape)
    texts = draw_texts(TEXT_COUNT, TEXT_WORDS, seed=1)
    query = "who wrote it"
    expected = np.asarray(local.score(query, texts))
    differences = []
    errors = []
    with ExitStack() as stack:
        servers = start_servers(stack, python, folder, shape, count=2)
        limits = RemoteLimits(timeout=120, cooldown=60, concurrency=THREAD_COUNT)
        remote = remote_scorer(servers, folder, shape, limits)

        def ask(number: int) -> None:
            if number == REQUEST_COUNT // 2:
                servers[0].kill()
            positions = random.Random(number).sample(range(TEXT_COUNT), REQUEST_LENGTH)
            try:
                scores = remote.score(query, [texts[n] for n in positions])
            except Exception as error:  # counted: none may be lost
                errors.append(error)
                return
            differences.append(largest_difference(scores, expected[positions]))

        with ThreadPoolExecutor(THREAD_COUNT) as pool:
            list(pool.map(ask, range(REQUEST_COUNT)))
    for error in errors[:3]:
        print(f"lost: {type(error).__name__}: {error}")
    measure = (
        f"requests answered, one of two engines killed in the middle of {REQUEST_COUNT}"
    )
    bench.row(measure, len(differences), "requests")
    bench.row("requests lost", len(errors), "requests", at_most=0)
    wrong_count = sum(difference > TOLERANCE for difference in differences)
    bench.row("requests with a wrong score", wrong_count, "requests", at_most=0)


if __name__ == "__main__":
    main()
