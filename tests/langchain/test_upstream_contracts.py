"""What LangChain promises of its own compressors and middleware, asked of ours.

The scenarios are those of LangChain's tests (classic 1.0.8, langchain 1.4.7), in our words.
"""

import asyncio
import math

import pytest
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
from langchain_core.documents import BaseDocumentTransformer, Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import create_retriever_tool
from langchain_openai import ChatOpenAI
from langchain_text_splitters import CharacterTextSplitter

from denoise_core.end import ENDDenoiser
from denoise_core.s2a import S2ADenoiser
from denoise_core.testing import FunctionScorer
from langchain_denoise import ChatModelLLM, DenoiseCompressor
from langchain_denoise.convert.documents import RECORD_KEYS
from langchain_denoise.middleware import DenoiseToolResults, VerificationMiddleware

BOWLING = [
    Document(page_content="The sky is blue. Candlepin bowling is popular in New England.", metadata={"a": 1}),
    Document(page_content="Mercury is close to the Sun. Candlepin bowling balls are smaller.", metadata={"b": 2}),
    Document(page_content="The moon is round.", metadata={"c": 3}),
]
ABOUT = "Tell me about Candlepin bowling."


def plain(documents):
    """Text and metadata as LangChain's own tests compare them: without our record."""
    ours = {*RECORD_KEYS, "relevance_score"}
    return [(d.page_content, {k: v for k, v in d.metadata.items() if k not in ours}) for d in documents]


def both(compressor, documents, query):
    found = compressor.compress_documents(documents, query)
    assert asyncio.run(compressor.acompress_documents(documents, query)) == found
    return found


# LLMChainExtractor, LLMChainFilter, LLMListwiseRerank


def test_an_extractor_keeps_what_is_relevant_with_its_metadata(kit):
    model = kit.s2a(lambda m: "2" if "Candlepin" in m[-1].text.split("BEGIN")[1].split("\nEND ")[0] else "NONE")
    assert plain(both(DenoiseCompressor(denoiser=model), BOWLING, ABOUT)) == [
        ("Candlepin bowling is popular in New England.", {"a": 1}),
        ("Candlepin bowling balls are smaller.", {"b": 2}),
    ]


def test_a_filter_keeps_or_drops_whole_documents():
    scorer = FunctionScorer(lambda query, text: float("Candlepin" in text))
    found = both(DenoiseCompressor(denoiser=ENDDenoiser(scorer, threshold=0.5)), BOWLING, ABOUT)
    assert plain(found) == plain(BOWLING[:2])


@pytest.mark.filterwarnings("ignore:A test tried to use socket")
def test_building_one_around_a_real_client_calls_nothing():
    model = ChatOpenAI(model="local", api_key="foo")
    assert DenoiseCompressor(denoiser=S2ADenoiser(ChatModelLLM(model), variant="select")).on_error == "keep"


# ContextualCompressionRetriever, DocumentCompressorPipeline


def test_a_compression_retriever_gives_a_part_of_what_was_found(kit):
    base = kit.ListRetriever(found=BOWLING)
    scorer = FunctionScorer(lambda query, text: float("moon" in text))
    compressor = DenoiseCompressor(denoiser=ENDDenoiser(scorer, keep=1))
    retriever = ContextualCompressionRetriever(base_compressor=compressor, base_retriever=base)
    assert plain(retriever.invoke("q")) == plain(BOWLING[2:])


class Unique(BaseDocumentTransformer):
    def transform_documents(self, documents, **kwargs):
        return list({d.page_content: d for d in documents}.values())

    async def atransform_documents(self, documents, **kwargs):
        return self.transform_documents(documents)


def test_a_pipeline_of_splitter_transformer_and_ours():
    text = "Foo bar baz. Foo bar baz. Not related at all. More foo here."
    splitter = CharacterTextSplitter(chunk_size=14, chunk_overlap=0, separator=". ")
    scorer = FunctionScorer(lambda query, piece: float("oo" in piece))
    ours = DenoiseCompressor(denoiser=ENDDenoiser(scorer, threshold=0.5))
    pipeline = DocumentCompressorPipeline(transformers=[splitter, Unique(), ours])
    found = both(pipeline, [Document(page_content=text, metadata={"source": "s"})], "foo")
    assert plain(found) == [("Foo bar baz", {"source": "s"}), ("More foo here.", {"source": "s"})]


