"""Citations that a provider puts behind a message's text, in LlamaIndex's agents."""

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    CitableBlock,
    CitationBlock,
    ImageBlock,
    TextBlock,
)
from llama_index.core.tools import FunctionTool
from llamaindex_doubles import Calling, calls

from denoise_core.support.cited_units import CitationJudge
from denoise_core.testing import FunctionLLM
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
    assert cited == [(FIRST, FIRST), (SECOND, SECOND), (SECOND, SECOND)]


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
    return CitableBlock(title="Guide", source="guide.md", content=f"{FIRST} {SECOND}")


async def test_an_agent_is_judged_by_what_its_model_cites():
    """A tool's citable documents are evidence, and a wrong citation goes back."""
    prompts = []

    def judge_reply(messages):
        prompts.append(messages[-1].content)
        return "1 supported 1.1\n2 supported 1.2\nanswers"

    told = []

    def script(messages, **kwargs):
        told.append(messages[-1].content or "")
        if len(told) == 1:
            return calls("guide", query="red tower")
        return cited_message("Bread is free there." if len(told) == 2 else SECOND)

    agent = FunctionAgent(
        tools=[FunctionTool.from_defaults(guide)], llm=Calling(script=script)
    )
    checked = Checked(agent, judge=CitationJudge(FunctionLLM(judge_reply)))
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
