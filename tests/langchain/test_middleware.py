"""Middleware in real agents: tool results cleared, the user's words cleared, the answer checked."""

import asyncio
import json
from types import SimpleNamespace

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.prompts import PromptTemplate
from langchain_core.tools import StructuredTool, create_retriever_tool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from denoise_core.augmenter import LoopLimits
from denoise_core.end import ENDDenoiser
from denoise_core.running import heard
from denoise_core.testing import FunctionScorer
from langchain_denoise import Verifier
from langchain_denoise.middleware import DenoiseToolResults, DenoiseTools, S2AMiddleware, VerificationMiddleware
from langchain_denoise.middleware.tool_text import NOTHING, rewrite
from langchain_denoise.testing import RunRecorder

PARIS = "Paris is the capital of France."
LYON = "Lyon has been the capital since 1789."
FOUND = [
    Document(page_content="Bananas are yellow.", id="fruit", metadata={"source": "fruit.md"}),
    Document(page_content=PARIS, id="atlas", metadata={"source": "atlas.md"}),
    Document(page_content="Capital letters are big.", id="letters", metadata={"source": "abc.md"}),
]
ASKED = {"messages": [HumanMessage("What is the capital of France?")]}


def searching(answer=lambda messages: PARIS, query="capital of France"):
    """A model's replies: look it up first, answer when there is a tool result."""

    def reply(messages):
        since = [m.type for m in messages[[m.type for m in messages].index("human") :]]
        if "tool" not in since:
            return AIMessage("", tool_calls=[{"name": "search", "args": {"query": query}, "id": "call-1"}])
        return answer(messages)

    return reply


@pytest.fixture
def make(kit):
    """An agent with a retrieval tool and the middleware under test."""

    def make(*middleware, reply=None, checkpointer=None, **tool_settings):
        settings = {"response_format": "content_and_artifact", **tool_settings}
        search = create_retriever_tool(kit.ListRetriever(found=FOUND), "search", "Looks things up.", **settings)
        model = kit.chat(reply or searching())
        return create_agent(model, [search], middleware=list(middleware), checkpointer=checkpointer), model

    return make


def by_words(keep=1):
    return ENDDenoiser(FunctionScorer(lambda q, t: float(len(set(q.split()) & set(t.split())))), keep=keep)


def tool_message(state):
    return next(m for m in state["messages"] if m.type == "tool")


async def run(agent, sync, given=ASKED, config=None):
    if sync:
        return await asyncio.to_thread(agent.invoke, given, config)
    return await agent.ainvoke(given, config)


both_ways = pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])


# What a tool found


@both_ways
async def test_artifact_and_content_are_cleared_alike(make, sync):
    agent, model = make(DenoiseToolResults(by_words()))
    message = tool_message(await run(agent, sync))
    assert message.content == PARIS
    assert [(d.id, d.metadata["source"]) for d in message.artifact] == [("atlas", "atlas.md")]
    assert model.seen[-1][-1].text == PARIS
    record = message.response_metadata["denoise"]
    assert json.loads(json.dumps(record)) == record
    assert (record["given"], record["kept"], record["fallback"]) == (3, 1, None)


async def test_the_tools_own_layout_stays(make):
    prompt = PromptTemplate.from_template("# {source}\n{page_content}")
    agent, _ = make(DenoiseToolResults(by_words(keep=2)), document_prompt=prompt, document_separator="\n---\n")
    message = tool_message(await agent.ainvoke(ASKED))
    assert message.content == f"# fruit.md\nBananas are yellow.\n---\n# atlas.md\n{PARIS}"
    assert [d.id for d in message.artifact] == ["fruit", "atlas"]


@both_ways
async def test_a_tool_that_gives_text_alone(make, kit, sync):
    denoiser = ENDDenoiser(FunctionScorer(kit.overlap), keep=1)
    untouched, _ = make(DenoiseToolResults(denoiser), response_format="content")
    whole = tool_message(await run(untouched, sync)).content
    assert whole == "\n\n".join(d.page_content for d in FOUND)
    named, _ = make(DenoiseToolResults(denoiser, tools=["search"]), response_format="content")
    assert tool_message(await run(named, sync)).content.strip() == PARIS
    other, _ = make(DenoiseToolResults(denoiser, tools=["lookup"]))
    assert tool_message(await run(other, sync)).content == whole


async def test_a_failure_keeps_the_result_and_says_so(make, kit):
    agent, _ = make(DenoiseToolResults(kit.Answers(kit.fail)))
    message = tool_message(await agent.ainvoke(ASKED))
    assert len(message.artifact) == 3
    assert "no route" in message.response_metadata["denoise"]["fallback"]


