"""Judgements of much evidence are made on threads, whatever is checked and whatever judges."""

import threading

import pytest
from judging import WordForWord
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import RetrieverTool
from llamaindex_doubles import Calling, calls
from llamaindex_engines import QUESTION, Fixed, inner

from denoise_core.augmenter import LoopLimits
from llamaindex_denoise import Checked

RIGHT = "The red tower is in Porto."


class Records(WordForWord):
    """Judges by words, and remembers its threads; ``fails`` first raises."""

    def __init__(self, fails=0):
        self.threads, self.fails = [], fails

    def flow(self, question, claims, passages):
        self.threads.append(threading.get_ident())
        if self.fails:
            self.fails -= 1
            raise ConnectionError("down")
        return (yield from super().flow(question, claims, passages))


def found(count):
    texts = [f"{RIGHT} Tower {i} of the north stands by the river. " * 12 for i in range(count)]
    return Fixed([NodeWithScore(node=TextNode(text=t, id_=f"n{i}"), score=0.5) for i, t in enumerate(texts)])


async def engine(llm, retriever, **settings):
    return await Checked(inner(llm, retriever), **settings).aquery(QUESTION)


async def stream(llm, retriever, **settings):
    response = await Checked(inner(llm, retriever), streaming="draft_first", **settings).aquery(QUESTION)
    async for _ in response.async_response_gen():
        pass
    return response


async def chat(llm, retriever, **settings):
    memory = ChatMemoryBuffer.from_defaults(token_limit=2000)
    return await Checked(ContextChatEngine.from_defaults(retriever, llm=llm, memory=memory), **settings).achat(
        QUESTION
    )


async def agent(llm, retriever, **settings):
    tool = RetrieverTool.from_defaults(retriever, name="search", description="towers")
    steps = iter([calls("search", input=QUESTION), llm.chat([]).message])
    made = FunctionAgent(name="guide", llm=Calling(script=lambda m, **_: next(steps)), tools=[tool])
    return await Checked(made, **settings).run(user_msg=QUESTION)


@pytest.mark.parametrize("way", [engine, stream, chat, agent])
async def test_much_evidence_is_read_on_a_thread(scripted, way):
    judge = Records()
    response = await way(scripted(lambda m: RIGHT), found(20), judge=judge)
    assert response.metadata["denoise"]["outcome"] == "supported"
    assert judge.threads
    assert threading.get_ident() not in judge.threads
    assert response.metadata["denoise"]["judge"] == judge.id


async def test_little_evidence_costs_no_thread(scripted):
    judge = Records()
    await engine(scripted(lambda m: RIGHT), found(1), judge=judge)
    assert judge.threads == [threading.get_ident()]


async def test_what_a_judge_raises_on_a_thread_is_noted_as_ever(scripted):
    here, there = Records(fails=2), Records(fails=2)
    small = await engine(scripted(lambda m: RIGHT), found(1), judge=here, limits=LoopLimits(attempts=1))
    large = await engine(scripted(lambda m: RIGHT), found(20), judge=there, limits=LoopLimits(attempts=1))
    one, other = small.metadata["denoise"], large.metadata["denoise"]
    assert one["outcome"] == other["outcome"] == "unknown"
    assert one["failures"] == other["failures"]
