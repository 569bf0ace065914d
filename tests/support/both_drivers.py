"""A flow under both drivers, which must agree, and the flows and outsides that several tests of them share."""

import asyncio

from denoise_core import DenoiseResult, Message, Passage, trace_of
from denoise_core import arun as arun_flow
from denoise_core import run as run_flow
from denoise_core.runtime.effects import Batch, Complete
from denoise_core.testing import FunctionLLM, ListRetriever

DOCS = (Passage("Paris is in France.", "a"), Passage("Rome is in Italy.", "b"))


def ask(text, tag="ask"):
    """A question to the model, as an effect."""
    return Complete((Message("user", text),), tag)


def both(make_flow, make_servers, **options):
    """The outcome of a flow under both drivers, which must be equal: (value or error, trace)."""

    def outcome(drive):
        try:
            return drive()
        except Exception as error:
            return (type(error), str(error)), trace_of(error)

    a = outcome(lambda: run_flow(make_flow(), **make_servers(), **options))
    b = outcome(
        lambda: asyncio.run(arun_flow(make_flow(), **make_servers(), **options))
    )
    assert a[0] == b[0]
    assert [(e.tag, e.reply, e.error, e.usage) for e in a[1].events] == [
        (e.tag, e.reply, e.error, e.usage) for e in b[1].events
    ]
    return a


def echo():
    """Servers: a model that shouts the last message back, a retriever that finds `DOCS`."""
    return {
        "llm": FunctionLLM(lambda m: m[-1].content.upper()),
        "retriever": ListRetriever(DOCS),
    }


class Nested:
    """A denoiser whose own run asks an LLM for each of `size` items, one at a time."""

    def __init__(self, llm, size):
        self.llm, self.size = llm, size

    def _flow(self, query, passages):
        yield Batch(tuple(ask("inner") for _ in range(self.size)))
        return DenoiseResult(query, tuple(passages))

    def denoise(self, query, passages):
        return run_flow(self._flow(query, passages), llm=self.llm, max_concurrency=1)[0]

    async def adenoise(self, query, passages):
        return (
            await arun_flow(
                self._flow(query, passages), llm=self.llm, max_concurrency=1
            )
        )[0]