# wrap_tool_call


def calling(*names):
    calls = [{"name": n, "args": {"query": f"ask {n}"}, "id": f"call-{n}"} for n in names]
    return lambda messages: "done" if messages[-1].type == "tool" else AIMessage("", tool_calls=calls)


def tool_named(kit, name, found=BOWLING):
    return create_retriever_tool(
        kit.ListRetriever(found=found), name, "Finds.", response_format="content_and_artifact"
    )


def ran(agent, given=None):
    given = given or {"messages": [HumanMessage("go")]}
    state = agent.invoke(given)
    other = asyncio.run(agent.ainvoke(given))
    found = {m.name: m for m in state["messages"] if m.type == "tool"}
    assert {m.name: m.content for m in other["messages"] if m.type == "tool"} == {
        n: m.content for n, m in found.items()
    }
    return found


def everything():
    return ENDDenoiser(FunctionScorer(lambda query, text: 1.0), threshold=-math.inf)


def about(word):
    return ENDDenoiser(FunctionScorer(lambda query, text: float(word in text)), threshold=0.5, min_keep=0)


def test_what_needs_no_edit_passes_byte_for_byte(kit):
    agent = create_agent(kit.chat(calling("a")), [tool_named(kit, "a")])
    ours = create_agent(
        kit.chat(calling("a")), [tool_named(kit, "a")], middleware=[DenoiseToolResults(everything())]
    )
    assert ran(ours)["a"].content == ran(agent)["a"].content


def test_several_tools_in_one_step_each_by_its_own_query(kit):
    asked = []

    def score(query, text):
        asked.append(query)
        return 1.0

    middleware = DenoiseToolResults(ENDDenoiser(FunctionScorer(score), keep=1))
    tools = [tool_named(kit, "a"), tool_named(kit, "b", BOWLING[1:])]
    found = ran(create_agent(kit.chat(calling("a", "b")), tools, middleware=[middleware]))
    assert [len(found[n].artifact) for n in ("a", "b")] == [1, 1]
    assert set(asked) == {"go\nask a", "go\nask b"}


def test_tools_that_are_not_meant_are_left_alone(kit):
    middleware = DenoiseToolResults(about("moon"), tools=["a"])
    tools = [tool_named(kit, "a"), tool_named(kit, "b")]
    found = ran(create_agent(kit.chat(calling("a", "b")), tools, middleware=[middleware]))
    assert [len(found[n].artifact) for n in ("a", "b")] == [1, 3]


def test_a_state_schema_of_ones_own(kit):
    class Mine(AgentState):
        tenant: str

    middleware = DenoiseToolResults(about("moon"))
    agent = create_agent(
        kit.chat(calling("a")), [tool_named(kit, "a")], middleware=[middleware], state_schema=Mine
    )
    found = ran(agent, {"messages": [HumanMessage("go")], "tenant": "t"})
    assert found["a"].content == "The moon is round."


class Wrap(AgentMiddleware):
    """Notes what it sees of a tool's result; may answer in the tool's place, or fail the first time."""

    def __init__(self, *, instead=None, fail=0):
        super().__init__()
        self.seen, self.instead, self.fail = [], instead, fail

    def _failing(self):
        self.fail -= 1
        return self.fail >= 0

    def wrap_tool_call(self, request, handler):
        if self._failing():
            raise TimeoutError("busy")
        message = self.instead(request) if self.instead else handler(request)
        self.seen.append(message.content)
        return message

    async def awrap_tool_call(self, request, handler):
        if self._failing():
            raise TimeoutError("busy")
        message = self.instead(request) if self.instead else await handler(request)
        self.seen.append(message.content)
        return message


