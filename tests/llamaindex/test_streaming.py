"""`streaming="draft"`: the draft as it is written, then what became of it."""

import asyncio

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    StreamingResponse,
)
from llama_index.core.chat_engine import CondenseQuestionChatEngine
from llama_index.core.retrievers import BaseRetriever
from llamaindex_doubles import Calling
from llamaindex_engines import (
    QUESTION,
    RIGHT,
    WRONG,
    always,
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


def checked_draft(scripted_llm, reply, *, streaming=True, retriever=None, **settings):
    engine = inner(scripted_llm(reply), retriever, streaming=streaming)
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
        response = engine.query(QUESTION)
        return response.get_response()
    response = await engine.aquery(QUESTION)
    return await response.get_response()


both = pytest.mark.parametrize("sync", [True, False])


@both
@pytest.mark.parametrize(
    ("reply", "shown", "outcome"),
    [
        (always(RIGHT), RIGHT, "supported"),
        (first_wrong_then_right, WRONG + NOTICE + RIGHT, "supported"),
        (always(WRONG), WRONG, "unsupported"),
    ],
)
async def test_a_draft_is_all_that_is_shown_unless_a_better_answer_follows(
    scripted_llm, sync, reply, shown, outcome
):
    engine = checked_draft(scripted_llm, reply)
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


@both
async def test_an_answer_withheld_is_told_after_the_draft(scripted_llm, sync):
    engine = checked_draft(
        scripted_llm, always(WRONG), limits=LoopLimits(unsupported="abstain")
    )
    shown_text, response = await streamed_text(engine, sync)
    final = (await full_answer(engine, sync)).response
    assert "".join(shown_text) == WRONG + NOTICE + final
    assert WRONG not in final
    assert outcome_of(response) == "abstained"


@both
async def test_an_engine_without_a_stream_shows_its_draft_at_once(scripted_llm, sync):
    shown_text, _ = await streamed_text(
        checked_draft(scripted_llm, first_wrong_then_right, streaming=False), sync
    )
    assert shown_text[0] == WRONG
    assert "".join(shown_text) == WRONG + NOTICE + RIGHT


@both
async def test_what_fails_before_a_draft_is_told_as_without_a_stream(
    scripted_llm, sync
):
    engine = checked_draft(scripted_llm, always(RIGHT), retriever=Down())
    shown_text, response = await streamed_text(engine, sync)
    engine.streaming = False
    plain_result = engine.query(QUESTION) if sync else await engine.aquery(QUESTION)
    assert outcome_of(response) == outcome_of(plain_result)
    assert "".join(shown_text) == plain_result.response


@both
async def test_a_chat_engine_streams_it_and_finds_the_verdict(scripted_llm, sync):
    chat = CondenseQuestionChatEngine.from_defaults(
        checked_draft(scripted_llm, first_wrong_then_right),
        llm=scripted_llm(lambda messages: ""),
    )
    if sync:
        response = chat.stream_chat(QUESTION)
        shown_text = "".join(response.response_gen)
    else:
        response = await chat.astream_chat(QUESTION)
        shown_text = "".join([piece async for piece in response.async_response_gen()])
    assert shown_text == WRONG + NOTICE + RIGHT
    assert response.sources[0].raw_output.metadata["denoise"]["outcome"] == "supported"


class Endless(Calling):
    """Streams for ever; ``script`` is set when its reader has gone."""

    async def astream_chat(self, messages, **kwargs):
        async def pieces():
            try:
                while True:
                    yield ChatResponse(
                        message=ChatMessage(role="assistant", content="x"), delta="x"
                    )
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
