"""Whole applications with what stands around retrieval: stores, histories, limits, contexts, typed answers."""

import asyncio
import json
from dataclasses import dataclass

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_chroma import Chroma
from langchain_classic.retrievers import MultiQueryRetriever
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import CommaSeparatedListOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.tools import tool
from langchain_qdrant import QdrantVectorStore
from pydantic import BaseModel
from recorded_runs import RunRecorder

from denoise_core import InputError
from denoise_core.augmenter import LoopLimits
from denoise_core.augmenter.prompts import QUESTION_ANSWERING
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from langchain_denoise import (
    Denoise,
    DenoiseCompressor,
    DenoisingRetriever,
    EmbeddedEmbeddings,
    Verifier,
    verified,
)
from langchain_denoise.middleware import DenoiseToolResults, S2AMiddleware, VerificationMiddleware

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
pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainDeprecationWarning")


async def asked(app, given, sync, config=None, **more):
    if sync:
        return await asyncio.to_thread(lambda: app.invoke(given, config, **more))
    return await app.ainvoke(given, config, **more)


def by_tower(keep=1):
    return FunctionScorer(lambda query, text: float("Tower" in text) + float("1889" in text))


def calls(name, **args):
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"call-{name}"}])


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
async def test_denoised_documents_go_into_chroma(sync, tmp_path):
    kept = DenoiseCompressor(scorer=by_tower(), keep=2).compress_documents(FOUND, QUESTION)

    def filled():
        store = Chroma("around", embedding_function=EmbeddedEmbeddings(), persist_directory=str(tmp_path))
        store.add_documents(kept)
        return store

    store = await asyncio.to_thread(filled)
    (best,) = await asked(store.as_retriever(search_kwargs={"k": 1}), QUESTION, sync)
    assert (best.page_content, best.metadata["denoise_origin"]) == (TOWER, "tower")
    assert json.loads(best.metadata["denoise_spans"]) == {"tower": [[0, len(TOWER)]]}


@both_ways
async def test_denoised_documents_go_into_qdrant(sync):
    kept = [d.model_copy(update={"id": None}) for d in FOUND]  # Qdrant makes ids of its own
    kept = DenoiseCompressor(scorer=by_tower(), keep=2).compress_documents(kept, QUESTION)
    made = {"location": ":memory:", "collection_name": "a"}
    store = await asyncio.to_thread(QdrantVectorStore.from_documents, kept, EmbeddedEmbeddings(), **made)
    (best,) = await asked(store.as_retriever(search_kwargs={"k": 1}), QUESTION, sync)
    assert (best.page_content, best.metadata["denoise_extractive"]) == (TOWER, True)


@both_ways
@pytest.mark.parametrize("settings", [{}, {"record": "none"}], ids=str)
async def test_several_wordings_of_a_question_bring_each_document_once(kit, sync, settings):
    """The model clears one wording and not the others; the documents it left are the same."""
    model = kit.chat(lambda m: "1" if "cut into numbered pieces" in m[-1].text else "ALL")
    better = DenoisingRetriever.from_llm(model, retriever=kit.ListRetriever(found=FOUND), **settings)
    wordings = kit.chat(lambda m: f"{QUESTION}, I love towers. Who does not? When was it completed?")
    asking = ChatPromptTemplate.from_template("{question}") | wordings | CommaSeparatedListOutputParser()
    many = MultiQueryRetriever(retriever=better, llm_chain=asking)
    assert [d.id for d in await asked(many, QUESTION, sync)] == ["tower", "fruit", "paint"]


def test_a_history_inside_a_verified_chain_is_refused(kit):
    """Every rejected draft stood in the user's history."""
    kept = InMemoryChatMessageHistory()
    chain = RunnableWithMessageHistory(kit.chat(second_time), lambda session_id: kept)
    with pytest.raises(InputError, match="a history inside verified"):
        verified({"x": chain})


