"""`Checked` of ReAct and CodeAct agents and of whole workflows: what is sent, fed back, remembered and told."""

from importlib.metadata import version

import pytest
from llama_index.core.agent.workflow import (
    AgentStream,
    AgentWorkflow,
    CodeActAgent,
    FunctionAgent,
    ReActAgent,
)
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.tools import QueryEngineTool
from llama_index.core.workflow import Context
from llamaindex_doubles import Calling, calls
from llamaindex_engines import QUESTION, inner
from pydantic import BaseModel

from denoise_core.augmenter import LoopLimits
from llamaindex_denoise import Checked, VerificationEvent

RIGHT, WRONG = "The red tower is in Porto.", "The red tower was built in 1755."


def search(query: str) -> str:
    """Look something up."""
    return "The red tower is in Porto. Bread is cheap there."


def run_code(code: str) -> str:
    """What a program prints; it has a register of towers."""
    lines = [line for line in code.splitlines() if line.startswith("print(")]
    reply_text = {"print(register())": "The red tower is in Porto."}
    return "\n".join(reply_text.get(line, line[7:-2]) for line in lines)


class Says:
    """A model that says its lines one after the other, the last for ever; ``asked`` is what it was told."""

    def __init__(self, *lines):
        self.lines, self.seen_prompts = list(lines), []

    def __call__(self, messages, **kwargs):
        self.seen_prompts.append(
            "\n".join(message.content or "" for message in messages)
        )
        return self.lines.pop(0) if len(self.lines) > 1 else self.lines[0]


LOOKS_UP = (
    'Thought: I look it up.\nAction: search\nAction Input: {"query": "red tower"}'
)
RUNS = "<execute>\nprint(register())\n</execute>"


def reacting(scripted_llm, *lines, **settings):
    says = Says(*lines)
    return says, Checked(
        ReActAgent(name="guide", tools=[search], llm=scripted_llm(says)), **settings
    )


def react(scripted_llm, *answers, **settings):
    lines = (f"Thought: I know.\nAnswer: {a}" for a in answers)
    return reacting(scripted_llm, LOOKS_UP, *lines, **settings)


def codeact(scripted_llm, *answers, **settings):
    says = Says(RUNS, *answers)
    return says, Checked(
        CodeActAgent(run_code, name="guide", llm=scripted_llm(says)), **settings
    )


KINDS = {"react": react, "codeact": codeact}


async def ask(agent, question=QUESTION):
    """The output, what was streamed of it, the verdicts, and what stays in the memory."""
    ctx = Context(agent)
    handler = agent.run(user_msg=question, ctx=ctx)
    events = [e async for e in handler.stream_events()]
    output = await handler
    verdicts = [e.record for e in events if isinstance(e, VerificationEvent)]
    assert output.metadata["denoise"] == verdicts[-1] == await ctx.store.get("denoise")
    streamed_text = "".join(e.delta for e in events if isinstance(e, AgentStream))
    memory = " ".join(
        message.content or ""
        for message in await (await ctx.store.get("memory")).aget()
    )
    return output, streamed_text, verdicts[-1], memory


@pytest.mark.parametrize("kind", KINDS)
async def test_a_wrong_answer_goes_back_with_the_reasons(scripted_llm, kind):
    says, agent = KINDS[kind](scripted_llm, WRONG, RIGHT)
    output, streamed_text, verdict, memory = await ask(agent)
    assert str(output) == RIGHT
    assert (verdict["outcome"], [a["text"] for a in verdict["attempts"]]) == (
        "supported",
        [WRONG, RIGHT],
    )
    assert len(says.seen_prompts) == 3, "the tools were asked again"
    assert "1755" in says.seen_prompts[-1], "the model was not told"
    assert "1755" not in streamed_text + memory, "a rejected draft was shown or kept"
    assert RIGHT in streamed_text
    assert RIGHT in memory


@pytest.mark.parametrize("kind", KINDS)
async def test_a_right_answer_costs_no_call(scripted_llm, kind):
    says, agent = KINDS[kind](scripted_llm, RIGHT)
    output, _, verdict, _ = await ask(agent)
    assert (str(output), verdict["outcome"], len(says.seen_prompts)) == (
        RIGHT,
        "supported",
        2,
    )


@pytest.mark.parametrize("kind", KINDS)
async def test_an_unsupported_answer_is_not_sent_where_the_loop_abstains(
    scripted_llm, kind
):
    _, agent = KINDS[kind](
        scripted_llm, WRONG, limits=LoopLimits(attempts=1), unsupported="abstain"
    )
    output, streamed_text, verdict, memory = await ask(agent)
    assert verdict["outcome"] == "abstained"
    assert "1755" not in str(output) + streamed_text + memory


async def test_a_react_agent_that_looks_again_is_given_its_search(scripted_llm):
    reply_text = [
        "Thought: I know.\nAnswer: " + WRONG,
        LOOKS_UP,
        "Thought: I know.\nAnswer: " + RIGHT,
    ]
    _, agent = reacting(scripted_llm, LOOKS_UP, *reply_text)
    output, _, verdict, memory = await ask(agent)
    assert (str(output), [a["text"] for a in verdict["attempts"]]) == (
        RIGHT,
        [WRONG, RIGHT],
    )
    assert "1755" not in memory


