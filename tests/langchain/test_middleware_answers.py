"""The answer of an agent, checked: written again, bounded, judged by the right evidence, kept out of streams."""

import asyncio
import json

import pytest
from judging import citation_judge
from langchain_agents import (
    LYON,
    PARIS,
    QUESTION_INPUT,
    both_ways,
    by_words,
    calls,
    cut_results,
    neutral,
    run,
    search_then_answer,
)
from langchain_citations import (
    FORMS,
    replies,
)
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from recorded_runs import RunRecorder

from denoise_core.augmenter import LoopLimits
from langchain_denoise import Verifier
from langchain_denoise.middleware import (
    S2AMiddleware,
    VerificationMiddleware,
)
from langchain_denoise.middleware.verification import collect_evidence


def told(messages):
    return PARIS if "did not hold" in messages[-1].text else LYON


@both_ways
async def test_an_answer_that_does_not_hold_is_written_again(make_agent, is_sync):
    denoising_agent, model = make_agent(
        VerificationMiddleware(), reply=search_then_answer(told)
    )
    state = await run(denoising_agent, is_sync)
    assert [message.type for message in state["messages"]] == [
        "human",
        "ai",
        "tool",
        "ai",
    ]
    answer = state["messages"][-1]
    assert answer.text == PARIS
    record = answer.response_metadata["denoise"]
    assert json.loads(json.dumps(record)) == record
    assert [attempt["text"] for attempt in record["attempts"]] == [LYON, PARIS]
    assert (record["outcome"], record["evidence"]) == (
        "supported",
        ["fruit", "atlas", "letters"],
    )
    assert len(model.calls) == 3


@both_ways
@pytest.mark.parametrize("unsupported", ["send", "abstain"])
async def test_drafts_are_bounded_and_the_policy_decides(
    make_agent, is_sync, unsupported
):
    drafts = iter(
        [LYON, "It is Rome, since 1801.", "It is Bonn, since 1949.", "never asked for"]
    )
    limits = LoopLimits(attempts=3, patience=3, unsupported=unsupported)
    denoising_agent, _ = make_agent(
        VerificationMiddleware(Verifier(limits=limits)),
        reply=search_then_answer(lambda message: next(drafts)),
    )
    answer = (await run(denoising_agent, is_sync))["messages"][-1]
    assert len(answer.response_metadata["denoise"]["attempts"]) == 3
    assert answer.response_metadata["denoise"]["stopped_because"] == "attempts"
    assert (answer.text == LYON) is (unsupported == "send")
    assert "no answer" in answer.text or unsupported == "send"


