"""Logic yields what it needs; a driver does the I/O. One algorithm serves sync and async.

A `Flow[T]` is a generator that yields effects and returns a ``T``::

    def answer(question: str) -> Flow[str]:
        passages = yield from retrieve(question)
        reply = yield from complete(prompt(question, passages), tag="draft")
        return reply.text

`run` and `arun` carry the effects out, keep the budget and record every effect in the `Trace`. An effect
that fails is raised inside the flow, where it asked; a flow that does not catch it ends with that
exception, on which the trace travels (`trace_of`). A mistake (`denoise_core.errors.is_mistake`) is not raised
inside the flow: it ends the run, so that no fallback hides it, and the rest of its batch is not begun.
"""

from __future__ import annotations

from typing import TypeVar

from denoise_core.protocols import LLM, Denoiser, Retriever
from denoise_core.result import Trace
from denoise_core.running.budget import Budget
from denoise_core.running.carry import acarry_batch, asingle, carry_batch, single
from denoise_core.running.drive import CHARACTERS_PER_TOKEN, Drive, Servers
from denoise_core.running.effects import Batch, Flow

__all__ = ["CHARACTERS_PER_TOKEN", "arun", "run"]

T = TypeVar("T")


def run(
    flow: Flow[T],
    *,
    llm: LLM | None = None,
    retriever: Retriever | None = None,
    denoiser: Denoiser | None = None,
    budget: Budget | None = None,
    max_concurrency: int = 10,
    call_seconds: float | None = None,
) -> tuple[T, Trace]:
    """Drive ``flow`` to its end; returns its value and the trace. Starts no event loop.

    A `Batch` runs on at most ``max_concurrency`` threads. Without a ``budget`` the flow draws on that of
    the run around it, if there is one. ``call_seconds`` bounds one effect: `TimeoutError` is raised in the
    flow when its time is up (sync code cannot be interrupted: its thread is left behind and its reply
    thrown away; a run inside it makes no further effect). Raises `InputError` for ``max_concurrency < 1``,
    `TypeError` when the flow asks for something nobody was given for, and whatever the outside raises.
    """
    drive = Drive(flow, Servers(llm, retriever, denoiser, call_seconds), budget, max_concurrency)
    with drive.recording():
        while not drive.done:
            effect = drive.effect
            if isinstance(effect, Batch):
                drive.resume(carry_batch(drive, effect))
            else:
                drive.resume(single(drive, effect))
    return drive.value(), drive.trace()


async def arun(
    flow: Flow[T],
    *,
    llm: LLM | None = None,
    retriever: Retriever | None = None,
    denoiser: Denoiser | None = None,
    budget: Budget | None = None,
    max_concurrency: int = 10,
    call_seconds: float | None = None,
) -> tuple[T, Trace]:
    """`run` for async: the same flow, the same result; a `Batch` is at most ``max_concurrency`` tasks."""
    drive = Drive(flow, Servers(llm, retriever, denoiser, call_seconds), budget, max_concurrency)
    with drive.recording():
        while not drive.done:
            effect = drive.effect
            if isinstance(effect, Batch):
                drive.resume(await acarry_batch(drive, effect))
            else:
                drive.resume(await asingle(drive, effect))
    return drive.value(), drive.trace()
