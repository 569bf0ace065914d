"""Chat engines, retriever tools and agents: the methods where people use them, and what must stay true there."""

import asyncio
import json

import pytest
from llama_index.core.agent.workflow import AgentStream, AgentWorkflow
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import Response
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool, RetrieverTool
from llama_index.core.workflow import Context
from llamaindex_doubles import Calling, calls

from denoise_core.augmenter import Augmenter, Groundedness
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from llamaindex_denoise import (
    AugmentedQueryEngine,
    DenoisePostprocessor,
    LlamaLLM,
    RetrieverAdapter,
    VerifiedFunctionAgent,
    VerifiedQueryTool,
    record,
)
from llamaindex_denoise.agents.function_agent import VerificationEvent

QUESTION = "Where is the red tower?"
RIGHT, WRONG = "The red tower is in Porto.", "The red tower was built in 1755."


class Fixed(BaseRetriever):
    def __init__(self, *texts):
        self.texts = texts or ("The red tower is in Porto. Bread is cheap there.", "The blue bridge.")
        super().__init__()

    def _retrieve(self, query_bundle):
        return [NodeWithScore(node=TextNode(text=t, id_=f"n{i}"), score=0.5) for i, t in enumerate(self.texts)]


class Listens:
    """A scorer that remembers the questions it was asked and keeps what says red."""

    def __init__(self):
        self.questions = []

    def score(self, query, texts):
        self.questions.append(query)
        return FunctionScorer(lambda q, t: float("red" in t)).score(query, texts)


def listening():
    scorer = Listens()
    return scorer, DenoisePostprocessor(denoiser=ENDDenoiser(scorer, threshold=0.5), on_error="raise")


CHATS = {
    "context": lambda llm, pp: ContextChatEngine.from_defaults(
        retriever=Fixed(),
        llm=llm,
        node_postprocessors=[pp],
        memory=ChatMemoryBuffer.from_defaults(token_limit=2000),
    ),
    "condense plus context": lambda llm, pp: CondensePlusContextChatEngine.from_defaults(
        retriever=Fixed(),
        llm=llm,
        node_postprocessors=[pp],
        memory=ChatMemoryBuffer.from_defaults(token_limit=2000),
    ),
}


@pytest.mark.parametrize("kind", CHATS)
@pytest.mark.parametrize("how", ["chat", "achat", "stream_chat", "astream_chat"])
async def test_chat_engines_denoise_the_context(scripted, kind, how):
    scorer, postprocessor = listening()
    llm = scripted(lambda m: "so it is")
    engine = CHATS[kind](llm, postprocessor)
    if how == "chat":
        response = engine.chat(QUESTION)
    elif how == "achat":
        response = await engine.achat(QUESTION)
    elif how == "stream_chat":
        response = engine.stream_chat(QUESTION)
        assert "".join(response.response_gen) == "so it is"
    else:
        response = await engine.astream_chat(QUESTION)
        assert "".join([t async for t in response.async_response_gen()]) == "so it is"
    assert [n.node.node_id for n in response.source_nodes] == ["n0"]
    assert record(response.source_nodes[0].node)["origin_id"] == "n0"
    assert scorer.questions == [QUESTION]
    seen = " ".join(m.content or "" for m in llm.asked[-1])
    assert "red tower" in seen
    assert "blue bridge" not in seen


@pytest.mark.parametrize("question", [QUESTION, "what input is valid?", "two\nlines", "input is odd"])
def test_a_retriever_tools_prefix_is_not_part_of_the_question(question):
    scorer, postprocessor = listening()
    tool = RetrieverTool.from_defaults(Fixed(), node_postprocessors=[postprocessor], description="towers")
    output = tool.call(input=question)
    later = asyncio.run(tool.acall(input=question))
    assert scorer.questions == [question, question]
    assert output.content == later.content == "The red tower is in Porto. Bread is cheap there.\n\n"


def engine_saying(scripted, text):
    return AugmentedQueryEngine(Augmenter(LlamaLLM(scripted(lambda m: text)), RetrieverAdapter(Fixed())))


@pytest.mark.parametrize(("text", "label"), [(RIGHT, ""), (WRONG, "(unsupported"), ("unknown", "(abstained")])
def test_the_tool_tells_the_agent_the_verdict(scripted, text, label):
    tool = VerifiedQueryTool.from_defaults(
        engine_saying(scripted, text), name="towers", description="about towers"
    )
    output = tool.call(QUESTION)
    later = asyncio.run(tool.acall(input=QUESTION))
    assert output.content == later.content
    assert output.content.startswith(label)
    assert output.content.endswith(text) or label == "(abstained"
    assert output.raw_output.metadata["denoise"]["outcome"] in ("supported", "unsupported", "abstained")
    assert (output.content == text) == (text == RIGHT)


