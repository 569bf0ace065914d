"""Tools of agents without the noise: shape and state, `recall`, and what a checked agent holds against them."""

import asyncio
import json
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kept_texts import FAULTS, TEXTS, VALUES, Keeping, broken, check_kept, ranges_in
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context
from llamaindex_doubles import Calling, calls

from denoise_core import InputError
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from denoise_core.text.structural import chunk_text
from denoise_core.tool_results import OMITTED_STATE_KEY
from llamaindex_denoise import Checked, denoised

FOUND = {
    "next": "c2",
    "results": [{"title": f"Town {n}", "content": "Rain. " * 40} for n in range(9)],
}
FOUND["results"][3] = {"title": "Paris", "content": "Paris is dry."}
DENOISER = ENDDenoiser(FunctionScorer(lambda q, t: float("Paris" in t)), threshold=0.5)


def search(query: str) -> str:
    """Looks things up."""
    return json.dumps(FOUND)


def recalling(messages, **kwargs):
    """Asks the tool, then for the first part that was left out, then answers."""
    seen = [message.content for message in messages if message.role.value == "tool"]
    if not seen:
        return calls("search", query="dry town")
    if len(seen) == 1:
        at = next(line for line in seen[0].splitlines() if "Town 0" in line).split(":")[
            0
        ]
        return calls("recall", id=at)
    return ChatMessage(role="assistant", content="Paris is dry.")


async def run(agent, question="Is it dry in Paris?"):
    ctx = Context(agent)
    seen = []
    handler = agent.run(user_msg=question, ctx=ctx)
    async for event in handler.stream_events():
        if type(event).__name__ == "ToolCallResult":
            seen.append(event.tool_output)
    return await handler, seen, await ctx.store.get(OMITTED_STATE_KEY, default={})


@pytest.mark.parametrize("form", ["agent", "workflow", "checked"])
async def test_what_was_left_out_can_be_recalled(form):
    agent = FunctionAgent(
        name="guide",
        llm=Calling(script=recalling),
        tools=denoised([search_tool()], DENOISER, recall=True),
    )
    agent = {
        "agent": lambda a: a,
        "workflow": lambda a: AgentWorkflow(agents=[a]),
        "checked": Checked,
    }[form](agent)
    output, (first, restored_text), kept_items = await run(agent)
    shown_text, reply_text = first.blocks
    assert json.loads(shown_text.text) == {
        "next": "c2",
        "results": [FOUND["results"][3]],
    }
    assert "recall(id)" in reply_text.text
    assert restored_text.content in kept_items.values()
    assert "Town 0" in restored_text.content
    assert all(any(f"Town {n}" in text for text in kept_items.values()) for n in (0, 8))
    assert (
        "Rain. Rain. Rain. Rain. Rain. Rain. Rain. Rain. Rain. Rain. Rain"
        not in first.content
    )
    assert str(output) == "Paris is dry."
    if form == "checked":
        assert output.metadata["denoise"]["outcome"] == "supported"


def search_tool():
    return FunctionTool.from_defaults(search)


async def test_a_tool_with_a_context_blocks_and_errors_stay_as_they_are():
    picture = ImageBlock(image=b"\x89PNG")

    async def look(ctx: Context, query: str) -> list:
        """Looks."""
        await ctx.store.set("looked", query)
        return [TextBlock(text=json.dumps(FOUND)), picture]

    def broken(query: str) -> str:
        """Breaks."""
        raise ValueError("no way " + "Rain. " * 500)

    steps = [
        calls("look", query="dry"),
        calls("broken", query="dry"),
        ChatMessage(role="assistant", content="Dry."),
    ]
    tools = denoised(
        [FunctionTool.from_defaults(look), FunctionTool.from_defaults(broken)], DENOISER
    )
    assert [t.metadata.name for t in tools] == ["look", "broken"]
    agent = FunctionAgent(
        name="guide",
        llm=Calling(script=lambda messages, **k: steps.pop(0)),
        tools=tools,
    )
    _, (first, second), kept_items = await run(agent)
    assert json.loads(first.blocks[0].text)["results"] == [FOUND["results"][3]]
    assert json.loads(first.raw_output[0].text) == FOUND
    assert isinstance(first.blocks[1], ImageBlock)
    assert second.is_error
    assert "no way" in second.content
    assert kept_items == {}


def test_what_is_no_list_of_tools_says_what_to_type():
    for wrong in (search_tool(), [search], [search_tool(), search_tool()]):
        with pytest.raises(InputError, match="tools"):
            denoised(wrong, DENOISER)


class NoState:
    """The store of a context in which nothing is kept."""

    async def get(self, key, default=None):
        return default


def result_of(denoiser, text):
    def look(query: str) -> str:
        """Looks things up."""
        return text

    (tool,) = denoised([FunctionTool.from_defaults(look)], denoiser)
    output = asyncio.run(
        tool.acall(query="Paris?", ctx=SimpleNamespace(store=NoState()))
    )
    return output.blocks[0].text


@given(TEXTS | VALUES.map(json.dumps), st.sampled_from(sorted(FAULTS)))
@example(
    json.dumps(
        {"report": "id,place\n" + "".join(f'{n},"town {n}"\n' for n in range(80))}
    ),
    "raises",
)
def test_a_broken_scorer_leaves_every_result_as_it_was(text, fault):
    assert result_of(broken(fault), text) == text


@given(TEXTS | VALUES.map(json.dumps), st.data())
def test_what_a_denoiser_keeps_is_what_the_model_reads(text, data):
    denoiser = Keeping(lambda text: data.draw(ranges_in(text)))
    shown_text = result_of(denoiser, text)
    for read, kept_items in denoiser.kept:
        check_kept(read, chunk_text(read).text_format, kept_items, shown_text)
