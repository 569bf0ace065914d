"""Whole applications with what surrounds retrieval: stores, histories, limits, people who approve."""

from chain_parts import ListRetriever, chat
from langchain.agents import create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
)
from langchain_agents import (
    THREAD,
    both_ways,
    by_words,
    calls,
    cut_results,
    keep_only,
    make_agent,
    run,
    search_then_answer,
    tool_message,
)
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.tools import create_retriever_tool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from denoise_core.augmenter import LoopLimits
from langchain_denoise import Verifier, verified
from langchain_denoise.middleware import VerificationMiddleware

TOWER = "The Eiffel Tower was completed in 1889."
WRONG = "The Eiffel Tower was completed in 1912."
QUESTION = "When was the Eiffel Tower completed?"
QUESTION_INPUT = {"messages": [HumanMessage(QUESTION)]}
SOURCE_DOCUMENTS = [Document(page_content=TOWER, id="tower")]
FRUIT = Document(page_content="Bananas are yellow. " * 9, id="fruit")


def second_time(messages):
    return TOWER if "did not hold" in messages[-1].text else WRONG


@tool
def search(query: str):
    """Looks things up."""
    return TOWER


def test_a_history_inside_a_verified_chain_has_the_answer_that_was_sent():
    """Every rejected draft used to be in the user's history."""
    history = InMemoryChatMessageHistory()
    chain = RunnableWithMessageHistory(chat(second_time), lambda session_id: history)
    checked = verified(chain, evidence=lambda chain_input, output: SOURCE_DOCUMENTS)
    config = {"configurable": {"session_id": "1"}}
    answer = checked.invoke([HumanMessage(QUESTION)], config)
    assert answer.response_metadata["denoise"]["stopped_because"] == "not_repeatable"
    assert [message.text for message in history.messages] == [QUESTION, answer.text]


@both_ways
async def test_drafts_count_as_calls_of_the_model(is_sync):
    """Of four calls LangChain's limit had counted two."""
    model = chat(search_then_answer(second_time))
    limit = ModelCallLimitMiddleware(thread_limit=3)
    denoising_agent = create_agent(
        model,
        [search],
        middleware=[VerificationMiddleware(), limit],
        checkpointer=InMemorySaver(),
    )
    run_output = await run(denoising_agent, is_sync, QUESTION_INPUT, THREAD)
    assert (run_output["messages"][-1].text, len(model.calls)) == (TOWER, 3)
    second_result = await run(denoising_agent, is_sync, QUESTION_INPUT, THREAD)
    assert "limit" in second_result["messages"][-1].text
    assert len(model.calls) == 3


def test_a_conversation_is_no_claim():
    """With ``unsupported="abstain"`` a greeting became "I found no answer to this"."""
    text = "Hello! How can I help you?"
    chain = verified(
        lambda input_value: {"answer": text, "context": SOURCE_DOCUMENTS},
        Verifier(limits=LoopLimits(unsupported="abstain")),
    )
    assert chain.invoke({"question": "hi"})["answer"] == text


@both_ways
async def test_one_call_of_an_agent_says_how_much_is_kept(is_sync):
    agent, _ = make_agent(cut_results(by_words()))
    for settings, count in ((None, 1), ({"keep": 2}, 2), ({"keep": 3}, 3)):
        config = {"configurable": {"denoise": settings}}
        state = await run(agent, is_sync, config=config)
        assert len(tool_message(state).artifact) == count


@both_ways
async def test_an_agent_with_interrupt_and_checkpointer(is_sync):
    """A mail is sent once, although the answer is written twice."""
    sent_messages = []

    @tool
    def send_mail(text: str):
        """Sends a mail."""
        sent_messages.append(text)
        return "sent"

    find = create_retriever_tool(
        ListRetriever(found=[*SOURCE_DOCUMENTS, FRUIT]),
        "find",
        "Finds.",
        response_format="content_and_artifact",
    )

    def reply(messages):
        last = messages[-1]
        if last.type == "tool":
            return calls("send_mail", text="tower") if last.name == "find" else WRONG
        has_feedback = "did not hold" in last.text or "not found" in last.text
        return TOWER if has_feedback else calls("find", query="tower")

    agent = create_agent(
        chat(reply),
        [find, send_mail],
        middleware=[
            HumanInTheLoopMiddleware(interrupt_on={"send_mail": True}),
            cut_results(keep_only("Tower")),
            VerificationMiddleware(),
        ],
        checkpointer=InMemorySaver(),
    )
    waiting = await run(agent, is_sync, QUESTION_INPUT, THREAD)
    assert waiting["__interrupt__"]
    assert sent_messages == []
    approval = Command(resume={"decisions": [{"type": "approve"}]})
    messages = (await run(agent, is_sync, approval, THREAD))["messages"]
    assert messages[-1].text == TOWER
    assert messages[-1].response_metadata["denoise"]["outcome"] == "supported"
    assert sent_messages == ["tower"]
    assert "Bananas" not in messages[2].text
    types = [message.type for message in messages]
    assert types == ["human", "ai", "tool", "ai", "tool", "ai"]
