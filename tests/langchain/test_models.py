"""Any chat model as the core's LLM."""

import asyncio

import pytest
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda

from denoise_core import Message, Reply, Usage
from langchain_denoise import ChatModelLLM, RetrieverAdapter
from langchain_denoise._convert import from_messages, to_messages

ASKED = (Message("system", "be brief"), Message("user", "what?"), Message("assistant", "hm"), Message("user", "!"))


def both(llm):
    reply = llm.complete(ASKED)
    assert asyncio.run(llm.acomplete(ASKED)) == reply
    return reply


def test_text_and_tokens(kit):
    model = kit.chat(lambda m: "two words")
    assert both(ChatModelLLM(model)) == Reply("two words", Usage(5, 2))
    assert [m.type for m in model.seen[0]] == ["system", "human", "ai", "human"]


def test_a_model_that_reports_no_tokens(kit):
    assert both(ChatModelLLM(kit.chat(lambda m: AIMessage("hi")))) == Reply("hi", None)


def test_only_text_blocks_count(kit):
    content = [{"type": "reasoning", "reasoning": "let me see"}, {"type": "text", "text": "yes"}]
    assert both(ChatModelLLM(kit.chat(lambda m: AIMessage(content)))).text == "yes"


def test_settings_are_bound_as_usual():
    seen = []

    def model(messages, **settings):
        seen.append(settings)
        return AIMessageChunk("ok")

    bound = RunnableLambda(model).bind(stop=["\n"], temperature=0, seed=1)
    assert both(ChatModelLLM(bound)).text == "ok"
    assert seen == [{"stop": ["\n"], "temperature": 0, "seed": 1}] * 2


def test_retries_of_the_model_itself(kit):
    replies = iter([TimeoutError("slow"), "done", TimeoutError("slow"), "done"])

    def reply(messages):
        answer = next(replies)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert both(ChatModelLLM(kit.chat(reply).with_retry(wait_exponential_jitter=False))).text == "done"


def test_completion_models_and_chains_that_end_in_text(kit):
    assert both(ChatModelLLM(FakeListLLM(responses=["plain"]))) == Reply("plain", None)
    assert both(ChatModelLLM(kit.chat(lambda m: "text") | StrOutputParser())) == Reply("text", None)


def test_errors_keep_their_type(kit):
    with pytest.raises(ConnectionError):
        ChatModelLLM(kit.chat(kit.fail_chat)).complete(ASKED)


@pytest.mark.parametrize("adapter", [ChatModelLLM, RetrieverAdapter])
def test_what_is_no_runnable_is_refused(adapter):
    with pytest.raises(ValueError, match="got str"):
        adapter("gpt")


def test_a_chain_that_does_not_answer_with_text():
    with pytest.raises(ValueError, match="got dict"):
        ChatModelLLM(RunnableLambda(lambda m: {})).complete(ASKED)


def test_messages_there_and_back():
    assert from_messages(to_messages(ASKED)) == ASKED
