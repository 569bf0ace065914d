"""Middleware in real agents: tool results cleared, the user's words cleared, tools chosen."""

import json
from types import SimpleNamespace

import pytest
from langchain.agents import create_agent
from langchain_agents import (
    ASKED,
    FOUND,
    LEADING,
    NEUTRAL,
    PARIS,
    both_ways,
    by_words,
    neutral,
    run,
    searching,
    tool_message,
)
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import PromptTemplate
from langchain_core.tools import StructuredTool, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from recorded_runs import RunRecorder

from denoise_core.end import ENDDenoiser
from denoise_core.runtime import fallbacks
from denoise_core.testing import FunctionScorer
from denoise_core.tool_results import EMPTY_RESULT_TEXT
from langchain_denoise.middleware import DenoiseToolResults, DenoiseTools, S2AMiddleware
from langchain_denoise.middleware.tool_messages import replace_texts

# What a tool found


@both_ways
async def test_artifact_and_content_are_cleared_alike(make, sync):
    agent, model = make(DenoiseToolResults(by_words()))
    message = tool_message(await run(agent, sync))
    assert message.content == PARIS
    assert [(d.id, d.metadata["source"]) for d in message.artifact] == [
        ("atlas", "atlas.md")
    ]
    assert model.calls[-1][-1].text == PARIS
    record = message.response_metadata["denoise"]
    assert json.loads(json.dumps(record)) == record
    assert (record["given"], record["kept"], record["fallback"]) == (3, 1, None)


async def test_the_tools_own_layout_stays(make):
    prompt = PromptTemplate.from_template("# {source}\n{page_content}")
    agent, _ = make(
        DenoiseToolResults(by_words(keep=2)),
        document_prompt=prompt,
        document_separator="\n---\n",
    )
    message = tool_message(await agent.ainvoke(ASKED))
    assert (
        message.content == f"# fruit.md\nBananas are yellow.\n---\n# atlas.md\n{PARIS}"
    )
    assert [d.id for d in message.artifact] == ["fruit", "atlas"]


@both_ways
async def test_a_tool_that_gives_text_alone(make, kit, sync):
    denoiser = ENDDenoiser(FunctionScorer(kit.overlap), keep=1)
    untouched, _ = make(DenoiseToolResults(denoiser), response_format="content")
    whole = tool_message(await run(untouched, sync)).content
    assert whole == "\n\n".join(d.page_content for d in FOUND)
    named, _ = make(
        DenoiseToolResults(denoiser, tools=["search"]), response_format="content"
    )
    assert tool_message(await run(named, sync)).content.strip() == PARIS


async def test_a_failure_keeps_the_result_and_says_so(make, kit):
    agent, _ = make(DenoiseToolResults(kit.Answers(kit.fail)))
    message = tool_message(await agent.ainvoke(ASKED))
    assert len(message.artifact) == 3
    assert "no route" in message.response_metadata["denoise"]["fallback"]


async def test_the_query_is_the_users_words_and_those_of_the_call(make, kit):
    asked = []

    def remember(query, passages):
        asked.append(query)
        return kit.drop_all(query, passages)

    agent, _ = make(DenoiseToolResults(kit.Answers(remember), on_empty="drop"))
    assert tool_message(await agent.ainvoke(ASKED)).content == EMPTY_RESULT_TEXT
    blank, _ = make(
        DenoiseToolResults(kit.Answers(remember)), reply=searching(query=" ")
    )
    await blank.ainvoke(ASKED)
    assert asked == ["What is the capital of France?"] * 2  # the call's words are in it


async def test_errors_and_images_pass(kit):
    image = [{"type": "image", "url": "https://example.org/x.png"}]

    @tool
    def search(query: str):
        """Looks things up."""
        return image

    @tool
    def fail(query: str):
        """Fails."""
        raise ToolException("Bananas are out.")

    fail.handle_tool_error = True
    calls = [{"name": "search", "args": {"query": "q"}, "id": "call-1"}]
    calls.append({"name": "fail", "args": {"query": "q"}, "id": "call-2"})
    model = kit.chat(
        lambda m: "done" if m[-1].type == "tool" else AIMessage("", tool_calls=calls)
    )
    middleware = DenoiseToolResults(
        kit.Answers(kit.drop_all), tools=["search", "fail"], on_empty="drop"
    )
    state = await create_agent(model, [search, fail], middleware=[middleware]).ainvoke(
        ASKED
    )
    assert [m.content for m in state["messages"] if m.type == "tool"] == [
        image,
        "Bananas are out.",
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (["aa", "bb"], ["a", "b"], "<a>\n<b>\n"),
        (["aa", "bb"], [None, "bb"], ">\n<bb>\n"),
        (["aa", "bb"], ["aa", None], "<aa>\n"),
        (["aa", "zz"], ["a", "z"], "a\n\nz"),
        (["bb", "aa"], ["b", "a"], "b\n\na"),
        ([], [], "<aa>\n<bb>\n"),
    ],
)
def test_texts_are_replaced_where_they_stand(before, after, expected):
    assert replace_texts("<aa>\n<bb>\n", before, after) == expected


