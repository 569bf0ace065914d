"""Any chat model as the core's LLM."""

import asyncio
import json

import pytest
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda

from denoise_core import Message, Reply, Usage
from denoise_core.errors import ContractViolation
from langchain_denoise import ChatModelLLM, RetrieverAdapter

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


def test_text_and_tokens(test_kit):
    model = test_kit.chat(lambda message: "two words")
    assert both(ChatModelLLM(model)) == Reply("two words", Usage(5, 2))
    assert [message.type for message in model.calls[0]] == [
        "system",
        "human",
        "ai",
        "human",
    ]


def test_a_model_that_reports_no_tokens(test_kit):
    assert both(ChatModelLLM(test_kit.chat(lambda message: AIMessage("hi")))) == Reply(
        "hi", None
    )


def test_only_text_blocks_count(test_kit):
    content = [
        {"type": "reasoning", "reasoning": "let me see"},
        {"type": "text", "text": "yes"},
    ]
    assert (
        both(ChatModelLLM(test_kit.chat(lambda message: AIMessage(content)))).text
        == "yes"
    )


def test_completion_models_and_chains_that_end_in_text(test_kit):
    assert both(ChatModelLLM(FakeListLLM(responses=["plain"]))) == Reply("plain", None)
    assert both(
        ChatModelLLM(test_kit.chat(lambda message: "text") | StrOutputParser())
    ) == Reply("text", None)


@pytest.mark.parametrize("adapter", [ChatModelLLM, RetrieverAdapter])
def test_what_is_no_runnable_is_refused(adapter):
    with pytest.raises(ValueError, match="got object"):
        adapter(object())


def test_a_model_by_its_name(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert ChatModelLLM("openai:gpt-4o-mini").model.model_name == "gpt-4o-mini"
    with pytest.raises(ValueError, match="infer model provider"):
        ChatModelLLM("no such model")


def test_a_chain_that_does_not_answer_with_text():
    with pytest.raises(ContractViolation, match="got dict"):
        ChatModelLLM(RunnableLambda(lambda message: {})).complete(QUESTION_INPUT)


SCHEMA = {
    "type": "object",
    "properties": {"keep": {"type": "array", "items": {"type": "integer"}}},
    "required": ["keep"],
}


def both_json(local_llm):
    reply = local_llm.complete_json(QUESTION_INPUT, SCHEMA)
    assert asyncio.run(local_llm.acomplete_json(QUESTION_INPUT, SCHEMA)) == reply
    return reply


def by_tool(messages):
    return AIMessage(
        "",
        tool_calls=[
            {
                "name": "reply",
                "args": {"keep": [1, 3]},
                "id": "1",
            }
        ],
    )


def test_a_model_that_can_is_held_to_the_schema(test_kit):
    assert json.loads(
        both_json(ChatModelLLM(test_kit.chat(by_tool), structured=True)).text
    ) == {"keep": [1, 3]}


@pytest.mark.parametrize("refusal", [NotImplementedError, ValueError])
def test_a_refused_form_is_asked_for_as_text_from_then_on(test_kit, refusal):
    class Refuses(type(test_kit.chat())):
        def with_structured_output(self, schema, **how):
            raise refusal

    local_llm = ChatModelLLM(Refuses(reply=lambda message: "1, 3"))
    assert local_llm.structured is None
    assert both_json(local_llm).text == "1, 3"
    assert local_llm.structured is False
    with pytest.raises(refusal):
        ChatModelLLM(
            Refuses(reply=lambda message: "1, 3"), structured=True
        ).complete_json(QUESTION_INPUT, SCHEMA)


def test_a_failure_is_no_refusal(test_kit):
    local_llm = ChatModelLLM(test_kit.chat(test_kit.fail_chat))
    with pytest.raises(ConnectionError):
        local_llm.complete_json(QUESTION_INPUT, SCHEMA)
    assert local_llm.structured is None


def test_a_failure_of_the_schema_call_alone_is_raised_and_not_asked_again(test_kit):
    class Breaks(type(test_kit.chat())):
        def with_structured_output(self, schema, **how):
            raise ConnectionError("reset")

    local_llm = ChatModelLLM(Breaks(reply=lambda message: "1, 3"))
    with pytest.raises(ConnectionError):
        local_llm.complete_json(QUESTION_INPUT, SCHEMA)
    assert local_llm.structured is None


def test_a_model_that_does_not_keep_to_the_schema_after_all(test_kit):
    assert (
        both_json(
            ChatModelLLM(test_kit.chat(lambda message: "1, 3"), structured=True)
        ).text
        == "1, 3"
    )


def test_without_structured_output_the_text_is_handed_on(test_kit):
    assert both_json(ChatModelLLM(test_kit.chat(lambda message: "1, 3"))).text == "1, 3"