async def test_the_calls_own_query_comes_before_the_users_words(make, kit):
    asked = []

    def remember(query, passages):
        asked.append(query)
        return kit.drop_all(query, passages)

    agent, _ = make(DenoiseToolResults(kit.Answers(remember), on_empty="drop"))
    assert tool_message(await agent.ainvoke(ASKED)).content == NOTHING
    blank, _ = make(DenoiseToolResults(kit.Answers(remember)), reply=searching(query=" "))
    await blank.ainvoke(ASKED)
    assert asked == ["capital of France", "What is the capital of France?"]


async def test_errors_commands_and_images_pass(kit):
    image = [{"type": "image", "url": "https://example.org/x.png"}]

    @tool
    def search(query: str):
        """Looks things up."""
        return image

    @tool
    def move(query: str):
        """Changes the state itself."""
        return Command(update={"messages": [ToolMessage("moved", tool_call_id="call-2")]})

    calls = [{"name": "search", "args": {"query": "q"}, "id": "call-1"}]
    calls.append({"name": "move", "args": {"query": "q"}, "id": "call-2"})
    model = kit.chat(lambda m: "done" if m[-1].type == "tool" else AIMessage("", tool_calls=calls))
    middleware = DenoiseToolResults(kit.Answers(kit.drop_all), tools=["search", "move"], on_empty="drop")
    state = await create_agent(model, [search, move], middleware=[middleware]).ainvoke(ASKED)
    assert [m.content for m in state["messages"] if m.type == "tool"] == [image, "moved"]


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
    assert rewrite("<aa>\n<bb>\n", before, after) == expected


# The user's words

LEADING = "I am sure it is Lyon, but what is the capital of France?"
NEUTRAL = "What is the capital of France?"


def neutral(messages):
    return f"Context: NONE\nQuestion: {NEUTRAL}"


@both_ways
async def test_the_model_reads_cleared_words_and_the_user_keeps_their_own(make, kit, sync):
    clearing = kit.chat(neutral)
    agent, model = make(S2AMiddleware(clearing, variant="default"))
    state = await run(agent, sync, {"messages": [HumanMessage(LEADING)]})
    assert state["messages"][0].text == LEADING
    assert "denoised_messages" not in state
    assert [call[0].text for call in model.seen] == [NEUTRAL, NEUTRAL]
    assert len(clearing.seen) == 2  # the question, then the words; once a turn


