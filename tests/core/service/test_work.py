"""Which requests are worked on: admission by the wait to expect, and what a call that hangs or fails leaves."""

import asyncio
import gc
import sys
import threading
import time
import weakref
from contextlib import nullcontext
from functools import partial

import pytest

from denoise_core.cancellation import stop_if_abandoned
from denoise_core.service import ServiceLimits, request_queue
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


def make_queue(rate=None, **limits):
    """A queue; ``rate`` is the measured seconds of a unit of cost."""
    queue = RequestQueue(ServiceLimits(**{"workers": 1, "timeout": 10} | limits))
    if rate is not None:
        set_rate(queue.rate, rate)
    return queue


@pytest.fixture
def go():
    event = threading.Event()
    yield event
    event.set()


def set_rate(rate, seconds):
    rate.measured = seconds
    rate.measured_at = time.monotonic()


def busy_until(event):
    """Compute until the event is set: what only waits soon gives up its slot."""
    while not event.is_set():
        sum(range(1000))
    return "done"


async def ask(queue, call, tokens, kind=""):
    """What a call returns whose cost is known."""
    turn = queue.reserve(1)
    try:
        queue.confirm(turn, tokens, kind)
        return await queue.ask(call, turn)
    finally:
        queue.release(turn)


async def begin(queue, call, tokens=1):
    """The task of a call that has its slot, or waits for one."""
    task = asyncio.create_task(ask(queue, call, tokens))
    await asyncio.sleep(0)
    return task


async def until_idle(queue):
    while queue.working:  # noqa: ASYNC110
        await asyncio.sleep(0.001)


async def test_a_call_is_answered_and_what_it_raises_is_raised():
    queue = make_queue(workers=2)
    assert await ask(queue, lambda: 3, 10) == 3
    for _ in range(5):
        with pytest.raises(RuntimeError, match="StopIteration"):
            await ask(queue, lambda: next(iter(())), 10)
    assert await ask(queue, lambda: 4, 10) == 4
    assert queue.ready
    assert (queue.waiting, queue.working) == (0, 0)


async def test_a_request_that_would_wait_too_long_is_refused_at_once(go):
    queue = make_queue(rate=0.001)  # a second for a thousand tokens
    first = await begin(queue, partial(busy_until, go), 3500)
    second = await begin(queue, lambda: "second", 1000)
    with pytest.raises(ServiceBusy) as busy:
        await ask(queue, lambda: None, 4000)
    assert busy.value.headers == {"Retry-After": "3"}, (
        "then it would be done within seven tenths of the limit"
    )
    assert queue.waiting == 1
    go.set()
    assert await second == "second"
    assert await first == "done"


def fill(queue, tokens):
    """The turns of requests that come until no more are taken."""
    queue._next_probe = time.monotonic() + 60
    others = []
    while True:
        try:
            others.append(queue.reserve(tokens))
        except ServiceBusy:
            return others


async def test_a_request_that_was_admitted_is_not_pushed_out_by_later_ones():
    """Its text cost more than its length said, so it was refused, and later ones were not."""
    queue = make_queue(rate=0.001)  # 8,000 units of cost fit into the limit
    first = queue.reserve(1000)
    others = fill(queue, 1000)
    queue.confirm(first, 3000, "")
    assert len(others) > 1
    assert first.cost > 3000
    assert queue.waiting == len(others)
    with pytest.raises(ServiceBusy):
        queue.reserve(1)  # its cost counts for those that come now
    queue.confirm(others[0], 3000, "")
    with pytest.raises(ServiceBusy):  # by itself, and by those before it
        queue.confirm(others[1], 7000, "")
    for turn in (first, *others, first):  # a second time does nothing
        queue.release(turn)
    assert queue.waiting == 0
    assert await ask(queue, lambda: "all of it", 7000) == "all of it"


async def test_a_trial_stays_one_whatever_it_costs():
    queue = make_queue(rate=1.0, workers=2)
    trial = queue.reserve(1)
    with pytest.raises(ServiceBusy):
        queue.reserve(1)
    queue.confirm(trial, 1000, "")
    assert await queue.ask(lambda: "tried", trial) == "tried"


async def test_alone_everything_is_tried_and_what_was_learned_is_taken_back():
    queue = make_queue(rate=1e6, timeout=3000)
    assert await ask(queue, lambda: "tried", 1) == "tried"
    for _ in range(100):
        await ask(queue, lambda: None, 1)
    assert queue.rate.current < 0.001


