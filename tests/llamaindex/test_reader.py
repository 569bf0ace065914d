"""The shipped reader in LlamaIndex: its own Hugging Face class, and over HTTP with the stock client."""

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.llms.huggingface import HuggingFaceLLM
from llama_index.llms.openai_like import OpenAILike
from openai_server import OfLocal, serving

from denoise_core import Message
from denoise_lab import FOLDER, reader

ASKED = "Bjorn Linzana keeps a goat. Amara Velmorek keeps a swan.\n\nWhich animal does Bjorn Linzana keep?"
CHAT = [ChatMessage(role="user", content=ASKED)]


@pytest.fixture(scope="module")
def llm():
    return reader(max_new_tokens=12)


def test_as_a_hugging_face_llm(llm):
    name = str(FOLDER)
    standard = HuggingFaceLLM(
        model_name=name, tokenizer_name=name, context_window=16_384, max_new_tokens=12, is_chat_model=True
    )
    assert standard.chat(CHAT).message.content.strip() == llm.complete([Message("user", ASKED)]).text.strip() != ""


@pytest.mark.enable_socket
def test_over_http(llm):
    with serving(OfLocal(llm)) as server:
        client = OpenAILike(
            model="reader", api_base=server.url, api_key="none", is_chat_model=True, temperature=0, max_retries=0
        )
        wanted = llm.complete([Message("user", ASKED)]).text
        assert client.chat(CHAT).message.content == wanted
        assert "".join(r.delta for r in client.stream_chat(CHAT)) == wanted