class Script:
    """What a model does, step by step; the last line for ever. ``asked``: each call's messages."""

    def __init__(self, *steps):
        self.steps, self.asked = list(steps), []

    def __call__(self, messages, **kwargs):
        self.asked.append([(m.role.value, m.content) for m in messages])
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        return step() if callable(step) else ChatMessage(role="assistant", content=step)


def look_up():
    return calls("search", query="red tower")


def search(query: str) -> str:
    """Look something up."""
    return "The red tower is in Porto. Bread is cheap there."


def agent_with(script, tools=(search,), **settings):
    llm = Calling(script=script)
    wrapped = [t if not callable(t) or hasattr(t, "metadata") else FunctionTool.from_defaults(t) for t in tools]
    return VerifiedFunctionAgent(name="guide", llm=llm, tools=wrapped, **settings)


async def ask(agent, question=QUESTION):
    """The output, what was streamed as text, the verdict, and what stays in the memory."""
    ctx = Context(agent)
    handler = agent.run(user_msg=question, ctx=ctx)
    streamed, verdicts = [], []
    async for event in handler.stream_events():
        if isinstance(event, AgentStream):
            streamed.append(event.delta)
        if isinstance(event, VerificationEvent):
            verdicts.append(event.record)
    output = await handler
    memory = await ctx.store.get("memory")
    assert await ctx.store.get("denoise") == verdicts[-1]
    return str(output), [s for s in streamed if s], verdicts, [m.content for m in await memory.aget()]


async def test_an_answer_that_fails_goes_back_with_the_reasons():
    script = Script(look_up, WRONG, RIGHT)
    text, streamed, (verdict,), memory = await ask(agent_with(script))
    assert text == RIGHT
    assert verdict["outcome"] == "supported"
    assert [a["outcome"] for a in verdict["attempts"]] == ["fail", "pass"]
    assert json.loads(json.dumps(verdict)) == verdict
    told = script.asked[-1]
    assert told[-2] == ("assistant", WRONG)
    assert told[-1][0] == "user"
    assert "1755" in told[-1][1]
    assert streamed == [RIGHT], "a rejected draft reached the user"
    assert WRONG not in memory
    assert not [m for m in memory if m and "1755" in m]
    assert memory[-1] == RIGHT


async def test_a_right_answer_costs_no_further_call():
    script = Script(look_up, RIGHT)
    text, streamed, (verdict,), _ = await ask(agent_with(script))
    assert (text, verdict["outcome"], len(script.asked)) == (RIGHT, "supported", 2)
    assert streamed == [RIGHT]


@pytest.mark.parametrize("attempts", [1, 2, 4])
async def test_drafts_are_bounded_and_the_best_is_sent(attempts):
    worse = "A green castle fell in 1812 and 1813."
    script = Script(look_up, WRONG, worse)
    text, streamed, (verdict,), memory = await ask(agent_with(script, attempts=attempts))
    assert len(script.asked) == 1 + attempts
    assert (text, verdict["outcome"]) == (WRONG, "unsupported")
    assert streamed == [WRONG]
    assert memory[-1] == WRONG
    assert worse not in memory


async def test_without_tool_results_nothing_can_be_checked():
    script = Script("Hello!")
    text, _, (verdict,), _ = await ask(agent_with(script), "Hi")
    assert (text, verdict["outcome"], len(script.asked)) == ("Hello!", "unknown", 1)


async def test_a_failing_tool_is_no_evidence():
    def search(query: str) -> str:
        """Look something up."""
        raise ConnectionError("the tower archive in Porto is down")

    _, _, (verdict,), _ = await ask(agent_with(Script(look_up, RIGHT), [search]))
    assert verdict["outcome"] == "unknown"


async def test_a_judge_that_fails_is_no_pass_and_no_crash():
    class Breaks(Groundedness):
        def assess(self, memory, candidate):
            raise ConnectionError("judge is down")

    text, _, (verdict,), _ = await ask(agent_with(Script(look_up, RIGHT), utility=Breaks()))
    assert (text, verdict["outcome"]) == (RIGHT, "unknown")
    assert "judge is down" in verdict["attempts"][0]["reasons"][0]


async def test_a_mistake_of_the_judge_raises():
    class Breaks(Groundedness):
        def assess(self, memory, candidate):
            raise AttributeError("a typo in the judge")

    with pytest.raises(AttributeError, match="a typo in the judge"):
        await ask(agent_with(Script(look_up, RIGHT), utility=Breaks()))


