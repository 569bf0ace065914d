"""Which requests are worked on: admission by the wait to expect, and what a call that hangs or fails leaves."""

import asyncio
import gc
import sys
import threading
import weakref

import pytest

from denoise_core.service import ServiceLimits
from denoise_core.service.request_queue import (
    MAX_HUNG_THREADS,
    RequestQueue,
    ServiceBusy,
    tune_for_serving,
)


def stop():
    raise StopIteration


async def test_a_call_is_answered_and_what_it_raises_is_raised():
    desk = RequestQueue(ServiceLimits(workers=2))
    assert await desk.ask(lambda: 3, 10) == 3
    for _ in range(5):
        with pytest.raises(RuntimeError, match="StopIteration"):
            await desk.ask(stop, 10)
    assert await desk.ask(lambda: 4, 10) == 4
    assert (desk.waiting, desk.working, desk.ready) == (0, 0, True)
    desk.close()


async def test_a_request_that_would_wait_too_long_is_refused_at_once():
    go = threading.Event()
    desk = RequestQueue(ServiceLimits(workers=1, timeout=10))
    desk._seconds_per_cost = 0.001  # a second for a thousand characters
    first = asyncio.create_task(
        desk.ask(go.wait, 2000)
    )  # four seconds with the fixed cost
    await asyncio.sleep(0)
    with pytest.raises(ServiceBusy) as busy:
        await desk.ask(lambda: None, 4000)  # six more
    assert busy.value.headers == {"Retry-After": "2"}, (
        "then it would be done within eight tenths of the limit"
    )
    second = asyncio.create_task(desk.ask(lambda: "done", 1000))
    await asyncio.sleep(0)
    assert desk.waiting == 1
    go.set()
    assert await second == "done"
    assert await first
    desk.close()


async def test_alone_everything_is_tried_and_what_was_learned_is_taken_back():
    desk = RequestQueue(ServiceLimits(workers=1, timeout=3000))
    desk._seconds_per_cost = 1.45  # 2,900 s for any
    assert await desk.ask(lambda: "tried", 1) == "tried"
    for _ in range(40):
        await desk.ask(lambda: None, 1)
    assert desk._seconds_per_cost < 0.001
    desk.close()


async def test_what_has_expired_is_not_begun():
    go, begun = threading.Event(), []
    desk = RequestQueue(ServiceLimits(workers=1, timeout=0.1))
    desk._seconds_per_cost = 0.02 / 2001  # each takes 20 ms
    first = asyncio.create_task(desk.ask(go.wait, 1))
    await asyncio.sleep(0)
    late = [asyncio.create_task(desk.ask(lambda: begun.append(1), 1)) for _ in range(2)]
    found = await asyncio.gather(first, *late, return_exceptions=True)
    assert all(isinstance(f, TimeoutError) for f in found), "admitted, so no refusal"
    assert not begun
    go.set()
    assert desk.waiting == 0
    desk.close()


async def test_calls_that_hang_are_not_ready_and_bounded_and_their_slot_is_free():
    go = threading.Event()
    desk = RequestQueue(ServiceLimits(workers=1, timeout=0.05, stall_timeout=0.01))
    for _ in range(MAX_HUNG_THREADS):
        with pytest.raises(TimeoutError):
            await desk.ask(go.wait, 1)
    assert not desk.ready
    desk._seconds_per_cost = 1e-9
    assert await desk.ask(lambda: "answered", 1) == "answered", (
        "those that hang hold no worker"
    )
    with pytest.raises(TimeoutError):
        await desk.ask(go.wait, 1)
    with pytest.raises(ServiceBusy):
        await desk.ask(lambda: None, 1)
    go.set()
    while desk.working:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    assert desk.ready
    desk._seconds_per_cost = 1e-9
    assert await desk.ask(lambda: "again", 1) == "again"
    desk.close()


def test_every_core_computes_unless_told():
    assert 1 <= ServiceLimits().threads <= 4
    assert ServiceLimits(workers=9).threads == 9


class Ring:
    """What only a collection frees."""

    def __init__(self):
        self.own = self


@pytest.fixture
def settled():
    before, interval = gc.get_threshold(), sys.getswitchinterval()
    tune_for_serving()
    yield
    gc.set_threshold(*before)
    sys.setswitchinterval(interval)
    gc.unfreeze()


async def test_objects_of_a_request_are_looked_through_when_nothing_is_under_way(
    settled,
):
    """A full collection takes a quarter of a second for the pieces of a megabyte, and `/livez` waits for it."""
    full, left = [], []

    def noted(phase, about):
        if phase == "start" and about["generation"] == 2:
            full.append(desk.working)

    def work():
        left.append(weakref.ref(Ring()))
        return len([(str(n), [n]) for n in range(500_000)])

    desk = RequestQueue(ServiceLimits(workers=1))
    gc.callbacks.append(noted)
    try:
        assert await desk.ask(work, 10) == 500_000
        while left[0]() is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    finally:
        gc.callbacks.remove(noted)
    assert full
    assert not any(full), "one began while the request was worked on"
    desk.close()
