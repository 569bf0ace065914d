"""`Checked` of agents and of whole workflows: what is sent, fed back, streamed and remembered."""

import json
from importlib.metadata import version

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.tools import QueryEngineTool
from llama_index.core.workflow import Context
from llamaindex_agents import (
    AGENTS,
    LOOK,
    LOOK_IN_REACT,
    RIGHT,
    WRONG,
    Says,
    ask,
    ask_function_agent,
    function_agent,
    react_agent,
)
from llamaindex_doubles import calls
from llamaindex_engines import inner
from packaging.version import Version

from denoise_core.augmenter import LoopLimits
from llamaindex_denoise import Checked

every_kind = pytest.mark.parametrize("make_agent", AGENTS.values(), ids=AGENTS)


@every_kind
async def test_a_wrong_answer_goes_back_with_the_reasons(make_agent):
    says = Says(LOOK, WRONG, RIGHT)
    run = await ask(Checked(make_agent(says)))
    assert run.text == RIGHT
    assert run.outcome == "supported"
    assert run.drafts == [WRONG, RIGHT]
    assert [a["outcome"] for a in run.verdict["attempts"]] == ["fail", "pass"]
    assert json.loads(json.dumps(run.verdict)) == run.verdict
    assert len(says.seen_prompts) == 3, "the tools were asked again"
    before_draft, _, after_draft = says.seen_prompts[-1].rpartition(WRONG)
    assert before_draft
    assert "1755" in after_draft, "the model was not told"
    assert "1755" not in run.streamed_text, "a rejected draft was shown"
    assert "1755" not in run.memory
    assert RIGHT in run.streamed_text
    assert run.memory.endswith(RIGHT)


@every_kind
async def test_an_abstention_is_what_is_streamed_and_remembered(make_agent):
    agent = make_agent(Says(LOOK, f"{RIGHT} {WRONG}"))
    limits = LoopLimits(attempts=1, unsupported="abstain")
    run = await ask(Checked(agent, limits=limits))
    assert run.outcome == "abstained"
    assert "1755" not in run.text + run.streamed_text + run.memory
    assert run.streamed_text.endswith(run.text)
    assert run.memory.endswith(run.text)


@pytest.mark.parametrize(("attempts", "drafts"), [(1, 1), (2, 2), (4, 3)])
async def test_drafts_are_bounded_and_the_best_is_sent(attempts, drafts):
    """The loop ends at a repeated draft too."""
    worse = "A green castle fell in 1812 and 1813."
    limits = LoopLimits(attempts=attempts, patience=9)
    says, run = await ask_function_agent(LOOK, WRONG, worse, limits=limits)
    assert len(says.seen_prompts) == 1 + drafts
    assert run.text == WRONG
    assert run.outcome == "unsupported"
    assert run.streamed_text == WRONG
    assert run.memory.endswith(WRONG)
    assert worse not in run.memory


@pytest.mark.parametrize("make_agent", [function_agent, react_agent])
async def test_an_agent_may_look_again_after_a_rejection(make_agent):
    says = Says(LOOK, WRONG, LOOK, WRONG, RIGHT)
    run = await ask(Checked(make_agent(says)))
    assert run.text == RIGHT
    assert run.outcome == "supported"
    assert run.drafts == [WRONG, WRONG, RIGHT], "every attempt is told"
    assert WRONG in says.seen_prompts[3], "it looked again and forgot what was wrong"
    assert "1755" not in run.memory


async def test_two_runs_on_one_context_do_not_mix():
    says = Says(LOOK, WRONG, RIGHT, LOOK, WRONG, RIGHT)
    agent = Checked(function_agent(says))
    ctx = Context(agent)
    for _ in range(2):
        run = await ask(agent, ctx)
        assert run.drafts == [WRONG, RIGHT]
        assert run.memory.endswith(RIGHT)
        assert WRONG not in run.memory


async def test_what_llamaindex_writes_at_the_limit_of_iterations_is_checked_too():
    writes = "early_stopping_method" in FunctionAgent.model_fields
    settings = {"early_stopping_method": "generate"} if writes else {}
    agent = Checked(function_agent(Says(LOOK, RIGHT, WRONG), **settings))
    if not writes:  # older LlamaIndex raises at the limit
        with pytest.raises(Exception, match="Max iterations"):
            await ask(agent, max_iterations=2)
        return
    run = await ask(agent, max_iterations=2)
    assert run.text == WRONG, "LlamaIndex sends this instead of the verified answer"
    assert run.outcome == "unsupported"
    assert run.drafts == [WRONG]


