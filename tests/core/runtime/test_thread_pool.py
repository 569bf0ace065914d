"""Work on threads of our own: bounded, left behind when nobody waits, never in the way of the end of a process."""

import asyncio
import contextvars
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from subprocess import DEVNULL

import pytest

import denoise_core
from denoise_core import Message, run
from denoise_core.cancellation import CancelToken, current_cancel_token
from denoise_core.runtime import thread_pool
from denoise_core.runtime.effects import Complete, batch
from denoise_core.runtime.thread_pool import (
    DaemonThreadPool,
    run_in_pool,
)
from denoise_core.testing import FunctionLLM

ADAPTERS = filter(find_spec, ("langchain_denoise", "llamaindex_denoise"))
WORD = contextvars.ContextVar("word", default="none")


def soon(awaitable):
    """The result of what must not wait for ever, however slow the machine."""
    return asyncio.wait_for(awaitable, 30)


async def check_runs(pool):
    assert await soon(pool.run(int)) == 0


@contextmanager
def no_further_threads():
    """Each thread asks for more memory than any machine gives."""
    threading.stack_size(2**46)
    try:
        yield
    finally:
        threading.stack_size(0)


async def test_where_no_thread_can_start_a_call_fails_and_the_next_one_runs():
    """Once the pool took it for started: the call, and after some more all others, waited for ever."""
    pool = DaemonThreadPool(1)
    with no_further_threads(), pytest.raises(RuntimeError, match="thread"):
        await soon(pool.run(int))
    await check_runs(pool)
    pool.close()


async def test_where_no_further_thread_can_start_a_call_waits_for_those_there_are():
    pool, go = DaemonThreadPool(2), threading.Event()
    first = asyncio.create_task(pool.run(go.wait, 30))
    await asyncio.sleep(0)
    with no_further_threads():
        second = asyncio.create_task(pool.run(int))
        await asyncio.sleep(0)
    assert not second.done()
    go.set()
    assert await soon(asyncio.gather(first, second)) == [True, 0]
    pool.close()


async def test_threads_without_work_end_by_themselves(monkeypatch):
    monkeypatch.setattr(thread_pool, "IDLE_SECONDS", 0.01)
    pool = DaemonThreadPool(3, "idle")
    await asyncio.gather(*(pool.run(int) for _ in range(9)))
    for thread in threading.enumerate():
        if thread.name == "idle":
            thread.join(30)
            assert not thread.is_alive()
    assert pool._thread_count == 0
    await check_runs(pool)


async def test_the_context_goes_along():
    WORD.set("ours")
    assert await run_in_pool(WORD.get) == "ours"


def test_no_more_than_the_limit_run_at_once():
    pool, go = DaemonThreadPool(3, "limited"), threading.Event()
    waiting = [pool.submit(lambda: go.wait(20)) for _ in range(30)]
    thread_names = [thread.name for thread in threading.enumerate()]
    go.set()
    assert all(future.result(20) for future in waiting)
    assert thread_names.count("limited") == 3


async def test_a_hung_call_costs_its_slot_only_until_its_time_out():
    pool, end = DaemonThreadPool(2), threading.Event()
    hung = [asyncio.wait_for(pool.run(end.wait), 0.05) for _ in range(40)]
    outcomes = await asyncio.gather(*hung, return_exceptions=True)
    assert set(map(type, outcomes)) == {TimeoutError}
    await check_runs(pool)
    end.set()


async def test_a_call_that_waits_for_a_call_does_not_wait_for_ever():
    pool = DaemonThreadPool(1)
    assert await soon(pool.run(lambda: asyncio.run(pool.run(int)))) == 0


async def test_many_threads_and_cancellations_leave_a_pool_that_works():
    pool = DaemonThreadPool(4)
    calls = [
        asyncio.wait_for(pool.run(time.sleep, 0.001 * (n % 5)), 0.002)
        for n in range(200)
    ]
    await asyncio.gather(*calls, return_exceptions=True)
    await check_runs(pool)
    assert 0 <= pool._thread_count <= 4


