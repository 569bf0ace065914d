"""S2A as runnables: answers from a cleared context, conversations cleared of opinion."""

import asyncio
import json

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate

from langchain_denoise import S2AMessages, S2ARunnable
from langchain_denoise.testing import RunRecorder

CONTEXT = [
    Document(page_content="Paris is the capital of France. My uncle says Lyon.", id="a", metadata={"source": "x"}),
    Document(page_content="Bananas are yellow.", id="b"),
]
QUESTION = "What is the capital of France?"


def two_steps(messages):
    """Keeps the first sentence of what is about Paris, nothing of the rest; then answers."""
    said = messages[-1].text
    if "number" not in said:
        return "Paris."
    return "1" if "Paris" in said else "NONE"


def test_an_answer_from_what_is_left(kit):
    model = kit.chat(two_steps)
    step = S2ARunnable(model=model, variant="select")
    given = {"question": QUESTION, "context": CONTEXT}
    out = step.invoke(given)
    assert asyncio.run(step.ainvoke(given)) == out
    assert (out["answer"], out["question"]) == ("Paris.", QUESTION)
    assert [d.page_content for d in out["context"]] == ["Paris is the capital of France. "]
    assert (out["context"][0].id, out["context"][0].metadata["source"]) == ("a", "x")
    assert json.loads(json.dumps(out["denoise"])) == out["denoise"]
    assert out["denoise"]["calls"] == 2
    assert [d["id"] for d in out["denoise"]["dropped"]] == ["a", "b"]
    assert "uncle" not in model.seen[1][-1].text


@pytest.mark.parametrize("context", ["Paris is the capital.", ["Paris is the capital."], CONTEXT[:1], []])
def test_any_form_of_context(kit, context):
    out = S2ARunnable(model=kit.chat(two_steps), variant="select").invoke(
        {"question": QUESTION, "context": context}
    )
    assert out["answer"] == "Paris."
    assert len(out["context"]) == bool(context)


@pytest.mark.parametrize("sync", [True, False])
async def test_calls_are_children_and_do_not_stream(kit, sync):
    seen = RunRecorder()
    step = S2ARunnable(model=kit.chat(two_steps), variant="select")
    given = {"question": QUESTION, "context": CONTEXT}
    if sync:
        await asyncio.to_thread(step.invoke, given, {"callbacks": [seen]})
    else:
        await step.ainvoke(given, {"callbacks": [seen]})
    assert [path.split("/")[0] for path in seen.paths("llm")] == ["S2ARunnable"] * 2
    assert {path.split("/")[-1] for path in seen.paths("llm")} == {"FunctionChatModel"}
    assert all("nostream" in run.tags for run in seen.of_kind("llm"))
    assert [name for name, _, _ in seen.events] == ["denoise"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("q", "got a str"),
        ({"question": "q"}, r"the keys \['question'\]"),
        ({"question": "q", "context": [3]}, "expected a langchain_core Document, got int"),
    ],
)
def test_bad_input(kit, given, message):
    with pytest.raises(ValueError, match=message):
        S2ARunnable(model=kit.chat()).invoke(given)


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
    AIMessage("If you say so.", id="a2", tool_calls=[{"name": "look", "args": {}, "id": "1"}]),
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
    out = both(S2AMessages(model=kit.chat(neutral), variant="default", scope="history"), CONVERSATION)
    assert [m.type for m in out] == [m.type for m in CONVERSATION]
    assert [m.text for m in out if m.type == "human"] == [
        "I live in Nice.",
        "(This message was left out: it does not help with the question.)",
        "what is the capital of France?",
    ]


def test_extractive_variants_keep_the_users_own_words(kit):
    message = HumanMessage("I think it is Lyon. What is the capital of France?")
    [out] = both(S2AMessages(model=kit.chat(lambda m: "2"), variant="select"), [message])
    assert out.text == "What is the capital of France?"


@pytest.mark.parametrize("reply", ["1", "NONE"])
def test_a_message_never_loses_its_question(kit, reply):
    message = HumanMessage("I think it is Lyon. What is the capital of France?")
    assert both(S2AMessages(model=kit.chat(lambda m: reply), variant="select"), [message]) == [message]


def test_the_variant_that_writes_one_message(kit):
    message = HumanMessage("I think it is Lyon. What is the capital of France?")
    asked = "What is the capital of France?"
    step = S2AMessages(model=kit.chat(lambda m: "2" if "numbered" in m[-1].text else asked), variant="single")
    assert both(step, [message])[0].text == "What is the capital of France?"


def test_an_unreadable_reply_changes_nothing(kit):
    for reply, why in ((lambda m: "🤷", "expected 'Context:'"), (kit.fail_chat, "no route to the model")):
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
    assert out.content == [{"type": "text", "text": "what is the capital of France?"}, image]


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
    assert [m.text for m in model.seen[-1]] == ["be brief", "what is the capital of France?"]


@pytest.mark.parametrize("given", [[], [SystemMessage("alone")], [HumanMessage(" ")]])
def test_nothing_to_clear_costs_nothing(kit, given):
    model = kit.chat()
    assert both(S2AMessages(model=model, variant="default"), given) == given
    assert model.seen == []


def test_whatever_a_chat_model_takes(kit):
    step = S2AMessages(model=kit.chat(neutral), variant="default")
    assert [m.text for m in step.invoke([("human", LEADING)])] == ["what is the capital of France?"]
    assert [m.text for m in step.invoke(LEADING)] == ["what is the capital of France?"]
    with pytest.raises(ValueError, match="got int"):
        step.invoke(3)


@pytest.mark.parametrize("kind", [S2ARunnable, S2AMessages])
@pytest.mark.parametrize("settings", [{"variant": "best"}, {"max_concurrency": 0}, {"varient": "select"}])
def test_wrong_settings(kit, kind, settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        kind(model=kit.chat(), **settings)


def test_a_question_that_could_not_be_cleared_is_said_beside_each_document(kit):
    def names_the_opinion(messages):
        return "2" if "cut into numbered pieces" in messages[-1].text else two_steps(messages)

    given = {"question": "What is the capital of France? I think it is Lyon.", "context": CONTEXT}
    out = S2ARunnable(model=kit.chat(names_the_opinion), variant="select").invoke(given)
    assert out["question"] == given["question"]
    assert "no part that asks" in out["denoise"]["question_note"]
    assert all("no part that asks" in d.metadata["denoise_question_note"] for d in out["context"])
