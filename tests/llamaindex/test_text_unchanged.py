"""`Checked` returns and streams what the engine wrote, whatever the judge says; the engine's model judges."""

import pytest
from answer_forms import (
    JUDGES,
    PASSAGE,
    QUESTION,
    answer_forms,
    judge_named,
    let_model_judge,
    writer_and_judge,
)
from llama_index.core.chat_engine import ContextChatEngine, SimpleChatEngine
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode
from llamaindex_engines import Fixed, outcome_of

from denoise_core.augmenter.drafting.conversation import MAX_TOKENS
from denoise_core.text.token_budget import estimate_tokens
from llamaindex_denoise import Checked
from llamaindex_denoise.models.llm import find_model

model_judges = pytest.fixture(let_model_judge)


def nodes(text=PASSAGE):
    return [NodeWithScore(node=TextNode(text=text, id_="a"), score=1.0)]


def engine_of(model, **settings):
    return RetrieverQueryEngine.from_args(Fixed(nodes()), llm=model, **settings)


async def text_of(engine, is_sync):
    """The text of a response, of a stream joined."""
    response = engine.query(QUESTION) if is_sync else await engine.aquery(QUESTION)
    if hasattr(response, "async_response_gen"):
        return "".join([text async for text in response.async_response_gen()])
    if hasattr(response, "response_gen"):
        return "".join(response.response_gen)
    return response.response


@pytest.mark.parametrize("judge_name", JUDGES)
async def test_streamed_equals_returned_equals_written(scripted_llm, judge_name):
    for number, text in enumerate(answer_forms()):
        is_sync = number % 4 < 2
        model = scripted_llm(lambda messages, text=text: text)
        inner = engine_of(model, streaming=bool(number % 2))
        written = await text_of(inner, is_sync)
        for streaming in (False, "draft", "checked"):
            judge = judge_named(judge_name)
            engine = Checked(inner, judge=judge, streaming=streaming)
            assert await text_of(engine, is_sync) == written == text
            if judge_name == "supported":
                assert len(judge.received_messages) <= 1


@pytest.mark.parametrize("settings", [{}, {"response_mode": "refine"}])
def test_the_engines_own_model_judges_by_default(scripted_llm, model_judges, settings):
    model = scripted_llm(writer_and_judge("It was completed in 1889."))
    engine = engine_of(model, **settings)
    assert find_model(engine) is model
    record = Checked(engine).query(QUESTION).metadata["denoise"]
    assert record["outcome"] == "supported"
    assert record["judge"] == "units"
    record = Checked(engine, judge="off").query(QUESTION).metadata["denoise"]
    assert record["outcome"] == "unknown"
    assert record["judge"] == "not judged"


def test_an_engine_without_a_model_says_that_it_is_not_judged(model_judges):
    class Canned(CustomQueryEngine):
        def custom_query(self, query_str):
            from llama_index.core.base.response.schema import Response

            return Response("It was completed in 1889.", source_nodes=nodes())

    record = Checked(Canned()).query(QUESTION).metadata["denoise"]
    assert record["outcome"] == "unknown"
    assert record["judge"] == "not judged"
    assert record["stopped_because"] == "unjudged"


def test_an_answer_restated_in_a_chat_is_judged_by_what_it_rested_on(scripted_llm):
    supported = 0
    for number in range(20):
        fact = f"Room {number} has {number + 2} windows."
        retriever = Fixed(nodes(fact))
        chat = Checked(
            ContextChatEngine.from_defaults(
                retriever,
                llm=scripted_llm(lambda messages, fact=fact: fact),
                memory=ChatMemoryBuffer.from_defaults(token_limit=2000),
            )
        )
        chat.chat(f"Tell me of room {number}.")
        retriever.found = nodes("Ships are long.")  # a search for "again" finds this
        response = chat.chat("Say that again, shorter.")
        supported += outcome_of(response) == "supported"
        chat.reset()
        assert chat.cited == []
    assert supported == 20


def test_what_a_chat_keeps_is_bounded(scripted_llm):
    retriever = Fixed([])
    chat = Checked(
        ContextChatEngine.from_defaults(
            retriever,
            llm=scripted_llm(lambda messages: retriever.found[0].node.text[:40]),
            memory=ChatMemoryBuffer.from_defaults(token_limit=20_000),
        )
    )
    for number in range(12):
        text = f"Fact {number} is that it is so for {number}. " + "More words. " * 300
        retriever.found = nodes(text)
        chat.chat(f"What is fact {number}?")
    assert 0 < len(chat.cited) <= 8
    kept_text = "".join(passage["text"] for passage in chat.cited)
    assert estimate_tokens(kept_text) <= MAX_TOKENS
    assert "Fact 11" in chat.cited[0]["text"]


def test_a_simple_chat_has_its_model_as_judge(scripted_llm):
    model = scripted_llm(lambda messages: "Hello!")
    assert find_model(SimpleChatEngine.from_defaults(llm=model)) is model
