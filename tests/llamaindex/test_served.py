"""`OpenAILike`, the stock client, against a local server of a tiny model: the reply is the model's, both ways."""

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.llms.openai_like import OpenAILike
from openai_server import OfLocal, serving
from tiny_llm import tiny_llm

from denoise_core import Message
from llamaindex_denoise import LlamaLLM

pytestmark = pytest.mark.enable_socket

WHAT = [ChatMessage(role="user", content="what?")]


@pytest.fixture(scope="module")
def llm():
    return tiny_llm()


@pytest.fixture
def client(llm):
    with serving(OfLocal(llm)) as server:
        yield OpenAILike(
            model="tiny", api_base=server.url, api_key="none", max_retries=0, temperature=0, is_chat_model=True
        )


async def test_the_reply_is_the_models(llm, client):
    over_http, asked = LlamaLLM(client), [Message("user", "what?")]
    here = llm.complete(asked).text
    assert (await over_http.acomplete(asked)).text == over_http.complete(asked).text == here


async def test_a_stream_comes_in_pieces(client):
    whole = client.chat(WHAT).message.content
    pieces = [r.delta for r in client.stream_chat(WHAT)]
    assert "".join(pieces) == whole
    assert len([p for p in pieces if p]) > 10
    assert "".join([r.delta async for r in await client.astream_chat(WHAT)]) == whole
