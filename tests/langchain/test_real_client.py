"""`langchain-openai` against a local server that speaks its protocol and answers nonsense.

What is tested is the way there and back: tokens, settings, streams, limits, time-outs and broken connections.
Nobody can read nonsense, so every reading of it ends in the fallback, which is the point.
"""

import asyncio

import openai
import pytest
from langchain_agents import both_ways, run
from langchain_core.documents import Document
from openai_server import NEW_TOKENS

from denoise_core import Message
from denoise_core.s2a import Options, S2ADenoiser
from langchain_denoise import ChatModelLLM, DenoiseCompressor

pytestmark = pytest.mark.enable_socket

QUESTION_INPUT = (Message("system", "be brief"), Message("user", "what?"))


def documents(count):
    return [
        Document(page_content=f"One sentence {i}. Another one.", id=str(i))
        for i in range(count)
    ]


def compressor(model, **settings):
    return DenoiseCompressor(
        denoiser=S2ADenoiser(
            ChatModelLLM(
                model, structured=False
            ),  # nothing to find out by asking one alone
            variant="select",
            options=Options(join_passages=False),
            **settings,
        ),
    )


@pytest.mark.parametrize("streaming", [False, True])
async def test_text_and_tokens_are_the_servers(server, client, streaming):
    local_llm = ChatModelLLM(client(streaming=streaming, stream_usage=True))
    reply = await local_llm.acomplete(QUESTION_INPUT)
    assert await asyncio.to_thread(local_llm.complete, QUESTION_INPUT) == reply
    assert len(reply.text) == NEW_TOKENS
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (
        len("be brief\nwhat?"),
        NEW_TOKENS,
    )
    assert [message["role"] for message in server.requests[0]["messages"]] == [
        "system",
        "user",
    ]
    assert bool(server.requests[0].get("stream")) is streaming


@both_ways
async def test_a_time_out_ends_the_call_and_keeps_the_document(server, client, is_sync):
    server.faults = ["hang"]
    ours = compressor(client(timeout=0.3), max_concurrency=1)
    chain_input = {"documents": documents(1), "query": "q"}
    [document] = await run(ours, is_sync, chain_input)
    assert "Timeout" in document.metadata["denoise_fallback"]


async def test_cancelling_leaves_nothing_running(server, client):
    server.faults = ["hang"]
    ours = compressor(client())
    task = asyncio.create_task(ours.acompress_documents(documents(1), "q"))
    await asyncio.to_thread(server.arrived.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


RAISES = [401, 403]


@pytest.mark.parametrize("status", [*RAISES, 408, 409, 429, 503])
async def test_what_a_server_refuses_raises_and_what_fails_is_kept(
    server, client, status
):
    """With the stock client: a wrong key is heard of at the first call, whatever ``on_error`` says."""
    server.faults = [status] * 99
    chain_input = {"documents": documents(2), "query": "How tall?"}
    for is_sync in (True, False):
        call = run(DenoiseCompressor(model=client()), is_sync, chain_input)
        if status in RAISES:
            with pytest.raises(openai.APIStatusError):
                await call
            continue
        for document, original in zip(await call, documents(2), strict=True):
            assert document.page_content == original.page_content
            fallback = document.metadata["denoise_fallback"]
            assert f"Error code: {status}" in fallback
            assert "sk-abcdef" not in fallback
