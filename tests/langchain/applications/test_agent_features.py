"""Whole applications with what stands around retrieval: stores, histories, limits, contexts, typed answers."""

import asyncio
from dataclasses import dataclass

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware
from langchain_classic.retrievers import MultiQueryRetriever
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import CommaSeparatedListOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.tools import tool

from denoise_core import InputError
from denoise_core.augmenter import LoopLimits
from denoise_core.augmenter.prompts import QUESTION_ANSWERING
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from langchain_denoise import (
    Denoise,
    DenoisingRetriever,
    Verifier,
    verified,
)
from langchain_denoise.middleware import DenoiseToolResults, VerificationMiddleware

TOWER = "The Eiffel Tower was completed in 1889."
WRONG = "The Eiffel Tower was completed in 1912."
QUESTION = "When was the Eiffel Tower completed?"
ASKED = {"messages": [HumanMessage(QUESTION)]}
FOUND = [
    Document(page_content=t, id=i, metadata={"source": f"{i}.md"})
    for i, t in (
        ("tower", TOWER),
        ("fruit", "Bananas are yellow."),
        ("paint", "The Eiffel Tower is brown."),
    )
]

both_ways = pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
pytestmark = pytest.mark.filterwarnings(
    "ignore::langchain_core._api.LangChainDeprecationWarning"
)


async def asked(app, given, sync, config=None, **more):
    if sync:
        return await asyncio.to_thread(lambda: app.invoke(given, config, **more))
    return await app.ainvoke(given, config, **more)


def by_tower(keep=1):
    return FunctionScorer(
        lambda query, text: float("Tower" in text) + float("1889" in text)
    )


def calls(name, **args):
    return AIMessage(
        "", tool_calls=[{"name": name, "args": args, "id": f"call-{name}"}]
    )


def looking_up(answer):
    """A model that calls ``look`` first and then says ``answer(messages)``."""

    def reply(messages):
        if not any(isinstance(m, ToolMessage) for m in messages):
            return calls("look", query="Eiffel Tower")
        return answer(messages)

    return reply


def second_time(messages):
    return TOWER if "did not hold" in messages[-1].text else WRONG


@tool
def look(query: str) -> str:
    """Looks things up."""
    return TOWER


@both_ways
@pytest.mark.parametrize("settings", [{}, {"record": "none"}], ids=str)
async def test_several_wordings_of_a_question_bring_each_document_once(
    kit, sync, settings
):
    """The model clears one wording and not the others; the documents it left are the same."""
    model = kit.chat(
        lambda m: "1" if "cut into numbered pieces" in m[-1].text else "ALL"
    )
    better = DenoisingRetriever.from_llm(
        model, retriever=kit.ListRetriever(found=FOUND), **settings
    )
    wordings = kit.chat(
        lambda m: f"{QUESTION}, I love towers. Who does not? When was it completed?"
    )
    asking = (
        ChatPromptTemplate.from_template("{question}")
        | wordings
        | CommaSeparatedListOutputParser()
    )
    many = MultiQueryRetriever(retriever=better, llm_chain=asking)
    assert [d.id for d in await asked(many, QUESTION, sync)] == [
        "tower",
        "fruit",
        "paint",
    ]


def test_a_history_inside_a_verified_chain_is_refused(kit):
    """Every rejected draft stood in the user's history."""
    kept = InMemoryChatMessageHistory()
    chain = RunnableWithMessageHistory(kit.chat(second_time), lambda session_id: kept)
    with pytest.raises(InputError, match="a history inside verified"):
        verified({"x": chain})


@both_ways
@pytest.mark.parametrize(
    "said", ["Hello! How can I help you?", "Which tower do you mean?"]
)
async def test_a_conversation_is_no_claim(kit, sync, said):
    """With ``unsupported="abstain"`` a greeting became "I found no answer to this"."""
    verifier = Verifier(limits=LoopLimits(unsupported="abstain"))
    chain = verified(lambda given: {"answer": said, "context": FOUND}, verifier)
    assert (await asked(chain, {"question": "hi"}, sync))["answer"] == said
    agent = create_agent(
        kit.chat(looking_up(lambda m: said)),
        [look],
        middleware=[VerificationMiddleware(verifier)],
    )
    assert (await asked(agent, ASKED, sync))["messages"][-1].text == said
    agent = create_agent(
        kit.chat(looking_up(lambda m: WRONG)),
        [look],
        middleware=[VerificationMiddleware(verifier)],
    )
    assert (await asked(agent, ASKED, sync))["messages"][-1].text.startswith(
        QUESTION_ANSWERING.abstention_text
    )


@both_ways
async def test_drafts_count_as_calls_of_the_model(kit, sync):
    """Of four calls LangChain's limit had counted two."""
    model = kit.chat(looking_up(second_time))
    agent = create_agent(
        model, [look], middleware=[VerificationMiddleware(), ModelCallLimitMiddleware(thread_limit=3)],
        checkpointer=_saver(),
    )  # fmt: skip
    thread = {"configurable": {"thread_id": "1"}}
    out = await asked(agent, ASKED, sync, thread)
    assert (out["messages"][-1].text, len(model.calls)) == (TOWER, 3)
    again = await asked(agent, ASKED, sync, thread)
    assert "limit" in again["messages"][-1].text
    assert len(model.calls) == 3


def _saver():
    from langgraph.checkpoint.memory import InMemorySaver

    return InMemorySaver()


@dataclass
class Context:
    user: str = "ann"
    denoise: Denoise | dict | None = None


@both_ways
async def test_an_agents_context_says_how_much_is_kept(kit, sync):
    @tool(response_format="content_and_artifact")
    def search(query: str) -> tuple[str, list[Document]]:
        """Searches."""
        return "\n".join(d.page_content for d in FOUND), FOUND

    def reply(messages):
        return (
            TOWER
            if any(isinstance(m, ToolMessage) for m in messages)
            else calls("search", query="tower")
        )

    middleware = DenoiseToolResults(ENDDenoiser(by_tower(), keep=1))
    agent = create_agent(
        kit.chat(reply), [search], middleware=[middleware], context_schema=Context
    )
    for chosen, kept in ((None, 1), ({"keep": 2}, 2), (Denoise(keep=3), 3)):
        out = await asked(agent, ASKED, sync, context=Context(denoise=chosen))
        (found,) = (m for m in out["messages"] if isinstance(m, ToolMessage))
        assert len(found.artifact) == kept
