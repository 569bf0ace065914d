"""`ChatOpenAI`, the stock client, against `LLMServer`: a real model, a real protocol, both ways."""

import asyncio
import threading

import openai
import pytest
from langchain_openai import ChatOpenAI
from tiny_llm import passes, tiny_llm

from denoise_core import Message
from denoise_core.s2a import S2ADenoiser
from denoise_core.serve import LLMServer, ServerLimits
from langchain_denoise import ChatModelLLM, DenoiseCompressor

pytestmark = pytest.mark.enable_socket

ASKED = (Message("system", "be brief"), Message("user", "what?"))


@pytest.fixture(scope="module")
def llm():
    return tiny_llm()


@pytest.fixture
def server(llm):  # one a test: the client keeps connections by address, and those of another event loop are dead
    with LLMServer(llm, name="tiny") as running:
        yield running


@pytest.fixture
def client(server):
    def client(**settings):
        given = {"max_retries": 0, "stream_usage": True, **settings}
        return ChatOpenAI(model="tiny", base_url=server.url, api_key="none", **given)

    return client


@pytest.mark.parametrize("streaming", [False, True])
async def test_the_reply_and_its_tokens_are_the_models(llm, client, streaming):
    over_http = ChatModelLLM(client(streaming=streaming))
    here = llm.complete(ASKED)
    assert await over_http.acomplete(ASKED) == here
    assert await asyncio.to_thread(over_http.complete, ASKED) == here


def test_a_stream_comes_in_pieces_and_ends_with_its_tokens_and_reason(llm, client):
    chunks = list(client().stream([("user", "what?")]))
    whole = client().invoke([("user", "what?")])
    assert len(chunks) > 10
    assert "".join(c.text for c in chunks) == whole.text
    assert [c.usage_metadata for c in chunks if c.usage_metadata] == [whole.usage_metadata]
    assert whole.response_metadata["finish_reason"] == "length"


def test_limits_stops_and_seeds_are_kept(llm, client):
    text = client().invoke("what?").text
    assert client(max_tokens=5).invoke("what?").text == text[:5]
    assert client(stop=[text[4:7]]).invoke("what?").text == text[: text.index(text[4:7])]
    sampled = client(temperature=1, seed=11)
    assert sampled.invoke("what?").text == sampled.invoke("what?").text != text


def test_what_the_server_refuses_is_the_clients_error(client):
    with pytest.raises(openai.BadRequestError, match="n=3 is not supported"):
        client(n=3).invoke("what?")
    with pytest.raises(openai.BadRequestError, match="window is 512"):
        client().invoke("x" * 600)
    with pytest.raises(openai.NotFoundError, match="there is no model"):
        client().bind(model="gpt-5").invoke("what?")


def test_a_stream_that_is_left_stops_the_model():
    llm = tiny_llm()
    llm.model.config.max_position_embeddings = 8192
    made = passes(llm)
    with LLMServer(llm, name="tiny", limits=ServerLimits(tokens=8000)) as server:
        model = ChatOpenAI(model="tiny", base_url=server.url, api_key="none", max_retries=0, max_tokens=8000)
        pieces = model.stream("what?")
        assert next(pieces)
        pieces.close()
        for thread in threading.enumerate():
            if thread.name == "denoise-generate":
                thread.join()
    assert len(made) < 8000


def test_twenty_documents_through_a_denoiser(client):
    from langchain_core.documents import Document

    documents = [Document(page_content=f"Sentence {i}. Another.", id=str(i)) for i in range(20)]
    ours = DenoiseCompressor(denoiser=S2ADenoiser(ChatModelLLM(client(max_tokens=4)), variant="select"))
    out = ours.compress_documents(documents, "q")
    assert [d.id for d in out] == [d.id for d in documents]  # an untrained model's replies keep what came
