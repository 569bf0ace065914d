"""Function agents with checked answers: what is sent, streamed, remembered and told, and what is evidence."""

import json

import pytest
from llama_index.core.agent.workflow import AgentStream, FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import Response
from llama_index.core.chat_engine.types import AgentChatResponse
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import (
    FunctionTool,
    QueryEngineTool,
    RetrieverTool,
    ToolOutput,
)
from llama_index.core.workflow import Context
from llamaindex_doubles import Calling, calls
from llamaindex_engines import Fixed, always, checked_engine, nodes

from denoise_core.augmenter import LoopLimits, WorkingMemory
from denoise_core.augmenter.drafting.contamination import split_evidence
from denoise_core.augmenter.drafting.drafter import DraftReply
from llamaindex_denoise import (
    Checked,
    VerificationEvent,
)
from llamaindex_denoise.agents.checked import evidence_from_calls

QUESTION = "Where is the red tower?"
RIGHT, WRONG = "The red tower is in Porto.", "The red tower was built in 1755."


class Script:
    """What a model does, step by step; the last line for ever. ``asked``: each call's messages."""

    def __init__(self, *steps):
        self.steps, self.seen_prompts = list(steps), []

    def __call__(self, messages, **kwargs):
        self.seen_prompts.append(
            [(message.role.value, message.content) for message in messages]
        )
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        return step() if callable(step) else ChatMessage(role="assistant", content=step)


def look_up():
    return calls("search", query="red tower")


def search(query: str) -> str:
    """Look something up."""
    return "The red tower is in Porto. Bread is cheap there."


def agent_with(script, tools=(search,), **settings):
    llm = Calling(script=script)
    wrapped = [
        t
        if not callable(t) or hasattr(t, "metadata")
        else FunctionTool.from_defaults(t)
        for t in tools
    ]
    of_agents = (
        "streaming",
        "description",
        "structured_output_fn",
        "output_cls",
        "early_stopping_method",
    )
    own_value = {name: settings.pop(name) for name in of_agents if name in settings}
    return Checked(
        FunctionAgent(name="guide", llm=llm, tools=wrapped, **own_value), **settings
    )


async def ask(agent, question=QUESTION):
    """The output, what was streamed as text, the verdict, and what stays in the memory."""
    ctx = Context(agent)
    handler = agent.run(user_msg=question, ctx=ctx)
    streamed_text, verdicts = [], []
    async for event in handler.stream_events():
        if isinstance(event, AgentStream):
            streamed_text.append(event.delta)
        if isinstance(event, VerificationEvent):
            verdicts.append(event.record)
    output = await handler
    memory = await ctx.store.get("memory")
    assert await ctx.store.get("denoise") == verdicts[-1]
    return (
        str(output),
        [s for s in streamed_text if s],
        verdicts,
        [message.content for message in await memory.aget()],
    )


async def test_an_answer_that_fails_goes_back_with_the_reasons():
    script = Script(look_up, WRONG, RIGHT)
    text, streamed_text, (verdict,), memory = await ask(agent_with(script))
    assert text == RIGHT
    assert verdict["outcome"] == "supported"
    assert [a["outcome"] for a in verdict["attempts"]] == ["fail", "pass"]
    assert json.loads(json.dumps(verdict)) == verdict
    seen_events = script.seen_prompts[-1]
    assert seen_events[-2] == ("assistant", WRONG)
    assert seen_events[-1][0] == "user"
    assert "1755" in seen_events[-1][1]
    assert streamed_text == [RIGHT], "a rejected draft reached the user"
    assert WRONG not in memory
    assert not [m for m in memory if m and "1755" in m]
    assert memory[-1] == RIGHT


