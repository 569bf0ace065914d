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
    checked = Checked(agent, judge=InOnePassage(), limits=LoopLimits(attempts=1))
    return judged(await checked.run(user_msg=QUESTION))


def retriever_tool():
    return RetrieverTool.from_defaults(
        index().as_retriever(), name="inns", description="about inns"
    )


def steps(*reply_text):
    remaining_steps = list(reply_text)
    return lambda *_, **__: (
        remaining_steps.pop(0) if len(remaining_steps) > 1 else remaining_steps[0]
    )


def react(scripted_llm, reply_text):
    look = f"Thought: I look.\nAction: inns\nAction Input: {json.dumps({'input': QUESTION})}"
    llm = scripted_llm(steps(look, f"Thought: I know.\nAnswer: {reply_text}"))
    return ReActAgent(name="guide", tools=[retriever_tool()], llm=llm)


def code(scripted_llm, reply_text):
    def run(code: str) -> str:
        """Run a program."""
        return "The Larkmoor Inn in Tessel: rooms must be vacated by 11:30."

    llm = scripted_llm(steps("<execute>\nprint(inns())\n</execute>", reply_text))
    return CodeActAgent(run, name="guide", llm=llm)


def function(reply_text, **settings):
    script = steps(
        calls("inns", input=QUESTION), ChatMessage(reply_text, role="assistant")
    )
    tools = [retriever_tool()]
    return FunctionAgent(
        name="guide",
        description="inns",
        tools=tools,
        llm=Calling(script=script),
        **settings,
    )


def handoff(scripted_llm, reply_text):
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
        agents=[desk, function(reply_text, can_handoff_to=[])], root_agent="desk"
    )


@pytest.mark.parametrize(
    "make",
    [react, code, handoff, lambda scripted_llm, reply_text: function(reply_text)],
)
async def test_agents(scripted_llm, make):
    assert await outcome(make(scripted_llm, RIGHT)) == "supported"
    assert await outcome(make(scripted_llm, WRONG)) != "supported"


async def test_a_notebook_is_no_evidence():
    def note(text: str) -> str:
        """Keep a note."""
        return f"Noted. {text}"

    script = steps(calls("note", text=WRONG), ChatMessage(WRONG, role="assistant"))
    tools = [FunctionTool.from_defaults(note)]
    agent = FunctionAgent(name="guide", tools=tools, llm=Calling(script=script))
    assert await outcome(agent) == "unknown"
