"""Tools' results as they come: content blocks, JSON lists, plain text; and the message again from what is left."""

import asyncio
import json
from typing import Annotated

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kept_texts import FAULTS, TEXTS, VALUES, Keeping, broken, check_kept, ranges_in
from langchain.agents import create_agent
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.types import Command

from denoise_core import DenoiseResult, InputError
from denoise_core.end import ENDDenoiser
from denoise_core.runtime import fallbacks
from denoise_core.testing import FunctionScorer
from denoise_core.text.structural import chunk_text
from denoise_core.tool_results import EMPTY_RESULT_TEXT, RECALL_TOOL
from langchain_denoise import Denoise, DenoiseCompressor
from langchain_denoise.middleware import DenoiseToolResults
from langchain_denoise.middleware.tool_messages import ToolText

IMAGE = {"type": "image", "base64": "AA==", "mime_type": "image/png"}


def about_paris(**settings):
    scorer = FunctionScorer(lambda query, text: float("Paris" in text))
    return DenoiseToolResults(
        ENDDenoiser(scorer, threshold=0.5, min_keep=0), tools=["search"], **settings
    )


async def cleared(middleware, content, *, sync=True, artifact=None, state=None):
    message = ToolMessage(
        content, tool_call_id="call", name="search", artifact=artifact
    )
    call = {"name": "search", "args": {}, "id": "call"}
    if state is None:
        state = {
            "messages": [
                HumanMessage("Where is Paris?"),
                AIMessage("", tool_calls=[call]),
            ]
        }
    request = ToolCallRequest(tool_call=call, tool=None, state=state, runtime=None)
    if sync:
        return await asyncio.to_thread(
            middleware.wrap_tool_call, request, lambda r: message
        )

    async def handler(request):
        return message

    return await middleware.awrap_tool_call(request, handler)


both_ways = pytest.mark.parametrize("sync", [True, False])


@both_ways
async def test_content_blocks_as_mcp_adapters_give_them(sync):
    """They were left as they came, even when the tool was named."""
    content = [
        {
            "type": "text",
            "text": "Bananas are yellow.\n\nParis is a capital.",
            "id": "lc_1",
        },
        IMAGE,
        {"type": "text", "text": "Rain is wet."},
        {"type": "text", "text": "Paris lies on the Seine.", "annotations": []},
    ]
    out = await cleared(
        about_paris(), content, sync=sync, artifact={"structured_content": {"n": 3}}
    )
    assert out.content == [
        {"type": "text", "text": "Paris is a capital.", "id": "lc_1"},
        IMAGE,
        {"type": "text", "text": "Paris lies on the Seine.", "annotations": []},
    ]
    assert out.artifact == {"structured_content": {"n": 3}}
    record = out.response_metadata["denoise"]
    assert (record["left_out"], record["fallback"]) == (2, None)
    assert record["characters_after"] < record["characters_before"]


@both_ways
async def test_one_long_text_is_cut_into_paragraphs(sync):
    """It was one document, and always kept."""
    text = (
        "# Paris\n\nThe capital of France.\n\n# Fruit\n\nBananas are yellow.\n\n"
        + "Rain is wet. " * 400
        + "Paris is big."
    )
    out = await cleared(about_paris(), text, sync=sync)
    assert out.content.startswith("# Paris\n\nThe capital of France.")
    assert out.content.endswith("Paris is big.")
    assert "Bananas" not in out.content
    assert len(out.content) < 1200


@both_ways
async def test_a_json_list_stays_one(sync):
    found = [
        {"title": "Paris", "rank": 1},
        {"title": "Bananas", "rank": 2},
        {"title": "Fr", "text": "In Paris."},
    ]
    out = await cleared(about_paris(), json.dumps(found), sync=sync)
    assert json.loads(out.content) == [found[0], found[2]]


async def test_nothing_left_is_said_and_the_call_has_its_message():
    for content in ("Bananas.", [{"type": "text", "text": "Bananas."}]):
        out = await cleared(about_paris(on_empty="drop"), content)
        assert (out.text, out.tool_call_id) == (EMPTY_RESULT_TEXT, "call")
    assert (await cleared(about_paris(), "Bananas.")).content == "Bananas."


async def test_a_compressor_will_do_and_keeps_its_settings():
    ready = DenoiseCompressor(
        scorer=FunctionScorer(lambda q, t: float(len(t))), keep=1, record="none"
    )
    found = [Document(page_content=t, id="same") for t in ("a", "bbb", "cc")]
    out = await cleared(
        DenoiseToolResults(ready), "1: a\n2: bbb\n3: cc", artifact=found
    )
    assert [d.page_content for d in out.artifact] == ["bbb"]
    with pytest.raises(ValueError, match="keep: set on the DenoiseCompressor"):
        DenoiseToolResults(ready, keep=2)
    made = DenoiseToolResults(
        Denoise.from_embeddings(DeterministicFakeEmbedding(size=4), keep=3), tools=["a"]
    )
    assert (made.tool_names, made.compressor.keep) == ({"a"}, 3)


