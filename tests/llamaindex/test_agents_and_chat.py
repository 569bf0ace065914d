"""Chat engines, retriever tools and agents: the methods where people use them, and what must stay true there."""

import asyncio

import pytest
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import QueryEngineTool, RetrieverTool

from denoise_core.augmenter import Augmenter
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from llamaindex_denoise import AugmentedQueryEngine, Checked, DenoisePostprocessor, LlamaLLM, record
from llamaindex_denoise.models.retriever import RetrieverAdapter

QUESTION = "Where is the red tower?"
RIGHT, WRONG = "The red tower is in Porto.", "The red tower was built in 1755."


class Fixed(BaseRetriever):
    def __init__(self, *texts):
        self.texts = texts or ("The red tower is in Porto. Bread is cheap there.", "The blue bridge.")
        super().__init__()

    def _retrieve(self, query_bundle):
        return [NodeWithScore(node=TextNode(text=t, id_=f"n{i}"), score=0.5) for i, t in enumerate(self.texts)]


class Listens:
    """A scorer that remembers the questions it was asked and keeps what says red."""

    def __init__(self):
        self.questions = []

    def score(self, query, texts):
        self.questions.append(query)
        return FunctionScorer(lambda q, t: float("red" in t)).score(query, texts)


def listening():
    scorer = Listens()
    return scorer, DenoisePostprocessor(denoiser=ENDDenoiser(scorer, threshold=0.5), on_error="raise")


CHATS = {
    "context": lambda llm, pp: ContextChatEngine.from_defaults(
        retriever=Fixed(),
        llm=llm,
        node_postprocessors=[pp],
        memory=ChatMemoryBuffer.from_defaults(token_limit=2000),
    ),
    "condense plus context": lambda llm, pp: CondensePlusContextChatEngine.from_defaults(
        retriever=Fixed(),
        llm=llm,
        node_postprocessors=[pp],
        memory=ChatMemoryBuffer.from_defaults(token_limit=2000),
    ),
}


@pytest.mark.parametrize("kind", CHATS)
@pytest.mark.parametrize("how", ["chat", "achat", "stream_chat", "astream_chat"])
async def test_chat_engines_denoise_the_context(scripted, kind, how):
    scorer, postprocessor = listening()
    llm = scripted(lambda m: "so it is")
    engine = CHATS[kind](llm, postprocessor)
    if how == "chat":
        response = engine.chat(QUESTION)
    elif how == "achat":
        response = await engine.achat(QUESTION)
    elif how == "stream_chat":
        response = engine.stream_chat(QUESTION)
        assert "".join(response.response_gen) == "so it is"
    else:
        response = await engine.astream_chat(QUESTION)
        assert "".join([t async for t in response.async_response_gen()]) == "so it is"
    assert [n.node.node_id for n in response.source_nodes] == ["n0"]
    assert record(response.source_nodes[0].node)["origin_id"] == "n0"
    assert scorer.questions == [QUESTION]
    seen = " ".join(m.content or "" for m in llm.asked[-1])
    assert "red tower" in seen
    assert "blue bridge" not in seen


@pytest.mark.parametrize("question", [QUESTION, "what input is valid?", "two\nlines", "input is odd"])
def test_a_retriever_tools_prefix_is_not_part_of_the_question(question):
    scorer, postprocessor = listening()
    tool = RetrieverTool.from_defaults(Fixed(), node_postprocessors=[postprocessor], description="towers")
    output = tool.call(input=question)
    later = asyncio.run(tool.acall(input=question))
    assert scorer.questions == [question, question]
    assert output.content == later.content == "The red tower is in Porto. Bread is cheap there.\n\n"


def engine_saying(scripted, text):
    return AugmentedQueryEngine(Augmenter(LlamaLLM(scripted(lambda m: text)), RetrieverAdapter(Fixed())))


@pytest.mark.parametrize(("text", "label"), [(RIGHT, ""), (WRONG, "(unsupported"), ("unknown", "(abstained")])
def test_the_tool_tells_the_agent_the_verdict(scripted, text, label):
    tool = Checked(
        QueryEngineTool.from_defaults(engine_saying(scripted, text), name="towers", description="about towers")
    )
    output = tool.call(QUESTION)
    later = asyncio.run(tool.acall(input=QUESTION))
    assert output.content == later.content
    assert output.content.startswith(label)
    assert output.content.endswith(text) or label == "(abstained"
    assert output.raw_output.metadata["denoise"]["outcome"] in ("supported", "unsupported", "abstained")
    assert (output.content == text) == (text == RIGHT)
