"""A real engine, vLLM on this machine's cores: are its scores ours, what does it keep, and what when it is killed?

make engines            an environment of its own for the engine, then this

Random shapes are exported and served: each shape's scores beside those computed here, prefixes kept for a second
question, a list alone and in company; then two replicas of one shape, of which one is killed (-9) in the middle of
1,000 requests.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from _engine_server import Server, versions
from _engine_shapes import DECODERS, ENCODER, WINDOW, exported
from _words import WORDS
from harness import Benchmark, Options

from denoise_core.end.remote import RemoteScorer
from denoise_core.protocols import Scorer
from denoise_core.runtime.engines import RemoteLimits
from denoise_core.scorers import RemoteReranker

KEEPS = ("--enable-prefix-caching",)
MORE = {  # what an engine has to be told of a shape
    "llama": KEEPS,
    "qwen3": KEEPS,
    "gemma3_text": (
        *KEEPS,
        "--hf-overrides",
        '{"architectures": ["Gemma3ForCausalLM"]}',
        "--convert",
        "classify",
    ),
    ENCODER: (
        "--no-enable-prefix-caching",
    ),  # it reads both ways, so nothing of a text stays true
}
TEXTS, LONG = 40, 90  # texts of so many words
REQUESTS, EACH, THREADS = 1000, 3, 8
CLOSE = 1e-3  # in float32, of logits
SAME = 1e-4


def main(argv: list[str] | None = None) -> Benchmark:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--engine",
        type=Path,
        required=True,
        help="the Python interpreter that has vLLM",
    )
    given = parser.parse_args(argv)
    # Not resolved: a link of a virtual environment is what makes it one.
    python = given.engine.absolute()
    if not python.is_file():
        parser.error(f"{python} is not there: `make engines` makes it")
    bench = Benchmark("engines", Options(None, False, 0))
    bench.about = {
        "engine": versions(python),
        "shapes": "random weights, 8 blocks of 256 cut to 4, one token a byte; float32, eager, one thread",
    }
    for shape in (*DECODERS, ENCODER):
        with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
            _shape(bench, stack, python, Path(scratch), shape)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        _replicas(bench, stack, python, Path(scratch))
    bench.finish()
    if missed := [row.measure for row in bench.rows if row.holds is False]:
        raise SystemExit("missed: " + "; ".join(missed))
    return bench


def _texts(count: int, words: int, seed: int) -> list[str]:
    drawn = random.Random(seed)
    return [" ".join(drawn.choice(WORDS) for _ in range(words)) for _ in range(count)]


def _started(
    stack: ExitStack,
    python: Path,
    folder: Path,
    scratch: Path,
    shape: str,
    count: int = 1,
) -> list[Server]:
    made = [
        stack.enter_context(
            Server(python, folder, scratch / f"log-{n}", MORE[shape], WINDOW)
        )
        for n in range(count)
    ]
    for server in made:
        server.ready()
    return made


def _remote(urls: Sequence[str], folder: Path, shape: str, **more: Any) -> Scorer:
    if shape == ENCODER:
        return RemoteReranker(urls, str(folder), **more)
    return RemoteScorer(urls, folder, model=str(folder), **more)


def _shape(
    bench: Benchmark, stack: ExitStack, python: Path, scratch: Path, shape: str
) -> None:
    folder = scratch / shape
    local = exported(shape, folder)
    (server,) = _started(stack, python, folder, scratch, shape)
    remote = _remote([server.url], folder, shape, limits=RemoteLimits(timeout=300))
    texts = [*_texts(TEXTS, LONG, 1), "", "Rain.", "שלום 😀"]
    first, second = _texts(2, 6, 2)
    expected = np.asarray(local.score(first, texts))
    found = np.asarray(remote.score(first, texts))
    bench.row(f"{shape}: deviation of scores", float(expected.std()), "score")
    bench.row(
        f"{shape}: largest difference to local scores",
        float(np.abs(found - expected).max()),
        "score",
        at_most=CLOSE,
    )
    if shape != ENCODER:
        _kept(bench, shape, server, remote, local, texts[:TEXTS], second)
    _company(bench, shape, server, remote, texts)


def _kept(
    bench: Benchmark,
    shape: str,
    server: Server,
    remote: Scorer,
    local: Scorer,
    texts: list[str],
    query: str,
) -> None:
    """A second question about the same texts."""
    server.forget()
    began = time.perf_counter()
    remote.score("who wrote it", texts)
    cold = time.perf_counter() - began
    asked, had = server.prefixes()
    began = time.perf_counter()
    found = np.asarray(remote.score(query, texts))
    warm = time.perf_counter() - began
    asked_later, had_later = server.prefixes()
    share = (had_later - had) / max(1.0, asked_later - asked)
    bench.row(
        f"{shape}: tokens of a second question found kept", share, "share", at_least=0.8
    )
    apart = float(np.abs(found - np.asarray(local.score(query, texts))).max())
    bench.row(
        f"{shape}: largest difference to local scores, from what was kept",
        apart,
        "score",
        at_most=CLOSE,
    )
    bench.row(
        f"{shape}: seconds of the first question over those of the second",
        cold / warm,
        "ratio",
    )


def _company(
    bench: Benchmark, shape: str, server: Server, remote: Scorer, texts: list[str]
) -> None:
    """One list of twenty alone, and among eight that are asked at the same time."""
    query, *others = _texts(THREADS, 6, 3)
    server.forget()
    alone = np.asarray(remote.score(query, texts[:20]))
    server.forget()
    with ThreadPoolExecutor(THREADS) as pool:
        asked = [
            (query, texts[:20]),
            *((q, texts[n : n + 20]) for n, q in enumerate(others)),
        ]
        found = list(pool.map(lambda a: np.asarray(remote.score(*a)), asked))
    apart = float(np.abs(found[0] - alone).max())
    bench.row(
        f"{shape}: largest difference, alone and among {THREADS}",
        apart,
        "score",
        at_most=SAME,
    )


def _replicas(bench: Benchmark, stack: ExitStack, python: Path, scratch: Path) -> None:
    shape = DECODERS[0]
    folder = scratch / shape
    local = exported(shape, folder)
    first, second = _started(stack, python, folder, scratch, shape, count=2)
    texts, queries = _texts(TEXTS, LONG, 1), _texts(10, 6, 4)
    expected = {q: np.asarray(local.score(q, texts)) for q in queries}
    limits = RemoteLimits(timeout=120, cooldown=60, concurrency=THREADS)
    remote = _remote([first.url, second.url], folder, shape, limits=limits)
    drawn = random.Random(5)
    asked = [
        (drawn.choice(queries), drawn.sample(range(len(texts)), EACH))
        for _ in range(REQUESTS)
    ]
    lost, wrong, done, lock = [], [], [0], threading.Lock()

    def one(n: int) -> None:
        query, some = asked[n]
        if n == REQUESTS // 2:
            first.kill()
        try:
            found = np.asarray(remote.score(query, [texts[i] for i in some]))
        except Exception as error:  # counted: none may be lost
            with lock:
                lost.append(error)
            return
        with lock:
            done[0] += 1
            if np.abs(found - expected[query][some]).max() > CLOSE:
                wrong.append(n)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(one, range(REQUESTS)))
    for error in lost[:3]:
        print(f"lost: {type(error).__name__}: {error}")
    bench.row(
        f"replicas: requests answered, one of two engines killed in the middle of {REQUESTS}",
        done[0],
        "requests",
    )
    bench.row(
        "replicas: requests lost",
        len(lost),
        "requests",
        at_most=0,
    )
    bench.row(
        "replicas: requests with a wrong score", len(wrong), "requests", at_most=0
    )


if __name__ == "__main__":
    main()
