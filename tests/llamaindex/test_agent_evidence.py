"""What counts as evidence for an agent's answer: what its tools bring, never what a model wrote."""

import pytest
from llama_index.core.agent.workflow import ToolCallResult
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import Response
from llama_index.core.chat_engine.types import AgentChatResponse
from llama_index.core.query_engine import CitationQueryEngine
from llama_index.core.tools import QueryEngineTool, RetrieverTool, ToolOutput
from llamaindex_agents import (
    LOOK,
    QUESTION,
    RIGHT,
    WRONG,
    Says,
    ask,
    ask_function_agent,
    code_agent,
)
from llamaindex_doubles import calls, scripted_llm
from llamaindex_engines import Fixed, checked_engine, nodes

from denoise_core.augmenter import WorkingMemory
from denoise_core.augmenter.drafting.contamination import split_evidence
from llamaindex_denoise import Checked
from llamaindex_denoise.agents.checked import evidence_from_calls


async def test_a_search_for_a_rejected_drafts_own_words_is_no_evidence():
    def search(query: str):
        """Look something up."""
        if "1755" in query:
            return "The tower was built in 1755, says a rumour."
        return RIGHT

    looks_for_it = calls("search", query="built in 1755")
    lines = (LOOK, WRONG, looks_for_it, WRONG, RIGHT)
    _, run = await ask_function_agent(*lines, tools=[search])
    assert run.text == RIGHT
    assert run.outcome == "supported"
    assert [a["outcome"] for a in run.verdict["attempts"]] == ["fail", "fail", "pass"]


async def test_a_failing_tool_is_no_evidence():
    def search(query: str):
        """Look something up."""
        raise ConnectionError("the tower archive in Porto is down")

    _, run = await ask_function_agent(LOOK, RIGHT, tools=[search])
    assert run.outcome == "unknown"


async def test_what_a_program_prints_of_itself_is_no_evidence():
    says = Says(f'<execute>\nprint("{WRONG}")\n</execute>', WRONG)
    run = await ask(Checked(code_agent(says)))
    assert run.text == WRONG
    assert run.outcome == "unknown"


@pytest.mark.parametrize("kind", ["retriever tool", "query engine", "citing engine"])
async def test_evidence_is_the_source_nodes_of_tools(kind):
    settings = {"name": "search", "description": "towers"}
    if kind == "retriever tool":
        tool = RetrieverTool.from_defaults(Fixed(nodes()), **settings)
    else:
        engine = checked_engine(RIGHT)
        if kind == "citing engine":
            engine = CitationQueryEngine(Fixed(nodes()), scripted_llm(RIGHT))
        tool = QueryEngineTool.from_defaults(engine, **settings)
    asks = calls("search", input=QUESTION)
    # A number counts the passages only where these say their numbers.
    cited = f"{RIGHT} [{1 if kind == 'citing engine' else 7}]"
    _, run = await ask_function_agent(asks, WRONG, cited, tools=[tool])
    assert run.text == cited
    assert run.outcome == "supported"
    assert bool(run.verdict["citations"]) is (kind == "citing engine")


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
    (evidence,) = evidence_from_calls([call], {"planner"})
    counts, _ = split_evidence(evidence, WorkingMemory(QUESTION))
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
        ("It is in Lisbon.", None, "planner", {}),
    ],
)
def test_the_models_own_words_are_no_evidence(content, raw, name, arguments):
    assert results(content, raw, name, **arguments) == []


def test_what_a_tool_brings_counts_and_what_it_repeats_at_length_does_not():
    assert results(RIGHT, query="red tower of the north") == [RIGHT]
    reply_text = "the tower stands in Lisbon since 1755"
    seen_events = (
        f"You asked: {reply_text}. Nothing on that. "
        "The register has two towers, one red, in Porto, and one in Braga."
    )
    (remaining_steps,) = results(seen_events, query=reply_text)
    assert "Lisbon" not in remaining_steps
    assert "one red, in Porto" in remaining_steps
    assert len(remaining_steps) == len(seen_events), "places stay"
