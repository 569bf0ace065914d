"""The shipped reader as a LangChain chat model: in the process, and over HTTP with the stock client."""

import pytest
from langchain_openai import ChatOpenAI

from denoise_core import Message
from denoise_core.serve import LLMServer
from denoise_lab import reader
from langchain_denoise import LocalChatModel

ASKED = "Bjorn Linzana keeps a goat. Amara Velmorek keeps a swan.\n\nWhich animal does Bjorn Linzana keep?"


@pytest.fixture(scope="module")
def llm():
    return reader(max_new_tokens=12)


def test_in_the_process(llm):
    assert LocalChatModel(llm=llm).invoke(ASKED).text == llm.complete([Message("user", ASKED)]).text != ""


@pytest.mark.enable_socket
def test_over_http(llm):
    with LLMServer(llm, name="reader") as server:
        client = ChatOpenAI(model="reader", base_url=server.url, api_key="none", max_retries=0)
        reply = client.invoke(ASKED)
        assert reply.text == llm.complete([Message("user", ASKED)]).text
        assert reply.response_metadata["finish_reason"] == "stop"
        sampled = [client.bind(temperature=1.5, seed=3).invoke(ASKED).text for _ in range(2)]
        assert sampled[0] == sampled[1]
