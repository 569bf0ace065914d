"""Checked agents of three kinds with a scripted model, and what one run of an agent gives."""

from types import SimpleNamespace

from llama_index.core.agent.workflow import (
    AgentStream,
    CodeActAgent,
    FunctionAgent,
    ReActAgent,
)
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.workflow import Context
from llamaindex_denoisers import QUESTION
from llamaindex_doubles import Calling, calls, scripted_llm

from llamaindex_denoise import Checked, VerificationEvent

RIGHT, WRONG = "The red tower is in Porto.", "The red tower was built in 1755."
LOOK = "look it up"  # a line that each kind of agent says in its own way


def search(query: str):
    """Look something up."""
    return "The red tower is in Porto. Bread is cheap there."


def run_code(code: str):
    """What a program prints; it has a register of towers."""
    line = code.strip()
    return RIGHT if line == "print(register())" else line[7:-2]


LOOK_IN_REACT = (
    'Thought: I look it up.\nAction: search\nAction Input: {"query": "red tower"}'
)


class Says:
    """A model that says its lines one after the other, the last for ever.

    A line may be a message, or a function that returns one. ``seen_prompts`` is what the
    model was shown, a text for each call.
    """

    def __init__(self, *lines):
        self.lines, self.seen_prompts = list(lines), []

    def __call__(self, messages, **kwargs):
        texts = [message.content or "" for message in messages]
        self.seen_prompts.append("\n".join(texts))
        line = self.lines.pop(0) if len(self.lines) > 1 else self.lines[0]
        return line() if callable(line) else line


def function_agent(says, **settings):
    """An agent that calls tools by its model's interface."""

    def script(messages, **kwargs):
        line = says(messages)
        if line == LOOK:
            return calls("search", query="red tower")
        if isinstance(line, str):
            return ChatMessage(role="assistant", content=line)
        return line

    settings = {"name": "guide", "tools": [search], **settings}
    return FunctionAgent(llm=Calling(script=script), **settings)


def react_agent(says, **settings):
    """An agent that writes its calls and answers as text."""

    def reply(messages):
        line = says(messages)
        if line == LOOK:
            return LOOK_IN_REACT
        return line if "Thought:" in line else f"Thought: I know.\nAnswer: {line}"

    settings = {"name": "guide", "tools": [search], **settings}
    return ReActAgent(llm=scripted_llm(reply), **settings)


def code_agent(says, **settings):
    def reply(messages):
        line = says(messages)
        return "<execute>\nprint(register())\n</execute>" if line == LOOK else line

    return CodeActAgent(run_code, name="guide", llm=scripted_llm(reply), **settings)


AGENTS = {"function": function_agent, "react": react_agent, "codeact": code_agent}


async def ask(agent, ctx=None, **settings):
    """The answer, its verdict, and what was streamed of it and remembered.

    It is checked that every place has the same verdict.
    """
    ctx = ctx or Context(agent)
    handler = agent.run(user_msg=QUESTION, ctx=ctx, **settings)
    events = [event async for event in handler.stream_events()]
    output = await handler
    verdicts = [e.record for e in events if isinstance(e, VerificationEvent)]
    assert output.metadata["denoise"] == verdicts[-1] == await ctx.store.get("denoise")
    streamed_text = "".join(e.delta for e in events if isinstance(e, AgentStream))
    messages = await (await ctx.store.get("memory")).aget()
    memory = "\n".join(message.content or "" for message in messages)
    return SimpleNamespace(
        text=str(output),
        verdict=verdicts[-1],
        outcome=verdicts[-1]["outcome"],
        drafts=[attempt["text"] for attempt in verdicts[-1]["attempts"]],
        streamed_text=streamed_text,
        memory=memory,
        output=output,
    )


async def ask_function_agent(*lines, tools=(search,), **settings):
    """The model's script and the run of a checked function agent that says these lines."""
    says = Says(*lines)
    agent = function_agent(says, tools=list(tools))
    return says, await ask(Checked(agent, **settings))