@both_ways
async def test_cleared_words_survive_in_a_checkpoint(make, kit, sync):
    clearing = kit.chat(neutral)
    agent, model = make(S2AMiddleware(clearing, variant="default"), checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    await run(agent, sync, {"messages": [HumanMessage(LEADING)]}, thread)
    await run(agent, sync, {"messages": [HumanMessage("And of Italy?")]}, thread)
    assert model.seen[-1][0].text == NEUTRAL
    assert len(clearing.seen) == 3
    kept = agent.get_state(thread).values["denoised_messages"]
    assert json.loads(json.dumps(kept)) == kept
    records = list(kept["S2AMiddleware"].values())
    assert records[0]["record"]["original"] == LEADING


async def test_two_instances_at_once(make, kit):
    first = S2AMiddleware(kit.chat(neutral), variant="default", name="opinion")
    second = S2AMiddleware(kit.chat(lambda m: "🤷"), variant="default", name="other", scope="history")
    tools = [DenoiseToolResults(by_words(2), name="first cut"), DenoiseToolResults(by_words(1), name="second cut")]
    agent, model = make(first, second, *tools)
    state = await agent.ainvoke({"messages": [HumanMessage(LEADING)]})
    assert model.seen[-1][0].text == NEUTRAL
    assert [d.id for d in tool_message(state).artifact] == ["atlas"]


async def test_nothing_said_by_a_user(make, kit):
    agent, _ = make(S2AMiddleware(kit.chat(kit.fail_chat), variant="default"), reply=lambda m: "hello")
    state = await agent.ainvoke({"messages": [AIMessage("I begin.")]})
    assert state["messages"][-1].text == "hello"


# The answer


def told(messages):
    return PARIS if "did not hold" in messages[-1].text else LYON


@both_ways
async def test_an_answer_that_does_not_hold_is_written_again(make, sync):
    agent, model = make(VerificationMiddleware(), reply=searching(told))
    state = await run(agent, sync)
    assert [m.type for m in state["messages"]] == ["human", "ai", "tool", "ai"]
    answer = state["messages"][-1]
    assert answer.text == PARIS
    record = answer.response_metadata["denoise"]
    assert json.loads(json.dumps(record)) == record
    assert [a["text"] for a in record["attempts"]] == [LYON, PARIS]
    assert (record["outcome"], record["evidence"]) == ("supported", ["fruit", "atlas", "letters"])
    assert len(model.seen) == 3


@both_ways
@pytest.mark.parametrize(("evidence", "outcome"), [("turn", "unknown"), ("conversation", "supported")])
async def test_what_earlier_turns_found_counts_where_it_is_said(make, sync, evidence, outcome):
    agent, _ = make(VerificationMiddleware(evidence=evidence), reply=searching(told))
    before = (await run(agent, sync))["messages"]
    agent, model = make(VerificationMiddleware(evidence=evidence), reply=lambda m: PARIS)
    given = {"messages": [*before, HumanMessage("So what is the capital of France?")]}
    state = agent.invoke(given) if sync else await agent.ainvoke(given)
    assert state["messages"][-1].response_metadata["denoise"]["outcome"] == outcome
    assert len(model.seen) == 1


@both_ways
@pytest.mark.parametrize("unsupported", ["send", "abstain"])
async def test_drafts_are_bounded_and_the_policy_decides(make, sync, unsupported):
    drafts = iter([LYON, "It is Rome, since 1801.", "It is Bonn, since 1949.", "never asked for"])
    limits = LoopLimits(attempts=3, patience=3, unsupported=unsupported)
    agent, _ = make(VerificationMiddleware(Verifier(limits=limits)), reply=searching(lambda m: next(drafts)))
    answer = (await run(agent, sync))["messages"][-1]
    assert len(answer.response_metadata["denoise"]["attempts"]) == 3
    assert answer.response_metadata["denoise"]["stopped_because"] == "attempts"
    assert (answer.text == LYON) is (unsupported == "send")
    assert "no answer" in answer.text or unsupported == "send"


@both_ways
async def test_a_model_that_wants_to_look_again_may_and_ends(make, sync):
    def reply(messages):
        if "did not hold" in messages[-1].text:
            return AIMessage("", tool_calls=[{"name": "search", "args": {"query": "again"}, "id": "again"}])
        return LYON

    verifier = Verifier(limits=LoopLimits(attempts=2))
    agent, model = make(VerificationMiddleware(verifier), reply=searching(reply))
    state = await run(agent, sync)
    assert [m.type for m in state["messages"]] == ["human", "ai", "tool", "ai", "tool", "ai"]
    assert state["messages"][-1].response_metadata["denoise"]["outcome"] == "unsupported"
    assert len(model.seen) == 4


@both_ways
@pytest.mark.parametrize("found", [True, False])
async def test_a_draft_from_before_a_tool_call_is_judged_by_what_it_brought(make, sync, found):
    """Paris was right all along, only not yet shown; the model gives it up after the second look."""

    def reply(messages):
        if "did not hold" in messages[-1].text:
            return AIMessage("", tool_calls=[{"name": "search", "args": {"query": "again"}, "id": "again"}])
        looked_again = any(getattr(m, "tool_call_id", "") == "again" for m in messages)
        return LYON if looked_again else PARIS

    def evidence(messages):
        looked_again = any(getattr(m, "tool_call_id", "") == "again" for m in messages)
        return [PARIS] if looked_again and found else ["Bananas are yellow."]

    middleware = VerificationMiddleware(Verifier(limits=LoopLimits(attempts=2)), evidence=evidence)
    agent, _ = make(middleware, reply=searching(reply))
    answer = (await run(agent, sync))["messages"][-1]
    record = answer.response_metadata["denoise"]
    assert [a["text"] for a in record["attempts"]] == [LYON, PARIS]
    if found:
        assert (answer.text, record["outcome"]) == (PARIS, "supported")
    else:
        assert record["outcome"] == "unsupported"


async def test_no_evidence_is_said_and_not_tried_again(make):
    agent, model = make(VerificationMiddleware(), reply=lambda m: LYON)
    answer = (await agent.ainvoke(ASKED))["messages"][-1]
    assert (answer.text, answer.response_metadata["denoise"]["stopped_because"]) == (LYON, "no_evidence")
    assert len(model.seen) == 1


async def test_evidence_by_a_function_of_the_messages(make):
    middleware = VerificationMiddleware(evidence=lambda messages: [PARIS])
    agent, _ = make(middleware, reply=lambda m: told(m))
    assert (await agent.ainvoke(ASKED))["messages"][-1].text == PARIS


@both_ways
async def test_drafts_and_inner_calls_never_reach_the_users_stream(make, kit, sync):
    clearing, judging = kit.chat(neutral), kit.s2a(lambda m: "1")
    agent, _ = make(
        S2AMiddleware(clearing, variant="default"),
        DenoiseToolResults(judging),
        VerificationMiddleware(),
        reply=searching(told),
    )
    if sync:
        parts = await asyncio.to_thread(lambda: list(agent.stream(ASKED, stream_mode="messages")))
    else:
        parts = [part async for part in agent.astream(ASKED, stream_mode="messages")]
    said = "".join(m.text for m, _ in parts if m.type in ("ai", "AIMessageChunk"))
    assert said == PARIS
    async for state in agent.astream(ASKED, stream_mode="values"):
        assert all(LYON not in m.text for m in state["messages"])
    assert [part async for part in agent.astream(ASKED, stream_mode="custom")] == []


@both_ways
async def test_spans_nest_under_the_hooks(make, kit, sync):
    seen = RunRecorder()
    agent, _ = make(
        S2AMiddleware(kit.chat(neutral), variant="default"), DenoiseToolResults(kit.s2a(lambda m: "1"))
    )
    await run(agent, sync, ASKED, {"callbacks": [seen]})
    paths = seen.paths("llm")
    assert any("S2AMiddleware.before_agent" in p for p in paths)
    assert sum("DenoiseCompressor" in p for p in paths) == 3
    assert all(p.startswith("LangGraph/") for p in paths)


async def test_all_three_with_a_checkpointer_and_strict_serialisation(make, kit, monkeypatch):
    monkeypatch.setenv("LANGGRAPH_STRICT_MSGPACK", "true")
    saver = InMemorySaver()
    middleware = (
        S2AMiddleware(kit.chat(neutral), variant="default"),
        DenoiseToolResults(by_words()),
        VerificationMiddleware(),
    )
    agent, _ = make(*middleware, reply=searching(told), checkpointer=saver)
    thread = {"configurable": {"thread_id": "1"}}
    await agent.ainvoke({"messages": [HumanMessage(LEADING)]}, thread)
    kept = agent.get_state(thread).values
    assert kept["messages"][-1].text == PARIS
    assert [d["id"] for d in tool_message(kept).artifact] == ["atlas"]  # a checkpoint makes them plain


async def test_evidence_that_comes_back_from_a_checkpoint(make):
    """Stopped after the tool, resumed from the checkpoint, where documents have become plain dicts."""
    verifier = VerificationMiddleware()
    saver = InMemorySaver()
    agent, _ = make(DenoiseToolResults(by_words()), verifier, reply=searching(told), checkpointer=saver)
    thread = {"configurable": {"thread_id": "1"}}
    await agent.ainvoke(ASKED, thread, interrupt_after=["tools"])
    state = await agent.ainvoke(None, thread)
    assert state["messages"][-1].text == PARIS
    assert state["messages"][-1].response_metadata["denoise"]["evidence"] == ["atlas"]


async def test_it_composes_with_other_middleware(make):
    class Shout(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            raise AssertionError("the agent is async")

        async def awrap_model_call(self, request, handler):
            return await handler(request.override(system_prompt="Shout."))

    agent, model = make(Shout(), VerificationMiddleware(), reply=searching(told))
    assert (await agent.ainvoke(ASKED))["messages"][-1].text == PARIS
    assert all(call[0].text == "Shout." for call in model.seen)


def test_wrong_settings(kit):
    with pytest.raises(ValueError, match="list of tool names"):
        DenoiseToolResults(by_words(), tools="search")
    with pytest.raises(ValueError, match="keeep"):
        DenoiseToolResults(by_words(), keeep=3)
    with pytest.raises(ValueError, match="variant"):
        S2AMiddleware(kit.chat(), variant="best")


@pytest.mark.parametrize(
    "error", [AttributeError("a typo"), ConnectionError("down")], ids=lambda e: type(e).__name__
)
def test_a_scorer_of_tools_that_fails_is_heard_and_a_mistake_raises(error, caplog):
    def fail(query, text):
        raise error

    tools = [StructuredTool.from_function(lambda: "x", name=n, description=n) for n in ("one", "two")]
    request = SimpleNamespace(tools=tools, messages=[HumanMessage("which one?")])
    middleware = DenoiseTools(FunctionScorer(fail), k=1)
    heard.forget()
    if isinstance(error, AttributeError):
        with pytest.raises(AttributeError):
            middleware.wrap_model_call(request, lambda r: r.tools)
    else:
        assert middleware.wrap_model_call(request, lambda r: r.tools) == tools
        assert "all tools are shown; ConnectionError: down" in caplog.text
