"""Bulk work: rows lost, doubled and computed twice when workers and the driver are killed; rows of every size,
rows that hang and kill, two drivers; and what it costs.

make bench ONLY=bulk
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before anything loads NumPy: the workers have it too

from _words import WORDS
from harness import Benchmark, arguments

ROOT = Path(__file__).parents[1]
SUPPORT = ROOT / "tests" / "support"
sys.path.insert(0, str(SUPPORT))
from bulk_denoisers import Logged, Noted  # noqa: E402

from denoise_core import Passage  # noqa: E402
from denoise_core.embedded import default_denoiser  # noqa: E402
from denoise_core.end import ENDDenoiser  # noqa: E402
from denoise_core.scorers import BM25Scorer  # noqa: E402
from denoise_core.service.bulk import bulk  # noqa: E402

DRIVER = """
import sys
from bulk_denoisers import Logged
from denoise_core.end import ENDDenoiser
from denoise_core.scorers import BM25Scorer
from denoise_core.service.bulk import bulk

if __name__ == "__main__":
    done = bulk(sys.argv[1], sys.argv[2], Logged(sys.argv[3], ENDDenoiser(BM25Scorer(), keep=1)), workers=2)
    print(done.rows, done.known, done.died)
"""


def main(argv: list[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("bulk", options)
    bench.about = {
        "denoiser": "BM25 where it is killed, the embedded default for the overhead; keep=1",
        "rows": "a question and two passages of six words",
    }
    rows = _rows(2_000 if options.quick else 20_000, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        _killed(bench, Path(folder), rows)
        _sizes(bench, Path(folder), options.quick)
        _hung(bench, Path(folder))
        _twice(bench, Path(folder))
        _overhead(bench, Path(folder), rows[: 24 if options.quick else 120], 1 if options.quick else 3)
    return bench.finish()


def _rows(count: int, seed: int) -> list[dict[str, Any]]:
    drawn = random.Random(seed)

    def text(n: int) -> str:
        return " ".join(drawn.choice(WORDS) for _ in range(n))

    return [
        {"id": f"r{i}", "query": f"{text(3)} {i}", "passages": [text(6) for _ in range(2)]} for i in range(count)
    ]


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def _killed(bench: Benchmark, folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Two workers and the driver killed with -9, each once a quarter of the rows has been written."""
    source, out, log = _write(folder / "in.jsonl", rows), folder / "out.jsonl", folder / "log"
    script = folder / "driver.py"
    script.write_text(DRIVER)
    parts = folder / "out.jsonl.parts"
    paths = [str(SUPPORT), *(p for p in sys.path if p)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, str(script), str(source), str(out), str(log)]
    with subprocess.Popen(command, env=env) as first:
        _written(parts, len(rows) // 4, first)
        os.kill(_workers(first.pid)[0], signal.SIGKILL)
        _written(parts, len(rows) // 2, first)
        first.kill()
    again = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    _written(parts, 3 * len(rows) // 4, again)
    os.kill(_workers(again.pid)[1], signal.SIGKILL)
    said, _ = again.communicate()
    found = [json.loads(line) for line in out.read_text().splitlines()]
    counts = Counter(r["id"] for r in found)
    computed = log.read_text().count("\n")
    denoiser = ENDDenoiser(BM25Scorer(), keep=1)
    sample = rows[:: max(1, len(rows) // 200)]
    by_id = {r["id"]: r for r in found}
    wrong = sum(not _same(by_id.get(r["id"]), r, denoiser) for r in sample)
    bench.row("rows in the output, unique", len(counts), "rows", at_least=len(rows))
    bench.row("rows more than once", sum(n - 1 for n in counts.values()), "rows", at_most=0)
    bench.row(f"rows that differ from a plain loop's, of {len(sample)}", wrong, "rows", at_most=0)
    bench.row("computed twice", 100 * (computed - len(rows)) / len(rows), "%", at_most=5)
    bench.row("known after the driver was killed", int(said.split()[1]), "rows")


def _sizes(bench: Benchmark, folder: Path, quick: bool) -> None:
    """Rows of 10 kB, 100 kB and 1 MB through two workers: each once, its text whole."""
    for size, name in ((10_000, "10 kB"), (100_000, "100 kB"), (1_000_000, "1 MB")):
        count = (2_000_000 if quick else 40_000_000) // size
        rows = [{"id": str(i), "query": f"tower {i}", "passages": ["tower " + "x" * size]} for i in range(count)]
        source, out = _write(folder / f"{size}.jsonl", rows), folder / f"{size}.out.jsonl"
        began = time.perf_counter()
        bulk(source, out, Noted(folder / "log-sizes"), workers=2)
        seconds = time.perf_counter() - began
        right = Counter(r["id"] for r in map(json.loads, out.open()) if len(r["passages"][0]["text"]) == size + 6)
        bench.row(f"rows of {name}, unique and whole, of {count}", len(right), "rows", at_least=count)
        bench.row(f"rows of {name} more than once", sum(right.values()) - len(right), "rows", at_most=0)
        bench.row(f"rows of {name}, workers' start included", count * size / 1e6 / seconds, "MB/s")


def _hung(bench: Benchmark, folder: Path) -> None:
    """One row of 200 hangs for an hour, one kills its process each time."""
    rows = [{"id": str(i), "query": f"tower {i}", "passages": ["the tower"]} for i in range(200)]
    rows[50]["query"], rows[150]["query"] = "hang", "die"
    out = folder / "hung.out.jsonl"
    began = time.perf_counter()
    done = bulk(_write(folder / "hung.jsonl", rows), out, Noted(folder / "log-hung"), workers=2, seconds=1)
    bench.row("a row that hangs, one that kills: good rows of 198", done.rows, "rows", at_least=198)
    bench.row("a row that hangs, one that kills: bad rows", done.bad, "rows", at_least=2, at_most=2)
    bench.row("a row that hangs, one that kills: the job took", time.perf_counter() - began, "s")


def _twice(bench: Benchmark, folder: Path) -> None:
    """A second driver on the output of one that works."""
    rows = [{"id": str(i), "query": f"tower {i}", "passages": ["the tower"]} for i in range(600)]
    source, out, script = _write(folder / "two.jsonl", rows), folder / "two.out.jsonl", folder / "driver.py"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), *(p for p in sys.path if p)])}
    command = [sys.executable, str(script), str(source), str(out), str(folder / "log-two")]
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as first:
        while not (folder / "two.out.jsonl.parts").exists():
            time.sleep(0.01)
        second = subprocess.run(command, env=env, capture_output=True, text=True)
        first.wait()
    refused = int(second.returncode != 0 and "written by another process" in second.stderr)
    found = Counter(json.loads(line)["id"] for line in out.open())
    bench.row("two drivers: the second is refused", refused, "of 1", at_least=1)
    bench.row("two drivers: rows, each once", sum(n == 1 for n in found.values()), "rows", at_least=600)


def _same(found: dict[str, Any] | None, row: dict[str, Any], denoiser: Any) -> bool:
    passages = [Passage(t, str(n)) for n, t in enumerate(row["passages"])]
    expected = denoiser.denoise(row["query"], passages).as_json()
    return found is not None and found["passages"] == expected["passages"]


def _written(parts: Path, count: int, process: subprocess.Popen[Any]) -> None:
    """Until so many rows are there; a part's name says which."""
    while sum(int(p.stem[13:]) - int(p.stem[:12]) for p in parts.glob("*.jsonl")) < count:
        if process.poll() is not None:
            raise SystemExit("the job ended before it could be killed")
        time.sleep(0.02)


def _workers(driver: int) -> list[int]:
    """Processes of the driver that denoise: those that hold the most memory."""
    children = [
        int(p) for t in Path(f"/proc/{driver}/task").iterdir() for p in (t / "children").read_text().split()
    ]
    return sorted(children, key=lambda p: -int(Path(f"/proc/{p}/statm").read_text().split()[1]))[:2]


def _overhead(bench: Benchmark, folder: Path, rows: Sequence[dict[str, Any]], repeats: int) -> None:
    """Rows a second of a plain loop over those of one worker once it runs; the median of pairs of runs."""
    ratios = []
    for n in range(repeats):
        denoiser = Logged(folder / f"log-{n}", default_denoiser(keep=1))
        work = [
            (r["query"], [Passage(t, str(i)) for i, t in enumerate(r["passages"])])
            for r in _rows(len(rows), 90 + n)
        ]
        denoiser.denoise(*work[0])
        began = time.perf_counter()
        for query, passages in work[1:]:
            denoiser.denoise(query, passages)
        plain = (len(work) - 1) / (time.perf_counter() - began)
        told: list[tuple[float, int]] = []
        source = _write(folder / f"in-{n}.jsonl", _rows(len(rows), 900 + n))
        out = folder / f"out-{n}.jsonl"
        told.append((time.perf_counter(), 0))  # all of a small form may come at once
        bulk(source, out, denoiser, workers=1, progress=lambda n, _, to=told: to.append((time.perf_counter(), n)))
        (t0, first), (t1, last) = told[1 if len(told) > 2 else 0], told[-1]
        ratios.append(plain / ((last - first) / (t1 - t0)))
    ratios.sort()
    bench.row("plain loop, rows a second", plain, "rows/s")
    bench.row("overhead of one worker over a plain loop", 100 * (ratios[len(ratios) // 2] - 1), "%", at_most=10)


if __name__ == "__main__":
    main()