def test_outer_middleware_sees_the_cleared_result_and_inner_the_whole(kit):
    outer, inner = Wrap(), Wrap()
    inner.__class__ = type("Inner", (Wrap,), {})
    agent = create_agent(
        kit.chat(calling("a")),
        [tool_named(kit, "a")],
        middleware=[outer, DenoiseToolResults(about("moon")), inner],
    )
    ran(agent)
    assert set(outer.seen) == {"The moon is round."}
    assert set(inner.seen) == {"\n\n".join(d.page_content for d in BOWLING)}


def cached(request):
    return ToolMessage(
        "one\n\nmoon", tool_call_id=request.tool_call["id"], name="a", artifact=[Document("one"), Document("moon")]
    )


def test_a_result_from_an_inner_cache_is_cleared_too(kit):
    middleware = [DenoiseToolResults(about("moon")), Wrap(instead=cached)]
    assert (
        ran(create_agent(kit.chat(calling("a")), [tool_named(kit, "a")], middleware=middleware))["a"].content
        == "moon"
    )


def test_a_result_given_by_an_outer_middleware_is_not_ours(kit):
    middleware = [Wrap(instead=cached), DenoiseToolResults(about("moon"))]
    found = ran(create_agent(kit.chat(calling("a")), [tool_named(kit, "a")], middleware=middleware))
    assert found["a"].content == "one\n\nmoon"


def test_errors_of_a_tool_pass_through_as_they_are(kit):
    middleware = [DenoiseToolResults(everything()), Wrap(fail=9)]
    agent = create_agent(kit.chat(calling("a")), [tool_named(kit, "a")], middleware=middleware)
    with pytest.raises(TimeoutError, match="busy"):
        agent.invoke({"messages": [HumanMessage("go")]})


def test_two_of_one_name_are_refused_by_langchain_and_a_name_helps(kit):
    twice = [DenoiseToolResults(everything()), DenoiseToolResults(everything())]
    with pytest.raises(AssertionError, match="duplicate"):
        create_agent(kit.chat(), [], middleware=twice)
    create_agent(kit.chat(), [], middleware=[twice[0], DenoiseToolResults(everything(), name="second")])


# ContextEditingMiddleware, InternalCallTransformer


def test_edits_are_kept_and_not_made_again(kit):
    scored = []

    def score(query, text):
        scored.append(text)
        return float("moon" in text)

    def reply(messages):
        tools = sum(m.type == "tool" for m in messages)
        call = {"name": "a", "args": {"query": f"q{tools}"}, "id": f"call-{tools}"}
        return "done" if tools == 3 else AIMessage("", tool_calls=[call])

    middleware = DenoiseToolResults(ENDDenoiser(FunctionScorer(score), threshold=0.5))
    agent = create_agent(kit.chat(reply), [tool_named(kit, "a")], middleware=[middleware])
    state = agent.invoke({"messages": [HumanMessage("go")]})
    assert [m.content for m in state["messages"] if m.type == "tool"] == ["The moon is round."] * 3
    assert len(scored) == 3 * len(BOWLING)


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol:langchain_core._api.LangChainBetaWarning")
async def test_typed_message_stream_shows_only_the_models_own_words(kit):
    inner = kit.s2a(lambda m: "1 (internal)")

    def reply(messages):
        if messages[-1].type == "human" and "did not hold" not in messages[-1].text:
            return AIMessage("", tool_calls=[{"name": "a", "args": {"query": "q"}, "id": "1"}])
        return "Candlepin bowling is popular in New England." if "did not hold" in str(messages) else "It is 1789."

    agent = create_agent(
        kit.chat(reply),
        [tool_named(kit, "a", [Document(page_content="Candlepin bowling is popular in New England.")])],
        middleware=[DenoiseToolResults(inner), VerificationMiddleware()],
    )
    run = await agent.astream_events({"messages": [HumanMessage("go")]}, version="v3")
    said = [str(await message.text) async for message in run.messages]
    assert not any("internal" in text or "1789" in text for text in said)
