"""A local model in LlamaIndex: its own Hugging Face class, and over HTTP with the stock client."""

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.llms.huggingface import HuggingFaceLLM
from llama_index.llms.openai_like import OpenAILike
from openai_server import OfLocal, serving
from tiny_llm import tiny_llm

from denoise_core import Message

ASKED = "Bjorn keeps a goat. Amara keeps a swan.\n\nWhich animal does Bjorn keep?"
CHAT = [ChatMessage(role="user", content=ASKED)]


@pytest.fixture(scope="module")
def llm():
    return tiny_llm()


def test_as_a_hugging_face_llm(llm):
    standard = HuggingFaceLLM(
        model=llm.model, tokenizer=llm.tokenizer, context_window=512, max_new_tokens=24, is_chat_model=True
    )
    assert standard.chat(CHAT).message.content.strip() == llm.complete([Message("user", ASKED)]).text.strip() != ""


@pytest.mark.enable_socket
def test_over_http(llm):
    with serving(OfLocal(llm)) as server:
        client = OpenAILike(
            model="tiny", api_base=server.url, api_key="none", is_chat_model=True, temperature=0, max_retries=0
        )
        wanted = llm.complete([Message("user", ASKED)]).text
        assert client.chat(CHAT).message.content == wanted
        assert "".join(r.delta for r in client.stream_chat(CHAT)) == wanted
