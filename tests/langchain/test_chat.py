"""`LocalChatModel`: LangChain's own contract for chat models, and one set of weights with END."""

import asyncio

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests
from tiny_llm import passes, tiny_llm

from denoise_core import InputError, Message
from langchain_denoise import ChatModelLLM, LocalChatModel

QUESTION_INPUT = (Message("system", "be brief"), Message("user", "what?"))


@pytest.fixture(scope="module")
def local_llm():
    return tiny_llm()


@pytest.fixture(scope="module")
def model(local_llm):
    return LocalChatModel(llm=local_llm)


class TestContract(ChatModelUnitTests):
    @property
    def chat_model_class(self):
        return LocalChatModel

    @property
    def chat_model_params(self):
        return {"llm": tiny_llm()}

    @property
    def has_tool_calling(self):
        return False

    @property
    def has_structured_output(self):
        return False


class TestIntegration(ChatModelIntegrationTests):
    """What a language model must know to pass is left out: tools, objects, pictures."""

    @property
    def chat_model_class(self):
        return LocalChatModel

    @property
    def chat_model_params(self):
        return {"llm": tiny_llm(max_new_tokens=12)}

    @property
    def has_tool_calling(self):
        return False

    @property
    def has_structured_output(self):
        return False


SAMPLE_MESSAGES = [("system", "be brief"), ("user", "what?")]


async def test_async_gives_what_sync_gives(local_llm, model):
    here = await asyncio.to_thread(local_llm.complete, QUESTION_INPUT)
    assert await ChatModelLLM(model).acomplete(QUESTION_INPUT) == here
    assert (
        "".join([call.text async for call in model.astream(SAMPLE_MESSAGES)])
        == here.text
    )


def test_text_and_tokens_are_the_models_every_way(local_llm, model):
    here = local_llm.complete(QUESTION_INPUT)
    assert ChatModelLLM(model).complete(QUESTION_INPUT) == here
    chunks = list(model.stream(SAMPLE_MESSAGES))
    assert "".join(call.text for call in chunks) == here.text
    assert len(chunks) > 10
    full_text = model.invoke(SAMPLE_MESSAGES)
    assert full_text.response_metadata["finish_reason"] == "length"
    assert full_text.usage_metadata["output_tokens"] == here.usage.output_tokens
    assert [
        message.text for message in model.batch([SAMPLE_MESSAGES, SAMPLE_MESSAGES])
    ] == [here.text] * 2


def test_a_stream_that_is_left_stops_the_model():
    local_llm = tiny_llm(max_new_tokens=8000)
    local_llm.model.config.max_position_embeddings = 8192
    built_value = passes(local_llm)
    pieces = LocalChatModel(llm=local_llm).stream("what?")
    next(pieces)
    pieces.close()
    assert len(built_value) < 8000


def test_what_it_cannot_read_or_do_is_refused(model):
    image = HumanMessage([{"type": "image_url", "image_url": {"url": "http://x"}}])
    with pytest.raises(InputError, match="text alone"):
        model.invoke([image])
    with pytest.raises(InputError, match="not 'tool'"):
        model.invoke([ToolMessage("x", tool_call_id="1")])
    with pytest.raises(InputError, match="takes no temperature"):
        model.invoke("x", temperature=0.5)


def test_two_models_behind_one_cache_answer_each_for_itself(local_llm):
    """The second one used to answer with the first one's words: neither model nor stops were in the key."""
    other = tiny_llm(seed=7)
    models = [
        LocalChatModel(llm=item, cache=InMemoryCache()) for item in (local_llm, other)
    ]
    shared_model = InMemoryCache()
    first, second = (
        message.model_copy(update={"cache": shared_model}) for message in models
    )
    assert first.invoke(SAMPLE_MESSAGES).text == first.invoke(SAMPLE_MESSAGES).text
    assert first._get_llm_string() != second._get_llm_string()
    stop_reason = LocalChatModel(
        llm=local_llm.with_settings(stop=["x"]), cache=shared_model
    )
    assert stop_reason._get_llm_string() != first._get_llm_string()
    assert (
        len(
            {
                message._get_llm_string()
                for message in (first, LocalChatModel(llm=local_llm))
            }
        )
        == 1
    )
