"""The postprocessor asks as many at once as it may and no more, serves many runs at once, and can be cancelled."""

import asyncio
import threading

import pytest
from llamaindex_denoisers import QUESTION, AsksPerPassage, Untouched, nodes_of

from llamaindex_denoise import DenoisePostprocessor


class Counting:
    """An LLM that releases nobody until ``expected`` calls are inside, and knows the most that ever were."""

    def __init__(self, expected):
        self.expected, self.inside, self.most = expected, 0, 0
        self.lock = threading.Condition()
        self.arrived = None

    def complete(self, messages):
        from denoise_core import Reply

        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.lock.notify_all()
            assert self.lock.wait_for(lambda: self.most >= self.expected, timeout=20), (
                f"only {self.most} at once"
            )
            self.inside -= 1
        return Reply("yes")

    async def acomplete(self, messages):
        from denoise_core import Reply

        self.arrived = self.arrived or asyncio.Event()
        self.inside += 1
        self.most = max(self.most, self.inside)
        if self.most >= self.expected:
            self.arrived.set()
        await asyncio.wait_for(self.arrived.wait(), 20)
        await asyncio.sleep(0)
        self.inside -= 1
        return Reply("yes")


@pytest.mark.parametrize("bound", [3, 10])
def test_calls_are_concurrent_up_to_our_bound_sync(bound):
    llm = Counting(bound)
    DenoisePostprocessor(
        denoiser=AsksPerPassage(llm), max_concurrency=bound, on_error="raise"
    ).postprocess_nodes(nodes_of(["red"] * 20), query_str=QUESTION)
    assert llm.most == bound


@pytest.mark.parametrize("bound", [3, 10])
async def test_calls_are_concurrent_up_to_our_bound_async(bound, no_blocking):
    llm = Counting(bound)
    await DenoisePostprocessor(
        denoiser=AsksPerPassage(llm), max_concurrency=bound, on_error="raise"
    ).apostprocess_nodes(nodes_of(["red"] * 20), query_str=QUESTION)
    assert llm.most == bound


async def test_one_instance_serves_many_at_once(no_blocking, denoiser):
    postprocessor = DenoisePostprocessor(denoiser=denoiser)
    batches = [nodes_of([f"red {i}.", "Not here."]) for i in range(20)]
    outs = await asyncio.gather(
        *(postprocessor.apostprocess_nodes(b, query_str=QUESTION) for b in batches)
    )
    for i, out in enumerate(outs):
        assert f"red {i}." in out[0].node.text.lower()


async def test_cancellation_goes_through():
    started = asyncio.Event()

    class Hangs(Untouched):
        async def adenoise(self, query, passages):
            started.set()
            await asyncio.Event().wait()

    postprocessor = DenoisePostprocessor(denoiser=Hangs())
    task = asyncio.create_task(
        postprocessor.apostprocess_nodes(nodes_of(), query_str=QUESTION)
    )
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
