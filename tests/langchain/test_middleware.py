"""Middleware in real agents: tool results cleared, the user's words cleared, tools chosen."""

import json

import pytest
from langchain.agents.middleware import PIIMiddleware
from langchain_agents import (
    LEADING,
    NEUTRAL,
    PARIS,
    QUESTION_INPUT,
    SOURCE_DOCUMENTS,
    both_ways,
    by_words,
    cut_results,
    neutral,
    run,
    search_then_answer,
    tool_message,
)
from langchain_core.messages import HumanMessage
from langchain_core.prompts import PromptTemplate
from langgraph.checkpoint.memory import InMemorySaver

from denoise_core.tool_results import EMPTY_RESULT_TEXT
from langchain_denoise.middleware import DenoiseToolResults, S2AMiddleware
from langchain_denoise.middleware.tool_messages import replace_texts

# What a tool found


@both_ways
async def test_artifact_and_content_are_cleared_alike(make_agent, is_sync):
    denoising_agent, model = make_agent(cut_results(by_words()))
    message = tool_message(await run(denoising_agent, is_sync))
    note = "[1 of 3 documents shown; 2 left out]"
    assert message.content == f"{PARIS}\n\n{note}"
    assert [
        (document.id, document.metadata["source"]) for document in message.artifact
    ] == [("atlas", "atlas.md")]
    assert model.calls[-1][-1].text == message.content
    record = message.response_metadata["denoise"]
    assert json.loads(json.dumps(record)) == record
    assert (record["given"], record["kept"], record["fallback"]) == (3, 1, None)


async def test_the_tools_own_layout_stays(make_agent):
    prompt = PromptTemplate.from_template("# {source}\n{page_content}")
    denoising_agent, _ = make_agent(
        cut_results(by_words(keep=2)),
        document_prompt=prompt,
        document_separator="\n---\n",
    )
    message = tool_message(await denoising_agent.ainvoke(QUESTION_INPUT))
    assert (
        message.content
        == f"# fruit.md\n{SOURCE_DOCUMENTS[0].page_content}\n---\n# atlas.md\n{PARIS}"
        "\n\n[2 of 3 documents shown; 1 left out]"
    )
    assert [document.id for document in message.artifact] == ["fruit", "atlas"]


async def test_a_failure_keeps_the_result_and_says_so(make_agent, test_kit):
    denoising_agent, _ = make_agent(cut_results(test_kit.Answers(test_kit.fail)))
    message = tool_message(await denoising_agent.ainvoke(QUESTION_INPUT))
    assert len(message.artifact) == 3
    assert "no route" in message.response_metadata["denoise"]["fallback"]


async def test_the_query_is_the_users_words_and_those_of_the_call(make_agent, test_kit):
    asked_input = []

    def remember(query, passages):
        asked_input.append(query)
        return test_kit.drop_all(query, passages)

    denoising_agent, _ = make_agent(
        cut_results(test_kit.Answers(remember), on_empty="drop")
    )
    assert (
        tool_message(await denoising_agent.ainvoke(QUESTION_INPUT)).content
        == f"{EMPTY_RESULT_TEXT}\n[0 of 3 documents shown; 3 left out]"
    )
    blank, _ = make_agent(
        cut_results(test_kit.Answers(remember)),
        reply=search_then_answer(query=" "),
    )
    await blank.ainvoke(QUESTION_INPUT)
    assert (
        asked_input == ["What is the capital of France?"] * 2
    )  # the call's words are in it


@pytest.mark.parametrize(
    ("before", "after", "expected_value"),
    [
        (["aa", "bb"], ["a", "b"], "<a>\n<b>\n"),
        (["aa", "bb"], [None, "bb"], ">\n<bb>\n"),
        (["aa", "bb"], ["aa", None], "<aa>\n"),
        (["aa", "zz"], ["a", "z"], None),
        (["bb", "aa"], ["b", "a"], None),
        ([], [], "<aa>\n<bb>\n"),
    ],
)
def test_texts_are_replaced_where_they_stand(before, after, expected_value):
    assert replace_texts("<aa>\n<bb>\n", before, after) == expected_value


# The user's words


async def test_what_another_middleware_masked_is_not_shown_again(make_agent, test_kit):
    mask = PIIMiddleware("email", apply_to_input=True)
    clearing = S2AMiddleware(test_kit.chat(neutral))
    agent, model = make_agent(clearing, mask)
    question = f"Mail me at a@b.example. {LEADING}"
    await agent.ainvoke({"messages": [HumanMessage(question)]})
    assert "a@b.example" not in model.calls[-1][0].text


async def test_two_instances_at_once(make_agent, test_kit):
    class Second(DenoiseToolResults):
        pass

    second = Second(by_words(1), min_characters=0, where="state")
    denoising_agent, _ = make_agent(cut_results(by_words(2)), second)
    state = await denoising_agent.ainvoke({"messages": [HumanMessage(LEADING)]})
    assert [document.id for document in tool_message(state).artifact] == ["atlas"]


def test_a_message_that_was_cleared_is_not_cleared_again(test_kit):
    model = test_kit.chat(lambda message: "1")
    middleware = S2AMiddleware(model)
    state = {"messages": [HumanMessage("I like towers. How tall is it?", id="a")]}
    update = middleware.before_agent(state, None)
    calls = len(model.calls)
    assert middleware.before_agent({**state, **update}, None) is None
    assert len(model.calls) == calls > 0
    [message] = update["messages"]
    edited = message.model_copy(update={"content": "I hate oaks. How old is it?"})
    assert middleware.before_agent({"messages": [edited]}, None) is not None
    assert len(model.calls) > calls


@both_ways
async def test_the_model_reads_cleared_words_and_the_conversation_keeps_the_users(
    make_agent, test_kit, is_sync, monkeypatch
):
    monkeypatch.setenv("LANGGRAPH_STRICT_MSGPACK", "true")
    clearing = test_kit.chat(neutral)
    agent, model = make_agent(S2AMiddleware(clearing), checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    await run(agent, is_sync, {"messages": [HumanMessage(LEADING)]}, thread)
    assert [call[0].text for call in model.calls] == [NEUTRAL, NEUTRAL]
    assert len(clearing.calls) == 1
    second = {"messages": [HumanMessage("And of Italy?")]}
    state = await run(agent, is_sync, second, thread)
    assert model.calls[-1][0].text == NEUTRAL
    assert len(clearing.calls) == 1  # one clause has no opinion to leave out
    question = state["messages"][0]
    assert question.text == question.response_metadata["denoise"]["original"] == LEADING
