"""A batch of requests: each its own result, and what makes them be done one by one is heard of."""

import asyncio
import logging
import threading

import pytest

from denoise_core import DenoiseResult, ENDDenoiser, Passage
from denoise_core.service.batching import Batcher
from denoise_core.service.settings import Service, ServiceLimits
from denoise_core.service.work import ToDenoise, Worker
from denoise_core.testing import FunctionScorer


class TogetherFails(ENDDenoiser):
    def denoise_many(self, asked):
        raise ConnectionError("the batch was too much")


def test_a_batch_that_fails_as_one_is_done_one_by_one_and_said(caplog):
    denoiser = TogetherFails(FunctionScorer(lambda query, text: len(text)), keep=1)
    asked = [ToDenoise("q", (Passage("Long text.", "a"), Passage("Text.", "b"))) for _ in range(3)]
    with caplog.at_level(logging.WARNING, logger="denoise"):
        found = Worker(Service(denoiser))(asked)
    assert all(isinstance(f, DenoiseResult) and [p.id for p in f.passages] == ["a"] for f in found)
    assert "each was denoised by itself" in caplog.text
    assert "the batch was too much" in caplog.text


@pytest.mark.parametrize(("workers", "first"), [(1, [10]), (2, [2, 5])])
async def test_a_worker_takes_its_share_of_what_waits(workers, first):
    together, go, begun = [], threading.Semaphore(0), threading.Semaphore(0)

    def work(batch):
        together.append(len(batch))
        begun.release()
        go.acquire()
        return list(batch)

    batcher = Batcher(work, ServiceLimits(workers=workers), lambda size: None)
    batcher.start()
    asked = [asyncio.create_task(batcher.ask(n, 1)) for n in range(10)]
    for _ in range(workers):
        await asyncio.to_thread(begun.acquire)
    assert sorted(together) == first, "the rest is left to whoever is free sooner"
    go.release(10)
    assert await asyncio.gather(*asked) == list(range(10))
    await batcher.stop()


def test_every_core_computes_unless_told():
    assert 1 <= ServiceLimits().threads <= 4
    assert ServiceLimits(workers=9).threads == 9
