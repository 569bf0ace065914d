"""Tools of agents without the noise: shape and state, `recall`, and what a checked agent holds against them."""

import ast
import asyncio
import copy
import json
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kept_texts import FAULTS, TEXTS, VALUES, Keeping, broken, check_kept, ranges_in
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool
from llama_index.core.tools.calling import call_tool
from llama_index.core.workflow import Context
from llamaindex_doubles import Calling, calls
from llamaindex_engines import outcome_of
from pydantic import BaseModel

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
NOTE = {"left_out": "1 of 9 items shown; 8 left out"}
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
        at = seen[0].partition("recall(")[2].partition(")")[0]
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
        tools=denoised([search_tool()], DENOISER, min_characters=0, recall=True),
    )
    agent = {
        "agent": lambda a: a,
        "workflow": lambda a: AgentWorkflow(agents=[a]),
        "checked": Checked,
    }[form](agent)
    output, (first, restored_text), kept_items = await run(agent)
    (shown_text,) = first.blocks
    results = json.loads(shown_text.text)["results"]
    assert results[1:] == [FOUND["results"][3]]
    assert "1 of 9 items shown; 8 left out; recall(" in results[0]["left_out"]
    assert restored_text.content in kept_items.values()
    assert "Town 0" in restored_text.content
    assert all(f"Town {n}" in restored_text.content for n in (0, 8))
    assert (
        "Rain. Rain. Rain. Rain. Rain. Rain. Rain. Rain. Rain. Rain. Rain"
        not in first.content
    )
    assert str(output) == "Paris is dry."
    if form == "checked":
        assert outcome_of(output) == "supported"


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
    for wrong in (search_tool(), [search], [search_tool(), search_tool()]):
        with pytest.raises(InputError, match="tools"):
            denoised(wrong, DENOISER)


def result_of(denoiser, text):
    def look(query: str) -> str:
        """Looks things up."""
        return text

    return output_of(denoiser, look).blocks[0].text


def output_of(denoiser, look, **settings):
    settings = {"min_characters": 0, **settings}
    (tool,) = denoised([FunctionTool.from_defaults(look)], denoiser, **settings)
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
NODES = [
    NodeWithScore(node=TextNode(text=town["content"], id_=town["title"]), score=0.5)
    for town in TOWNS
]
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

    def look(query: str):
        """Looks things up."""
        return value

    whole = FunctionTool.from_defaults(look).call(query="q").content
    output = output_of(DENOISER, look)
    assert output.raw_output == before == value
    assert "Paris is a town." in output.content
    assert not any(f"{title} is" in output.content for title in TITLES[1:])
    assert len(output.content) < 0.5 * len(whole)
    if name == "nodes":  # a block each, as the framework makes them
        assert [block.text.startswith("[0 of") for block in output.blocks[1:]] == (
            [True] * 12
        )
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
    twins = []
    for name in ("first", "second"):
        node = TextNode(text=text, id_=name)
        twins.append(NodeWithScore(node=node, score=0.5))

    def look(query: str) -> list:
        """Looks things up."""
        return [*twins, *NODES[1:]]

    content = output_of(DENOISER, look).content
    assert content.count("id_='first'") == 1
    assert content.count("id_='second'") == 1
    assert "2 of 14" in content


def test_a_short_result_and_a_pinned_item_stay():
    def look(query: str) -> list:
        """Looks things up."""
        return NODES

    assert output_of(DENOISER, look, min_characters=10**6).content == str(NODES)
    output = output_of(DENOISER, look, must_keep="^Town 7 ")
    assert "Town 7 is a town." in output.content
    assert "Town 6 is a town." not in output.content


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
        [search_tool()],
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
    def list_towns() -> str:
        """Lists towns."""
        return json.dumps(FOUND)

    (tool,) = denoised([FunctionTool.from_defaults(list_towns)], DENOISER)
    assert json.loads(tool().content) == FOUND


def test_recall_without_a_context_says_that_there_is_nothing():
    *_, recall = denoised([search_tool()], DENOISER, recall=True)
    assert "There is no part 'x'" in recall(id="x").content


@given(TEXTS | VALUES.map(json.dumps), st.sampled_from(sorted(FAULTS)))
@example(
    json.dumps(
        {"report": "id,place\n" + "".join(f'{n},"town {n}"\n' for n in range(80))}
    ),
    "raises a lost connection",
)
def test_a_broken_scorer_leaves_every_result_as_it_was(text, fault):
    assert result_of(broken(fault), text) == text


@given(TEXTS | VALUES.map(json.dumps), st.data())
def test_what_a_denoiser_keeps_is_what_the_model_reads(text, data):
    denoiser = Keeping(lambda text: data.draw(ranges_in(text)))
    shown_text = result_of(denoiser, text)
    for read, kept_items in denoiser.kept:
        check_kept(read, chunk_text(read).text_format, kept_items, shown_text)
