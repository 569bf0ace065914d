"""S2A before a chat model: conversations cleared of opinion."""

import pytest
from chain_parts import chat, fail
from langchain_agents import LEADING, NEUTRAL, both, calls
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate

from denoise_core.s2a.replies import MAX_UNREADABLE
from langchain_denoise import S2AMessages


def neutral(messages):
    is_request = "cut into numbered pieces" in messages[-1].text
    return "2" if is_request else "answer"


def cleared(messages, reply=neutral, **settings):
    return both(S2AMessages(model=chat(reply), **settings), messages)


def nonsense(messages):
    return "🤷"


CONVERSATION = [
    SystemMessage("be kind", id="s"),
    HumanMessage("I live in Nice. Everybody there loves Lyon.", id="h1"),
    AIMessage("Good to know.", id="a1"),
    HumanMessage("Lyon is just the best.", id="h2"),
    calls("look", "1"),
    ToolMessage("nothing", tool_call_id="1", id="t"),
    HumanMessage(LEADING, id="h3"),
]


def test_the_latest_message_is_cleared_of_opinion():
    run_output = cleared(CONVERSATION)
    assert run_output[-1].text == NEUTRAL
    assert run_output[:-1] == CONVERSATION[:-1]
    assert run_output[-1].id == "h3"
    record = run_output[-1].response_metadata["denoise"]
    assert record["original"] == LEADING
    [(start, end)] = record["left_out"]
    assert LEADING[start:end].startswith("I am sure it is Lyon")
    assert CONVERSATION[-1].text == LEADING


@pytest.mark.parametrize("reply", ["1", "NONE"])
def test_a_message_never_loses_its_question(reply):
    message = HumanMessage("I think it is Lyon. What is the capital of France?")
    [run_output] = cleared([message], lambda messages: reply)
    assert run_output.content == message.content
    record = run_output.response_metadata["denoise"]
    assert record["fallback"].startswith("the question was kept as it is")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [(nonsense, "expected Context:"), (fail, "no route to the model")],
)
def test_an_unreadable_reply_changes_nothing(reply, reason):
    *earlier, last = cleared(CONVERSATION, reply, variant="default")
    assert earlier == CONVERSATION[:-1]
    assert last.content == LEADING
    assert reason in last.response_metadata["denoise"]["fallback"]


def test_what_is_learned_of_the_model_holds_for_the_next_call():
    model = chat(nonsense)
    step = S2AMessages(model=model, variant="default")
    for _ in range(2 * MAX_UNREADABLE):
        step.invoke(CONVERSATION)
    asked_count = len(model.calls)
    both(step, CONVERSATION)
    assert len(model.calls) == asked_count  # the model was given up
    other_model = chat(nonsense)
    step.model_copy(update={"model": other_model}).invoke(CONVERSATION)
    assert other_model.calls


def test_images_stay():
    image = {"type": "image", "url": "https://example.org/map.png"}
    message = HumanMessage([{"type": "text", "text": LEADING}, image])
    run_output, last = cleared([message, HumanMessage([image])])
    assert run_output.content == [
        {"type": "text", "text": NEUTRAL},
        image,
    ]
    assert last.content == [image]


def test_several_blocks_of_text_are_kept_as_they_were(caplog):
    model = chat(neutral)
    blocks = [{"type": "text", "text": text} for text in ("I like maps.", LEADING)]
    message = HumanMessage(blocks)
    assert both(S2AMessages(model=model), [message]) == [message]
    assert not model.calls
    assert "the message was kept as it was" in caplog.text


def test_it_stands_between_a_prompt_and_a_model():
    model = chat(neutral)
    chain = (
        ChatPromptTemplate([("system", "be brief"), ("human", "{said}")])
        | S2AMessages(model=model)
        | model
    )
    assert chain.invoke({"said": LEADING}).text == "answer"
    assert [message.text for message in model.calls[-1]] == [
        "be brief",
        NEUTRAL,
    ]


def test_what_is_no_conversation_is_an_error():
    with pytest.raises(ValueError, match="expected messages"):
        S2AMessages(model=chat(neutral)).invoke(3)