async def test_an_estimate_against_everything_passes_by_itself():
    """One call was slow; no other may finish, so only time can correct what it taught."""
    queue = make_queue(rate=1.0)
    before = queue.rate.current
    queue.rate.measured_at -= 10
    assert queue.rate.current < before / 8


def test_a_busy_service_does_not_think_itself_faster_than_it_is():
    """Its rate halved between any two requests; it admitted half as much again as it could answer."""
    rate = request_queue._Rate(half_life=500)
    for _ in range(50):
        rate.record(0.001)
        rate.measured_at -= 100
        assert rate.current == pytest.approx(0.001)
    rate.measured_at -= 1400
    halved = pytest.approx(0.00025, rel=0.1)
    assert rate.current == halved, "while nothing is measured it halves"


async def test_what_could_not_be_read_in_time_even_alone_is_refused_with_the_figure():
    queue = make_queue(timeout=30)
    assert await ask(queue, lambda: "unmeasured", 10**9) == "unmeasured"
    set_rate(queue.reading_rates[""], 0.001)  # 30,000 tokens in 30 s
    assert await ask(queue, lambda: "short", LONG_TOKENS - 1) == "short"
    says = r"about 100,000 tokens to read; in 30 s about 30,0"
    with pytest.raises(TooManyTokens, match=says) as refusal:
        await ask(queue, lambda: None, 100_000)
    assert refusal.value.status_code == 413
    assert await ask(queue, lambda: "other kind", 100_000, "check") == "other kind"
    queue.reading_rates[""].measured_at -= 360  # three half-lives: a trial is worth it
    assert await ask(queue, lambda: "tried", 100_000) == "tried"


@pytest.mark.parametrize(("cpu_seconds", "is_refused"), [(0.5, True), (0.2, False)])
async def test_a_long_request_that_ran_out_of_time_keeps_its_like_out(
    cpu_seconds, is_refused
):
    """It computed all the while; with less of a core, the machine was busy, and it may be asked again."""
    tokens = 10**6
    queue = make_queue(timeout=0.5)
    turn = Turn()
    turn.cost = tokens + FIXED_COST
    queue._record_rate(turn, cpu_seconds, has_ended=False)
    set_rate(queue.rate, 1e-9)
    with pytest.raises(TooManyTokens) if is_refused else nullcontext():
        assert await ask(queue, lambda: "read", tokens) == "read"


def compute_now_and_then():
    """Take .3 s, and a fifth of a core: what a busy machine leaves to a thread."""
    for _ in range(30):
        end_time = time.thread_time() + 0.002
        while time.thread_time() < end_time:
            sum(range(100))
        time.sleep(0.01)


async def test_a_busy_machine_is_no_reason_to_refuse_a_text_for_good(go):
    """Alone, the second request would be read in time: so 503 and when to ask again, not 413."""
    queue = make_queue(timeout=30)
    tokens = 10 * LONG_TOKENS
    await ask(queue, compute_now_and_then, tokens)
    queue.limits = ServiceLimits(workers=1, timeout=0.4)
    assert 2 * tokens * queue.rate.measured > queue.limits.timeout
    first = await begin(queue, partial(busy_until, go))
    queue._next_probe = time.monotonic() + 60
    with pytest.raises(ServiceBusy) as refusal:
        await ask(queue, lambda: None, 2 * tokens)
    assert int(refusal.value.headers["Retry-After"]) >= 1
    go.set()
    await asyncio.gather(first, return_exceptions=True)


async def test_where_nothing_waits_one_request_is_tried_against_the_estimate(go):
    queue = make_queue(rate=1.0, workers=2, timeout=30)
    first = await begin(queue, partial(busy_until, go))
    queue._next_probe = 0.0
    assert await ask(queue, lambda: "tried", 1) == "tried"
    with pytest.raises(ServiceBusy):
        await ask(queue, lambda: "another", 1)
    go.set()
    await first


async def test_what_has_expired_is_not_begun(go):
    begun = []
    queue = make_queue(rate=0.15 / 501, timeout=0.5)  # each takes .15 s
    first = await begin(queue, partial(busy_until, go))
    late = await begin(queue, lambda: begun.append(1))
    outcomes = await asyncio.gather(first, late, return_exceptions=True)
    assert all(isinstance(outcome, TimeoutError) for outcome in outcomes)
    assert not begun
    assert queue.waiting == 0


needs_thread_clocks = pytest.mark.skipif(
    not hasattr(time, "pthread_getcpuclockid"), reason="no clock of another thread"
)


