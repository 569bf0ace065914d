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

ASKED = (Message("system", "be brief"), Message("user", "what?"))


@pytest.fixture(scope="module")
def llm():
    return tiny_llm()


@pytest.fixture(scope="module")
def model(llm):
    return LocalChatModel(llm=llm)


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


GIVEN = [("system", "be brief"), ("user", "what?")]


async def test_async_gives_what_sync_gives(llm, model):
    here = await asyncio.to_thread(llm.complete, ASKED)
    assert await ChatModelLLM(model).acomplete(ASKED) == here
    assert "".join([c.text async for c in model.astream(GIVEN)]) == here.text


def test_text_and_tokens_are_the_models_every_way(llm, model):
    here = llm.complete(ASKED)
    assert ChatModelLLM(model).complete(ASKED) == here
    chunks = list(model.stream(GIVEN))
    assert "".join(c.text for c in chunks) == here.text
    assert len(chunks) > 10
    whole = model.invoke(GIVEN)
    assert whole.response_metadata["finish_reason"] == "length"
    assert whole.usage_metadata["output_tokens"] == here.usage.output_tokens
    assert [m.text for m in model.batch([GIVEN, GIVEN])] == [here.text] * 2


def test_a_stream_that_is_left_stops_the_model():
    llm = tiny_llm(max_new_tokens=8000)
    llm.model.config.max_position_embeddings = 8192
    made = passes(llm)
    pieces = LocalChatModel(llm=llm).stream("what?")
    next(pieces)
    pieces.close()
    assert len(made) < 8000


def test_what_it_cannot_read_or_do_is_refused(model):
    image = HumanMessage([{"type": "image_url", "image_url": {"url": "http://x"}}])
    with pytest.raises(InputError, match="text alone"):
        model.invoke([image])
    with pytest.raises(InputError, match="not 'tool'"):
        model.invoke([ToolMessage("x", tool_call_id="1")])
    with pytest.raises(InputError, match="takes no temperature"):
        model.invoke("x", temperature=0.5)


def test_two_models_behind_one_cache_answer_each_for_itself(llm):
    """The second one used to answer with the first one's words: neither model nor stops were in the key."""
    other = tiny_llm(seed=7)
    models = [LocalChatModel(llm=x, cache=InMemoryCache()) for x in (llm, other)]
    shared = InMemoryCache()
    first, second = (m.model_copy(update={"cache": shared}) for m in models)
    assert first.invoke(GIVEN).text == first.invoke(GIVEN).text
    assert first._get_llm_string() != second._get_llm_string()
    stopped = LocalChatModel(llm=llm.with_settings(stop=["x"]), cache=shared)
    assert stopped._get_llm_string() != first._get_llm_string()
    assert len({m._get_llm_string() for m in (first, LocalChatModel(llm=llm))}) == 1
