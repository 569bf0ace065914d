"""The short form of `benchmarks/stress.py`: random runs with faults, slopes of whole calls, stalls."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import time

import pytest
from blockbuster import blockbuster_ctx
from growth import slope
from stress_faults import KINDS, PARTS
from stress_runs import Run, Tally, run_async, run_sync

from denoise_core import Passage
from denoise_core.augmenter import Augmenter
from denoise_core.end import ENDDenoiser
from denoise_core.s2a import S2ADenoiser
from denoise_core.scorers import BM25Scorer
from denoise_core.testing import FunctionLLM, ListRetriever

RUNS = 600


def test_random_runs_lose_nothing_and_hide_nothing():
    pytest.importorskip("langchain_core")
    pytest.importorskip("llama_index.core")
    drawn, tally = random.Random(15), Tally()
    assert len(KINDS) > 20
    for _ in range(RUNS // 2):
        run_sync(Run.draw(drawn), tally)

    async def many():
        for _ in range(RUNS // 40):
            await asyncio.gather(*(run_async(Run.draw(drawn), tally) for _ in range(20)))
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(many())
    assert tally.parts.keys() == PARTS.keys()
    assert len(tally.faults) >= 20
    assert not tally.wrong, tally.examples[:5]


def test_no_thread_stays():
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and [t for t in threading.enumerate() if t.name == "denoise"]:
        time.sleep(0.2)
    assert not [t for t in threading.enumerate() if t.name == "denoise"]


EVIDENCE = [Passage("The tower is 330 m tall and stands in Paris since 1889. " * 180, str(n)) for n in range(20)]


@pytest.mark.parametrize("part", ["END", "S2A", "Augmenter"])
async def test_the_event_loop_goes_on_with_200_kilobytes_of_evidence(part):
    """The watchdog of 50 ms is the benchmark's; here one quiet try of ten will do, as the machine may be busy."""
    end = ENDDenoiser(BM25Scorer(), keep=0.5)
    s2a = S2ADenoiser(FunctionLLM(lambda m: "1"), variant="select")
    loop = Augmenter(FunctionLLM(lambda m: "The tower is 330 m tall [1]."), ListRetriever(EVIDENCE))
    call = {
        "END": lambda: end.adenoise("How tall?", EVIDENCE),
        "S2A": lambda: s2a.adenoise("How tall?", EVIDENCE),
        "Augmenter": lambda: loop.aanswer("How tall is the tower?"),
    }[part]
    stalls = []
    while not stalls or (min(stalls) >= 0.25 and len(stalls) < 10):
        gaps, over = [0.0], asyncio.Event()

        async def tick(gaps=gaps, over=over):
            last = time.perf_counter()
            while not over.is_set():
                await asyncio.sleep(0)
                now = time.perf_counter()
                gaps.append(now - last)
                last = now

        gc.collect()
        ticking = asyncio.create_task(tick())
        await asyncio.sleep(0)
        with blockbuster_ctx("denoise_core"):
            await call()
        over.set()
        await ticking
        stalls.append(max(gaps))
    assert min(stalls) < 0.25, stalls


def whole_calls():
    import importlib.util
    import sys
    from pathlib import Path

    folder = Path(__file__).parents[3] / "benchmarks"
    if not folder.is_dir():
        return {}
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location("_stress_calls", folder / "_stress_calls.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module.calls()


CALLS = whole_calls()


@pytest.mark.parametrize("name", CALLS)
def test_a_whole_call_takes_time_in_proportion_to_its_text(name):
    assert slope(CALLS[name], (20_000, 40_000, 80_000, 160_000)) < 1.5