@pytest.mark.parametrize(
    ("attempts", "drafts"),
    [
        (1, 1),
        (2, 2),
        (4, 3),
    ],
)  # the loop ends at a repeated draft too
async def test_drafts_are_bounded_and_the_best_is_sent(attempts, drafts):
    worse = "A green castle fell in 1812 and 1813."
    script = Script(look_up, WRONG, worse)
    text, streamed_text, (verdict,), memory = await ask(
        agent_with(script, limits=LoopLimits(attempts=attempts, patience=9))
    )
    assert len(script.seen_prompts) == 1 + drafts
    assert (text, verdict["outcome"]) == (WRONG, "unsupported")
    assert streamed_text == [WRONG]
    assert memory[-1] == WRONG
    assert worse not in memory


async def test_an_abstention_is_what_is_streamed_and_remembered():
    script = Script(look_up, f"{RIGHT} {WRONG}")
    limits = LoopLimits(attempts=1, unsupported="abstain")
    text, streamed_text, (verdict,), memory = await ask(
        agent_with(script, limits=limits)
    )
    assert (verdict["outcome"], len(script.seen_prompts)) == ("abstained", 2)
    assert "1755" not in text
    assert "".join(streamed_text) == memory[-1] == text


async def test_a_search_for_a_rejected_drafts_own_words_is_no_evidence():
    def search(query: str) -> str:
        """Look something up."""
        return (
            "The tower was built in 1755, says a rumour."
            if "1755" in query
            else "The red tower is in Porto."
        )

    def looks_for_it():
        return calls("search", query="built in 1755")

    script = Script(look_up, WRONG, looks_for_it, WRONG, RIGHT)
    text, _, (verdict,), _ = await ask(agent_with(script, [search]))
    assert (text, verdict["outcome"]) == (RIGHT, "supported")
    assert [a["outcome"] for a in verdict["attempts"]] == ["fail", "fail", "pass"]


async def test_a_failing_tool_is_no_evidence():
    def search(query: str) -> str:
        """Look something up."""
        raise ConnectionError("the tower archive in Porto is down")

    _, _, (verdict,), _ = await ask(agent_with(Script(look_up, RIGHT), [search]))
    assert verdict["outcome"] == "unknown"


@pytest.mark.parametrize("kind", ["retriever tool", "query engine tool"])
async def test_evidence_is_the_source_nodes_of_tools(scripted_llm, kind):
    if kind == "retriever tool":
        tool = RetrieverTool.from_defaults(
            Fixed(nodes()), name="search", description="towers"
        )
    else:
        tool = QueryEngineTool.from_defaults(
            checked_engine(scripted_llm, always(RIGHT)),
            name="search",
            description="towers",
        )

    def call():
        return calls("search", input=QUESTION)

    text, _, (verdict,), _ = await ask(
        agent_with(Script(call, "The blue bridge is there.", RIGHT), [tool])
    )
    assert text in ("The blue bridge is there.", RIGHT)
    assert verdict["outcome"] == "supported"


async def test_an_agent_may_look_again_after_a_rejection():
    script = Script(look_up, WRONG, look_up, WRONG, RIGHT)
    text, _, verdicts, memory = await ask(agent_with(script))
    assert text == RIGHT
    assert verdicts[-1]["outcome"] == "supported"
    assert [a["text"] for a in verdicts[-1]["attempts"]] == [WRONG, WRONG, RIGHT], (
        "every attempt is told"
    )
    assert [a["outcome"] for a in verdicts[-1]["attempts"]] == ["fail", "fail", "pass"]
    assert [m for m in script.seen_prompts[3] if m == ("assistant", WRONG)], (
        "it looked again and forgot what was wrong"
    )
    assert WRONG not in memory


async def test_two_runs_on_one_context_do_not_mix():
    script = Script(look_up, WRONG, RIGHT, look_up, WRONG, RIGHT)
    agent = agent_with(script)
    ctx, memory = Context(agent), ChatMemoryBuffer.from_defaults(token_limit=4000)
    for _ in range(2):
        assert str(await agent.run(user_msg=QUESTION, ctx=ctx, memory=memory)) == RIGHT
        assert len((await ctx.store.get("denoise"))["attempts"]) == 2
    reply_text = [message.content for message in memory.get_all()]
    assert reply_text.count(RIGHT) == 2
    assert WRONG not in reply_text