@both_ways
@pytest.mark.parametrize("said", ["Hello! How can I help you?", "Which tower do you mean?"])
async def test_a_conversation_is_no_claim(kit, sync, said):
    """With ``unsupported="abstain"`` a greeting became "I found no answer to this"."""
    verifier = Verifier(limits=LoopLimits(unsupported="abstain"))
    chain = verified(lambda given: {"answer": said, "context": FOUND}, verifier)
    assert (await asked(chain, {"question": "hi"}, sync))["answer"] == said
    agent = create_agent(
        kit.chat(looking_up(lambda m: said)), [look], middleware=[VerificationMiddleware(verifier)]
    )
    assert (await asked(agent, ASKED, sync))["messages"][-1].text == said
    agent = create_agent(
        kit.chat(looking_up(lambda m: WRONG)), [look], middleware=[VerificationMiddleware(verifier)]
    )
    assert (await asked(agent, ASKED, sync))["messages"][-1].text.startswith(QUESTION_ANSWERING.abstaining)


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
    assert (out["messages"][-1].text, len(model.seen)) == (TOWER, 3)
    again = await asked(agent, ASKED, sync, thread)
    assert "limit" in again["messages"][-1].text
    assert len(model.seen) == 3


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
        return TOWER if any(isinstance(m, ToolMessage) for m in messages) else calls("search", query="tower")

    middleware = DenoiseToolResults(ENDDenoiser(by_tower(), keep=1))
    agent = create_agent(kit.chat(reply), [search], middleware=[middleware], context_schema=Context)
    for chosen, kept in ((None, 1), ({"keep": 2}, 2), (Denoise(keep=3), 3)):
        out = await asked(agent, ASKED, sync, context=Context(denoise=chosen))
        (found,) = (m for m in out["messages"] if isinstance(m, ToolMessage))
        assert len(found.artifact) == kept


class Cited(BaseModel):
    """An answer with its sources."""

    answer: str
    sources: list[str] = []
    confidence: float = 1.0


@both_ways
async def test_an_agent_with_a_typed_answer(kit, sync):
    def reply(messages):
        if not any(isinstance(m, ToolMessage) for m in messages):
            return calls("search", query="tower")
        return calls("Cited", answer=second_time(messages), sources=["tower.md", "nowhere.md"], confidence=0.9)

    @tool(response_format="content_and_artifact")
    def search(query: str) -> tuple[str, list[Document]]:
        """Searches."""
        return "\n".join(d.page_content for d in FOUND), FOUND

    agent = create_agent(
        kit.chat(reply), [search], middleware=[VerificationMiddleware()], response_format=ToolStrategy(Cited)
    )
    out = await asked(agent, ASKED, sync)
    assert out["structured_response"] == Cited(answer=TOWER, sources=["tower.md", "nowhere.md"], confidence=0.9)
    record = next(m for m in reversed(out["messages"]) if isinstance(m, AIMessage)).response_metadata["denoise"]
    assert record["outcome"] == "supported"
    assert [s["id"] for s in record["sources"]["resolved"]] == ["tower"]
    assert record["sources"]["unresolved"] == ["nowhere.md"]


@both_ways
async def test_a_tool_that_gives_json_gives_json(kit, sync):
    rows = [{"id": i, "note": f"{FOUND[i % 3].page_content} " * 3} for i in range(12)]

    @tool
    def orders(query: str) -> str:
        """Looks orders up."""
        return json.dumps({"query": query, "results": rows})

    def reply(messages):
        return "." if any(isinstance(m, ToolMessage) for m in messages) else calls("orders", query="tower of 1889")

    middleware = DenoiseToolResults(ENDDenoiser(by_tower(), threshold=1.5), tools=[orders])
    out = await asked(create_agent(kit.chat(reply), [orders], middleware=[middleware]), ASKED, sync)
    (found,) = (m for m in out["messages"] if isinstance(m, ToolMessage))
    read = json.loads(found.text)
    assert read["query"] == "tower of 1889"
    assert [row["id"] for row in read["results"]] == [0, 3, 6, 9]


@both_ways
async def test_an_agents_answer_cites_what_it_rests_on(kit, sync):
    middleware = VerificationMiddleware(Verifier(annotate=True))
    agent = create_agent(kit.chat(looking_up(second_time)), [look], middleware=[middleware])
    said = (await asked(agent, ASKED, sync))["messages"][-1]
    (block,) = said.content_blocks
    (citation,) = block["annotations"]
    assert (said.text, citation["cited_text"], citation["extras"]["id"]) == (TOWER, TOWER, "call-look")
    assert said.response_metadata["denoise"]["outcome"] == "supported"


@both_ways
async def test_clearing_the_users_words_has_a_span(kit, sync):
    seen = RunRecorder()
    model = kit.chat(lambda m: "2" if "cut into numbered pieces" in m[-1].text else TOWER)
    agent = create_agent(model, [], middleware=[S2AMiddleware(model)])
    said = {"messages": [HumanMessage(f"I am sure it was 1912. {QUESTION}")]}
    await asked(agent, said, sync, {"callbacks": [seen]})
    (path,) = (p for p in seen.paths("chain") if p.endswith("denoise_record"))
    assert "S2AMiddleware.before_agent/S2AMessages" in path
