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
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import Response
from llama_index.core.chat_engine import ContextChatEngine, SimpleChatEngine
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine
from llamaindex_denoisers import scored
from llamaindex_doubles import scripted_llm
from llamaindex_engines import Fixed, outcome_of

from denoise_core.augmenter.drafting.conversation import MAX_TOKENS
from denoise_core.text.token_budget import estimate_tokens
from llamaindex_denoise import Checked
from llamaindex_denoise.models.llm import find_model

model_judges = pytest.fixture(let_model_judge)


def nodes(text=PASSAGE):
    return [scored(text, 1.0, id_="a")]


def chat_of(retriever, llm, token_limit=2000):
    memory = ChatMemoryBuffer.from_defaults(token_limit=token_limit)
    return Checked(ContextChatEngine.from_defaults(retriever, llm=llm, memory=memory))


def engine_of(model, **settings):
    return RetrieverQueryEngine.from_args(Fixed(nodes()), llm=model, **settings)


def judgement(response):
    record = response.metadata["denoise"]
    return record["outcome"], record["judge"]


async def text_of(engine, is_sync):
    response = engine.query(QUESTION) if is_sync else await engine.aquery(QUESTION)
    if hasattr(response, "async_response_gen"):
        return "".join([text async for text in response.async_response_gen()])
    if hasattr(response, "response_gen"):
        return "".join(response.response_gen)
    return response.response


@pytest.mark.parametrize("judge_name", JUDGES)
async def test_streamed_equals_returned_equals_written(judge_name):
    for number, text in enumerate(answer_forms()):
        is_sync = number % 4 < 2
        model = scripted_llm(text)
        inner = engine_of(model, streaming=bool(number % 2))
        written = await text_of(inner, is_sync)
        for streaming in (False, "draft", "checked"):
            judge = judge_named(judge_name)
            engine = Checked(inner, judge=judge, streaming=streaming)
            assert await text_of(engine, is_sync) == written == text
            if judge_name == "supported":
                assert len(judge.received_messages) <= 1


@pytest.mark.parametrize("settings", [{}, {"response_mode": "refine"}])
def test_the_engines_own_model_judges_by_default(model_judges, settings):
    model = scripted_llm(writer_and_judge("It was completed in 1889."))
    engine = engine_of(model, **settings)
    assert find_model(engine) is model
    assert judgement(Checked(engine).query(QUESTION)) == ("supported", "units")
    unjudged = Checked(engine, judge="off").query(QUESTION)
    assert judgement(unjudged) == ("unknown", "not judged")


def test_an_engine_without_a_model_says_that_it_is_not_judged(model_judges):
    class Canned(CustomQueryEngine):
        def custom_query(self, query_str):
            return Response("It was completed in 1889.", source_nodes=nodes())

    response = Checked(Canned()).query(QUESTION)
    assert judgement(response) == ("unknown", "not judged")
    assert response.metadata["denoise"]["stopped_because"] == "unjudged"


def test_an_answer_restated_in_a_chat_is_judged_by_what_it_rested_on():
    fact = "Room 4 has 6 windows."
    retriever = Fixed(nodes(fact))
    chat = chat_of(retriever, scripted_llm(fact))
    chat.chat("Tell me of room 4.")
    retriever.found = nodes("Ships are long.")  # a search for "again" finds this
    chat.memory.set([])  # as of a memory with a summary of it
    response = chat.chat("Say that again, shorter.")
    assert outcome_of(response) == "supported"
    chat.reset()
    assert chat.cited == []


@pytest.mark.parametrize("how", ["chat", "achat"])
async def test_a_given_history_has_what_its_own_answers_rested_on(how):
    fact = "Room 4 has 6 windows."
    retriever = Fixed(nodes(fact))
    chat = chat_of(retriever, scripted_llm(fact))
    for role, text, outcome in (
        ("assistant", "Hello!", "supported"),  # by the search
        ("assistant", f"{fact}\n", "supported"),
        ("user", fact, "unsupported"),
        ("assistant", fact, "supported"),
    ):
        response = getattr(chat, how)("Say it.", [ChatMessage(text, role=role)])
        response = await response if how == "achat" else response
        assert outcome_of(response) == outcome
        retriever.found = nodes("Ships are long.")


def test_what_a_chat_keeps_is_bounded():
    retriever = Fixed([])
    llm = scripted_llm(lambda messages: retriever.found[0].node.text[:40])
    chat = chat_of(retriever, llm, 20_000)
    for number in range(12):
        text = f"Fact {number} is that it is so for {number}. " + "More words. " * 300
        retriever.found = nodes(text)
        chat.chat(f"What is fact {number}?")
    assert 0 < len(chat.cited) <= 8
    kept_text = "".join(passage["text"] for passage in chat.cited)
    assert estimate_tokens(kept_text) <= MAX_TOKENS
    assert "Fact 11" in chat.cited[0]["text"]


def test_a_simple_chat_has_its_model_as_judge():
    model = scripted_llm("Hello!")
    assert find_model(SimpleChatEngine.from_defaults(llm=model)) is model