@given(st.lists(st.text("ab. \n", max_size=40), max_size=5))
def test_a_result_of_which_all_is_kept_is_the_same(texts):
    message = ToolMessage(
        [{"type": "text", "text": t} for t in texts], tool_call_id="1"
    )
    text = ToolText.from_message(message)
    out, gone = text.apply_results([DenoiseResult("q", text.content.passages)])
    assert not gone
    kept = [t for t in texts if t.strip()]
    assert [b["text"] for b in out.content] == (kept or [EMPTY_RESULT_TEXT])


def result_of(denoiser, content):
    message = ToolMessage(content, tool_call_id="call", name="search")
    call = {"name": "search", "args": {}, "id": "call", "type": "tool_call"}
    state = {"messages": [HumanMessage("Paris?")]}
    request = ToolCallRequest(tool_call=call, tool=None, state=state, runtime=None)
    return DenoiseToolResults(denoiser, tools=["search"]).wrap_tool_call(
        request, lambda _: message
    )


@given(TEXTS | VALUES.map(json.dumps), st.sampled_from(sorted(FAULTS)), st.booleans())
@example(
    json.dumps(
        {"report": "id,place\n" + "".join(f'{n},"town {n}"\n' for n in range(80))}
    ),
    "raises",
    False,
)
def test_a_broken_scorer_leaves_every_result_as_it_was(text, fault, in_blocks):
    content = [{"type": "text", "text": text}] if in_blocks and text.strip() else text
    out = result_of(broken(fault), content)
    assert out.content == content
    assert out.response_metadata.get("denoise", {"left_out": 0})["left_out"] == 0


@given(TEXTS | VALUES.map(json.dumps), st.data())
def test_what_a_denoiser_keeps_is_what_the_model_reads(text, data):
    denoiser = Keeping(lambda text: data.draw(ranges_in(text)))
    out = result_of(denoiser, text)
    for read, kept in denoiser.kept:
        check_kept(read, chunk_text(read).text_format, kept, out.content)


SEARCHED = {
    "query": "Paris",
    "results": [{"title": f"Town {n}", "text": "Rain. " * 40} for n in range(9)],
}
SEARCHED["results"].append({"title": "Paris", "text": "In Paris it is dry. " * 8})


def agent_of(kit, middleware, found, args, **settings):
    @tool
    def search(query: str = "", page: int = 1):
        """Looks things up."""
        return found

    calls = [{"name": "search", "args": args, "id": "call-12345678"}]
    model = kit.chat(
        lambda m: "done" if m[-1].type == "tool" else AIMessage("", tool_calls=calls)
    )
    return create_agent(model, [search], middleware=[middleware], **settings)


def told(state):
    return next(m for m in state["messages"] if m.type == "tool")


async def test_a_default_text_tool_is_denoised_when_it_was_asked_in_words(kit):
    """Its results passed whole, and without a word, unless ``tools`` named it."""
    middleware = DenoiseToolResults(
        ENDDenoiser(FunctionScorer(lambda q, t: float("Paris" in t)), threshold=0.5)
    )
    agent = agent_of(
        kit, middleware, json.dumps(SEARCHED), {"query": "weather in Paris"}
    )
    found = json.loads(
        told(await agent.ainvoke({"messages": [HumanMessage("Is it dry?")]})).content
    )
    assert [r["title"] for r in found["results"]] == ["Paris"]
    assert found["query"] == "Paris"


async def test_long_text_that_passes_is_said_once(kit, caplog):
    fallbacks._counts.clear()
    agent = agent_of(kit, DenoiseToolResults(keep=1), json.dumps(SEARCHED), {"page": 2})
    for _ in range(2):
        state = await agent.ainvoke({"messages": [HumanMessage("Is it dry?")]})
        assert json.loads(told(state).content) == SEARCHED
    assert caplog.text.count("tools=['search']") == 1


async def test_short_text_passes(kit):
    agent = agent_of(
        kit, DenoiseToolResults(keep=1), "Rain.\n\nParis.", {"query": "Paris"}
    )
    assert (
        told(await agent.ainvoke({"messages": [HumanMessage("Is it dry?")]})).content
        == "Rain.\n\nParis."
    )


async def test_a_name_that_no_tool_has_raises_with_the_nearest(kit):
    """It did nothing, and said nothing."""
    agent = agent_of(
        kit,
        DenoiseToolResults(kit.Answers(kit.drop_all), tools=["serach"]),
        "x",
        {"query": "q"},
    )
    with pytest.raises(InputError, match="did you mean 'search'"):
        await agent.ainvoke({"messages": [HumanMessage("?")]})
    with pytest.raises(InputError, match="list of tools"):
        DenoiseToolResults(tools="search")


