"""`ChatOpenAI`, the stock client, against a local server of a tiny model: the reply is the model's, both ways."""

import asyncio

import pytest
from langchain_core.documents import Document
from langchain_openai import ChatOpenAI
from openai_server import OfLocal, serving
from tiny_llm import tiny_llm

from denoise_core import Message
from denoise_core.s2a import S2ADenoiser
from langchain_denoise import ChatModelLLM, DenoiseCompressor

pytestmark = pytest.mark.enable_socket


class Joined(OfLocal):
    """Many messages as one text, cut to the tiny model's window."""

    def reply(self, text):
        return super().reply(text[-200:])


@pytest.fixture(scope="module")
def llm():
    return tiny_llm()


@pytest.fixture
def server(llm):
    with serving(Joined(llm)) as running:
        yield running


@pytest.mark.parametrize("streaming", [False, True])
async def test_the_reply_is_the_models(llm, server, streaming):
    client = ChatOpenAI(model="tiny", base_url=server.url, api_key="none", max_retries=0, streaming=streaming)
    over_http, asked = ChatModelLLM(client), [Message("user", "what?")]
    here = llm.complete(asked).text
    assert (await over_http.acomplete(asked)).text == here
    assert (await asyncio.to_thread(over_http.complete, asked)).text == here


def test_twenty_documents_through_a_denoiser(server):
    client = ChatOpenAI(model="tiny", base_url=server.url, api_key="none", max_retries=0)
    documents = [Document(page_content=f"Sentence {i}. Another.", id=str(i)) for i in range(20)]
    ours = DenoiseCompressor(denoiser=S2ADenoiser(ChatModelLLM(client), variant="select"))
    out = ours.compress_documents(documents, "q")
    assert [d.id for d in out] == [d.id for d in documents]  # an untrained model's replies keep what came
