"""Which requests are worked on: admission by the wait to expect, and what a call that hangs or fails leaves."""

import asyncio
import gc
import sys
import threading
import time
import weakref
from functools import partial

import pytest

from denoise_core.runtime.thread_pool import stop_if_abandoned
from denoise_core.service import ServiceLimits
from denoise_core.service.request_queue import (
    FIXED_COST,
    LONG_TOKENS,
    MAX_HUNG_THREADS,
    RequestQueue,
    ServiceBusy,
    TooManyTokens,
    Turn,
    estimate_reading_cost,
    tune_for_serving,
)


def stop():
    raise StopIteration


async def test_a_call_is_answered_and_what_it_raises_is_raised():
    queue = RequestQueue(ServiceLimits(workers=2))
    assert await queue.ask(lambda: 3, 10) == 3
    for _ in range(5):
        with pytest.raises(RuntimeError, match="StopIteration"):
            await queue.ask(stop, 10)
    assert await queue.ask(lambda: 4, 10) == 4
    assert (queue.waiting, queue.working, queue.ready) == (0, 0, True)
    queue.close()


def set_rate(rate, seconds):
    """Make this the measured seconds of a unit of cost."""
    rate.measured = seconds
    rate.measured_at = time.monotonic()


def busy_until(event):
    """Compute until the event is set: what only waits soon gives up its slot."""
    while not event.is_set():
        sum(range(1000))
    return "done"


async def test_a_request_that_would_wait_too_long_is_refused_at_once():
    go = threading.Event()
    queue = RequestQueue(ServiceLimits(workers=1, timeout=10))
    set_rate(queue.rate, 0.001)  # a second for a thousand tokens
    first = asyncio.create_task(queue.ask(partial(busy_until, go), 3500))
    await asyncio.sleep(0)
    second = asyncio.create_task(queue.ask(lambda: "second", 1000))
    await asyncio.sleep(0)
    with pytest.raises(ServiceBusy) as busy:
        await queue.ask(lambda: None, 4000)
    assert busy.value.headers == {"Retry-After": "2"}, (
        "then it would be done within eight tenths of the limit"
    )
    assert queue.waiting == 1
    go.set()
    assert await second == "second"
    assert await first == "done"
    queue.close()


async def test_a_request_that_was_admitted_is_not_pushed_out_by_later_ones():
    queue = RequestQueue(ServiceLimits(workers=1, timeout=10))
    set_rate(queue.rate, 0.001)
    first, second = queue.reserve(2000), queue.reserve(1000)
    with pytest.raises(ServiceBusy):
        queue.reserve(6000)
    assert queue.waiting == 1
    assert await queue.ask(lambda: "less", 1900, reserved=first) == "less"
    set_rate(queue.rate, 0.001)
    queue._next_probe = time.monotonic() + 60
    third = queue.reserve(4000)
    with pytest.raises(ServiceBusy):
        await queue.ask(lambda: None, 7000, reserved=second)  # far more than estimated
    assert queue.waiting == 0
    queue.release(third)
    queue.release(third)  # a second time does nothing
    assert await queue.ask(lambda: "all of it", 7000) == "all of it"
    queue.close()


async def test_a_trial_stays_one_whatever_it_costs():
    queue = RequestQueue(ServiceLimits(workers=2, timeout=30))
    set_rate(queue.rate, 1.0)
    trial = queue.reserve(1)
    with pytest.raises(ServiceBusy):
        queue.reserve(1)
    assert await queue.ask(lambda: "tried", 1000, reserved=trial) == "tried"
    queue.close()


async def test_alone_everything_is_tried_and_what_was_learned_is_taken_back():
    queue = RequestQueue(ServiceLimits(workers=1, timeout=3000))
    set_rate(queue.rate, 1e6)
    assert await queue.ask(lambda: "tried", 1) == "tried"
    for _ in range(100):
        await queue.ask(lambda: None, 1)
    assert queue.rate.current < 0.001
    queue.close()


async def test_an_estimate_against_everything_passes_by_itself():
    """One call was slow; no other may finish, so only time can correct what it taught."""
    queue = RequestQueue(ServiceLimits(workers=1, timeout=0.4))
    set_rate(queue.rate, 1.0)
    before = queue.rate.current
    await asyncio.sleep(0.4)
    assert queue.rate.current < before / 8
    queue.close()


