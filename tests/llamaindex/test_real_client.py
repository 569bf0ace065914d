"""`llama-index-llms-openai-like` against a local server: its protocol, and nonsense behind it.

What is tested is the way there and back: tokens, settings, schemas, streams, limits, time-outs and broken
connections. Nobody can read nonsense, so every reading of it ends in the fallback, which is the point.
"""

import asyncio

import openai
import pytest
from llama_index.llms.openai_like import OpenAILike
from llamaindex_denoisers import scored, texts_of
from openai_server import NEW_TOKENS

from denoise_core import Message, Usage
from denoise_core.protocols import StructuredLLM
from llamaindex_denoise import DenoisePostprocessor, LlamaLLM, record

pytestmark = pytest.mark.enable_socket

ASKED = (Message("system", "be brief"), Message("user", "what?"))
USED = Usage(len("be brief\nwhat?"), NEW_TOKENS)
WANTED = {
    "type": "object",
    "properties": {"keep": {"type": "array"}},
    "required": ["keep"],
}


@pytest.fixture
def client(server):
    def client(**settings):
        settings = {"max_retries": 0, "is_chat_model": True, **settings}
        return OpenAILike(model="tiny", api_base=server.url, api_key="none", **settings)

    return client


async def test_text_and_tokens_are_the_servers(server, client):
    llm = LlamaLLM(client())
    reply = await llm.acomplete(ASKED)
    assert await asyncio.to_thread(llm.complete, ASKED) == reply
    assert len(reply.text) == NEW_TOKENS
    assert reply.usage == USED
    assert [m["role"] for m in server.requests[0]["messages"]] == ["system", "user"]


async def test_a_schema_is_a_tool_that_must_be_called(server, client):
    server.fields = {"keep": [1]}
    llm = LlamaLLM(client(is_function_calling_model=True))
    assert isinstance(llm, StructuredLLM)
    reply = await llm.acomplete_json(ASKED, WANTED)
    assert await asyncio.to_thread(llm.complete_json, ASKED, WANTED) == reply
    assert reply.text == '{"keep": [1]}'
    assert reply.usage == USED
    for sent in server.requests:
        (tool,) = sent["tools"]
        sent_schema = tool["function"]["parameters"]
        assert {**sent_schema, **WANTED} == sent_schema
        assert sent["tool_choice"] == "required"
        assert [m["role"] for m in sent["messages"]] == ["system", "user"]


RAISES = [401, 403]


@pytest.mark.parametrize("status", [*RAISES, 408, 409, 429, 500, 503])
def test_what_a_server_refuses_raises_and_what_fails_is_kept(server, client, status):
    """With the stock client: a wrong key is heard of at the first call, whatever ``on_error`` says."""
    server.faults = [status] * 99
    texts = ["The tower is tall.", "Bananas."]
    nodes = [scored(text) for text in texts]
    postprocessor = DenoisePostprocessor(llm=client())
    for call in (
        lambda: postprocessor.postprocess_nodes(nodes, query_str="How tall?"),
        lambda: asyncio.run(
            postprocessor.apostprocess_nodes(nodes, query_str="How tall?")
        ),
    ):
        if status in RAISES:
            with pytest.raises(openai.APIStatusError):
                call()
            continue
        kept_items = call()
        assert texts_of(kept_items) == texts
        for hit in kept_items:
            fallback = record(hit.node)["fallback"]
            assert f"fault {status}" in fallback
            assert "sk-abcdef" not in fallback