@needs_thread_clocks
async def test_a_call_that_waits_gives_its_slot_away_and_one_that_computes_does_not(go):
    queue = make_queue(timeout=8)
    waiting = await begin(queue, go.wait)
    assert await ask(queue, lambda: "next", 1) == "next", "before the first one ended"
    computing = await begin(queue, partial(busy_until, go))
    following = await begin(queue, lambda: "last")
    await asyncio.sleep(1.2)  # twice what a waiting call keeps its slot
    assert not following.done()
    go.set()
    assert await waiting
    assert await computing == "done"
    assert await following == "last"


@needs_thread_clocks
async def test_a_call_whose_thread_started_late_gives_its_slot_away_too(go):
    """Nobody watched it any more, and it held its slot up to the limit."""
    queue = make_queue(timeout=8)
    queue._pool.limit = 0  # no thread starts for now
    late = await begin(queue, go.wait)
    await asyncio.sleep(0.8)
    queue._pool.limit = 9
    queue._pool.submit(lambda: None)
    async with asyncio.timeout(7):
        assert await ask(queue, lambda: "next", 1) == "next"
    go.set()
    assert await late


async def test_work_that_nobody_waits_for_stops_at_the_next_batch():
    steps = []

    def work():
        while True:
            stop_if_abandoned()
            steps.append(time.sleep(0.01))

    queue = make_queue(timeout=0.2)
    with pytest.raises(TimeoutError):
        await ask(queue, work, 1)
    async with asyncio.timeout(10):
        await until_idle(queue)
    assert steps


async def hang_until(queue, threads, go):
    """Let calls hang; on a busy machine one may be given up before its thread starts."""
    while queue.working < threads:
        set_rate(queue.rate, 1e-9)
        with pytest.raises(TimeoutError):
            await ask(queue, go.wait, 1)
    set_rate(queue.rate, 1e-9)


async def test_calls_that_hang_are_not_ready_and_bounded_and_their_slot_is_free(go):
    queue = make_queue(timeout=0.05, stall_timeout=0.01)
    await hang_until(queue, MAX_HUNG_THREADS, go)
    assert not queue.ready
    assert await ask(queue, lambda: "answered", 1) == "answered", (
        "those that hang hold no worker"
    )
    await hang_until(queue, MAX_HUNG_THREADS + 1, go)
    with pytest.raises(ServiceBusy):
        await ask(queue, lambda: None, 1)
    go.set()
    await until_idle(queue)
    assert queue.ready
    set_rate(queue.rate, 1e-9)
    assert await ask(queue, lambda: "again", 1) == "again"


def test_dense_text_costs_what_it_takes_to_read():
    prose = "The tower of the harbour was finished in the year of the flood. " * 100
    cost = estimate_reading_cost([prose])
    for dense in ("a b c d ", "#!{}[]<>", "90817263", "東京東京東京東京"):
        bytes_each = len(dense.encode())
        repeats = len(prose) // bytes_each
        assert estimate_reading_cost([dense * repeats]) > 1.5 * cost
    assert estimate_reading_cost([prose, prose]) == 2 * cost
    assert estimate_reading_cost(["", "\ud800"]) < 10


def test_every_core_computes_unless_told():
    assert 1 <= ServiceLimits().threads <= 4
    assert ServiceLimits(workers=9).threads == 9


class Ring:
    """What only a collection frees."""

    def __init__(self):
        self.own = self


@pytest.fixture
def full_collections():
    """Those of a process that only serves, by what was under way when they began."""
    before, interval = gc.get_threshold(), sys.getswitchinterval()
    begun = []

    def note(phase, about):
        if phase == "start" and about["generation"] == 2:
            begun.append(phase)

    tune_for_serving()
    gc.callbacks.append(note)
    yield begun
    gc.callbacks.remove(note)
    gc.set_threshold(*before)
    sys.setswitchinterval(interval)
    gc.unfreeze()


async def test_objects_of_a_request_are_looked_through_when_nothing_is_under_way(
    full_collections,
):
    """A full collection takes a quarter of a second for the pieces of a megabyte, and `/livez` waits for it."""
    left = []

    def work():
        left.append(weakref.ref(Ring()))
        pieces = [(str(n), [n]) for n in range(500_000)]
        return len(pieces), len(full_collections)

    queue = make_queue()
    assert await ask(queue, work, 10) == (500_000, 0), "none while it worked"
    while left[0]() is not None:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    assert full_collections