async def test_what_could_not_be_read_in_time_even_alone_is_refused_with_the_figure():
    queue = RequestQueue(ServiceLimits(workers=1, timeout=30))
    assert await queue.ask(lambda: "unmeasured", 10**9) == "unmeasured"
    set_rate(queue.reading_rates[""], 0.001)  # 30,000 tokens in 30 s
    assert await queue.ask(lambda: "short", LONG_TOKENS - 1) == "short"
    with pytest.raises(TooManyTokens) as refusal:
        await queue.ask(lambda: None, 100_000)
    assert refusal.value.status_code == 413
    assert refusal.value.detail.startswith(
        "about 100,000 tokens to read; in 30 s about 30,0"
    )
    assert await queue.ask(lambda: "other kind", 100_000, "check") == "other kind"
    queue.reading_rates[""].measured_at -= 240  # two half-lives: a trial is worth it
    assert await queue.ask(lambda: "tried", 100_000) == "tried"
    queue.close()


async def test_a_long_request_that_ran_out_of_time_keeps_its_like_out():
    """It computed all the while; with less of a core, the machine was busy, and it may be asked again."""
    tokens = 10**6
    for cpu_seconds, is_refused in ((0.5, True), (0.2, False)):
        queue = RequestQueue(ServiceLimits(workers=2, timeout=0.5))
        turn = Turn(tokens + FIXED_COST, 0.0)
        queue._record_rate(turn, cpu_seconds, has_ended=False)
        set_rate(queue.rate, 1e-9)
        asking = queue.ask(lambda: "read", tokens)
        if is_refused:
            with pytest.raises(TooManyTokens):
                await asking
        else:
            assert await asking == "read"
        queue.close()


def compute_now_and_then():
    """Take .3 s, and a fifth of a core: what a busy machine leaves to a thread."""
    for _ in range(30):
        end_time = time.thread_time() + 0.002
        while time.thread_time() < end_time:
            sum(range(100))
        time.sleep(0.01)


async def test_a_busy_machine_is_no_reason_to_refuse_a_text_for_good():
    """Alone, the second request would be read in time: so 503 and when to ask again, not 413."""
    queue = RequestQueue(ServiceLimits(workers=1, timeout=30))
    tokens = 10 * LONG_TOKENS
    await queue.ask(compute_now_and_then, tokens)
    queue.limits = ServiceLimits(workers=1, timeout=0.4)
    assert 2 * tokens * queue.rate.measured > queue.limits.timeout
    go = threading.Event()
    first = asyncio.create_task(queue.ask(partial(busy_until, go), 1))
    await asyncio.sleep(0)
    queue._next_probe = time.monotonic() + 60
    with pytest.raises(ServiceBusy) as refusal:
        await queue.ask(lambda: None, 2 * tokens)
    assert int(refusal.value.headers["Retry-After"]) >= 1
    go.set()
    await asyncio.gather(first, return_exceptions=True)
    queue.close()


async def test_where_nothing_waits_one_request_is_tried_against_the_estimate():
    go = threading.Event()
    queue = RequestQueue(ServiceLimits(workers=2, timeout=30))
    set_rate(queue.rate, 1.0)
    first = asyncio.create_task(queue.ask(partial(busy_until, go), 1))
    await asyncio.sleep(0)
    queue._next_probe = 0.0
    assert await queue.ask(lambda: "tried", 1) == "tried"
    with pytest.raises(ServiceBusy):
        await queue.ask(lambda: "another", 1)
    go.set()
    await first
    queue.close()


async def test_what_has_expired_is_not_begun():
    go, begun = threading.Event(), []
    queue = RequestQueue(ServiceLimits(workers=1, timeout=0.5))
    set_rate(queue.rate, 0.15 / 501)  # each takes .15 s
    first = asyncio.create_task(queue.ask(partial(busy_until, go), 1))
    await asyncio.sleep(0)
    late = asyncio.create_task(queue.ask(lambda: begun.append(1), 1))
    outcomes = await asyncio.gather(first, late, return_exceptions=True)
    assert all(isinstance(outcome, TimeoutError) for outcome in outcomes)
    assert not begun
    go.set()
    assert queue.waiting == 0
    queue.close()


