"""The whole step: regenerate the context, then answer from what is left (paper, section 2, steps 1 and 2)."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from denoise_core.protocols import LLM
from denoise_core.result import Trace
from denoise_core.running.budget import Budget
from denoise_core.running.effects import Flow, complete
from denoise_core.running.flow import arun, run
from denoise_core.s2a.denoiser import S2ADenoiser
from denoise_core.s2a.message import MessageDenoiser
from denoise_core.s2a.options import OnError, Options, Rule, Variant
from denoise_core.s2a.prompts import Prompt
from denoise_core.s2a.question import ID
from denoise_core.s2a.result import S2AResult
from denoise_core.text.delimit import envelope
from denoise_core.types import Message, Passage, Reply, Usage


@dataclass(frozen=True, slots=True)
class S2AAnswer:
    """The answer, the question it answers, and what step 1 made of the passages."""

    text: str
    question: str
    result: S2AResult
    trace: Trace = field(default_factory=Trace)


class S2A:
    """Question answering that never shows the answering model what step 1 left out
    (System 2 Attention, arXiv 2311.11829, section 2.2).

    Settings as in `S2ADenoiser`; the same ``llm`` regenerates and answers, within one ``budget``. Without passages
    the question is itself the text that is cleared, as in the paper's first experiment (`MessageDenoiser`).
    """

    def __init__(
        self,
        llm: LLM,
        *,
        variant: Variant = "select",
        keep: Rule | None = None,
        on_error: OnError = "keep",
        max_concurrency: int = 10,
        budget: Budget | None = None,
        options: Options | None = None,
    ) -> None:
        self.budget = budget
        self.denoiser = S2ADenoiser(
            llm,
            variant=variant,
            keep=keep,
            on_error=on_error,
            max_concurrency=max_concurrency,
            options=options,
        )
        self.llm = self.denoiser.llm

    def answer(self, question: str, passages: Sequence[Passage]) -> S2AAnswer:
        """Raises what the answering call raises; a failed call of step 1 follows ``on_error``."""
        flow = self.flow(question, passages)
        answer, trace = run(flow, budget=self.budget, max_concurrency=self.denoiser.max_concurrency)
        return replace(answer, trace=trace)

    async def aanswer(self, question: str, passages: Sequence[Passage]) -> S2AAnswer:
        """`answer` for async; the same result."""
        flow = self.flow(question, passages)
        answer, trace = await arun(flow, budget=self.budget, max_concurrency=self.denoiser.max_concurrency)
        return replace(answer, trace=trace)

    def stream(self, question: str, passages: Sequence[Passage]) -> Iterator[str | S2AAnswer]:
        """The answer in pieces as the model writes it, and at the end the whole as from `answer`.

        Step 1 is made first, and shows nothing. A model without ``stream`` gives its reply in one piece. Who stops
        reading ends the run with the model's next piece. Raises what `answer` raises.
        """
        pieces: queue.SimpleQueue[str | S2AAnswer | BaseException] = queue.SimpleQueue()
        closed = threading.Event()
        teed = _Teed(self.llm, pieces.put, closed)

        def work() -> None:
            flow = self.flow(question, passages, answerer=teed)
            try:
                answer, trace = run(flow, budget=self.budget, max_concurrency=self.denoiser.max_concurrency)
                pieces.put(replace(answer, trace=trace))
            except BaseException as error:
                pieces.put(error)

        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(work,), name="s2a-stream", daemon=True).start()
        try:
            while not isinstance(piece := pieces.get(), (S2AAnswer, BaseException)):
                yield piece
            if isinstance(piece, BaseException):
                raise piece
            yield piece
        finally:
            closed.set()

    async def astream(self, question: str, passages: Sequence[Passage]) -> AsyncIterator[str | S2AAnswer]:
        """`stream` for async; the same pieces."""
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        teed = _Teed(self.llm, pieces.put_nowait, threading.Event())
        flow = self.flow(question, passages, answerer=teed)
        made = arun(flow, budget=self.budget, max_concurrency=self.denoiser.max_concurrency)
        task = asyncio.ensure_future(made)
        task.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            answer, trace = await task
            yield replace(answer, trace=trace)
        finally:
            task.cancel()

    def flow(self, question: str, passages: Sequence[Passage], *, answerer: LLM | None = None) -> Flow[S2AAnswer]:
        """Both steps, to be driven by `run` or `arun`, or from within another flow with ``yield from``.

        ``answerer`` is who answers in step 2, None the model of step 1.
        """
        d = self.denoiser
        if not any(p.text.strip() for p in passages):
            return (yield from self._alone(question, d, answerer or self.llm))
        result = yield from d.flow(question, passages)
        text = yield from reply_from(
            answerer or self.llm,
            d.options.step_2(d.variant),
            result.query,
            result.passages,
            original=(question, passages),
        )
        return S2AAnswer(text, result.query, result)

    def _alone(self, question: str, d: S2ADenoiser, answerer: LLM) -> Flow[S2AAnswer]:
        cleared = MessageDenoiser(self.llm, variant=d.variant, on_error=d.on_error, options=d.options)
        neutral = yield from cleared.flow(question)
        context = (Passage(neutral.context, ID, rewritten=True),) if neutral.context else ()
        result = S2AResult(neutral.question, context, neutral.dropped, fallback=neutral.fallback)
        prompt = d.options.step_2(d.variant)
        text = yield from reply_from(answerer, prompt, neutral.question, context, original=(question, ()))
        return S2AAnswer(text, neutral.question, result)


class _Teed:
    """The answering model, with every piece of what it writes also given to ``emit``."""

    def __init__(self, llm: LLM, emit: Callable[[str], None], closed: threading.Event) -> None:
        self.llm, self.emit, self.closed = llm, emit, closed

    def complete(self, messages: Sequence[Message]) -> Reply:
        streamed = getattr(self.llm, "stream", None)
        if streamed is None:
            reply = self.llm.complete(messages)
            self.emit(reply.text)
            return reply
        text, usage = "", None
        for piece in streamed(messages):
            if self.closed.is_set():
                raise InterruptedError("nobody reads the stream any more")
            text, usage = self._next(piece, text, usage)
        return Reply(text, usage)

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        streamed = getattr(self.llm, "astream", None)
        if streamed is None:
            reply = await self.llm.acomplete(messages)
            self.emit(reply.text)
            return reply
        text, usage = "", None
        async for piece in streamed(messages):
            text, usage = self._next(piece, text, usage)
        return Reply(text, usage)

    def _next(self, piece: str | Usage, text: str, usage: Usage | None) -> tuple[str, Usage | None]:
        if isinstance(piece, Usage):
            return text, piece
        self.emit(piece)
        return text + piece, usage


def reply_from(
    llm: LLM | None,
    prompt: Prompt,
    question: str,
    passages: Sequence[Passage],
    *,
    original: tuple[str, Sequence[Passage]] | None = None,
) -> Flow[str]:
    """Step 2: an answer from the passages alone; ``llm`` None is the driver's.

    ``original`` is the question and the passages as they came, for a prompt that has the field for it.
    """
    values = {"context": _enclosed(passages), "question": question}
    if "original" in prompt.fields:
        asked, came = original or (question, passages)
        values["original"] = f"{_enclosed(came)}Question:\n{asked}\n"
    reply = yield from complete(prompt.render(by_schema=False, **values), tag="s2a.answer", llm=llm)
    return reply.text.strip()


def _enclosed(passages: Sequence[Passage]) -> str:
    """The passages in the envelope of text that is not ours, and a blank line; "" without any text."""
    text = "\n\n".join(p.headed.strip() for p in passages if p.text.strip())
    return f"{envelope(text)}\n\n" if text else ""
