"""The short form of `benchmarks/stress.py`: random runs with faults, slopes of whole calls, stalls."""

from __future__ import annotations

import asyncio
import random
import threading
import time

import pytest
from blockbuster import blockbuster_ctx
from growth import counting, slope
from stress_runs import KINDS, PARTS, Run, Tally, run_async, run_sync

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
            await asyncio.gather(
                *(run_async(Run.draw(drawn), tally) for _ in range(20))
            )
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(many())
    assert tally.parts.keys() == PARTS.keys()
    assert len(tally.faults) >= 20
    assert not tally.wrong, tally.examples[:5]


def test_no_thread_stays():
    deadline = (
        time.monotonic() + 120
    )  # they end by themselves after a while; this is for one that hangs
    while time.monotonic() < deadline and [
        t for t in threading.enumerate() if t.name == "denoise"
    ]:
        time.sleep(0.2)
    assert not [t for t in threading.enumerate() if t.name == "denoise"]


def evidence(count, height):
    text = f"The tower is {height} m tall and stands in Paris since 1889. " * 180
    return [Passage(text, str(n)) for n in range(count)]


PARTS_WITH_MUCH_TO_DO = {
    "END": lambda given: ENDDenoiser(BM25Scorer(), keep=0.5).adenoise(
        "How tall?", given
    ),
    "S2A": lambda given: S2ADenoiser(
        FunctionLLM(lambda m: "1"), variant="select"
    ).adenoise("How tall?", given),
    "Augmenter": lambda given: Augmenter(
        FunctionLLM(lambda m: "The tower is 330 m tall [1]."), ListRetriever(given)
    ).aanswer("How tall is the tower?"),
}


MOST_IN_A_TURN = {"END": 50_000, "S2A": 50_000, "Augmenter": 400_000}


@pytest.mark.parametrize("part", PARTS_WITH_MUCH_TO_DO)
async def test_the_event_loop_goes_on_with_200_kilobytes_of_evidence(part):
    """No turn of the loop does much on its thread, where END does 350,000 operations in all, and S2A 700,000."""
    turns, over = [0], asyncio.Event()

    async def tick(counter):
        last = counter.count
        while not over.is_set():
            await asyncio.sleep(0)
            turns.append(counter.count - last)
            last = counter.count

    await PARTS_WITH_MUCH_TO_DO[part](
        evidence(1, 300)
    )  # what is made at the first call and kept is made
    with counting() as counter:
        ticking = asyncio.create_task(tick(counter))
        await asyncio.sleep(0)
        with blockbuster_ctx("denoise_core"):
            await PARTS_WITH_MUCH_TO_DO[part](evidence(20, 330))
        over.set()
        await ticking
    assert len(turns) > 5
    assert max(turns) < MOST_IN_A_TURN[part], sorted(turns)[-5:]


def whole_calls():
    import importlib.util
    import sys
    from pathlib import Path

    folder = Path(__file__).parents[3] / "benchmarks"
    if not folder.is_dir():
        return {}
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location(
            "_stress_calls", folder / "_stress_calls.py"
        )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module.calls()


CALLS = whole_calls()


@pytest.mark.parametrize("name", CALLS)
def test_a_whole_call_takes_work_in_proportion_to_its_text(name):
    assert slope(CALLS[name], (10_000, 20_000, 40_000)) < 1.3
