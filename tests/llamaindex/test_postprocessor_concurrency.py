"""The postprocessor asks as many at once as it may and no more, serves many runs at once, and can be cancelled."""

import asyncio
import threading

import pytest
from llamaindex_denoisers import (
    QUESTION,
    AsksPerPassage,
    Untouched,
    nodes_of,
    sync_and_async,
)

from denoise_core.testing import FunctionLLM
from llamaindex_denoise import DenoisePostprocessor


class OnThreads(FunctionLLM):
    async def acomplete(self, messages):
        return await asyncio.to_thread(self.complete, messages)


@sync_and_async
@pytest.mark.parametrize("bound", [2, 4])
async def test_calls_are_concurrent_up_to_our_bound(bound, sync, no_blocking):
    """Each call waits until ``bound`` calls are under way: fewer would never end, more are counted."""
    under_way, counts = [], set()
    full = threading.Barrier(bound)

    def reply(messages):
        under_way.append(1)
        counts.add(len(under_way))
        full.wait(timeout=20)
        under_way.pop()
        return "yes"

    postprocessor = DenoisePostprocessor(
        denoiser=AsksPerPassage(OnThreads(reply)),
        max_concurrency=bound,
        on_error="raise",
    )
    nodes = nodes_of(["red"] * 20)
    if sync:
        await asyncio.to_thread(
            postprocessor.postprocess_nodes, nodes, query_str=QUESTION
        )
    else:
        await postprocessor.apostprocess_nodes(nodes, query_str=QUESTION)
    assert max(counts) == bound


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