@pytest.mark.parametrize("kind", ["retriever tool", "query engine tool"])
async def test_evidence_is_the_source_nodes_of_tools(scripted, kind):
    if kind == "retriever tool":
        tool = RetrieverTool.from_defaults(Fixed(), name="search", description="towers")
    else:
        tool = VerifiedQueryTool.from_defaults(engine_saying(scripted, RIGHT), name="search", description="towers")

    def call():
        return calls("search", input=QUESTION)

    text, _, (verdict,), _ = await ask(agent_with(Script(call, "The blue bridge is there.", RIGHT), [tool]))
    assert text in ("The blue bridge is there.", RIGHT)
    assert verdict["outcome"] == "supported"


async def test_an_agent_may_look_again_after_a_rejection():
    script = Script(look_up, WRONG, look_up, WRONG, RIGHT)
    text, _, verdicts, memory = await ask(agent_with(script))
    assert text == RIGHT
    assert verdicts[-1]["outcome"] == "supported"
    assert [a["text"] for a in verdicts[-1]["attempts"]] == [WRONG, WRONG, RIGHT], "every attempt is told"
    assert [a["outcome"] for a in verdicts[-1]["attempts"]] == ["fail", "fail", "pass"]
    assert WRONG not in memory


async def test_two_runs_on_one_context_do_not_mix():
    script = Script(look_up, WRONG, RIGHT, look_up, WRONG, RIGHT)
    agent = agent_with(script)
    ctx, memory = Context(agent), ChatMemoryBuffer.from_defaults(token_limit=4000)
    for _ in range(2):
        assert str(await agent.run(user_msg=QUESTION, ctx=ctx, memory=memory)) == RIGHT
        assert len((await ctx.store.get("denoise"))["attempts"]) == 2
    said = [m.content for m in memory.get_all()]
    assert said.count(RIGHT) == 2
    assert WRONG not in said


async def test_what_llamaindex_writes_at_the_limit_of_iterations_is_checked_too():
    writes = "early_stopping_method" in VerifiedFunctionAgent.model_fields  # older LlamaIndex raises at the limit
    agent = agent_with(Script(look_up, RIGHT, WRONG), **({"early_stopping_method": "generate"} if writes else {}))
    ctx = Context(agent)
    handler = agent.run(user_msg=QUESTION, ctx=ctx, max_iterations=2)
    verdicts = [e.record async for e in handler.stream_events() if isinstance(e, VerificationEvent)]
    if not writes:
        with pytest.raises(Exception, match="Max iterations"):
            await handler
        return
    assert str(await handler) == WRONG, "LlamaIndex sends this in the place of the answer that was verified"
    assert await ctx.store.get("denoise") == verdicts[-1]
    assert (verdicts[-1]["outcome"], verdicts[-1]["attempts"][-1]["text"]) == ("unsupported", WRONG)


async def test_a_run_that_was_broken_off_leaves_nothing_to_the_next():
    def breaks():
        raise ConnectionError("the model is down")

    agent = agent_with(Script(look_up, WRONG, breaks, RIGHT))
    ctx = Context(agent)
    with pytest.raises(Exception, match="the model is down"):
        await agent.run(user_msg=QUESTION, ctx=ctx)
    assert str(await agent.run(user_msg=QUESTION, ctx=ctx)) == RIGHT
    assert [a["text"] for a in (await ctx.store.get("denoise"))["attempts"]] == [RIGHT]
    memory = await ctx.store.get("memory")
    assert WRONG not in [m.content for m in await memory.aget()]


async def test_without_streaming_and_inside_an_agent_workflow():
    workflow = AgentWorkflow(
        agents=[agent_with(Script(look_up, WRONG, RIGHT), streaming=False)], root_agent="guide"
    )
    assert str(await workflow.run(user_msg=QUESTION)) == RIGHT


async def test_the_context_can_be_stored_and_restored():
    agent = agent_with(Script(look_up, WRONG, RIGHT, "Hello again!"))
    ctx = Context(agent)
    await agent.run(user_msg=QUESTION, ctx=ctx)
    restored = Context.from_dict(agent, json.loads(json.dumps(ctx.to_dict())))
    assert (await restored.store.get("denoise"))["outcome"] == "supported"
    assert str(await agent.run(user_msg="Hi", ctx=restored)) == "Hello again!"


def test_evidence_of_a_response_without_sources_is_its_text():
    from llama_index.core.agent.workflow import ToolCallResult
    from llama_index.core.tools import ToolOutput

    from llamaindex_denoise.agents.function_agent import evidence_of

    output = ToolOutput(content="so", tool_name="t", raw_input={}, raw_output=Response("so"))
    call = ToolCallResult(tool_name="t", tool_kwargs={}, tool_id="i", tool_output=output, return_direct=False)
    assert [(p.id, p.text) for p in evidence_of([call, call])] == [("i", "so")]