async def test_a_run_that_was_broken_off_leaves_nothing_to_the_next():
    def breaks():
        raise ConnectionError("the model is down")

    says = Says(LOOK, WRONG, LOOK, breaks, RIGHT)
    agent = Checked(function_agent(says))
    ctx = Context(agent)
    with pytest.raises(Exception, match="the model is down"):
        await ask(agent, ctx)
    run = await ask(agent, ctx)
    assert run.text == RIGHT
    assert run.drafts == [RIGHT]
    assert WRONG not in run.memory


GUIDE = {"description": "", "can_handoff_to": []}


async def test_every_agent_of_a_workflow_is_checked_across_a_handoff():
    handoff = calls("handoff", to_agent="guide", reason=WRONG)
    settings = {"name": "desk", "tools": None, "can_handoff_to": ["guide"]}
    desk = function_agent(Says(handoff), description="passes on", **settings)
    guide = function_agent(Says(LOOK, WRONG, RIGHT), **GUIDE)
    run = await ask(Checked(AgentWorkflow(agents=[desk, guide], root_agent="desk")))
    assert run.text == RIGHT
    assert run.outcome == "supported"
    assert WRONG not in run.streamed_text


async def test_an_agent_reads_no_feedback_on_the_draft_of_another():
    handoff = calls("handoff", to_agent="guide", reason="x")
    settings = {**GUIDE, "name": "desk", "can_handoff_to": None}
    desk = function_agent(Says(LOOK, WRONG, handoff), **settings)
    says = Says(LOOK_IN_REACT, RIGHT)
    guide = react_agent(says, **GUIDE)
    run = await ask(Checked(AgentWorkflow(agents=[desk, guide], root_agent="desk")))
    assert run.text == RIGHT
    assert WRONG not in says.seen_prompts[0]


@pytest.mark.parametrize(
    ("town", "outcome"), [("Porto", "supported"), ("Lisbon", "unsupported")]
)
@pytest.mark.parametrize("whose", ["workflow", "agent"])
async def test_a_workflows_object_is_judged_by_its_fields(town, outcome, whose):
    settings = {"agent": {}, "workflow": {}}
    settings[whose]["structured_output_fn"] = lambda messages: {"town": town}
    agent = function_agent(Says(LOOK, RIGHT), description="", **settings["agent"])
    workflow = AgentWorkflow(agents=[agent], **settings["workflow"])
    run = await ask(Checked(workflow))
    if whose == "agent" and Version(version("llama-index-core")) < Version("0.14.24"):
        assert run.output.structured_response is None, (
            "this LlamaIndex makes none of an agent's in a workflow"
        )
        return
    assert run.output.structured_response == {"town": town}
    assert run.verdict["structured"]["outcome"] == outcome
    assert run.outcome == outcome


@pytest.mark.parametrize(
    ("reply_text", "outcome"), [(RIGHT, "supported"), (WRONG, "unsupported")]
)
@pytest.mark.parametrize("is_workflow", [False, True])
async def test_what_a_tool_returns_directly_is_judged_by_its_sources(
    reply_text, outcome, is_workflow
):
    settings = {"name": "search", "description": "towers", "return_direct": True}
    tool = QueryEngineTool.from_defaults(inner(reply_text), **settings)
    says = Says(LOOK_IN_REACT.replace('"query"', '"input"'))
    settings = {"tools": [tool], "description": "x", "streaming": False}
    agent = react_agent(says, **settings)
    if is_workflow:
        agent = AgentWorkflow(agents=[agent])
    run = await ask(Checked(agent))
    assert run.text == reply_text
    assert run.outcome == outcome


async def test_an_answer_restated_on_the_same_context_is_judged_by_what_it_rested_on():
    says = Says(LOOK, RIGHT, "In Porto.")
    agent = Checked(react_agent(says))
    ctx = Context(agent)
    for _ in range(2):
        run = await ask(agent, ctx)
        assert run.outcome == "supported"
    assert len(says.seen_prompts) == 3
    assert (await ask(agent)).outcome == "unknown"