async def test_messages_in_a_command_are_denoised(kit):
    """A command passed, although its message held ten documents."""

    @tool
    def search(query: str, tool_call_id: Annotated[str, InjectedToolCallId]):
        """Looks things up."""
        return Command(
            update={
                "messages": [
                    ToolMessage(json.dumps(SEARCHED), tool_call_id=tool_call_id)
                ]
            }
        )

    calls = [{"name": "search", "args": {"query": "Paris weather"}, "id": "call-1"}]
    model = kit.chat(
        lambda m: "done" if m[-1].type == "tool" else AIMessage("", tool_calls=calls)
    )
    denoiser = ENDDenoiser(
        FunctionScorer(lambda q, t: float("Paris" in t)), threshold=0.5
    )
    agent = create_agent(model, [search], middleware=[DenoiseToolResults(denoiser)])
    found = json.loads(
        told(await agent.ainvoke({"messages": [HumanMessage("?")]})).content
    )
    assert [r["title"] for r in found["results"]] == ["Paris"]


@pytest.mark.parametrize("sync", [True, False])
async def test_what_was_left_out_can_be_recalled(kit, sync):
    @tool
    def search(query: str):
        """Looks things up."""
        return json.dumps(SEARCHED)

    asked = [
        AIMessage(
            "",
            tool_calls=[
                {"name": "search", "args": {"query": "Paris dry"}, "id": "call-1"}
            ],
        )
    ]

    def reply(messages):
        if messages[-1].type == "human":
            return asked[0]
        if len([m for m in messages if m.type == "tool"]) == 1:
            at = next(
                line for line in messages[-1].text.splitlines() if "Town 0" in line
            ).split(":")[0]
            return AIMessage(
                "", tool_calls=[{"name": "recall", "args": {"id": at}, "id": "call-2"}]
            )
        return "done"

    denoiser = ENDDenoiser(
        FunctionScorer(lambda q, t: float("Paris" in t)), threshold=0.5
    )
    agent = create_agent(
        kit.chat(reply),
        [search],
        middleware=[DenoiseToolResults(denoiser, recall=True)],
    )
    given = {"messages": [HumanMessage("Is it dry in Paris?")]}
    state = (
        await asyncio.to_thread(agent.invoke, given)
        if sync
        else await agent.ainvoke(given)
    )
    first, back = [m for m in state["messages"] if m.type == "tool"]
    assert (
        "Rain. Rain. Rain. Rain. Rain. Rain. Rain. Rain. Rain. Rain. Rain"
        not in first.text
    )
    assert "Town 0" in back.text
    assert "Rain. Rain." in back.text
    assert all(
        text in json.dumps(state["denoise_left_out"]) for text in ("Town 0", "Town 8")
    )


LINES = [
    f"{n:02}:00 order {n} was sent from the warehouse to the customer without delay"
    for n in range(60)
]


def test_messages_of_one_call_count_together():
    half = "\n\n".join(
        f"Paragraph {n} of the first half, which says little about anything."
        for n in range(18)
    )
    assert len(half) < 2000 < 2 * len(half)
    given = Command(
        update={
            "messages": [ToolMessage(half, tool_call_id=i, name="log") for i in "12"]
        }
    )
    call = {
        "name": "log",
        "args": {"query": "paragraph 3"},
        "id": "1",
        "type": "tool_call",
    }
    request = ToolCallRequest(
        tool_call=call, tool=None, state={"messages": []}, runtime=None
    )
    denoiser = ENDDenoiser(
        FunctionScorer(lambda query, text: float("Paragraph 3" in text)), keep=2
    )
    out = DenoiseToolResults(denoiser).wrap_tool_call(request, lambda _: given)
    assert all(len(m.content) < len(half) for m in out.update["messages"])


def test_the_artifact_of_langchains_own_mcp_tools_is_read():
    """`langchain.mcp` (beta, needs fastmcp) keeps the structured content beside the blocks, each cut by itself."""
    rows = [{"title": f"Town {n}", "text": "Rain. " * 30} for n in range(9)] + [
        {"title": "Paris", "text": "Dry."}
    ]
    artifact = {"structured_content": {"rows": rows}}  # its `MCPToolArtifact`
    message = ToolMessage(
        [{"type": "text", "text": json.dumps(rows)}],
        tool_call_id="1",
        artifact=artifact,
    )
    text = ToolText.from_message(message)
    found = ENDDenoiser(
        FunctionScorer(lambda query, said: float("Paris" in said)),
        keep=1,
        chunker="auto",
    )
    out, _ = text.apply_results(
        [found.denoise("Paris", part.passages) for part in text.parts]
    )
    assert [r["title"] for r in out.artifact["structured_content"]["rows"]] == ["Paris"]
    assert "Town" not in out.content[0]["text"]


async def test_what_is_recalled_comes_whole():
    middleware = about_paris(recall=True)
    text = "Bananas are yellow.\n\n" * 200
    message = ToolMessage(text, tool_call_id="call", name=RECALL_TOOL)
    call = {"name": "search", "args": {}, "id": "call"}
    request = ToolCallRequest(
        tool_call=call,
        tool=None,
        state={"messages": [HumanMessage("Paris?")]},
        runtime=None,
    )
    assert middleware.wrap_tool_call(request, lambda r: message).content == text
