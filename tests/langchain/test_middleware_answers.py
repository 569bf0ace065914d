"""The answer of an agent, checked: written again, bounded, judged by the right evidence, kept out of streams."""

import asyncio
import json

import pytest
from langchain_agents import (
    ASKED,
    LEADING,
    LYON,
    PARIS,
    both_ways,
    by_words,
    neutral,
    run,
    searching,
    tool_message,
)
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from recorded_runs import RunRecorder

from denoise_core.augmenter import LoopLimits
from langchain_denoise import Verifier
from langchain_denoise.middleware import (
    DenoiseToolResults,
    S2AMiddleware,
    VerificationMiddleware,
)
from langchain_denoise.middleware.verification import collect_evidence


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
    assert (record["outcome"], record["evidence"]) == (
        "supported",
        ["fruit", "atlas", "letters"],
    )
    assert len(model.calls) == 3


@both_ways
@pytest.mark.parametrize(
    ("evidence", "outcome"), [("turn", "unknown"), ("conversation", "supported")]
)
async def test_what_earlier_turns_found_counts_where_it_is_said(
    make, sync, evidence, outcome
):
    agent, _ = make(VerificationMiddleware(evidence=evidence), reply=searching(told))
    before = (await run(agent, sync))["messages"]
    agent, model = make(
        VerificationMiddleware(evidence=evidence), reply=lambda m: PARIS
    )
    given = {"messages": [*before, HumanMessage("So what is the capital of France?")]}
    state = agent.invoke(given) if sync else await agent.ainvoke(given)
    assert state["messages"][-1].response_metadata["denoise"]["outcome"] == outcome
    assert len(model.calls) == 1


@both_ways
@pytest.mark.parametrize("unsupported", ["send", "abstain"])
async def test_drafts_are_bounded_and_the_policy_decides(make, sync, unsupported):
    drafts = iter(
        [LYON, "It is Rome, since 1801.", "It is Bonn, since 1949.", "never asked for"]
    )
    limits = LoopLimits(attempts=3, patience=3, unsupported=unsupported)
    agent, _ = make(
        VerificationMiddleware(Verifier(limits=limits)),
        reply=searching(lambda m: next(drafts)),
    )
    answer = (await run(agent, sync))["messages"][-1]
    assert len(answer.response_metadata["denoise"]["attempts"]) == 3
    assert answer.response_metadata["denoise"]["stopped_because"] == "attempts"
    assert (answer.text == LYON) is (unsupported == "send")
    assert "no answer" in answer.text or unsupported == "send"


@both_ways
async def test_a_model_that_wants_to_look_again_may_and_ends(make, sync):
    def reply(messages):
        if "did not hold" in messages[-1].text:
            return AIMessage(
                "",
                tool_calls=[
                    {"name": "search", "args": {"query": "again"}, "id": "again"}
                ],
            )
        return LYON

    verifier = Verifier(limits=LoopLimits(attempts=2))
    agent, model = make(VerificationMiddleware(verifier), reply=searching(reply))
    state = await run(agent, sync)
    assert [m.type for m in state["messages"]] == [
        "human",
        "ai",
        "tool",
        "ai",
        "tool",
        "ai",
    ]
    assert (
        state["messages"][-1].response_metadata["denoise"]["outcome"] == "unsupported"
    )
    assert len(model.calls) == 4


async def test_no_evidence_is_said_and_not_tried_again(make):
    agent, model = make(VerificationMiddleware(), reply=lambda m: LYON)
    answer = (await agent.ainvoke(ASKED))["messages"][-1]
    assert (answer.text, answer.response_metadata["denoise"]["stopped_because"]) == (
        LYON,
        "no_evidence",
    )
    assert len(model.calls) == 1


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
        parts = await asyncio.to_thread(
            lambda: list(agent.stream(ASKED, stream_mode="messages"))
        )
    else:
        parts = [part async for part in agent.astream(ASKED, stream_mode="messages")]
    said = "".join(m.text for m, _ in parts if m.type in ("ai", "AIMessageChunk"))
    assert said == PARIS
    async for state in agent.astream(ASKED, stream_mode="values"):
        assert all(LYON not in m.text for m in state["messages"])
    assert [part async for part in agent.astream(ASKED, stream_mode="custom")] == []


async def test_all_three_with_a_checkpointer_and_strict_serialisation(
    make, kit, monkeypatch
):
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
    assert [d["id"] for d in tool_message(kept).artifact] == [
        "atlas"
    ]  # a checkpoint makes them plain


async def test_evidence_that_comes_back_from_a_checkpoint(make):
    """Stopped after the tool, resumed from the checkpoint, where documents have become plain dicts."""
    verifier = VerificationMiddleware()
    saver = InMemorySaver()
    agent, _ = make(
        DenoiseToolResults(by_words()),
        verifier,
        reply=searching(told),
        checkpointer=saver,
    )
    thread = {"configurable": {"thread_id": "1"}}
    await agent.ainvoke(ASKED, thread, interrupt_after=["tools"])
    state = await agent.ainvoke(None, thread)
    assert state["messages"][-1].text == PARIS
    assert state["messages"][-1].response_metadata["denoise"]["evidence"] == ["atlas"]


@both_ways
async def test_the_verdict_is_in_a_span_of_the_middlewares_name(make, sync):
    seen = RunRecorder()
    agent, _ = make(VerificationMiddleware(name="checked"), reply=searching(told))
    await run(agent, sync, ASKED, {"callbacks": [seen]})
    (path,) = [p for p in seen.paths("chain") if p.endswith("/checked")]
    assert path.startswith("LangGraph/")
    again = [p for p in seen.paths("llm") if "/checked/" in p]
    assert len(again) == 1, "the draft after the rejected one is asked for under it"


def test_a_search_for_a_rejected_drafts_own_words_is_no_evidence():
    call = {"name": "search", "args": {"query": "Lyon since 1789"}, "id": "1"}
    found = ToolMessage("Lyon, since 1789.", tool_call_id="1", name="search")
    messages = [*ASKED["messages"], AIMessage("", tool_calls=[call]), found]
    assert collect_evidence(messages, "turn", [])
    assert not collect_evidence(messages, "turn", [LYON])
