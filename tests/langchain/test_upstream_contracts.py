"""What LangChain promises of its compressors and middleware, asked of ours.

The scenarios are those of LangChain's tests (classic 1.0.8, langchain 1.4.7), in our words.
"""

import asyncio
import math

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_agents import cut_results
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import create_retriever_tool

from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer

BOWLING = [
    Document(
        page_content="The sky is blue. Candlepin bowling is popular in New England. "
        * 4,
        metadata={"a": 1},
    ),
    Document(
        page_content="Mercury is close to the Sun. Candlepin bowling balls are smaller. "
        * 4,
        metadata={"b": 2},
    ),
    Document(page_content="The moon is round.", metadata={"c": 3}),
]


# wrap_tool_call


def calling(*names):
    calls = [
        {
            "name": n,
            "args": {"query": f"ask {n}"},
            "id": f"call-{n}",
        }
        for n in names
    ]
    return lambda messages: (
        "done" if messages[-1].type == "tool" else AIMessage("", tool_calls=calls)
    )


def tool_named(test_kit, name, found=BOWLING):
    return create_retriever_tool(
        test_kit.ListRetriever(found=found),
        name,
        "Finds.",
        response_format="content_and_artifact",
    )


def ran(denoising_agent):
    input_value = {"messages": [HumanMessage("go")]}
    state = denoising_agent.invoke(input_value)
    other = asyncio.run(denoising_agent.ainvoke(input_value))
    found_documents = {
        message.name: message for message in state["messages"] if message.type == "tool"
    }
    assert {
        message.name: message.content
        for message in other["messages"]
        if message.type == "tool"
    } == {n: message.content for n, message in found_documents.items()}
    return found_documents


def everything():
    return ENDDenoiser(FunctionScorer(lambda query, text: 1.0), threshold=-math.inf)


def about(word):
    return ENDDenoiser(
        FunctionScorer(lambda query, text: float(word in text)),
        threshold=0.5,
        min_keep=0,
    )


def test_what_needs_no_edit_passes_byte_for_byte(test_kit):
    denoising_agent = create_agent(
        test_kit.chat(calling("a")), [tool_named(test_kit, "a")]
    )
    ours = create_agent(
        test_kit.chat(calling("a")),
        [tool_named(test_kit, "a")],
        middleware=[cut_results(everything())],
    )
    assert ran(ours)["a"].content == ran(denoising_agent)["a"].content


def test_several_tools_in_one_step_each_by_its_own_query(test_kit):
    asked_input = []

    def score(query, text):
        asked_input.append(query)
        return 1.0

    middleware = cut_results(ENDDenoiser(FunctionScorer(score), keep=1))
    tools = [tool_named(test_kit, "a"), tool_named(test_kit, "b", BOWLING[:2])]
    found_documents = ran(
        create_agent(
            test_kit.chat(calling("a", "b")),
            tools,
            middleware=[middleware],
        )
    )
    assert [len(found_documents[n].artifact) for n in ("a", "b")] == [1, 1]
    assert set(asked_input) == {"go\nask a", "go\nask b"}


class Wrap(AgentMiddleware):
    """Notes what it sees of a tool's result."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def wrap_tool_call(self, request, handler):
        message = handler(request)
        self.seen.append(message.content)
        return message

    async def awrap_tool_call(self, request, handler):
        message = await handler(request)
        self.seen.append(message.content)
        return message


def test_outer_middleware_sees_the_cleared_result_and_inner_the_whole(test_kit):
    outer, inner = Wrap(), Wrap()
    inner.__class__ = type("Inner", (Wrap,), {})
    denoising_agent = create_agent(
        test_kit.chat(calling("a")),
        [tool_named(test_kit, "a")],
        middleware=[outer, cut_results(about("moon")), inner],
    )
    ran(denoising_agent)
    note = "[1 of 3 documents shown; 2 left out]"
    assert set(outer.seen) == {f"The moon is round.\n\n{note}"}
    assert set(inner.seen) == {
        "\n\n".join(document.page_content for document in BOWLING)
    }


# ContextEditingMiddleware, InternalCallTransformer


def test_edits_are_kept_and_not_made_again(test_kit):
    scored_value = []

    def score(query, text):
        scored_value.append(text)
        return float("moon" in text)

    def reply(messages):
        tools = sum(message.type == "tool" for message in messages)
        call = {
            "name": "a",
            "args": {"query": f"q{tools}"},
            "id": f"call-{tools}",
        }
        return "done" if tools == 3 else AIMessage("", tool_calls=[call])

    middleware = cut_results(ENDDenoiser(FunctionScorer(score), threshold=0.5))
    denoising_agent = create_agent(
        test_kit.chat(reply), [tool_named(test_kit, "a")], middleware=[middleware]
    )
    state = denoising_agent.invoke({"messages": [HumanMessage("go")]})
    assert [
        message.content for message in state["messages"] if message.type == "tool"
    ] == ["The moon is round.\n\n[1 of 3 documents shown; 2 left out]"] * 3
    assert len(scored_value) == 3 * len(BOWLING)
