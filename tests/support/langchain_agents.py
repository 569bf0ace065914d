"""Agents with one retrieval tool: what is found, what the model says, and how a run is started either way."""

import asyncio

import pytest
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
QUESTION_INPUT = {"messages": [HumanMessage("What is the capital of France?")]}


def calls(name, **args):
    """A message that calls a tool."""
    return AIMessage(
        "", tool_calls=[{"name": name, "args": args, "id": f"call-{name}"}]
    )


def search_then_answer(answer=lambda messages: PARIS, query="capital of France"):
    """A model's replies: look it up first, answer when there is a tool result."""

    def reply(messages):
        since = [
            item.type
            for item in messages[
                [message.type for message in messages].index("human") :
            ]
        ]
        if "tool" not in since:
            return AIMessage(
                "",
                tool_calls=[
                    {"name": "search", "args": {"query": query}, "id": "call-1"}
                ],
            )
        return answer(messages)

    return reply


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


def tool_message(state):
    return next(message for message in state["messages"] if message.type == "tool")


async def run(denoising_agent, is_sync, input_value=QUESTION_INPUT, config=None):
    if is_sync:
        return await asyncio.to_thread(denoising_agent.invoke, input_value, config)
    return await denoising_agent.ainvoke(input_value, config)


async def checked_events(runnable, is_sync, input_value, config=None, show="checked"):
    """The events of a checked stream."""
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
