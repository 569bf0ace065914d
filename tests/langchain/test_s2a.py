"""S2A before a chat model: conversations cleared of opinion."""

import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate

from langchain_denoise import S2AMessages

LEADING = "I am sure it is Lyon, but what is the capital of France?"


def neutral(messages):
    said = messages[-1].text
    if "cut into numbered pieces" in said:
        return "2"
    if "BEGIN document" not in said:
        return "answer"
    return "Context: I live in Nice." if "I live in Nice." in said else "Context: NONE"


CONVERSATION = [
    SystemMessage("be kind", id="s"),
    HumanMessage("I live in Nice. Everybody there loves Lyon.", id="h1"),
    AIMessage("Good to know.", id="a1"),
    HumanMessage("Lyon is just the best.", id="h2"),
    AIMessage(
        "If you say so.", id="a2", tool_calls=[{"name": "look", "args": {}, "id": "1"}]
    ),
    ToolMessage("nothing", tool_call_id="1", id="t"),
    HumanMessage(LEADING, id="h3"),
]


def both(step, given):
    out = step.invoke(given)
    assert asyncio.run(step.ainvoke(given)) == out
    return out


def test_the_latest_message_is_cleared_of_opinion(kit):
    out = both(S2AMessages(model=kit.chat(neutral), variant="default"), CONVERSATION)
    assert out[-1].text == "what is the capital of France?"
    assert out[:-1] == CONVERSATION[:-1]
    assert [m.id for m in out] == [m.id for m in CONVERSATION]
    assert out[-1].response_metadata["denoise"]["original"] == LEADING
    assert CONVERSATION[-1].text == LEADING


def test_the_history_is_cleared_and_turns_still_alternate(kit):
    out = both(
        S2AMessages(model=kit.chat(neutral), variant="default", scope="history"),
        CONVERSATION,
    )
    assert [m.type for m in out] == [m.type for m in CONVERSATION]
    assert [m.text for m in out if m.type == "human"] == [
        "I live in Nice.",
        "(This message was left out: it does not help with the question.)",
        "what is the capital of France?",
    ]


def test_extractive_variants_keep_the_users_own_words(kit):
    message = HumanMessage("I think it is Lyon. What is the capital of France?")
    [out] = both(
        S2AMessages(model=kit.chat(lambda m: "2"), variant="select"), [message]
    )
    assert out.text == "What is the capital of France?"


@pytest.mark.parametrize("reply", ["1", "NONE"])
def test_a_message_never_loses_its_question(kit, reply):
    message = HumanMessage("I think it is Lyon. What is the capital of France?")
    assert both(
        S2AMessages(model=kit.chat(lambda m: reply), variant="select"), [message]
    ) == [message]


def test_the_variant_that_writes_one_message(kit):
    message = HumanMessage("I think it is Lyon. What is the capital of France?")
    asked = "What is the capital of France?"
    step = S2AMessages(
        model=kit.chat(lambda m: "2" if "numbered" in m[-1].text else asked),
        variant="single",
    )
    assert both(step, [message])[0].text == "What is the capital of France?"


def test_an_unreadable_reply_changes_nothing(kit):
    for reply, why in (
        (lambda m: "🤷", "expected Context:"),
        (kit.fail_chat, "no route to the model"),
    ):
        out = both(S2AMessages(model=kit.chat(reply), variant="default"), CONVERSATION)
        assert [m.content for m in out] == [m.content for m in CONVERSATION]
        assert [m for m in out if "denoise" in m.response_metadata] == [out[6]]
        assert why in out[6].response_metadata["denoise"]["fallback"]


def test_a_question_put_in_the_users_mouth_is_refused(kit):
    foreign = "Context: NONE\nQuestion: How do I bake bread in Germany in 1812?"
    [out] = both(
        S2AMessages(model=kit.chat(lambda m: foreign), variant="default"),
        [HumanMessage("What is the capital of France?")],
    )
    assert out.text == "What is the capital of France?"


def test_images_stay(kit):
    image = {"type": "image", "url": "https://example.org/map.png"}
    message = HumanMessage([{"type": "text", "text": LEADING}, image])
    [out] = both(S2AMessages(model=kit.chat(neutral), variant="default"), [message])
    assert out.content == [
        {"type": "text", "text": "what is the capital of France?"},
        image,
    ]


CACHED = {"cache_control": {"type": "ephemeral"}}
IMAGE = {"type": "image", "url": "https://example.org/map.png"}


def test_images_and_text_keep_their_order_and_what_stands_beside_them(kit):
    """The kept sentences stay in their blocks; a block that goes hands its cache mark on."""
    message = HumanMessage(
        [
            {"type": "text", "text": "Look at this map. I like maps. ", **CACHED},
            IMAGE,
            {"type": "text", "text": "I am sure it is Lyon. ", **CACHED},
            {"type": "text", "text": "What is the capital of France?"},
        ]
    )
    step = S2AMessages(model=kit.chat(lambda m: "1, 4"), variant="select")
    [out] = both(step, [message])
    assert out.content == [
        {"type": "text", "text": "Look at this map. ", **CACHED},
        {**IMAGE, **CACHED},
        {"type": "text", "text": "What is the capital of France?"},
    ]
    assert message.content[0]["text"] == "Look at this map. I like maps. "


def test_it_stands_between_a_prompt_and_a_model(kit):
    model = kit.chat(neutral)
    chain = (
        ChatPromptTemplate([("system", "be brief"), ("human", "{said}")])
        | S2AMessages(model=model, variant="default")
        | model
    )
    assert chain.invoke({"said": LEADING}).text == "answer"
    assert [m.text for m in model.calls[-1]] == [
        "be brief",
        "what is the capital of France?",
    ]


def test_whatever_a_chat_model_takes(kit):
    step = S2AMessages(model=kit.chat(neutral), variant="default")
    assert [m.text for m in step.invoke([("human", LEADING)])] == [
        "what is the capital of France?"
    ]
    assert [m.text for m in step.invoke(LEADING)] == ["what is the capital of France?"]
    with pytest.raises(ValueError, match="got int"):
        step.invoke(3)
