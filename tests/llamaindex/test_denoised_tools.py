"""Tools of agents without the noise: shape and state, `recall`, and what a checked agent holds against them."""

import ast
import asyncio
import copy
import json
from dataclasses import dataclass

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from llama_index.core.tools import FunctionTool, RetrieverTool
from llama_index.core.tools.calling import call_tool
from llama_index.core.workflow import Context
from llamaindex_denoisers import scored
from llamaindex_doubles import Calling, calls
from llamaindex_engines import Fixed, outcome_of
from pydantic import BaseModel

from denoise_core import InputError
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from denoise_core.tool_results import OMITTED_STATE_KEY
from llamaindex_denoise import Checked, denoised

FOUND = {
    "next": "c2",
    "results": [{"title": f"Town {n}", "content": "Rain. " * 40} for n in range(9)],
}
FOUND["results"][3] = {"title": "Paris", "content": "Paris is dry."}
NOTE = {"left_out": "1 of 9 items shown; 8 left out"}
DENOISER = ENDDenoiser(FunctionScorer(lambda q, t: float("Paris" in t)), threshold=0.5)


def search(query: str):
    """Looks things up."""
    return json.dumps(FOUND)


SEARCH = FunctionTool.from_defaults(search)


def recalling(messages, **kwargs):
    """Asks the tool, then for the first part that was left out, then answers."""
    seen = [message.content for message in messages if message.role.value == "tool"]
    if not seen:
        return calls("search", query="dry town")
    if len(seen) == 1:
        at = seen[0].partition("recall(")[2].partition(")")[0]
        return calls("recall", id=at)
    return ChatMessage(role="assistant", content="Paris is dry.")


async def run(agent):
    ctx = Context(agent)
    seen = []
    handler = agent.run(user_msg="Is it dry in Paris?", ctx=ctx)
    async for event in handler.stream_events():
        if isinstance(event, ToolCallResult):
            seen.append(event.tool_output)
    return await handler, seen, await ctx.store.get(OMITTED_STATE_KEY, default={})


@pytest.mark.parametrize("form", ["agent", "workflow", "checked"])
async def test_what_was_left_out_can_be_recalled(form):
    agent = FunctionAgent(
        name="guide",
        llm=Calling(script=recalling),
        tools=denoised([SEARCH], DENOISER, min_characters=0, recall=True),
    )
    if form == "workflow":
        agent = AgentWorkflow(agents=[agent])
    if form == "checked":
        agent = Checked(agent)
    output, (first, restored_text), kept_items = await run(agent)
    (shown_text,) = first.blocks
    results = json.loads(shown_text.text)["results"]
    assert results[1:] == [FOUND["results"][3]]
    assert "1 of 9 items shown; 8 left out; recall(" in results[0]["left_out"]
    assert restored_text.content in kept_items.values()
    for number in (0, 8):
        assert f"Town {number}" in restored_text.content
    assert "Rain. " * 10 not in first.content
    assert str(output) == "Paris is dry."
    if form == "checked":
        assert outcome_of(output) == "supported"


async def test_a_tool_with_a_context_blocks_and_errors_stay_as_they_are():
    picture = ImageBlock(image=b"\x89PNG")

    async def look(ctx: Context, query: str):
        """Looks."""
        await ctx.store.set("looked", query)
        return [TextBlock(text=json.dumps(FOUND)), picture]

    def broken(query: str):
        """Breaks."""
        raise ValueError("no way " + "Rain. " * 500)

    steps = [
        calls("look", query="dry"),
        calls("broken", query="dry"),
        ChatMessage(role="assistant", content="Dry."),
    ]
    tools = denoised(
        [FunctionTool.from_defaults(look), FunctionTool.from_defaults(broken)],
        DENOISER,
        min_characters=0,
    )
    assert [t.metadata.name for t in tools] == ["look", "broken"]
    agent = FunctionAgent(
        name="guide",
        llm=Calling(script=lambda messages, **k: steps.pop(0)),
        tools=tools,
    )
    _, (first, second), kept_items = await run(agent)
    assert json.loads(first.blocks[0].text)["results"] == [NOTE, FOUND["results"][3]]
    assert json.loads(first.raw_output[0].text) == FOUND
    assert isinstance(first.blocks[1], ImageBlock)
    assert second.is_error
    assert "no way" in second.content
    assert kept_items == {}


def test_what_is_no_list_of_tools_says_what_to_type():
    for wrong in (SEARCH, [search], [SEARCH, SEARCH]):
        with pytest.raises(InputError, match="tools"):
            denoised(wrong, DENOISER)


def look_up_tool(value, **settings):
    def look(query: str):
        """Looks things up."""
        return value

    return FunctionTool.from_defaults(look, **settings)