async def test_a_reply_that_a_react_agent_cannot_read_is_left_to_it(scripted_llm):
    _, agent = reacting(
        scripted_llm,
        LOOKS_UP,
        "Thought: x\nAction: search\nAction Input: no json",
        f"Thought: so.\nAnswer: {RIGHT}",
    )
    output, _, verdict, _ = await ask(agent)
    assert (str(output), verdict["outcome"]) == (RIGHT, "supported")


async def test_what_a_program_prints_of_itself_is_no_evidence(scripted_llm):
    says = Says(f'<execute>\nprint("{WRONG}")\n</execute>', WRONG)
    output, _, verdict, _ = await ask(
        Checked(CodeActAgent(run_code, name="guide", llm=scripted_llm(says)))
    )
    assert (str(output), verdict["outcome"]) == (WRONG, "unknown")


class Town(BaseModel):
    """An object to answer with."""

    town: str


def guide(script, **settings):
    llm = Calling(script=script)
    return FunctionAgent(
        name="guide", description="knows towers", tools=[search], llm=llm, **settings
    )


def script(*steps):
    remaining_steps = list(steps)

    def reply(messages, **kwargs):
        step = (
            remaining_steps.pop(0) if len(remaining_steps) > 1 else remaining_steps[0]
        )
        if isinstance(step, tuple):
            return calls(step[0], **step[1])
        return ChatMessage(role="assistant", content=step)

    return reply


LOOK = ("search", {"query": "red tower"})


async def test_every_agent_of_a_workflow_is_checked_across_a_handoff():
    desk = FunctionAgent(
        name="desk",
        description="passes questions on",
        llm=Calling(
            script=script(("handoff", {"to_agent": "guide", "reason": WRONG}), "x")
        ),
        can_handoff_to=["guide"],
    )
    workflow = Checked(
        AgentWorkflow(
            agents=[desk, guide(script(LOOK, WRONG, RIGHT), can_handoff_to=[])],
            root_agent="desk",
        )
    )
    output, streamed_text, verdict, _ = await ask(workflow)
    assert (str(output), verdict["outcome"]) == (RIGHT, "supported")
    assert WRONG not in streamed_text


@pytest.mark.parametrize(
    ("town", "outcome"), [("Porto", "supported"), ("Lisbon", "unsupported")]
)
@pytest.mark.parametrize("whose", ["workflow", "agent"])
async def test_a_workflows_object_is_judged_by_its_fields(town, outcome, whose):
    built = {"structured_output_fn": lambda messages: Town(town=town).model_dump()}
    agent = guide(script(LOOK, RIGHT), **(built if whose == "agent" else {}))
    workflow = AgentWorkflow(agents=[agent], **(built if whose == "workflow" else {}))
    output, _, verdict, _ = await ask(Checked(workflow))
    if whose == "agent" and version("llama-index-core").startswith("0.13."):
        assert output.structured_response is None, (
            "this LlamaIndex makes none of an agent's in a workflow"
        )
        return
    assert output.structured_response == {"town": town}, "the object comes back whole"
    assert (verdict["structured"]["outcome"], verdict["outcome"]) == (outcome, outcome)


@pytest.mark.parametrize(
    ("reply_text", "outcome"), [(RIGHT, "supported"), (WRONG, "unsupported")]
)
@pytest.mark.parametrize("full_answer", [False, True])
async def test_what_a_tool_returns_directly_is_judged_by_its_sources(
    scripted_llm, reply_text, outcome, full_answer
):
    engine = inner(scripted_llm(lambda messages: reply_text))
    tool = QueryEngineTool.from_defaults(
        engine, name="search", description="towers", return_direct=True
    )
    asks = LOOKS_UP.replace('"query"', '"input"')
    agent = ReActAgent(
        name="guide",
        description="x",
        tools=[tool],
        llm=scripted_llm(lambda messages: asks),
        streaming=False,
    )
    output, _, verdict, _ = await ask(
        Checked(AgentWorkflow(agents=[agent]) if full_answer else agent)
    )
    assert (str(output), verdict["outcome"]) == (reply_text, outcome)


async def test_an_agent_that_was_run_can_be_checked_and_stays_as_it_is():
    agent = guide(script(LOOK, WRONG, LOOK, WRONG, RIGHT))
    assert str(await agent.run(user_msg=QUESTION)) == WRONG
    assert str(await Checked(agent).run(user_msg=QUESTION)) == RIGHT
    assert type(agent) is FunctionAgent


async def test_an_answer_restated_on_the_same_context_is_judged_by_what_it_rested_on(
    scripted_llm,
):
    says, agent = reacting(
        scripted_llm,
        LOOKS_UP,
        f"Thought: I know.\nAnswer: {RIGHT}",
        "Thought: I said it.\nAnswer: In Porto.",
    )
    ctx = Context(agent)
    for message in (QUESTION, "Say that again, shorter."):
        output = await agent.run(user_msg=message, ctx=ctx)
        assert output.metadata["denoise"]["outcome"] == "supported"
    assert len(says.seen_prompts) == 3
    fresh = await agent.run(user_msg="Say that again, shorter.")
    assert fresh.metadata["denoise"]["outcome"] == "unknown"
