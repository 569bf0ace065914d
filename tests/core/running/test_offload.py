"""Work on threads of our own: bounded, left behind when nobody waits, never in the way of the end of a process."""

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from denoise_core.running.offload import Pool, offload

WORD = contextvars.ContextVar("word", default="none")


async def test_what_it_returns_and_raises():
    def fails():
        raise KeyError("x")

    assert await offload(lambda a, b=0: a + b, 1, b=2) == 3
    with pytest.raises(KeyError):
        await offload(fails)


async def test_stop_iteration_is_an_error():
    with pytest.raises(RuntimeError, match="StopIteration") as caught:
        await asyncio.wait_for(offload(lambda: next(iter(()))), 5)
    assert isinstance(caught.value.__cause__, StopIteration)


async def test_the_context_goes_along():
    WORD.set("ours")
    assert await offload(WORD.get) == "ours"


async def test_no_more_than_the_limit_run_at_once():
    pool, running, most, lock = Pool(3), [0], [0], threading.Lock()

    def work():
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.01)
        with lock:
            running[0] -= 1

    await asyncio.gather(*(pool.run(work) for _ in range(30)))
    assert most[0] == 3


async def test_a_hung_call_costs_its_slot_only_until_its_time_out():
    pool, end = Pool(2), threading.Event()
    hung = [asyncio.wait_for(pool.run(end.wait), 0.05) for _ in range(40)]
    assert all(isinstance(e, TimeoutError) for e in await asyncio.gather(*hung, return_exceptions=True))
    assert await asyncio.wait_for(pool.run(lambda: 7), 5) == 7
    end.set()


async def test_the_applications_executor_stays_free():
    end = threading.Event()
    hung = [asyncio.create_task(offload(end.wait)) for _ in range(64)]
    await asyncio.sleep(0.05)
    assert await asyncio.wait_for(asyncio.to_thread(lambda: 7), 5) == 7
    for task in hung:
        task.cancel()
    await asyncio.gather(*hung, return_exceptions=True)
    assert await asyncio.wait_for(offload(lambda: 8), 5) == 8
    end.set()


async def test_a_call_that_waits_for_a_call_does_not_wait_for_ever():
    pool = Pool(1)
    assert await asyncio.wait_for(pool.run(lambda: asyncio.run(pool.run(lambda: 5))), 5) == 5


async def test_many_threads_and_cancellations_leave_a_pool_that_works():
    pool = Pool(4)

    async def one(n):
        try:
            return await asyncio.wait_for(pool.run(time.sleep, 0.001 * (n % 5)), 0.002)
        except TimeoutError:
            return None

    await asyncio.gather(*(one(n) for n in range(200)))
    assert await asyncio.wait_for(pool.run(lambda: 1), 5) == 1
    assert 0 <= pool._threads <= 4


PROGRAM = """
import asyncio, threading, time
from denoise_core.running.offload import offload
from denoise_core.running.effects import batch, Complete
from denoise_core.running.flow import run
from denoise_core import Message

class Hangs:
    def complete(self, messages):
        print("calling", flush=True)
        threading.Event().wait(30)
    async def acomplete(self, messages):
        await offload(self.complete, messages)

{call}
"""
SYNC = "run(batch(tuple(Complete((Message('user', 'x'),), 't', Hangs()) for _ in range(4))))"
ASYNC = "asyncio.run(Hangs().acomplete(()))"


@pytest.mark.parametrize("call", [SYNC, ASYNC], ids=["sync batch", "async"])
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_ends_the_process(call):
    program = textwrap.dedent(PROGRAM).format(call=call)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline().startswith(b"calling")  # two threads may write at once
        time.sleep(1)  # all calls are under way, and the main thread waits for them
        began = time.monotonic()
        os.kill(process.pid, signal.SIGINT)
        process.wait(20)
        assert time.monotonic() - began < 10  # 2 s on a machine at rest; it was 31 s, the length of the call
        assert process.returncode != 0
