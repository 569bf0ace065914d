"""S2A before a chat model: conversations cleared of opinion."""

import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate

from denoise_core.runtime import fallbacks
from denoise_core.s2a.replies import MAX_UNREADABLE
from langchain_denoise import S2AMessages

LEADING = "I am sure it is Lyon, but what is the capital of France?"


def neutral(messages):
    is_request = "cut into numbered pieces" in messages[-1].text
    return "2" if is_request else "answer"


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


def both(step, input_value):
    run_output = step.invoke(input_value)
    assert asyncio.run(step.ainvoke(input_value)) == run_output
    return run_output


def test_the_latest_message_is_cleared_of_opinion(test_kit):
    run_output = both(S2AMessages(model=test_kit.chat(neutral)), CONVERSATION)
    assert run_output[-1].text == "what is the capital of France?"
    assert run_output[:-1] == CONVERSATION[:-1]
    assert [message.id for message in run_output] == [
        message.id for message in CONVERSATION
    ]
    record = run_output[-1].response_metadata["denoise"]
    assert record["original"] == LEADING
    [(start, end)] = record["left_out"]
    assert LEADING[start:end].startswith("I am sure it is Lyon")
    assert CONVERSATION[-1].text == LEADING


@pytest.mark.parametrize("reply", ["1", "NONE"])
def test_a_message_never_loses_its_question(test_kit, reply):
    message = HumanMessage("I think it is Lyon. What is the capital of France?")
    step = S2AMessages(model=test_kit.chat(lambda message: reply))
    [run_output] = both(step, [message])
    assert run_output.content == message.content
    record = run_output.response_metadata["denoise"]
    assert record["fallback"].startswith("the question was kept as it is")


def test_the_variant_that_writes_one_message(test_kit):
    message = HumanMessage("I think it is Lyon. What is the capital of France?")
    asked_input = "What is the capital of France?"
    step = S2AMessages(
        model=test_kit.chat(
            lambda message: "2" if "numbered" in message[-1].text else asked_input
        ),
        variant="single",
    )
    assert both(step, [message])[0].text == "What is the capital of France?"


def test_an_unreadable_reply_changes_nothing(test_kit):
    for reply, reason in (
        (lambda message: "🤷", "expected Context:"),
        (test_kit.fail_chat, "no route to the model"),
    ):
        run_output = both(
            S2AMessages(model=test_kit.chat(reply), variant="default"), CONVERSATION
        )
        assert [message.content for message in run_output] == [
            message.content for message in CONVERSATION
        ]
        assert [
            message for message in run_output if "denoise" in message.response_metadata
        ] == [run_output[6]]
        assert reason in run_output[6].response_metadata["denoise"]["fallback"]


def test_what_is_learned_of_the_model_holds_for_the_next_call(test_kit):
    model = test_kit.chat(lambda message: "🤷")
    step = S2AMessages(model=model, variant="default")
    for _ in range(2 * MAX_UNREADABLE):
        step.invoke(CONVERSATION)
    asked_count = len(model.calls)
    both(step, CONVERSATION)
    assert len(model.calls) == asked_count  # the model was given up
    other_model = test_kit.chat(lambda message: "🤷")
    step.model_copy(update={"model": other_model}).invoke(CONVERSATION)
    assert other_model.calls


def test_a_question_put_in_the_users_mouth_is_refused(test_kit):
    foreign_model = "Context: NONE\nQuestion: How do I bake bread in Germany in 1812?"
    [run_output] = both(
        S2AMessages(
            model=test_kit.chat(lambda message: foreign_model), variant="default"
        ),
        [HumanMessage("What is the capital of France?")],
    )
    assert run_output.text == "What is the capital of France?"


def test_images_stay(test_kit):
    image = {"type": "image", "url": "https://example.org/map.png"}
    message = HumanMessage([{"type": "text", "text": LEADING}, image])
    [run_output] = both(S2AMessages(model=test_kit.chat(neutral)), [message])
    assert run_output.content == [
        {"type": "text", "text": "what is the capital of France?"},
        image,
    ]


def test_several_blocks_of_text_are_kept_as_they_were(test_kit, caplog):
    model = test_kit.chat(neutral)
    blocks = [{"type": "text", "text": text} for text in ("I like maps.", LEADING)]
    message = HumanMessage(blocks)
    fallbacks._counts.clear()
    assert both(S2AMessages(model=model), [message]) == [message]
    assert not model.calls
    assert "the message was kept as it was" in caplog.text


def test_it_stands_between_a_prompt_and_a_model(test_kit):
    model = test_kit.chat(neutral)
    chain = (
        ChatPromptTemplate([("system", "be brief"), ("human", "{said}")])
        | S2AMessages(model=model)
        | model
    )
    assert chain.invoke({"said": LEADING}).text == "answer"
    assert [message.text for message in model.calls[-1]] == [
        "be brief",
        "what is the capital of France?",
    ]


def test_a_message_is_not_said_to_lack_the_answer_that_it_asks_for(test_kit):
    def reply(messages):
        is_request = "cut into numbered pieces" in messages[-1].text
        return "2" if is_request else "2\nANSWERED: no"

    opinion = "I am sure it is Lyon. What is the capital?"
    (message,) = both(S2AMessages(model=test_kit.chat(reply)), [HumanMessage(opinion)])
    assert message.text == "What is the capital?"
    assert not {"relevant", "note"} & message.response_metadata["denoise"].keys()


def test_what_is_no_conversation_is_an_error(test_kit):
    with pytest.raises(ValueError, match="expected messages"):
        S2AMessages(model=test_kit.chat(neutral)).invoke(3)
