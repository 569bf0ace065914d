"""A local model as a LangChain chat model: in the process, and over HTTP with the stock client."""

import pytest
from langchain_openai import ChatOpenAI
from openai_server import OfLocal, serving
from tiny_llm import tiny_llm

from denoise_core import Message
from langchain_denoise import LocalChatModel

ASKED = "Bjorn keeps a goat. Amara keeps a swan.\n\nWhich animal does Bjorn keep?"


@pytest.fixture(scope="module")
def llm():
    return tiny_llm()


def test_in_the_process(llm):
    assert (
        LocalChatModel(llm=llm).invoke(ASKED).text
        == llm.complete([Message("user", ASKED)]).text
        != ""
    )


@pytest.mark.enable_socket
def test_over_http(llm):
    with serving(OfLocal(llm)) as server:
        client = ChatOpenAI(
            model="tiny", base_url=server.url, api_key="none", max_retries=0
        )
        assert client.invoke(ASKED).text == llm.complete([Message("user", ASKED)]).text
