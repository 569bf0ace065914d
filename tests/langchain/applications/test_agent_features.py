"""Whole applications with what surrounds retrieval: stores, histories, limits, contexts, typed answers."""

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware
from langchain_agents import (
    both_ways,
    by_words,
    calls,
    cut_results,
    run,
    tool_message,
)
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from denoise_core.augmenter import LoopLimits
from denoise_core.testing import FunctionScorer
from langchain_denoise import (
    verified,
)
from langchain_denoise.middleware import VerificationMiddleware

TOWER = "The Eiffel Tower was completed in 1889."
WRONG = "The Eiffel Tower was completed in 1912."
QUESTION = "When was the Eiffel Tower completed?"
QUESTION_INPUT = {"messages": [HumanMessage(QUESTION)]}
SOURCE_DOCUMENTS = [
    Document(
        page_content=text,
        id=i,
        metadata={"source": f"{i}.md"},
    )
    for i, text in (
        ("tower", TOWER),
        ("fruit", " ".join(["Bananas are yellow."] * 9)),
        ("paint", " ".join(["The Eiffel Tower is brown."] * 9)),
    )
]

pytestmark = pytest.mark.filterwarnings(
    "ignore::langchain_core._api.LangChainDeprecationWarning"
)


def by_tower():
    return FunctionScorer(
        lambda query, text: float("Tower" in text) + float("1889" in text)
    )


def looking_up(answer):
    """A model that calls ``look`` first and then says ``answer(messages)``."""

    def reply(messages):
        if not any(isinstance(message, ToolMessage) for message in messages):
            return calls("look", query="Eiffel Tower")
        return answer(messages)

    return reply


def second_time(messages):
    return TOWER if "did not hold" in messages[-1].text else WRONG


@tool
def look(query: str) -> str:
    """Looks things up."""
    return TOWER


def test_a_history_inside_a_verified_chain_has_the_answer_that_was_sent(test_kit):
    """Every rejected draft used to be in the user's history."""
    history = InMemoryChatMessageHistory()
    chain = RunnableWithMessageHistory(
        test_kit.chat(second_time), lambda session_id: history
    )
    checked = verified(chain, evidence=lambda chain_input, output: SOURCE_DOCUMENTS)
    config = {"configurable": {"session_id": "1"}}
    answer = checked.invoke([HumanMessage(QUESTION)], config)
    assert answer.response_metadata["denoise"]["stopped_because"] == "not_repeatable"
    assert [message.text for message in history.messages] == [QUESTION, answer.text]


@both_ways
async def test_drafts_count_as_calls_of_the_model(test_kit, is_sync):
    """Of four calls LangChain's limit had counted two."""
    model = test_kit.chat(looking_up(second_time))
    denoising_agent = create_agent(
        model, [look], middleware=[VerificationMiddleware(), ModelCallLimitMiddleware(thread_limit=3)],
        checkpointer=InMemorySaver(),
    )  # fmt: skip
    thread = {"configurable": {"thread_id": "1"}}
    run_output = await run(denoising_agent, is_sync, QUESTION_INPUT, thread)
    assert (run_output["messages"][-1].text, len(model.calls)) == (TOWER, 3)
    second_result = await run(denoising_agent, is_sync, QUESTION_INPUT, thread)
    assert "limit" in second_result["messages"][-1].text
    assert len(model.calls) == 3


def test_a_conversation_is_no_claim():
    """With ``unsupported="abstain"`` a greeting became "I found no answer to this"."""
    text = "Hello! How can I help you?"
    chain = verified(
        lambda input_value: {"answer": text, "context": SOURCE_DOCUMENTS},
        limits=LoopLimits(unsupported="abstain"),
    )
    assert chain.invoke({"question": "hi"})["answer"] == text


@both_ways
async def test_one_call_of_an_agent_says_how_much_is_kept(make_agent, is_sync):
    agent, _ = make_agent(cut_results(by_words()))
    for settings, count in ((None, 1), ({"keep": 2}, 2), ({"keep": 3}, 3)):
        config = {"configurable": {"denoise": settings}}
        state = await run(agent, is_sync, config=config)
        assert len(tool_message(state).artifact) == count
