"""`llama-index-llms-openai-like` against a local server: its protocol, and a real (tiny) model behind it.

What is tested is the way there and back: tokens, settings, schemas, streams, limits, time-outs and broken
connections. An untrained model answers nonsense, so every reading of it ends in the fallback, which is the point.
"""

import asyncio

import openai
import pytest
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.llms.openai_like import OpenAILike
from openai_server import NEW_TOKENS
from refusing_server import KEPT, RAISES, refusing

from denoise_core import Message, Usage
from denoise_core.protocols import StructuredLLM
from denoise_core.s2a import Options, S2ADenoiser
from llamaindex_denoise import DenoisePostprocessor, LlamaLLM, record

pytestmark = pytest.mark.enable_socket

ASKED = (Message("system", "be brief"), Message("user", "what?"))
USED = Usage(len("be brief\nwhat?"), NEW_TOKENS)
WANTED = {"type": "object", "properties": {"keep": {"type": "array"}}, "required": ["keep"]}


@pytest.fixture
def client(server):
    def client(**settings):
        settings = {"max_retries": 0, "is_chat_model": True, **settings}
        return OpenAILike(model="tiny", api_base=server.url, api_key="none", **settings)

    return client


def nodes(count):
    return [NodeWithScore(node=TextNode(text=f"One sentence {i}. Another one.", id_=str(i))) for i in range(count)]


def postprocessor(model, at_most=10):
    denoiser = S2ADenoiser(
        LlamaLLM(model),
        variant="select",
        max_concurrency=at_most,
        options=Options(joint=False),
    )
    return DenoisePostprocessor(denoiser=denoiser)


async def denoised(ours, given, sync):
    if sync:
        return await asyncio.to_thread(ours.postprocess_nodes, given, query_str="q")
    return await ours.apostprocess_nodes(given, query_str="q")


def why(node):
    return record(node.node)["fallback"]


async def test_text_and_tokens_are_the_servers(server, client):
    llm = LlamaLLM(client())
    reply = await llm.acomplete(ASKED)
    assert await asyncio.to_thread(llm.complete, ASKED) == reply
    assert (len(reply.text), reply.usage) == (NEW_TOKENS, USED)
    assert [m["role"] for m in server.requests[0]["messages"]] == ["system", "user"]


async def test_a_stream_is_the_text_in_pieces_with_its_tokens(server, client):
    llm = LlamaLLM(client(additional_kwargs={"stream_options": {"include_usage": True}}))
    *pieces, used = await asyncio.to_thread(lambda: list(llm.stream(ASKED)))
    assert [part async for part in llm.astream(ASKED)] == [*pieces, used]
    assert all(request["stream"] for request in server.requests)
    assert used == USED
    assert len(pieces) == NEW_TOKENS
    assert "".join(pieces) == llm.complete(ASKED).text


def test_settings_arrive(server, client):
    model = client(temperature=0.25, additional_kwargs={"stop": ["\n\n"], "seed": 7})
    LlamaLLM(model).complete(ASKED)
    sent = server.requests[0]
    assert (sent["temperature"], sent["seed"], sent["stop"]) == (0.25, 7, ["\n\n"])


async def test_a_schema_is_a_tool_that_must_be_called(server, client):
    server.fields = {"keep": [1]}
    llm = LlamaLLM(client(is_function_calling_model=True))
    assert isinstance(llm, StructuredLLM)
    reply = await llm.acomplete_json(ASKED, WANTED)
    assert await asyncio.to_thread(llm.complete_json, ASKED, WANTED) == reply
    assert (reply.text, reply.usage) == ('{"keep": [1]}', USED)
    for sent in server.requests:
        (tool,) = sent["tools"]
        sent_schema = tool["function"]["parameters"]
        assert {key: sent_schema[key] for key in WANTED} == WANTED
        assert sent["tool_choice"] == "required"
        assert [m["role"] for m in sent["messages"]] == ["system", "user"]


@pytest.mark.parametrize("sync", [True, False])
async def test_s2a_takes_what_it_needs_from_a_reply_by_schema(server, client, sync):
    server.fields = {"keep": [2]}
    out = await denoised(postprocessor(client(is_function_calling_model=True)), nodes(2), sync)
    assert [n.node.text for n in out] == ["Another one."] * 2
    assert [why(n) for n in out] == [None, None]