async def test_what_llamaindex_writes_at_the_limit_of_iterations_is_checked_too():
    writes = (
        "early_stopping_method" in FunctionAgent.model_fields
    )  # older LlamaIndex raises at the limit
    agent = agent_with(
        Script(look_up, RIGHT, WRONG),
        **({"early_stopping_method": "generate"} if writes else {}),
    )
    ctx = Context(agent)
    handler = agent.run(user_msg=QUESTION, ctx=ctx, max_iterations=2)
    verdicts = [
        e.record
        async for e in handler.stream_events()
        if isinstance(e, VerificationEvent)
    ]
    if not writes:
        with pytest.raises(Exception, match="Max iterations"):
            await handler
        return
    assert str(await handler) == WRONG, (
        "LlamaIndex sends this in the place of the answer that was verified"
    )
    assert await ctx.store.get("denoise") == verdicts[-1]
    assert (verdicts[-1]["outcome"], verdicts[-1]["attempts"][-1]["text"]) == (
        "unsupported",
        WRONG,
    )


async def test_a_run_that_was_broken_off_leaves_nothing_to_the_next():
    def breaks():
        raise ConnectionError("the model is down")

    agent = agent_with(Script(look_up, WRONG, look_up, breaks, RIGHT))
    ctx = Context(agent)
    with pytest.raises(Exception, match="the model is down"):
        await agent.run(user_msg=QUESTION, ctx=ctx)
    assert str(await agent.run(user_msg=QUESTION, ctx=ctx)) == RIGHT
    assert [a["text"] for a in (await ctx.store.get("denoise"))["attempts"]] == [RIGHT]
    memory = await ctx.store.get("memory")
    assert WRONG not in [message.content for message in await memory.aget()]


def results(content, raw=None, name="t", **arguments):
    """What counts of one tool call, asked for a town."""
    output = ToolOutput(
        content=content, tool_name=name, raw_input={}, raw_output=raw or content
    )
    call = ToolCallResult(
        tool_name=name,
        tool_kwargs=arguments,
        tool_id="i",
        tool_output=output,
        return_direct=False,
    )
    counts, _ = split_evidence(
        DraftReply("", retrieved=evidence_from_calls([call], {"planner"})),
        WorkingMemory(QUESTION),
    )
    return [passage.text for passage in counts]


@pytest.mark.parametrize(
    ("content", "raw", "name", "arguments"),
    [
        ("It is in Lisbon.", Response("It is in Lisbon."), "t", {}),
        ("It is in Lisbon.", AgentChatResponse("It is in Lisbon."), "t", {}),
        ("It is in Lisbon.", ChatMessage("It is in Lisbon."), "t", {}),
        (
            "Agent b now handles it: it is in Lisbon.",
            None,
            "handoff",
            {"reason": "it is in Lisbon"},
        ),
        (
            "Saved note: the tower is in Lisbon.",
            None,
            "t",
            {"text": "The tower is in Lisbon."},
        ),
        (
            '{"status": "saved", "note": "The tower is in Lisbon."}',
            None,
            "t",
            {"text": "The tower is in Lisbon."},
        ),
        (
            "Notiz gespeichert: the tower is in Lisbon.",
            None,
            "t",
            {"text": "The tower is in Lisbon."},
        ),
        ("It is in Lisbon.", None, "planner", {}),
    ],
)
def test_the_models_own_words_are_no_evidence(content, raw, name, arguments):
    assert results(content, raw, name, **arguments) == []


def test_what_a_tool_brings_counts_and_what_it_repeats_at_length_does_not():
    assert results("The red tower is in Porto.", query="red tower of the north") == [
        "The red tower is in Porto."
    ]
    reply_text = "the tower stands in Lisbon since 1755"
    seen_events = (
        f"You asked: {reply_text}. Nothing on that. "
        "The register has two towers, one red, in Porto, and one in Braga."
    )
    (remaining_steps,) = results(seen_events, query=reply_text)
    assert "Lisbon" not in remaining_steps
    assert "one red, in Porto" in remaining_steps
    assert len(remaining_steps) == len(seen_events), "places stay"
