"""The answer of an agent, checked: written again, bounded, judged by the right evidence, kept out of streams."""

import asyncio
import json

import pytest
from chain_parts import chat, s2a
from judging import citation_judge
from langchain_agents import (
    LYON,
    PARIS,
    QUESTION_INPUT,
    THREAD,
    both_ways,
    by_words,
    calls,
    cut_results,
    last_record,
    make_agent,
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
async def test_an_answer_that_does_not_hold_is_written_again(is_sync):
    drafts = [f"{LYON} [7]", f"{PARIS} [7]"]  # a number of the tool's own
    reply = search_then_answer(lambda messages: drafts[told(messages) == PARIS])
    denoising_agent, model = make_agent(VerificationMiddleware(), reply=reply)
    state = await run(denoising_agent, is_sync)
    assert [message.type for message in state["messages"]] == [
        "human",
        "ai",
        "tool",
        "ai",
    ]
    assert state["messages"][-1].text == drafts[-1]
    record = last_record(state)
    assert json.loads(json.dumps(record)) == record
    assert [attempt["text"] for attempt in record["attempts"]] == drafts
    assert (record["outcome"], record["evidence"]) == (
        "supported",
        ["fruit", "atlas", "letters"],
    )
    assert len(model.calls) == 3


@both_ways
@pytest.mark.parametrize("unsupported", ["send", "abstain"])
async def test_drafts_are_bounded_and_the_policy_decides(is_sync, unsupported):
    refusal = AIMessage([{"type": "refusal", "refusal": "It has no text."}])
    drafts = iter([LYON, refusal, "It is Bonn, since 1949.", "never asked for"])
    limits = LoopLimits(attempts=3, patience=3, unsupported=unsupported)
    denoising_agent, _ = make_agent(
        VerificationMiddleware(Verifier(limits=limits)),
        reply=search_then_answer(lambda message: next(drafts)),
    )
    state = await run(denoising_agent, is_sync)
    record = last_record(state)
    assert len(record["attempts"]) == 3
    assert record["stopped_because"] == "attempts"
    text = state["messages"][-1].text
    assert (text == LYON) is (unsupported == "send")
    assert "no answer" in text or unsupported == "send"


@both_ways
async def test_a_model_that_wants_to_look_again_may_and_ends(is_sync):
    def reply(messages):
        if "did not hold" in messages[-1].text:
            return calls("search", "again", query="again")
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
    assert last_record(state)["outcome"] == "unsupported"
    assert len(model.calls) == 4


async def test_evidence_by_a_function_of_the_messages():
    middleware = VerificationMiddleware(evidence=lambda messages: [PARIS])
    denoising_agent, _ = make_agent(middleware, reply=told)
    assert (await denoising_agent.ainvoke(QUESTION_INPUT))["messages"][-1].text == PARIS


@both_ways
async def test_drafts_and_inner_calls_never_reach_the_users_stream(is_sync):
    clearing = chat(neutral)
    judging = s2a(lambda message: "1")
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


def test_the_text_that_replaces_a_streamed_draft_is_streamed_too():
    """It had the draft's id, and LangGraph streams the message of an id once."""
    verifier = Verifier(limits=LoopLimits(attempts=1, unsupported="abstain"))
    checker = VerificationMiddleware(verifier, show="draft")
    agent, _ = make_agent(checker, reply=search_then_answer(lambda messages: LYON))
    modes = ["messages", "values"]
    *_, (_, (streamed, _)), (_, state) = agent.stream(QUESTION_INPUT, stream_mode=modes)
    [_, _, _, answer] = state["messages"]
    assert answer.text != LYON
    assert (streamed.text, streamed.id) == (answer.text, answer.id)


async def test_evidence_that_comes_back_from_a_checkpoint(monkeypatch):
    """Stopped after the tool, resumed from the checkpoint, where documents have become plain dicts."""
    monkeypatch.setenv("LANGGRAPH_STRICT_MSGPACK", "true")
    denoising_agent, _ = make_agent(
        cut_results(by_words()),
        VerificationMiddleware(),
        reply=search_then_answer(told),
        checkpointer=InMemorySaver(),
    )
    await denoising_agent.ainvoke(QUESTION_INPUT, THREAD, interrupt_after=["tools"])
    state = await denoising_agent.ainvoke(None, THREAD)
    assert state["messages"][-1].text == PARIS
    assert last_record(state)["evidence"] == ["atlas"]


@both_ways
async def test_the_verdict_is_in_a_span_of_the_middlewares_name(is_sync):
    recorder = RunRecorder()
    denoising_agent, _ = make_agent(
        VerificationMiddleware(), reply=search_then_answer(told)
    )
    await run(denoising_agent, is_sync, QUESTION_INPUT, {"callbacks": [recorder]})
    paths = recorder.paths("chain")
    [path] = [path for path in paths if path.endswith("/VerificationMiddleware")]
    assert path.startswith("LangGraph/")
    # The draft after the rejected one is asked for under it.
    drafts = ["/VerificationMiddleware/" in path for path in recorder.paths("llm")]
    assert sum(drafts) == 1


@pytest.mark.parametrize(
    ("query", "result", "kept_ids"),
    [
        ("capital", "Paris, not Lyon.", "ab"),
        ("Lyon", "Paris, from Lyon by train.", "a"),
        ("Lyon", "No results for Lyon.", "a"),
    ],
)
def test_a_search_for_words_that_only_a_rejected_draft_has_is_no_evidence(
    query, result, kept_ids
):
    """What was found before the draft was thrown away, too; a right answer had no evidence then."""
    attempt = {"outcome": "fail", "text": LYON}
    again = calls("note", "b", text="Lyon")
    again.response_metadata["denoise"] = {"attempts": [attempt]}
    conversation = [
        *QUESTION_INPUT["messages"],
        calls("search", "a", query=query),
        ToolMessage(result, tool_call_id="a"),
        again,
        ToolMessage("Lyon, since 1789.", tool_call_id="b"),
    ]
    searches = collect_evidence(conversation, "turn")
    assert [search.passages[0].id for search in searches] == list(kept_ids)
    # A tool that returns directly ends a turn, and the next one may have no text.
    image = HumanMessage([{"type": "image"}])
    conversation.append(image)
    assert not collect_evidence(conversation, "turn")


@both_ways
@FORMS
async def test_an_agent_is_judged_by_what_its_model_cites(make_message, is_sync):
    prompts = []
    middleware = VerificationMiddleware(Verifier(judge=citation_judge(prompts)))
    reply = search_then_answer(replies(make_message))
    agent, _ = make_agent(middleware, reply=reply)
    state = await run(agent, is_sync)
    attempts = last_record(state)["attempts"]
    assert [attempt["outcome"] for attempt in attempts] == ["fail", "pass"]
    assert state["messages"][-1].content == make_message().content
    assert len(prompts) == 2


@both_ways
@pytest.mark.parametrize("evidence", ["turn", "conversation"])
async def test_an_answer_restated_in_a_later_turn_is_judged_by_what_it_rested_on(
    is_sync, evidence
):
    checker = VerificationMiddleware(evidence=evidence)
    agent, _ = make_agent(checker, reply=search_then_answer(told))
    before = (await run(agent, is_sync))["messages"]
    agent, model = make_agent(checker, reply=lambda messages: PARIS)
    question = {"messages": [*before, HumanMessage("Say that again.")]}
    record = last_record(await run(agent, is_sync, question))
    assert record["outcome"] == "supported"
    assert [passage["text"] for passage in record["cited"]] == [PARIS]
    assert len(model.calls) == 1


@both_ways
async def test_a_model_whose_messages_share_an_id_cannot_draft_for_ever(is_sync):
    """Each message replaced the one with the record of the drafts rejected before."""

    def reply(messages):
        has_feedback = "did not hold" in messages[-1].text
        if messages[-1].type == "human" and (has_feedback or len(messages) == 3):
            call = calls("search", f"{len(model.calls)}", query="capital")
            return call.model_copy(update={"id": "same"})
        return AIMessage(LYON, id="same")

    agent, model = make_agent(VerificationMiddleware(), reply=reply)
    earlier = [HumanMessage("Hello"), AIMessage("Hello!", id="same")]
    question = {"messages": [*earlier, *QUESTION_INPUT["messages"]]}
    state = await run(agent, is_sync, question, {"recursion_limit": 40})
    [answer] = [message for message in state["messages"] if message.type == "ai"]
    assert answer.text == LYON
    assert answer.response_metadata["denoise"]["stopped_because"] == "attempts"
    assert len(model.calls) <= 7


MAX_RESUMES = 8


def test_drafts_rejected_before_an_interrupt_count_towards_the_attempts():
    """A turn that was interrupted between its model calls did not end, however often it was resumed."""
    script = [calls("search", "0", query="x")]
    for number in range(1, 2 * MAX_RESUMES):
        script += [LYON, calls("search", str(number), query="x")]
    replies = iter(script)
    agent, _ = make_agent(
        VerificationMiddleware(Verifier(judge=lambda claim: PARIS in claim)),
        reply=lambda messages: next(replies),
        checkpointer=InMemorySaver(),
    )
    interrupt = {"interrupt_before": ["tools"]}
    state = agent.invoke(QUESTION_INPUT, THREAD, **interrupt)
    resumes = 0
    while state["messages"][-1].tool_calls and resumes < MAX_RESUMES:
        state = agent.invoke(None, THREAD, **interrupt)
        resumes += 1
    assert resumes < MAX_RESUMES
    assert not state["messages"][-1].tool_calls