async def test_text_where_a_known_model_was_asked_for_a_schema_is_handed_on(server, client):
    llm = LlamaLLM(client(is_function_calling_model=True))
    plain = llm.complete(ASKED)
    assert await llm.acomplete_json(ASKED, WANTED) == plain
    assert server.requests[-1]["tools"]


@pytest.mark.parametrize("sync", [True, False])
async def test_twenty_nodes_are_asked_about_ten_at_a_time(server, client, sync):
    server.answer_together(10)
    out = await denoised(postprocessor(client()), nodes(20), sync)
    assert len(server.requests) == 40  # nonsense is asked for once more
    assert server.peak == 10
    assert [n.node.node_id for n in out] == [str(i) for i in range(20)]
    assert "expected one line of numbers" in why(out[0])


@pytest.mark.parametrize("status", [429, 500, 503])
def test_the_clients_own_retries_work(server, client, status):
    server.faults = [status, status]
    assert LlamaLLM(client(max_retries=2)).complete(ASKED).text
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [429, 500])
@pytest.mark.parametrize("sync", [True, False])
async def test_what_still_fails_keeps_that_node_and_names_the_error(server, client, status, sync):
    server.faults = [status]
    out = await denoised(postprocessor(client(), at_most=1), nodes(2), sync)
    assert [n.node.text for n in out] == [n.node.text for n in nodes(2)]
    assert str(status) in why(out[0])
    assert f"fault {status}" in why(out[0])


@pytest.mark.parametrize("sync", [True, False])
async def test_a_time_out_ends_the_call_and_keeps_the_node(server, client, sync):
    server.faults = ["hang"]
    out = await denoised(postprocessor(client(timeout=0.3), at_most=1), nodes(1), sync)
    assert [n.node.text for n in out] == [n.node.text for n in nodes(1)]
    assert "timed out" in why(out[0])


@pytest.mark.parametrize("sync", [True, False])
async def test_a_connection_that_breaks_in_the_middle_of_a_stream(server, client, sync):
    server.faults = ["break"]
    llm = LlamaLLM(client())
    pieces = []

    async def read():
        if not sync:
            async for piece in llm.astream(ASKED):
                pieces.append(piece)
            return
        await asyncio.to_thread(lambda: pieces.extend(llm.stream(ASKED)))

    with pytest.raises(Exception, match=r"peer closed|incomplete|Connection"):
        await read()
    assert len(pieces) <= NEW_TOKENS // 2
    assert len((await llm.acomplete(ASKED)).text) == NEW_TOKENS


def test_nobody_listens(server):
    model = OpenAILike(
        model="tiny", api_base="http://127.0.0.1:9/v1", api_key="none", max_retries=0, is_chat_model=True
    )
    (out,) = postprocessor(model).postprocess_nodes(nodes(1), query_str="q")
    assert "Connection error" in why(out)


async def test_cancelling_leaves_nothing_running(server, client):
    server.faults = ["hang"]
    task = asyncio.create_task(postprocessor(client()).apostprocess_nodes(nodes(1), query_str="q"))
    await asyncio.to_thread(server.arrived.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("status", [*RAISES, *KEPT])
def test_what_a_server_refuses_raises_and_what_fails_is_kept(status):
    """With the stock client: a wrong key is heard of at the first call, whatever ``on_error`` says."""
    with refusing(status) as url:
        llm = OpenAILike(model="tiny", api_base=url, api_key="none", max_retries=0, is_chat_model=True)
        nodes = [NodeWithScore(node=TextNode(text=t)) for t in ("The tower is tall.", "Bananas.")]
        postprocessor = DenoisePostprocessor.from_llm(llm)
        calls = (
            lambda: postprocessor.postprocess_nodes(nodes, query_str="How tall?"),
            lambda: asyncio.run(postprocessor.apostprocess_nodes(nodes, query_str="How tall?")),
        )
        for call in calls:
            if status in RAISES:
                with pytest.raises(openai.APIStatusError):
                    call()
            else:
                kept = call()
                assert [n.node.text for n in kept] == ["The tower is tall.", "Bananas."]
                assert all(record(n.node)["fallback"] for n in kept)
                assert "sk-abcdef" not in str([record(n.node) for n in kept])