# The user's words


@both_ways
async def test_the_model_reads_cleared_words_and_the_user_keeps_their_own(
    make, kit, sync
):
    clearing = kit.chat(neutral)
    agent, model = make(S2AMiddleware(clearing, variant="default"))
    state = await run(agent, sync, {"messages": [HumanMessage(LEADING)]})
    assert state["messages"][0].text == LEADING
    assert "denoised_messages" not in state
    assert [call[0].text for call in model.calls] == [NEUTRAL, NEUTRAL]
    assert len(clearing.calls) == 2  # the question, then the words; once a turn


@both_ways
async def test_cleared_words_survive_in_a_checkpoint(make, kit, sync):
    clearing = kit.chat(neutral)
    agent, model = make(
        S2AMiddleware(clearing, variant="default"), checkpointer=InMemorySaver()
    )
    thread = {"configurable": {"thread_id": "1"}}
    await run(agent, sync, {"messages": [HumanMessage(LEADING)]}, thread)
    await run(agent, sync, {"messages": [HumanMessage("And of Italy?")]}, thread)
    assert model.calls[-1][0].text == NEUTRAL
    assert len(clearing.calls) == 3
    kept = agent.get_state(thread).values["denoised_messages"]
    assert json.loads(json.dumps(kept)) == kept
    records = list(kept["S2AMiddleware"].values())
    assert records[0]["record"]["original"] == LEADING


async def test_two_instances_at_once(make, kit):
    first = S2AMiddleware(kit.chat(neutral), variant="default", name="opinion")
    second = S2AMiddleware(
        kit.chat(lambda m: "🤷"), variant="default", name="other", scope="history"
    )
    tools = [
        DenoiseToolResults(by_words(2), name="first cut"),
        DenoiseToolResults(by_words(1), name="second cut"),
    ]
    agent, model = make(first, second, *tools)
    state = await agent.ainvoke({"messages": [HumanMessage(LEADING)]})
    assert model.calls[-1][0].text == NEUTRAL
    assert [d.id for d in tool_message(state).artifact] == ["atlas"]


@both_ways
async def test_spans_nest_under_the_hooks(make, kit, sync):
    seen = RunRecorder()
    agent, _ = make(
        S2AMiddleware(kit.chat(neutral), variant="default"),
        DenoiseToolResults(kit.s2a(lambda m: "1")),
    )
    await run(agent, sync, ASKED, {"callbacks": [seen]})
    paths = seen.paths("llm")
    assert any("S2AMiddleware.before_agent" in p for p in paths)
    assert sum("DenoiseCompressor" in p for p in paths) == 3
    assert all(p.startswith("LangGraph/") for p in paths)


@pytest.mark.parametrize(
    "error",
    [AttributeError("a typo"), ConnectionError("down")],
    ids=lambda e: type(e).__name__,
)
def test_a_scorer_of_tools_that_fails_is_heard_and_a_mistake_raises(error, caplog):
    def fail(query, text):
        raise error

    tools = [
        StructuredTool.from_function(lambda: "x", name=n, description=n)
        for n in ("one", "two")
    ]
    request = SimpleNamespace(tools=tools, messages=[HumanMessage("which one?")])
    middleware = DenoiseTools(FunctionScorer(fail), top_n=1)
    fallbacks._counts.clear()
    if isinstance(error, AttributeError):
        with pytest.raises(AttributeError):
            middleware.wrap_model_call(request, lambda r: r.tools)
    else:
        assert middleware.wrap_model_call(request, lambda r: r.tools) == tools
        assert "all tools are shown; ConnectionError. " in caplog.text


def test_a_message_that_was_cleared_is_not_cleared_again(kit):
    model = kit.chat(lambda m: "1")
    middleware = S2AMiddleware(model)
    state = {"messages": [HumanMessage("I like towers. How tall is it?", id="a")]}
    update = middleware.before_agent(state, None)
    calls = len(model.calls)
    assert middleware.before_agent({**state, **update}, None) is None
    assert len(model.calls) == calls > 0


def test_a_tool_called_in_this_turn_stays():
    tools = [
        StructuredTool.from_function(lambda: "x", name=n, description=n)
        for n in ("one", "two")
    ]
    call = AIMessage("", tool_calls=[{"name": "two", "args": {}, "id": "1"}])
    request = SimpleNamespace(tools=tools, messages=[HumanMessage("which?"), call])
    request.override = lambda tools: tools
    middleware = DenoiseTools(
        FunctionScorer(lambda query, text: float("one" in text)), top_n=1
    )
    assert middleware.wrap_model_call(request, list) == tools