@pytest.mark.skipif(
    not hasattr(time, "pthread_getcpuclockid"), reason="no clock of another thread"
)
async def test_a_call_that_waits_gives_its_slot_away_and_one_that_computes_does_not():
    go = threading.Event()
    queue = RequestQueue(ServiceLimits(workers=1, timeout=8))
    waiting = asyncio.create_task(queue.ask(go.wait, 1))
    await asyncio.sleep(0)
    assert await queue.ask(lambda: "next", 1) == "next", "before the first one ended"
    computing = asyncio.create_task(queue.ask(partial(busy_until, go), 1))
    await asyncio.sleep(0)
    following = asyncio.create_task(queue.ask(lambda: "last", 1))
    await asyncio.sleep(2)  # four times what a waiting call keeps its slot
    assert not following.done()
    go.set()
    assert await waiting
    assert [await computing, await following] == ["done", "last"]
    queue.close()


@pytest.mark.skipif(
    not hasattr(time, "pthread_getcpuclockid"), reason="no clock of another thread"
)
async def test_a_call_whose_thread_started_late_gives_its_slot_away_too():
    """Nobody watched it any more, and it held its slot up to the limit."""
    go = threading.Event()
    queue = RequestQueue(ServiceLimits(workers=1, timeout=16))
    queue._pool.limit = 0  # no thread starts for now
    late = asyncio.create_task(queue.ask(go.wait, 1))
    await asyncio.sleep(1.5)
    queue._pool.limit = 9
    queue._pool.submit(lambda: None)
    async with asyncio.timeout(10):
        assert await queue.ask(lambda: "next", 1) == "next"
    go.set()
    assert await late
    queue.close()


async def test_work_that_nobody_waits_for_stops_at_the_next_batch():
    steps, ended = [], threading.Event()

    def work():
        try:
            while True:
                stop_if_abandoned()
                steps.append(time.sleep(0.01))
        finally:
            ended.set()

    queue = RequestQueue(ServiceLimits(workers=1, timeout=0.2))
    with pytest.raises(TimeoutError):
        await queue.ask(work, 1)
    assert await asyncio.to_thread(ended.wait, 10)
    assert steps
    while queue.working:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    queue.close()


async def hang_until(queue, threads, go):
    """Let calls hang; on a busy machine one may be given up before its thread starts."""
    while queue.working < threads:
        set_rate(queue.rate, 1e-9)
        with pytest.raises(TimeoutError):
            await queue.ask(go.wait, 1)


async def test_calls_that_hang_are_not_ready_and_bounded_and_their_slot_is_free():
    go = threading.Event()
    queue = RequestQueue(ServiceLimits(workers=1, timeout=0.05, stall_timeout=0.01))
    await hang_until(queue, MAX_HUNG_THREADS, go)
    assert not queue.ready
    set_rate(queue.rate, 1e-9)
    assert await queue.ask(lambda: "answered", 1) == "answered", (
        "those that hang hold no worker"
    )
    await hang_until(queue, MAX_HUNG_THREADS + 1, go)
    with pytest.raises(ServiceBusy):
        await queue.ask(lambda: None, 1)
    go.set()
    while queue.working:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    assert queue.ready
    set_rate(queue.rate, 1e-9)
    assert await queue.ask(lambda: "again", 1) == "again"
    queue.close()


def test_dense_text_costs_what_it_takes_to_read():
    prose = "The tower of the harbour was finished in the year of the flood. " * 100
    for dense in (
        "a b c d " * 800,
        "#!{}[]<>" * 800,
        "9081726354" * 640,
        "東京" * 1067,
    ):
        assert estimate_reading_cost([dense]) > 1.5 * estimate_reading_cost([prose])
    assert estimate_reading_cost([prose, prose]) == 2 * estimate_reading_cost([prose])
    assert estimate_reading_cost(["", "\ud800"]) < 10


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
            full.append(queue.working)

    def work():
        left.append(weakref.ref(Ring()))
        return len([(str(n), [n]) for n in range(500_000)])

    queue = RequestQueue(ServiceLimits(workers=1))
    gc.callbacks.append(noted)
    try:
        assert await queue.ask(work, 10) == 500_000
        while left[0]() is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    finally:
        gc.callbacks.remove(noted)
    assert full
    assert not any(full), "one began while the request was worked on"
    queue.close()
