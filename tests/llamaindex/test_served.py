"""`OpenAILike`, the stock client, against `LLMServer`: a real model, a real protocol, both ways."""

import openai
import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.llms.openai_like import OpenAILike
from tiny_llm import passes, tiny_llm

from denoise_core import Message
from denoise_core.serve import LLMServer, ServerLimits
from llamaindex_denoise import LlamaLLM

pytestmark = pytest.mark.enable_socket

ASKED = (Message("system", "be brief"), Message("user", "what?"))
WHAT = [ChatMessage(role="user", content="what?")]


@pytest.fixture(scope="module")
def llm():
    return tiny_llm()


@pytest.fixture(scope="module")
def server(llm):
    with LLMServer(llm, name="tiny") as running:
        yield running


@pytest.fixture
def client(server):
    def client(**settings):
        given = {"max_retries": 0, "temperature": 0, "is_chat_model": True, **settings}
        return OpenAILike(model="tiny", api_base=server.url, api_key="none", **given)

    return client


async def test_the_reply_and_its_tokens_are_the_models(llm, client):
    over_http = LlamaLLM(client())
    here = llm.complete(ASKED)
    assert await over_http.acomplete(ASKED) == here
    assert over_http.complete(ASKED) == here


async def test_a_stream_comes_in_pieces(llm, client):
    whole = client().chat(WHAT).message.content
    pieces = [r.delta for r in client().stream_chat(WHAT)]
    assert "".join(pieces) == whole
    assert len([p for p in pieces if p]) > 10
    assert "".join([r.delta async for r in await client().astream_chat(WHAT)]) == whole


def test_limits_stops_and_seeds_are_kept(client):
    def said(**settings):
        return client(**settings).chat(WHAT).message.content

    text = said()
    assert said(max_tokens=5) == text[:5]
    assert said(additional_kwargs={"stop": [text[4:7]]}) == text[: text.index(text[4:7])]
    sampled = {"temperature": 1.0, "additional_kwargs": {"seed": 11}}
    assert said(**sampled) == said(**sampled) != text


def test_what_the_server_refuses_is_the_clients_error(client):
    with pytest.raises(openai.BadRequestError, match="top_p"):
        client(additional_kwargs={"top_p": 0.5}).chat(WHAT)


def test_a_stream_that_is_left_stops_the_model():
    llm = tiny_llm()
    llm.model.config.max_position_embeddings = 8192
    made = passes(llm)
    with LLMServer(llm, name="tiny", limits=ServerLimits(tokens=8000)) as server:

        def client(tokens):
            return OpenAILike(
                model="tiny", api_base=server.url, api_key="none", is_chat_model=True, max_tokens=tokens
            )

        left = client(8000)
        pieces = left.stream_chat(WHAT)
        next(pieces)
        pieces.close()
        left._get_client().close()  # closing the pieces alone leaves the connection to the garbage collector
        client(1).chat(WHAT)  # its turn comes when the other has ended
    assert len(made) < 8000
