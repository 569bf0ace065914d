"""Agents over the index: ReAct, CodeAct, a handoff in a workflow, an object as the answer."""

import json

import pytest
from judging import InOnePassage
from llama_index.core.agent.workflow import (
    AgentWorkflow,
    CodeActAgent,
    FunctionAgent,
    ReActAgent,
)
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.tools import FunctionTool, RetrieverTool
from llamaindex_doubles import Calling, calls
from llamaindex_inns import QUESTION, RIGHT, WRONG, index, judged

from denoise_core.augmenter import LoopLimits
from llamaindex_denoise import Checked


async def outcome(agent):
    checked = Checked(
        agent, judge=InOnePassage(), limits=LoopLimits(attempts=1)
    )
    return judged(await checked.run(user_msg=QUESTION))


def retriever_tool():
    return RetrieverTool.from_defaults(
        index().as_retriever(), name="inns", description="about inns"
    )


def steps(*said):
    left = list(said)
    return lambda *_, **__: left.pop(0) if len(left) > 1 else left[0]


def react(scripted, said):
    look = f"Thought: I look.\nAction: inns\nAction Input: {json.dumps({'input': QUESTION})}"
    llm = scripted(steps(look, f"Thought: I know.\nAnswer: {said}"))
    return ReActAgent(name="guide", tools=[retriever_tool()], llm=llm)


def code(scripted, said):
    def run(code: str) -> str:
        """Run a program."""
        return "The Larkmoor Inn in Tessel: rooms must be vacated by 11:30."

    llm = scripted(steps("<execute>\nprint(inns())\n</execute>", said))
    return CodeActAgent(run, name="guide", llm=llm)


def function(said, **settings):
    script = steps(calls("inns", input=QUESTION), ChatMessage(said, role="assistant"))
    tools = [retriever_tool()]
    return FunctionAgent(
        name="guide",
        description="inns",
        tools=tools,
        llm=Calling(script=script),
        **settings,
    )


def handoff(scripted, said):
    script = steps(
        calls("handoff", to_agent="guide", reason=WRONG),
        ChatMessage("x", role="assistant"),
    )
    desk = FunctionAgent(
        name="desk",
        description="desk",
        llm=Calling(script=script),
        can_handoff_to=["guide"],
    )
    return AgentWorkflow(
        agents=[desk, function(said, can_handoff_to=[])], root_agent="desk"
    )


@pytest.mark.parametrize(
    "make", [react, code, handoff, lambda scripted, said: function(said)]
)
async def test_agents(scripted, make):
    assert await outcome(make(scripted, RIGHT)) == "supported"
    assert await outcome(make(scripted, WRONG)) != "supported"


async def test_a_notebook_is_no_evidence():
    def note(text: str) -> str:
        """Keep a note."""
        return f"Noted. {text}"

    script = steps(calls("note", text=WRONG), ChatMessage(WRONG, role="assistant"))
    tools = [FunctionTool.from_defaults(note)]
    agent = FunctionAgent(name="guide", tools=tools, llm=Calling(script=script))
    assert await outcome(agent) == "unknown"
