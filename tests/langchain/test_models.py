"""Any chat model as the core's LLM."""

import asyncio
import json

import pytest
from chain_parts import chat
from function_chat_model import FunctionChatModel
from langchain_agents import calls
from langchain_core.caches import InMemoryCache
from langchain_core.language_models import FakeListChatModel
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda

from denoise_core import Message, Reply
from denoise_core.errors import ContractViolation
from denoise_core.s2a.prompts import REPLY_FORMS
from langchain_denoise import ChatModelLLM

QUESTION_INPUT = (
    Message("system", "be brief"),
    Message("user", "what?"),
    Message("assistant", "hm"),
    Message("user", "!"),
)


def both(local_llm):
    reply = local_llm.complete(QUESTION_INPUT)
    assert asyncio.run(local_llm.acomplete(QUESTION_INPUT)) == reply
    return reply


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("hi", "hi"),
        (
            [
                {"type": "reasoning", "reasoning": "let me see"},
                {"type": "text", "text": "yes"},
            ],
            "yes",
        ),
    ],
    ids=["no tokens are reported", "only text blocks count"],
)
def test_the_text_of_a_message(content, text):
    model = chat(lambda message: AIMessage(content))
    assert both(ChatModelLLM(model)) == Reply(text, None)


def test_completion_models_and_chains_that_end_in_text():
    chain = chat(lambda message: "plain") | StrOutputParser()
    # A reply from the cache reports a cost and no tokens.
    cached_model = FakeListChatModel(responses=["plain"], cache=InMemoryCache())
    for model in (FakeListLLM(responses=["plain"]), chain, cached_model):
        assert both(ChatModelLLM(model)) == Reply("plain", None)


def test_a_model_by_its_name(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert ChatModelLLM("openai:gpt-4o-mini").model.model_name == "gpt-4o-mini"
    with pytest.raises(ValueError, match="infer model provider"):
        ChatModelLLM("no such model")


def test_a_chain_that_does_not_answer_with_text():
    with pytest.raises(ContractViolation, match="got dict"):
        ChatModelLLM(RunnableLambda(lambda message: {})).complete(QUESTION_INPUT)


SCHEMA = REPLY_FORMS["select"].schema


def both_json(local_llm):
    reply = local_llm.complete_json(QUESTION_INPUT, SCHEMA)
    assert asyncio.run(local_llm.acomplete_json(QUESTION_INPUT, SCHEMA)) == reply
    return reply


def test_a_model_that_can_is_held_to_the_schema():
    model = chat(lambda messages: calls("reply", keep=[1, 3]))
    reply = both_json(ChatModelLLM(model, structured=True))
    assert json.loads(reply.text) == {"keep": [1, 3]}


def raising(error):
    """A model that cannot be held to a schema."""

    class Raises(FunctionChatModel):
        def with_structured_output(self, schema, **how):
            raise error

    return Raises(reply=lambda message: "1, 3")


@pytest.mark.parametrize("refusal", [NotImplementedError, ValueError])
def test_a_refused_form_is_asked_for_as_text_from_then_on(refusal):
    local_llm = ChatModelLLM(raising(refusal))
    assert local_llm.structured is None
    assert both_json(local_llm).text == "1, 3"
    assert local_llm.structured is False
    with pytest.raises(refusal):
        both_json(ChatModelLLM(raising(refusal), structured=True))


def test_a_failure_of_the_schema_call_alone_is_raised_and_not_asked_again():
    local_llm = ChatModelLLM(raising(ConnectionError("reset")))
    with pytest.raises(ConnectionError):
        both_json(local_llm)
    assert local_llm.structured is None


@pytest.mark.parametrize("structured", [True, None])
def test_text_in_place_of_the_schema_is_handed_on(structured):
    model = chat(lambda message: "1, 3")
    assert both_json(ChatModelLLM(model, structured=structured)).text == "1, 3"
