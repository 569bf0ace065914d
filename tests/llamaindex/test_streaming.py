"""`streaming="draft"`: the draft as it is written, then what became of it."""

import asyncio

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    StreamingResponse,
)
from llama_index.core.chat_engine import CondenseQuestionChatEngine
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llamaindex_doubles import Calling

from denoise_core.augmenter import Augmenter, LoopLimits
from llamaindex_denoise import AugmentedQueryEngine, Checked, LlamaLLM
from llamaindex_denoise.events import AnswerEvent
from llamaindex_denoise.models.retriever import LlamaRetriever

QUESTION = "Where is the red tower?"
RIGHT = "The red tower is in Porto. [1]"
WRONG = "The red tower is in Lisbon, built in 1755."
NOTICE = "\n\n"


class Fixed(BaseRetriever):
    def _retrieve(self, query_bundle):
        texts = ["The red tower is in Porto. Bread is cheap there.", "Ships are long."]
        return [
            NodeWithScore(node=TextNode(text=t, id_=f"n{i}"), score=0.5)
            for i, t in enumerate(texts)
        ]


class Down(BaseRetriever):
    def _retrieve(self, query_bundle):
        raise ConnectionError("no index")


def right_when_told(messages):
    return (
        RIGHT
        if "Lisbon" in " ".join(message.content or "" for message in messages)
        else WRONG
    )


def own_value(scripted_llm, reply, retriever=None, **settings):
    augmenter = Augmenter(
        LlamaLLM(scripted_llm(reply)), LlamaRetriever(retriever or Fixed()), **settings
    )
    return AugmentedQueryEngine(augmenter, streaming="draft")


def checked_engine(scripted_llm, reply, *, streaming=True, **settings):
    inner = RetrieverQueryEngine.from_args(
        Fixed(), llm=scripted_llm(reply), streaming=streaming
    )
    engine = Checked(inner, augmenter=Augmenter(**settings))
    engine.streaming = "draft"
    return engine


async def streamed_text(engine, sync):
    """The pieces shown, and the response after its stream has ended."""
    if sync:
        response = engine.query(QUESTION)
        assert isinstance(response, StreamingResponse)
        assert (response.metadata, response.source_nodes) == (None, [])
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
engines = pytest.mark.parametrize("make", [own_value, checked_engine])


@both
@engines
async def test_a_draft_that_holds_is_all_that_is_shown(
    scripted_llm, make, sync, event_log
):
    shown_text, response = await streamed_text(
        make(scripted_llm, lambda messages: RIGHT), sync
    )
    assert shown_text == list(RIGHT)
    assert response.metadata["denoise"]["outcome"] == "supported"
    assert response.source_nodes[0].node.node_id == "n0"
    (event,) = [e for e in event_log[0] if isinstance(e, AnswerEvent)]
    assert event.record == response.metadata["denoise"]


@both
@engines
async def test_a_draft_that_does_not_is_followed_by_the_answer(
    scripted_llm, make, sync
):
    engine = make(scripted_llm, right_when_told)
    shown_text, response = await streamed_text(engine, sync)
    assert "".join(shown_text) == WRONG + NOTICE + RIGHT
    assert shown_text[: len(WRONG)] == list(WRONG)
    assert [a["outcome"] for a in response.metadata["denoise"]["attempts"]] == [
        "fail",
        "pass",
    ]
    answer = await full_answer(engine, sync)
    assert (answer.response, answer.metadata["denoise"]["outcome"]) == (
        RIGHT,
        "supported",
    )
    assert answer.source_nodes[0].node.node_id == "n0"


@both
@engines
async def test_a_draft_nothing_better_came_of_stands_and_says_so(
    scripted_llm, make, sync
):
    shown_text, response = await streamed_text(
        make(scripted_llm, lambda messages: WRONG), sync
    )
    assert "".join(shown_text) == WRONG
    assert response.metadata["denoise"]["outcome"] == "unsupported"


@both
@engines
async def test_an_answer_withheld_is_told_after_the_draft(scripted_llm, make, sync):
    engine = make(
        scripted_llm, lambda messages: WRONG, limits=LoopLimits(unsupported="abstain")
    )
    shown_text, response = await streamed_text(engine, sync)
    final = (await full_answer(engine, sync)).response
    assert "".join(shown_text) == WRONG + NOTICE + final
    assert WRONG not in final
    assert response.metadata["denoise"]["outcome"] == "abstained"


@both
async def test_an_engine_without_a_stream_shows_its_draft_at_once(scripted_llm, sync):
    shown_text, _ = await streamed_text(
        checked_engine(scripted_llm, right_when_told, streaming=False), sync
    )
    assert shown_text[0] == WRONG
    assert "".join(shown_text) == WRONG + NOTICE + RIGHT


@both
async def test_what_fails_before_a_draft_is_told_as_without_a_stream(
    scripted_llm, sync
):
    engine = own_value(scripted_llm, lambda messages: RIGHT, Down())
    shown_text, response = await streamed_text(engine, sync)
    engine.streaming = False
    plain_result = engine.query(QUESTION) if sync else await engine.aquery(QUESTION)
    assert (
        response.metadata["denoise"]["outcome"]
        == plain_result.metadata["denoise"]["outcome"]
    )
    assert "".join(shown_text) == plain_result.response


@both
async def test_a_notice_in_the_users_language_names_a_correction_once(
    scripted_llm, sync
):
    engine = own_value(scripted_llm, right_when_told)
    engine.notice = "Der Entwurf war falsch. Die Antwort:"
    shown_text, _ = await streamed_text(engine, sync)
    assert "".join(shown_text) == f"{WRONG}\n\n{engine.notice}\n\n{RIGHT}"


@both
async def test_a_chat_engine_streams_it_and_finds_the_verdict(scripted_llm, sync):
    chat = CondenseQuestionChatEngine.from_defaults(
        own_value(scripted_llm, right_when_told), llm=scripted_llm(lambda messages: "")
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
    augmenter = Augmenter(
        LlamaLLM(Endless(script=remaining_steps)), LlamaRetriever(Fixed())
    )
    response = await AugmentedQueryEngine(augmenter, streaming="draft").aquery(QUESTION)
    assert await anext(response.response_gen) == "x"
    await response.response_gen.aclose()
    await asyncio.wait_for(remaining_steps.wait(), 20)
