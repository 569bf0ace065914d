"""A local model as a LangChain chat model: in the process, and over HTTP with the stock client."""

import pytest
from langchain_openai import ChatOpenAI
from openai_server import OfLocal, serving
from tiny_llm import tiny_llm

from denoise_core import Message
from langchain_denoise import LocalChatModel

QUESTION_INPUT = (
    "Bjorn keeps a goat. Amara keeps a swan.\n\nWhich animal does Bjorn keep?"
)


@pytest.fixture(scope="module")
def local_llm():
    return tiny_llm()


def test_in_the_process(local_llm):
    assert (
        LocalChatModel(llm=local_llm).invoke(QUESTION_INPUT).text
        == local_llm.complete([Message("user", QUESTION_INPUT)]).text
        != ""
    )


@pytest.mark.enable_socket
def test_over_http(local_llm):
    with serving(OfLocal(local_llm)) as server:
        client = ChatOpenAI(
            model="tiny", base_url=server.url, api_key="none", max_retries=0
        )
        assert (
            client.invoke(QUESTION_INPUT).text
            == local_llm.complete([Message("user", QUESTION_INPUT)]).text
        )
