"""Middleware in real agents: tool results cleared, the user's words cleared, tools chosen."""

import json

import pytest
from chain_parts import Answers, chat, drop_all, fail
from langchain.agents.middleware import PIIMiddleware
from langchain_agents import (
    LEADING,
    NEUTRAL,
    PARIS,
    QUESTION_INPUT,
    SOURCE_DOCUMENTS,
    THREAD,
    both_ways,
    by_words,
    cut_results,
    make_agent,
    neutral,
    run,
    search_then_answer,
    tool_message,
)
from langchain_core.messages import HumanMessage
from langchain_core.prompts import PromptTemplate
from langgraph.checkpoint.memory import InMemorySaver

from denoise_core.tool_results import EMPTY_RESULT_TEXT
from langchain_denoise.middleware import S2AMiddleware
from langchain_denoise.middleware.tool_messages import replace_texts

# What a tool found


@both_ways
async def test_artifact_and_content_are_cleared_alike(is_sync):
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


async def test_the_tools_own_layout_stays():
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


async def test_a_failure_keeps_the_result_and_says_so():
    denoising_agent, _ = make_agent(cut_results(Answers(fail)))
    message = tool_message(await denoising_agent.ainvoke(QUESTION_INPUT))
    assert len(message.artifact) == 3
    assert "no route" in message.response_metadata["denoise"]["fallback"]


async def test_the_query_is_the_users_words_and_those_of_the_call():
    asked_input = []

    def remember(query, passages):
        asked_input.append(query)
        return drop_all(query, passages)

    denoising_agent, _ = make_agent(cut_results(Answers(remember), on_empty="drop"))
    assert (
        tool_message(await denoising_agent.ainvoke(QUESTION_INPUT)).content
        == f"{EMPTY_RESULT_TEXT}\n[0 of 3 documents shown; 3 left out]"
    )
    blank, _ = make_agent(
        cut_results(Answers(remember)),
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
        (["aa", "bb"], [None, "bb"], "\n<bb>\n"),
        (["aa", "bb"], ["aa", None], "<aa>\n"),
        (["aa", "zz"], ["a", "z"], None),
        (["bb", "aa"], ["b", "a"], None),
        ([], [], "<aa>\n<bb>\n"),
    ],
)
def test_texts_are_replaced_where_they_stand(before, after, expected_value):
    assert replace_texts("<aa>\n<bb>\n", before, after) == expected_value


@pytest.mark.parametrize(
    ("content", "expected_value"),
    [
        ("aa\n(by A)\n\nbb\n(by B)\n\ncc\n(by C)", "bb\n(by B)\n\n"),
        ("<d 1>\naa\n</d>\n<d 2>\nbb\n</d>\n<d 3>\ncc\n</d>", "\n<d 2>\nbb\n</d>"),
        ("Found:\n\n# A\n\naa\n\n# B\n\nbb\n\n# C\n\ncc", "Found:\n\n# B\n\nbb"),
        ("Found:\n\naa\n\nbb\n\ncc\n\nPage 1", "Found:\n\nbb\n\nPage 1"),
        ("aa\n<hr>\nbb\n<hr>\ncc", "\n<hr>\nbb"),
        ("aa\n# B\nbb\n# C\ncc", None),
        ("Found:\naa\nby A\nbb\nby AB\ncc\nby A", None),
        ("aa\nby A\n\nbb\nby B\n\ncc\nby C\n\nPage 1", None),
        ("# bb aa\naa\n# B\nbb\n# C\ncc", None),
    ],
)
def test_no_text_gets_the_words_of_another(content, expected_value):
    """A source after each text was taken for the heading of the next one."""
    assert (
        replace_texts(content, ["aa", "bb", "cc"], [None, "bb", None]) == expected_value
    )


@pytest.mark.parametrize(
    ("content", "texts", "expected_value"),
    [
        ("Found:\n\naa\n\nPage 1", ["aa"], "Found:\n\nPage 1"),
        ("aa\n\n\nbb", ["aa", "", "bb"], "\n\n\nbb"),
        ("# A\naa\n# B\n\n# C\ncc", ["aa", "", "cc"], None),
    ],
    ids=["footer", "empty text", "empty text with a heading"],
)
def test_what_belongs_to_no_dropped_text_stays(content, texts, expected_value):
    assert replace_texts(content, texts, [None, *texts[1:]]) == expected_value


# The user's words


async def test_what_another_middleware_masked_is_not_shown_again():
    mask = PIIMiddleware("email", apply_to_input=True)
    clearing = S2AMiddleware(chat(neutral))
    agent, model = make_agent(clearing, mask)
    question = f"Mail me at a@b.example. {LEADING}"
    await agent.ainvoke({"messages": [HumanMessage(question)]})
    assert "a@b.example" not in model.calls[-1][0].text


def test_a_message_that_was_cleared_is_not_cleared_again():
    model = chat(lambda message: "1")
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
    is_sync, monkeypatch
):
    monkeypatch.setenv("LANGGRAPH_STRICT_MSGPACK", "true")
    clearing = chat(neutral)
    agent, model = make_agent(S2AMiddleware(clearing), checkpointer=InMemorySaver())
    await run(agent, is_sync, {"messages": [HumanMessage(LEADING)]}, THREAD)
    assert [call[0].text for call in model.calls] == [NEUTRAL, NEUTRAL]
    assert len(clearing.calls) == 1
    second = {"messages": [HumanMessage("And of Italy?")]}
    state = await run(agent, is_sync, second, THREAD)
    assert model.calls[-1][0].text == NEUTRAL
    assert len(clearing.calls) == 1  # one clause has no opinion to leave out
    question = state["messages"][0]
    assert question.text == question.response_metadata["denoise"]["original"] == LEADING
