"""Whole agents and graphs, as users write them: each asked sync and async."""

import pytest
from function_chat_model import FunctionChatModel
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
)
from langchain_agents import both_ways, calls, cut_results, run
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langchain_core.tools import create_retriever_tool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from langchain_denoise.middleware import (
    VerificationMiddleware,
)

TOWER = "The Eiffel Tower was completed in 1889."
SOURCE_DOCUMENTS = [
    Document(page_content=text, id=i)
    for i, text in (("tower", TOWER), ("fruit", "Bananas are yellow. " * 9))
]
QUESTION = "When was the Eiffel Tower completed?"
WRONG = "It was completed in 1912 by Otto Brenner."


def by_tower():
    return ENDDenoiser(
        FunctionScorer(lambda query, text: float("Tower" in text)), threshold=0.5
    )


@pytest.fixture
def search(test_kit):
    return create_retriever_tool(
        test_kit.ListRetriever(found=SOURCE_DOCUMENTS),
        "search",
        "Searches.",
        response_format="content_and_artifact",
    )


@both_ways
async def test_an_agent_with_interrupt_and_checkpointer(is_sync, search):
    """A mail is sent once, although the answer is written twice."""
    sent_messages = []

    @tool
    def send_mail(text: str) -> str:
        """Sends a mail."""
        sent_messages.append(text)
        return "sent"

    def reply(messages):
        last = messages[-1]
        if last.type == "tool":
            return calls("send_mail", text="tower") if last.name == "search" else WRONG
        has_feedback = "did not hold" in last.text or "not found" in last.text
        return TOWER if has_feedback else calls("search", query="tower")

    agent = create_agent(
        FunctionChatModel(reply=reply),
        [search, send_mail],
        middleware=[
            HumanInTheLoopMiddleware(interrupt_on={"send_mail": True}),
            cut_results(by_tower()),
            VerificationMiddleware(),
        ],
        checkpointer=InMemorySaver(),
    )
    thread = {"configurable": {"thread_id": "1"}}
    waiting = await run(agent, is_sync, {"messages": [HumanMessage(QUESTION)]}, thread)
    assert waiting["__interrupt__"]
    assert sent_messages == []
    approval = Command(resume={"decisions": [{"type": "approve"}]})
    messages = (await run(agent, is_sync, approval, thread))["messages"]
    assert messages[-1].text == TOWER
    assert messages[-1].response_metadata["denoise"]["outcome"] == "supported"
    assert sent_messages == ["tower"]
    assert "Bananas" not in messages[2].text
    types = [message.type for message in messages]
    assert types == ["human", "ai", "tool", "ai", "tool", "ai"]


@both_ways
async def test_beside_the_stock_middleware(is_sync, search):
    """Summaries, context editing, masking and retries; a tool call keeps its message in all of them."""
    faults = iter([ConnectionError("once")])

    def reply(messages):
        for fault in faults:
            raise fault
        return TOWER if messages[-1].type == "tool" else calls("search", query="tower")

    summarising = FunctionChatModel(reply=lambda message: "A summary.")
    agent = create_agent(
        FunctionChatModel(reply=reply),
        [search],
        middleware=[
            SummarizationMiddleware(model=summarising, trigger=("messages", 6)),
            ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=10_000)]),
            PIIMiddleware("email"),
            ModelRetryMiddleware(max_retries=2, initial_delay=0.0),
            cut_results(by_tower()),
            VerificationMiddleware(),
        ],
        checkpointer=InMemorySaver(),
    )
    thread = {"configurable": {"thread_id": "1"}}
    question = {"messages": [HumanMessage(f"{QUESTION} Mail me at a@b.example.")]}
    for _ in range(3):
        messages = (await run(agent, is_sync, question, thread))["messages"]
        assert messages[-1].text == TOWER
    called_ids = set()
    answered_ids = set()
    for message in messages:
        called_ids |= {call["id"] for call in getattr(message, "tool_calls", ())}
        answered_ids |= {message.tool_call_id} if message.type == "tool" else set()
    assert answered_ids <= called_ids
