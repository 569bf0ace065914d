"""The short form of `benchmarks/stress.py`: random runs with faults; and growth of whole calls, stalls."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest
from blockbuster import blockbuster_ctx
from growth import counting, slope
from stress_runs import KINDS, PARTS, Run, Tally, run_async, run_sync

from denoise_core import Passage, Pipeline
from denoise_core.augmenter import Augmenter
from denoise_core.augmenter.knowledge.link import find_links
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.utility import Groundedness
from denoise_core.end import ENDDenoiser
from denoise_core.report.context import ReportItem, render_page
from denoise_core.runtime import thread_pool
from denoise_core.runtime.flow import run
from denoise_core.s2a import S2ADenoiser
from denoise_core.scorers import BM25Scorer
from denoise_core.testing import FunctionLLM, ListRetriever
from denoise_core.text.chunk import sentence_chunker

RUNS = 400


def test_random_runs_lose_nothing_and_hide_nothing_and_leave_no_thread(monkeypatch):
    pytest.importorskip("langchain_core")
    pytest.importorskip("llama_index.core")
    monkeypatch.setattr(thread_pool, "IDLE_SECONDS", 0.1)
    drawn, tally = random.Random(15), Tally()
    assert len(KINDS) > 20
    for _ in range(RUNS // 2):
        run_sync(Run.draw(drawn), tally)

    async def many():
        for _ in range(RUNS // 40):
            runs = [run_async(Run.draw(drawn), tally) for _ in range(20)]
            await asyncio.gather(*runs)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(many())
    assert tally.parts.keys() == PARTS.keys()
    assert len(tally.faults) >= 20
    assert not tally.wrong, tally.examples[:5]
    for thread in threading.enumerate():
        if thread.name == "denoise":
            thread.join(120)
            assert not thread.is_alive()


def evidence(count, height):
    text = f"The tower is {height} m tall and stands in Paris since 1889. " * 180
    return [Passage(text, str(n)) for n in range(count)]


QUESTION = "How tall is the tower?"
ANSWERING = FunctionLLM(lambda messages: "The tower is 330 m tall [1].")
# Whole calls by part, and the most operations in one turn of the loop.
PARTS_WITH_MUCH_TO_DO = {
    "END": (
        lambda given: ENDDenoiser(BM25Scorer(), keep=0.5).adenoise(QUESTION, given),
        50_000,
    ),
    "S2A": (
        lambda given: S2ADenoiser(FunctionLLM(lambda m: "1")).adenoise(QUESTION, given),
        50_000,
    ),
    "Augmenter": (
        lambda given: Augmenter(ANSWERING, ListRetriever(given)).aanswer(QUESTION),
        400_000,
    ),
}


@pytest.mark.parametrize("part", PARTS_WITH_MUCH_TO_DO)
async def test_the_event_loop_goes_on_with_200_kilobytes_of_evidence(part):
    """No turn of the loop does much on its thread, where END does 350,000 operations in all, and S2A 700,000."""
    turns, over = [], asyncio.Event()
    call, most_in_a_turn = PARTS_WITH_MUCH_TO_DO[part]

    async def tick(counter):
        last = counter.count
        while not over.is_set():
            await asyncio.sleep(0)
            turns.append(counter.count - last)
            last = counter.count

    # What is made at the first call and kept is made.
    await call(evidence(1, 300))
    with counting() as counter:
        ticking = asyncio.create_task(tick(counter))
        await asyncio.sleep(0)
        with blockbuster_ctx("denoise_core"):
            await call(evidence(20, 330))
        over.set()
        await ticking
    assert len(turns) > 5
    assert max(turns) < most_in_a_turn, sorted(turns)[-5:]


def denoise_nested(passages):
    steps = []
    for characters in (100, 90, 80):
        chunker = sentence_chunker(characters)
        steps.append(ENDDenoiser(BM25Scorer(), keep=0.9, chunker=chunker))
    return Pipeline(Pipeline(*steps[:2]), steps[2]).denoise("tower1 Bridge2", passages)


def draw_page(passages):
    item = ReportItem(passages, BM25_END.denoise("tower1", passages))
    return render_page([item], title="page")


def judge_answer(passages):
    memory = WorkingMemory("Where?", (Passage("".join(p.text for p in passages), "a"),))
    return run(Groundedness().assess(memory, "Tower1 is in Lisbon2 [1]."))


NAMES = ("tower", "Bridge", "harbour", "Lisbon", "iron")
BM25_END = ENDDenoiser(BM25Scorer(), keep=0.3)
CALLS = {
    "nested pipelines": denoise_nested,
    "linking": find_links,
    "page": draw_page,
    "judge": judge_answer,
}


@pytest.mark.parametrize("name", CALLS)
def test_a_whole_call_takes_work_in_proportion_to_its_text(name):
    drawn = random.Random(1)  # no two texts alike: what is cached of one is no work

    def make_call(size):
        passages = []
        for number in range(size // 100):
            words = [
                f"{word}{drawn.randrange(400)}" for word in drawn.choices(NAMES, k=9)
            ]
            text = f"{' '.join(words).capitalize()} in {drawn.randint(1000, 2000)}. "
            passages.append(Passage(text, str(number)))
        return lambda: CALLS[name](passages)

    assert slope(make_call, (4_000, 8_000, 16_000)) < 1.3
