"""Agents with one retrieval tool: what is found, what the model says, and how a run is started either way."""

import asyncio

import pytest
from chain_parts import ListRetriever, chat
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage

from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer

PARIS = "Paris is the capital of France."
LYON = "Lyon has been the capital since 1789."
SOURCE_DOCUMENTS = [
    Document(
        page_content=" ".join(["Bananas are yellow."] * 9),
        id="fruit",
        metadata={"source": "fruit.md"},
    ),
    Document(page_content=PARIS, id="atlas", metadata={"source": "atlas.md"}),
    Document(
        page_content=" ".join(["Capital letters are big."] * 9),
        id="letters",
        metadata={"source": "abc.md"},
    ),
]
THREAD = {"configurable": {"thread_id": "1"}}
QUESTION_INPUT = {"messages": [HumanMessage("What is the capital of France?")]}


def calls(name, call_id=None, **args):
    call = {"name": name, "args": args, "id": call_id or f"call-{name}"}
    return AIMessage("", tool_calls=[call])


def search_then_answer(answer=lambda messages: PARIS, query="capital of France"):
    """A model's replies: look it up first, answer when there is a tool result."""

    def reply(messages):
        if any(message.type == "tool" for message in messages):
            return answer(messages)
        return calls("search", query=query)

    return reply


def keep_only(word, **settings):
    scorer = FunctionScorer(lambda query, text: float(word in text))
    return ENDDenoiser(scorer, threshold=0.5, **settings)


def by_words(keep=1):
    return ENDDenoiser(
        FunctionScorer(
            lambda query, text: float(len(set(query.split()) & set(text.split())))
        ),
        keep=keep,
    )


def cut_results(*arguments, **settings):
    """Cuts results of any length, in the state, where tests can see what is left."""
    # Imported here: langchain does not install with the oldest langchain-core.
    from langchain_denoise.middleware import DenoiseToolResults

    return DenoiseToolResults(
        *arguments, **{"min_characters": 0, "where": "state", **settings}
    )


def make_agent(*middleware, reply=None, checkpointer=None, **tool_settings):
    """An agent with a retrieval tool and the middleware under test; and its model."""
    # Imported here: langchain does not install with the oldest langchain-core.
    from langchain.agents import create_agent
    from langchain_core.tools import create_retriever_tool

    settings = {"response_format": "content_and_artifact", **tool_settings}
    retriever = ListRetriever(found=SOURCE_DOCUMENTS)
    search = create_retriever_tool(retriever, "search", "Looks things up.", **settings)
    model = chat(reply or search_then_answer())
    return create_agent(
        model, [search], middleware=list(middleware), checkpointer=checkpointer
    ), model


def last_record(state):
    return state["messages"][-1].response_metadata["denoise"]


def both(runnable, input_value, **settings):
    """The output, after checking that sync and async agree."""
    output = runnable.invoke(input_value, **settings)
    assert asyncio.run(runnable.ainvoke(input_value, **settings)) == output
    return output


def tool_message(state):
    return next(message for message in state["messages"] if message.type == "tool")


async def run(denoising_agent, is_sync, input_value=QUESTION_INPUT, config=None):
    if is_sync:
        return await asyncio.to_thread(denoising_agent.invoke, input_value, config)
    return await denoising_agent.ainvoke(input_value, config)


async def checked_events(runnable, is_sync, input_value, config=None, show="checked"):
    if is_sync:
        stream = runnable.stream_checked(input_value, config, show=show)
        return await asyncio.to_thread(list, stream)
    stream = runnable.astream_checked(input_value, config, show=show)
    return [event async for event in stream]


both_ways = pytest.mark.parametrize("is_sync", [True, False], ids=["sync", "async"])


LEADING = "I am sure it is Lyon, but what is the capital of France?"
NEUTRAL = "what is the capital of France?"


def neutral(messages):
    return "2" if "cut into numbered pieces" in messages[-1].text else "Context: NONE"