@both_ways
async def test_a_model_that_wants_to_look_again_may_and_ends(make_agent, is_sync):
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
    denoising_agent, model = make_agent(
        VerificationMiddleware(verifier), reply=search_then_answer(reply)
    )
    state = await run(denoising_agent, is_sync)
    assert [message.type for message in state["messages"]] == [
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


async def test_evidence_by_a_function_of_the_messages(make_agent):
    middleware = VerificationMiddleware(evidence=lambda messages: [PARIS])
    denoising_agent, _ = make_agent(middleware, reply=lambda message: told(message))
    assert (await denoising_agent.ainvoke(QUESTION_INPUT))["messages"][-1].text == PARIS


@both_ways
async def test_drafts_and_inner_calls_never_reach_the_users_stream(
    make_agent, test_kit, is_sync
):
    clearing, judging = test_kit.chat(neutral), test_kit.s2a(lambda message: "1")
    denoising_agent, _ = make_agent(
        S2AMiddleware(clearing),
        cut_results(judging),
        VerificationMiddleware(),
        reply=search_then_answer(told),
    )
    if is_sync:
        parts = await asyncio.to_thread(
            lambda: list(denoising_agent.stream(QUESTION_INPUT, stream_mode="messages"))
        )
    else:
        parts = [
            part
            async for part in denoising_agent.astream(
                QUESTION_INPUT, stream_mode="messages"
            )
        ]
    message_text = "".join(
        message.text for message, _ in parts if message.type in ("ai", "AIMessageChunk")
    )
    assert message_text == PARIS


async def test_evidence_that_comes_back_from_a_checkpoint(make_agent, monkeypatch):
    """Stopped after the tool, resumed from the checkpoint, where documents have become plain dicts."""
    monkeypatch.setenv("LANGGRAPH_STRICT_MSGPACK", "true")
    verifier = VerificationMiddleware()
    saver = InMemorySaver()
    denoising_agent, _ = make_agent(
        cut_results(by_words()),
        verifier,
        reply=search_then_answer(told),
        checkpointer=saver,
    )
    thread = {"configurable": {"thread_id": "1"}}
    await denoising_agent.ainvoke(QUESTION_INPUT, thread, interrupt_after=["tools"])
    state = await denoising_agent.ainvoke(None, thread)
    assert state["messages"][-1].text == PARIS
    assert state["messages"][-1].response_metadata["denoise"]["evidence"] == ["atlas"]


@both_ways
async def test_the_verdict_is_in_a_span_of_the_middlewares_name(make_agent, is_sync):
    recorder = RunRecorder()
    denoising_agent, _ = make_agent(
        VerificationMiddleware(), reply=search_then_answer(told)
    )
    await run(denoising_agent, is_sync, QUESTION_INPUT, {"callbacks": [recorder]})
    (path,) = [
        passage
        for passage in recorder.paths("chain")
        if passage.endswith("/VerificationMiddleware")
    ]
    assert path.startswith("LangGraph/")
    second_result = [
        passage
        for passage in recorder.paths("llm")
        if "/VerificationMiddleware/" in passage
    ]
    assert len(second_result) == 1, (
        "the draft after the rejected one is asked for under it"
    )


def test_a_search_for_a_rejected_drafts_own_words_is_no_evidence():
    call = {"name": "search", "args": {"query": "Lyon since 1789"}, "id": "1"}
    found_documents = ToolMessage("Lyon, since 1789.", tool_call_id="1", name="search")
    messages = [
        *QUESTION_INPUT["messages"],
        AIMessage("", tool_calls=[call]),
        found_documents,
    ]
    assert collect_evidence(messages, "turn", [])
    assert not collect_evidence(messages, "turn", [LYON])


@both_ways
@FORMS
async def test_an_agent_is_judged_by_what_its_model_cites(
    make_agent, make_message, is_sync
):
    prompts = []
    middleware = VerificationMiddleware(Verifier(judge=citation_judge(prompts)))
    reply = search_then_answer(replies(make_message))
    agent, _ = make_agent(middleware, reply=reply)
    state = await run(agent, is_sync)
    message = state["messages"][-1]
    record = message.response_metadata["denoise"]
    assert [a["outcome"] for a in record["attempts"]] == ["fail", "pass"]
    assert message.content == make_message().content
    assert len(prompts) == 2


@both_ways
@pytest.mark.parametrize("evidence", ["turn", "conversation"])
async def test_an_answer_restated_in_a_later_turn_is_judged_by_what_it_rested_on(
    make_agent, is_sync, evidence
):
    checker = VerificationMiddleware(evidence=evidence)
    agent, _ = make_agent(checker, reply=search_then_answer(told))
    before = (await run(agent, is_sync))["messages"]
    agent, model = make_agent(checker, reply=lambda messages: PARIS)
    question = {"messages": [*before, HumanMessage("Say that again.")]}
    answer = (await run(agent, is_sync, question))["messages"][-1]
    record = answer.response_metadata["denoise"]
    assert record["outcome"] == "supported"
    assert [passage["text"] for passage in record["cited"]] == [PARIS]
    assert len(model.calls) == 1


@both_ways
async def test_a_model_whose_messages_share_an_id_cannot_draft_for_ever(
    make_agent, is_sync
):
    """Each message replaced the one with the record of the drafts rejected before."""

    def reply(messages):
        has_feedback = "did not hold" in messages[-1].text
        if messages[-1].type == "human" and (has_feedback or len(messages) == 3):
            call = calls("search", query="capital").tool_calls[0]
            call_id = f"{len(model.calls)}"
            return AIMessage("", tool_calls=[{**call, "id": call_id}], id="same")
        return AIMessage(LYON, id="same")

    agent, model = make_agent(VerificationMiddleware(), reply=reply)
    earlier = [HumanMessage("Hello"), AIMessage("Hello!", id="same")]
    question = {"messages": [*earlier, *QUESTION_INPUT["messages"]]}
    state = await run(agent, is_sync, question, {"recursion_limit": 40})
    [answer] = [message for message in state["messages"] if message.type == "ai"]
    assert answer.text == LYON
    assert answer.response_metadata["denoise"]["stopped_because"] == "attempts"
    assert len(model.calls) <= 7
