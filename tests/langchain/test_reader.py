"""The shipped reader as a LangChain chat model: in the process, and over HTTP with the stock client."""

import pytest
from langchain_openai import ChatOpenAI
from openai_server import OfLocal, serving

from denoise_core import Message
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
    with serving(OfLocal(llm)) as server:
        client = ChatOpenAI(model="reader", base_url=server.url, api_key="none", max_retries=0)
        reply = client.invoke(ASKED)
        assert reply.text == llm.complete([Message("user", ASKED)]).text
