"""A conversation in every chat mode that searches; a follow-up is checked as the question was."""

import pytest
from judging import InOnePassage
from llama_index.core.memory import ChatMemoryBuffer
from llamaindex_inns import QUESTION, RIGHT, WRONG, index, judged

from llamaindex_denoise import Checked


@pytest.mark.parametrize("mode", ["context", "condense_plus_context", "condense_question"])
async def test_chat_modes(scripted, mode):
    said = [RIGHT]
    llm = scripted(lambda m: QUESTION if "standalone" in m[-1].content.lower() else said[0])
    memory = ChatMemoryBuffer.from_defaults(token_limit=2000)
    chat = Checked(index().as_chat_engine(chat_mode=mode, llm=llm, memory=memory), judge=InOnePassage())
    assert judged(chat.chat(QUESTION)) == "supported"
    said[0] = WRONG
    assert judged(await chat.achat(f"Once more: {QUESTION}")) != "supported"
    stream = await chat.astream_chat(QUESTION)
    assert "".join([piece async for piece in stream.async_response_gen()])
    assert judged(stream) != "supported"
    assert len(chat.chat_history) == 6
