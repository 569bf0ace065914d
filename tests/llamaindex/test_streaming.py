"""`streaming="draft"`: the draft as it is written, then what became of it."""

import asyncio

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    StreamingResponse,
)
from llama_index.core.retrievers import BaseRetriever
from llamaindex_denoisers import sync_and_async
from llamaindex_doubles import Calling
from llamaindex_engines import (
    QUESTION,
    RIGHT,
    WRONG,
    first_wrong_then_right,
    inner,
    outcome_of,
)

from denoise_core.augmenter import Augmenter, LoopLimits
from llamaindex_denoise import Checked

NOTICE = "\n\n"


class Down(BaseRetriever):
    def _retrieve(self, query_bundle):
        raise ConnectionError("no index")


def checked_draft(reply, retriever=None, **settings):
    engine = inner(reply, retriever, streaming=True)
    return Checked(engine, augmenter=Augmenter(**settings), streaming="draft")


async def streamed_text(engine, sync):
    """The pieces shown, and the response after its stream has ended."""
    if sync:
        response = engine.query(QUESTION)
        assert isinstance(response, StreamingResponse)
        assert response.metadata is None
        assert response.source_nodes == []
        return list(response.response_gen), response
    response = await engine.aquery(QUESTION)
    assert isinstance(response, AsyncStreamingResponse)
    return [piece async for piece in response.async_response_gen()], response


async def full_answer(engine, sync):
    """The same, read as code does that wants the answer and no stream."""
    if sync:
        return engine.query(QUESTION).get_response()
    return await (await engine.aquery(QUESTION)).get_response()


@sync_and_async
@pytest.mark.parametrize(
    ("reply", "shown", "outcome"),
    [
        (RIGHT, RIGHT, "supported"),
        (first_wrong_then_right, WRONG + NOTICE + RIGHT, "supported"),
        (WRONG, WRONG, "unsupported"),
    ],
)
async def test_a_draft_is_all_that_is_shown_unless_a_better_answer_follows(
    sync, reply, shown, outcome
):
    engine = checked_draft(reply)
    pieces, response = await streamed_text(engine, sync)
    assert "".join(pieces) == shown
    draft, _, final = shown.rpartition(NOTICE)
    draft = draft or final
    assert pieces[: len(draft)] == list(draft)
    answer = await full_answer(engine, sync)
    assert answer.response == final
    for told in (response, answer):
        assert outcome_of(told) == outcome
        assert told.source_nodes[0].node.node_id == "n0"


@sync_and_async
async def test_an_answer_withheld_is_told_after_the_draft(sync):
    limits = LoopLimits(unsupported="abstain")
    engine = checked_draft(WRONG, limits=limits)
    shown_text, response = await streamed_text(engine, sync)
    final = (await full_answer(engine, sync)).response
    assert "".join(shown_text) == WRONG + NOTICE + final
    assert WRONG not in final
    assert outcome_of(response) == "abstained"


@sync_and_async
async def test_what_fails_before_a_draft_is_told_as_without_a_stream(sync):
    engine = checked_draft(RIGHT, retriever=Down())
    shown_text, response = await streamed_text(engine, sync)
    engine.streaming = False
    plain_result = engine.query(QUESTION) if sync else await engine.aquery(QUESTION)
    assert outcome_of(response) == outcome_of(plain_result)
    assert "".join(shown_text) == plain_result.response


class Endless(Calling):
    """Streams for ever; ``script`` is set when its reader has gone."""

    async def astream_chat(self, messages, **kwargs):
        reply = ChatResponse(message=ChatMessage("x", role="assistant"), delta="x")

        async def pieces():
            try:
                while True:
                    yield reply
                    await asyncio.sleep(0)
            finally:
                self.script.set()

        return pieces()


async def test_a_reader_that_leaves_ends_the_run():
    remaining_steps = asyncio.Event()
    engine = inner(Endless(script=remaining_steps), streaming=True)
    response = await Checked(engine, streaming="draft").aquery(QUESTION)
    assert await anext(response.response_gen) == "x"
    await response.response_gen.aclose()
    await asyncio.wait_for(remaining_steps.wait(), 20)