def output_of(value, **settings):
    settings = {"min_characters": 0, **settings}
    (tool,) = denoised([look_up_tool(value)], DENOISER, **settings)
    return asyncio.run(tool.acall(query="Paris?"))


class Town(BaseModel):
    title: str
    content: str


class Towns(BaseModel):
    count: int
    results: list[Town]


@dataclass
class TownList:
    count: int
    results: list[dict]


TITLES = ("Paris", *(f"Town {n}" for n in range(12)))
TOWNS = [
    {"title": title, "content": f"{title} is a town. " + "It rains. " * 12}
    for title in TITLES
]
NODES = [scored(town["content"], 0.5, id_=town["title"]) for town in TOWNS]
VALUES_BY_TYPE = {
    "str": json.dumps(TOWNS),
    "dict": {"count": 13, "results": TOWNS},
    "list of dicts": TOWNS,
    "list of texts": [town["content"] for town in TOWNS],
    "list of rows": [tuple(town.values()) for town in TOWNS],
    "pydantic": Towns(count=13, results=[Town(**town) for town in TOWNS]),
    "dataclass": TownList(13, TOWNS),
    "nodes with scores": NODES,
    "nodes": [item.node for item in NODES],
}


@pytest.mark.parametrize("name", VALUES_BY_TYPE)
def test_what_a_tool_returns_is_cut_in_its_type(name):
    value = VALUES_BY_TYPE[name]
    before = copy.deepcopy(value)
    whole = look_up_tool(value).call(query="q").content
    output = output_of(value)
    assert output.raw_output == before == value
    assert "Paris is a town." in output.content
    assert not any(f"{title} is" in output.content for title in TITLES[1:])
    assert len(output.content) < 0.5 * len(whole)
    if name == "nodes":  # a block each, as the framework makes them
        assert len(output.blocks) == 13
        assert all(block.text.startswith("[0 of") for block in output.blocks[1:])
        return
    assert "1 of 13" in output.content
    assert "12 left out" in output.content
    if name == "str":
        assert json.loads(output.content)[0] == TOWNS[0]
    elif name.startswith("list") or name == "dict":
        shown_value = ast.literal_eval(output.content)
        items = shown_value["results"] if name == "dict" else shown_value
        whole_items = value["results"] if name == "dict" else value
        assert items[0] == whole_items[0]
        assert len(items) == 2
        assert type(items[1]) is type(whole_items[1])
    else:
        assert output.content.split("=")[0] == whole.split("=")[0]


def test_nodes_of_one_text_stay_themselves():
    text = TOWNS[0]["content"]
    twins = [scored(text, 0.5, id_=name) for name in ("first", "second")]
    content = output_of([*twins, *NODES[1:]]).content
    assert content.count("id_='first'") == 1
    assert content.count("id_='second'") == 1
    assert "2 of 14" in content


def test_what_the_user_reads_a_short_result_and_a_pinned_item_stay():
    direct = look_up_tool(NODES, return_direct=True)
    (tool,) = denoised([direct], DENOISER, min_characters=0)
    assert tool.metadata.return_direct
    assert tool.call(query="Paris?").content == str(NODES)
    assert output_of(NODES, min_characters=10**6).content == str(NODES)
    output = output_of(NODES, must_keep="^Town 7 ")
    assert "Town 7 is a town." in output.content
    assert "Town 6 is a town." not in output.content
    filler = "It rains. " * 300
    long_nodes = Fixed([scored(f"{filler}WARNING. {filler}"), *NODES])
    tools = [RetrieverTool.from_defaults(long_nodes)]
    (tool,) = denoised(tools, DENOISER, must_keep="WARNING")
    assert "WARNING" in tool.call(query="Paris?").content


@pytest.mark.parametrize(
    "call",
    [
        lambda tool: tool("Paris"),
        lambda tool: tool(query="Paris"),
        lambda tool: asyncio.run(tool.acall(query="dry Paris")),
        lambda tool: call_tool(tool, {"query": "Paris"}),
    ],
)
def test_a_tool_is_cut_without_an_agents_context(call):
    tool, _ = denoised(
        [SEARCH],
        DENOISER,
        min_characters=0,
        recall=True,
    )
    output = call(tool)
    assert not output.is_error
    results = json.loads(output.content)["results"]
    assert results == [NOTE, FOUND["results"][3]], "no id without a place for it"
    assert json.loads(output.raw_output) == FOUND


def test_without_a_context_and_a_question_a_result_stays_whole():
    def list_towns():
        """Lists towns."""
        return json.dumps(FOUND)

    (tool,) = denoised([FunctionTool.from_defaults(list_towns)], DENOISER)
    assert json.loads(tool().content) == FOUND