async def test_a_run_on_a_thread_that_nobody_waits_for_makes_no_further_call():
    began, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def reply(messages):
        began.set()
        go_on.wait(20)
        return "x"

    llm = FunctionLLM(reply)
    call = Complete((Message("user", "x"),), "t", llm)

    def work():
        try:
            run(batch((call,) * 5), max_concurrency=1)
        finally:
            ended.set()

    waiting = asyncio.create_task(run_in_pool(work))
    await asyncio.to_thread(began.wait, 20)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go_on.set()
    await asyncio.to_thread(ended.wait, 20)
    assert len(llm.received_messages) == 1


def test_who_was_left_behind_far_out_is_so_far_in():
    seen = []

    def inner():
        outer.cancel()
        seen.append(current_cancel_token.get().is_cancelled())

    outer = CancelToken()
    context = contextvars.copy_context()
    context.run(current_cancel_token.set, outer)
    context.run(lambda: asyncio.run(run_in_pool(inner)))
    assert seen == [True]
    assert current_cancel_token.get() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_process_has_threads_of_its_own():
    pool = DaemonThreadPool(1)
    # Its thread stays a while, and would be waited for.
    assert pool.submit(int).result(20) == 0
    child = os.fork()
    if child == 0:
        os._exit(pool.submit(lambda: 7).result(20))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


OTHER_THREADS = re.compile(
    r"^[^#\n]*\b(to_thread|run_in_executor|ThreadPoolExecutor|ProcessPoolExecutor)\(",
    re.M,
)


def test_nothing_runs_on_threads_that_are_not_our_own():
    """What asyncio and concurrent.futures offer waits for hung calls when the process ends, and hangs on 3.11.

    The kit of tests and the command that fits end with their pools.
    """
    users = set()
    for package in (denoise_core, *map(import_module, ADAPTERS)):
        for path in Path(package.__file__).parent.rglob("*.py"):
            if OTHER_THREADS.search(path.read_text(encoding="utf-8")):
                users.add(f"{path.parent.name}/{path.name}")
    assert users <= {"denoise_core/testing.py", "cli/fit.py"}


PROGRAM = """
import asyncio, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are born ignoring it
from denoise_core.runtime.thread_pool import run_in_pool, run_in_thread
from denoise_core.runtime.effects import batch, Complete
from denoise_core.runtime.flow import arun, run
from denoise_core import Message

class Hangs:
    def complete(self, messages):
        print("calling", flush=True)
        threading.Event().wait()
    async def acomplete(self, messages):
        await run_in_pool(self.complete, messages)

{call}
"""
ASKED = (
    "batch(tuple(Complete((Message('user', 'x'),), 't', Hangs()) for _ in range(4)))"
)
CALLS = {
    "sync batch": f"run({ASKED})",
    "sync batch with a time-out": f"run({ASKED}, call_seconds=30)",
    "one call with a time-out": f"run({ASKED}, call_seconds=30, max_concurrency=1)",
    "async": "asyncio.run(Hangs().acomplete(()))",
    "async batch": f"asyncio.run(arun({ASKED}))",
    "a loop of its own": "run_in_thread(lambda: asyncio.run(Hangs().acomplete(())))",
}


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_ends_the_process_though_its_call_never_ends():
    with ExitStack() as stack:
        processes = {}
        for name, call in CALLS.items():
            command = [sys.executable, "-c", PROGRAM.replace("{call}", call)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=DEVNULL)
            processes[name] = stack.enter_context(process)
        for process in processes.values():
            # Two threads may write at once.
            assert process.stdout.readline().startswith(b"calling")
        # All calls are under way, and the main threads wait for them.
        time.sleep(0.3)
        for process in processes.values():
            process.send_signal(signal.SIGINT)
        for name, process in processes.items():
            assert process.wait(120) != 0, name
