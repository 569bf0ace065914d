"""Citations that a provider puts behind a message's text, in LlamaIndex's agents."""

import pytest
from judging import citation_judge
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CitableBlock,
    CitationBlock,
    ImageBlock,
    TextBlock,
)
from llama_index.core.base.response.schema import Response
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool
from llamaindex_doubles import Calling, calls
from llamaindex_engines import Fixed

from denoise_core.augmenter import LoopLimits
from llamaindex_denoise import Checked
from llamaindex_denoise.engines.base import message_citations

FIRST = "The red tower is in Porto."
SECOND = "Bread is cheap there."
QUESTION = "Where is the red tower, and is bread cheap there?"


def citation(cited_text):
    return CitationBlock(
        cited_content=TextBlock(text=cited_text),
        source="guide.md",
        title="Guide",
        additional_location_info={},
    )


def cited_message(second=SECOND):
    """A message as LlamaIndex's integrations build it."""
    blocks = [
        TextBlock(text=FIRST),
        citation(FIRST),
        TextBlock(text=SECOND),
        citation(second),
        citation(SECOND),
    ]
    return ChatMessage(role="assistant", blocks=blocks)


def test_the_ranges_are_of_the_message_content():
    message = cited_message()
    cited = [
        (message.content[c.start : c.end], c.cited_text)
        for c in message_citations(message)
    ]
    assert cited == [
        (FIRST, FIRST),
        (SECOND, SECOND),
        (SECOND, SECOND),
    ]


def test_a_message_without_cited_text_cites_nothing():
    image = CitationBlock(
        cited_content=ImageBlock(image=b"png"),
        source="a",
        title="a",
        additional_location_info={},
    )
    blocks = [TextBlock(text=FIRST), image]
    assert message_citations(ChatMessage(role="assistant", blocks=blocks)) == ()
    assert message_citations(ChatMessage(role="assistant", content=FIRST)) == ()
    assert message_citations(ChatMessage(role="assistant")) == ()


def guide(query: str) -> CitableBlock:
    """A document that the provider may cite."""
    return CitableBlock(
        title="Guide",
        source="guide.md",
        content=f"{FIRST} {SECOND}",
    )


async def test_an_agent_is_judged_by_what_its_model_cites():
    """A tool's citable documents are evidence, and a wrong citation goes back."""
    prompts = []

    told = []

    def script(messages, **kwargs):
        told.append(messages[-1].content or "")
        if len(told) == 1:
            return calls("guide", query="red tower")
        return cited_message("Bread is free there." if len(told) == 2 else SECOND)

    agent = FunctionAgent(
        tools=[FunctionTool.from_defaults(guide)], llm=Calling(script=script)
    )
    checked = Checked(agent, judge=citation_judge(prompts))
    output = await checked.run(user_msg=QUESTION)
    record = output.metadata["denoise"]
    assert [a["outcome"] for a in record["attempts"]] == ["fail", "pass"]
    assert "Bread is free there." in told[2]
    assert output.response.blocks == cited_message().blocks
    assert record["evidence"] == ["call-1-1"]
    assert "Guide" in prompts[0]
    # The second draft repeats what it cites: only whether it answers is asked.
    assert "Write one line and nothing else" in prompts[1]
    assert len(prompts) == 2


class Citing(Calling):
    """A model whose calls LlamaIndex's instrumentation sees, as those of integrations."""

    @llm_chat_callback()
    def chat(self, messages, **kwargs):
        message = self.script(list(messages), **kwargs)
        return ChatResponse(message=message, delta=message.content)

    @llm_chat_callback()
    async def achat(self, messages, **kwargs):
        message = self.script(list(messages), **kwargs)
        return ChatResponse(message=message, delta=message.content)


class Guide(CustomQueryEngine):
    """An engine of a user's own, which returns the text of a message."""

    llm: Citing

    def custom_query(self, query_str):
        message = self.llm.chat([ChatMessage(role="user", content=query_str)]).message
        return Response(message.content, source_nodes=guide_nodes())


def guide_nodes():
    return [NodeWithScore(node=TextNode(text=f"{FIRST} {SECOND}", id_="guide"))]


def synthesizing(llm):
    synthesizer = get_response_synthesizer(llm=llm)
    return RetrieverQueryEngine(Fixed(guide_nodes()), synthesizer)


@pytest.mark.parametrize("is_sync", [True, False])
@pytest.mark.parametrize("make_engine", [lambda llm: Guide(llm=llm), synthesizing])
async def test_an_engine_is_judged_by_what_its_model_cites(make_engine, is_sync):
    """Its response has the text alone, so its model's reply is read as it comes."""
    prompts = []

    def script(messages, **kwargs):
        is_told = any("Bread is free" in (m.content or "") for m in messages)
        return cited_message(SECOND if is_told else "Bread is free there.")

    engine = Checked(
        make_engine(Citing(script=script)),
        judge=citation_judge(prompts),
        limits=LoopLimits(rerun=True),
    )
    response = engine.query(QUESTION) if is_sync else await engine.aquery(QUESTION)
    record = response.metadata["denoise"]
    assert [a["outcome"] for a in record["attempts"]] == ["fail", "pass"]
    assert str(response) == cited_message().content
    assert record["citations"] == ["guide"]
    assert len(prompts) == 2
    assert "Write one line and nothing else" in prompts[1]
