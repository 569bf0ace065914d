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
from llamaindex_agents import RIGHT, WRONG
from llamaindex_denoisers import ids_of
from llamaindex_doubles import scripted_llm
from llamaindex_engines import QUESTION, Fixed, inner, nodes, outcome_of

from denoise_core.augmenter import LoopLimits
from llamaindex_denoise import Checked


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


def checked_chat(mode, llm, **settings):
    return Checked(MODES[mode](llm, Fixed(nodes())), **settings)


def model(seen_events):
    """Wrong until it is told so; condenses a conversation to the question."""

    def reply(messages):
        seen_prompts = "\n".join(m.content or "" for m in messages)
        seen_events.append(seen_prompts)
        if "standalone" in seen_prompts.lower():
            return QUESTION
        return RIGHT if "1755" in seen_prompts else WRONG

    return scripted_llm(reply)


HOW = ["chat", "achat", "stream_chat", "astream_chat"]


async def say(chat, how, message):
    """The text and the response of one turn; streams are read to their end."""
    response = getattr(chat, how)(message)
    if how.startswith("a"):
        response = await response
    if how == "stream_chat":
        return "".join(response.response_gen), response
    if how == "astream_chat":
        return "".join([p async for p in response.async_response_gen()]), response
    return str(response), response


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", HOW)
async def test_a_wrong_draft_is_mended_and_forgotten(mode, how):
    chat = checked_chat(mode, model([]), limits=LoopLimits(rerun=True))
    assert isinstance(chat, BaseChatEngine)
    text, response = await say(chat, how, QUESTION)
    assert text == RIGHT
    assert outcome_of(response) == "supported"
    assert [a["text"] for a in response.metadata["denoise"]["attempts"]] == [
        WRONG,
        RIGHT,
    ]
    assert ids_of(response.source_nodes) == ["n0", "n1", "n2"]
    assert [(m.role.value, m.content) for m in chat.chat_history] == [
        ("user", QUESTION),
        ("assistant", RIGHT),
    ]


@pytest.mark.parametrize("how", ["chat", "achat"])
async def test_a_turn_that_fails_leaves_the_memory_as_it_was(how):
    def fail(messages):
        raise ConnectionError("the model is down")

    chat = checked_chat("context", scripted_llm(fail))
    text, response = await say(chat, how, QUESTION)
    assert "ConnectionError" in text
    assert outcome_of(response) == "failed"
    assert chat.chat_history == []


@pytest.mark.parametrize("mode", ["context", "condense plus context"])
async def test_the_next_turn_reads_the_conversation_until_it_is_reset(mode):
    seen_events = []
    chat = checked_chat(mode, model(seen_events), limits=LoopLimits(rerun=True))
    for question in (QUESTION, "And where does it stand?"):
        text, _ = await say(chat, "chat", question)
        assert text == RIGHT
    assert RIGHT in seen_events[-1], "the conversation was not shown"
    assert len(chat.chat_history) == 4
    chat.reset()
    assert chat.chat_history == []


@pytest.mark.parametrize("mode", MODES)
async def test_an_engine_is_asked_once_a_turn_unless_told_to(mode):
    seen_events = []
    chat = checked_chat(mode, model(seen_events))
    text, response = await say(chat, "chat", QUESTION)
    assert text == WRONG
    assert len(seen_events) == 1
    assert outcome_of(response) == "unsupported"


@pytest.mark.parametrize("how", HOW)
async def test_a_chat_without_sources_passes_its_answers_on(how):
    chat = Checked(
        SimpleChatEngine.from_defaults(llm=scripted_llm("Hello!"), memory=memory())
    )
    text, response = await say(chat, how, "Hi")
    assert text == "Hello!"
    assert outcome_of(response) == "unknown"
