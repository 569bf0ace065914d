"""`Checked` of chat engines in every mode: one search, feedback, memory, streams with their verdict."""

import pytest
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.memory import ChatMemoryBuffer
from llamaindex_engines import QUESTION, Fixed, inner, nodes

from denoise_core.augmenter import LoopLimits
from llamaindex_denoise import Checked

RIGHT, WRONG = "The red tower is in Porto.", "The red tower was built in 1755."


def memory():
    return ChatMemoryBuffer.from_defaults(token_limit=2000)


MODES = {
    "context": lambda llm, r: ContextChatEngine.from_defaults(
        r, llm=llm, memory=memory()
    ),
    "condense plus context": lambda llm, r: CondensePlusContextChatEngine.from_defaults(
        r, llm=llm, memory=memory()
    ),
    "condense question": lambda llm, r: CondenseQuestionChatEngine.from_defaults(
        inner(llm, r), llm=llm, memory=memory()
    ),
}


def model(scripted, told):
    """Wrong until it is told so; condenses a conversation to the question."""

    def reply(messages):
        asked = "\n".join(m.content or "" for m in messages)
        told.append(asked)
        if "standalone" in asked.lower():
            return QUESTION
        return RIGHT if "1755" in asked else WRONG

    return scripted(reply)


HOW = ["chat", "achat", "stream_chat", "astream_chat"]


async def say(chat, how, message):
    """The text and the response of one turn; streams are read to their end."""
    response = (
        await getattr(chat, how)(message)
        if how.startswith("a")
        else getattr(chat, how)(message)
    )
    if how == "stream_chat":
        return "".join(response.response_gen), response
    if how == "astream_chat":
        return "".join([p async for p in response.async_response_gen()]), response
    return str(response), response


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", HOW)
async def test_a_wrong_draft_is_mended_and_forgotten(scripted, mode, how):
    told, retriever = [], Fixed(nodes())
    chat = Checked(
        MODES[mode](model(scripted, told), retriever), limits=LoopLimits(rerun=True)
    )
    assert isinstance(chat, BaseChatEngine)
    text, response = await say(chat, how, QUESTION)
    assert text == RIGHT
    assert response.metadata["denoise"]["outcome"] == "supported"
    assert [a["text"] for a in response.metadata["denoise"]["attempts"]] == [
        WRONG,
        RIGHT,
    ]
    assert [n.node_id for n in response.source_nodes] == ["n0", "n1", "n2"]
    assert [(m.role.value, m.content) for m in chat.chat_history] == [
        ("user", QUESTION),
        ("assistant", RIGHT),
    ]


@pytest.mark.parametrize("mode", ["context", "condense plus context"])
async def test_the_next_turn_reads_the_conversation_until_it_is_reset(scripted, mode):
    told = []
    chat = Checked(
        MODES[mode](model(scripted, told), Fixed(nodes())),
        limits=LoopLimits(rerun=True),
    )
    for question in (QUESTION, "And where does it stand?"):
        text, _ = await say(chat, "chat", question)
        assert text == RIGHT
    assert RIGHT in told[-1], "the conversation was not shown"
    assert len(chat.chat_history) == 4
    chat.reset()
    assert chat.chat_history == []


@pytest.mark.parametrize("mode", MODES)
async def test_an_engine_is_asked_once_a_turn_unless_told_to(scripted, mode):
    told = []
    chat = Checked(MODES[mode](model(scripted, told), Fixed(nodes())))
    text, response = await say(chat, "chat", QUESTION)
    assert (text, len(told)) == (WRONG, 1)
    assert response.metadata["denoise"]["outcome"] == "unsupported"


@pytest.mark.parametrize("how", HOW)
async def test_a_chat_without_sources_passes_its_answers_on(scripted, how):
    chat = Checked(
        SimpleChatEngine.from_defaults(
            llm=scripted(lambda m: "Hello!"), memory=memory()
        )
    )
    text, response = await say(chat, how, "Hi")
    assert (text, response.metadata["denoise"]["outcome"]) == ("Hello!", "unknown")


async def test_a_given_history_takes_the_place_of_the_memory(scripted):
    told = []
    chat = Checked(
        MODES["context"](model(scripted, told), Fixed(nodes())),
        limits=LoopLimits(rerun=True),
    )
    await say(chat, "chat", QUESTION)
    history = chat.chat_history[:1]
    chat.chat("Once more.", history)
    assert [m.content for m in chat.chat_history] == [QUESTION, "Once more.", RIGHT]
