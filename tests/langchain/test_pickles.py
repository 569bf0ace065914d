"""A pickle holds no key; a copy has all that the original has."""

import copy
import pickle
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, SecretStr

from denoise_core import Message
from langchain_denoise import ChatModelLLM, DenoiseCompressor, S2AMessages

KEY = "sk-proj-abcdefghijklmnop"
WORDS = "correct-horse-battery"


class Keyed(BaseChatModel):
    """A chat model that pickles, with its key in each of the usual places."""

    api_key: str | None = KEY
    hidden: SecretStr | None = SecretStr(WORDS)
    base_url: str | None = f"https://user:{WORDS}@host/v1"
    default_headers: dict[str, Any] = Field({"Authorization": f"Bearer {WORDS}", "x-team": "blue"})
    model_kwargs: dict[str, Any] = Field({"extra": [{"password": WORDS, "top_k": 3}]})
    max_tokens: int = 256
    stop: str = "token"

    @property
    def _llm_type(self):
        return "keyed"

    def _generate(self, messages, stop=None, run_manager=None, **_):
        return ChatResult(generations=[ChatGeneration(message=AIMessage("1"))])


WRAPPED = {
    "the core's model": lambda: ChatModelLLM(Keyed()),
    "a bound model": lambda: ChatModelLLM(Keyed().bind(stop=["x"], api_key=KEY)),
    "a compressor": lambda: DenoiseCompressor(model=Keyed()),
    "a clearing step": lambda: S2AMessages(model=Keyed()),
    "a compressor around the core's model": lambda: DenoiseCompressor(model=ChatModelLLM(Keyed())),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_no_secret_is_in_a_pickle(name):
    made = WRAPPED[name]()
    data = pickle.dumps(made)
    assert KEY.encode() not in data
    assert WORDS.encode() not in data
    assert b"blue" in data  # what is no secret goes along
    assert b"top_k" in data
    twin = pickle.loads(data)  # noqa: S301
    if isinstance(twin, ChatModelLLM):
        assert twin.complete([Message("user", "x")]).text == "1"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("name", ["the core's model", "a compressor"])
def test_a_copy_keeps_its_key_and_a_pickle_changes_nothing(name, copied):
    made = WRAPPED[name]()
    pickle.dumps(made)
    for one in (made, copied(made)):
        assert one.model.api_key == KEY
        assert one.model.hidden.get_secret_value() == WORDS
        assert one.model.default_headers["Authorization"] == f"Bearer {WORDS}"
