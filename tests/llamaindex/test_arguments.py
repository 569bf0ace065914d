"""What is said to a front door acts, what nothing reads is an error, and a question's bundle travels whole."""

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.agent.workflow.base_agent import BaseWorkflowAgent
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import QueryBundle
from llama_index.core.workflow import Workflow
from llamaindex_doubles import Calling
from llamaindex_engines import (
    QUESTION,
    RIGHT,
    Fixed,
    checked_engine,
    first_wrong_then_right,
    inner,
    nodes,
)

from denoise_core import Budget, InputError
from denoise_core.augmenter import Augmenter, Groundedness, LoopLimits
from llamaindex_denoise import Checked


def test_limits_and_what_becomes_of_an_unsupported_answer_act(scripted_llm):
    limits = LoopLimits(attempts=1, unsupported="abstain")
    engine = inner(scripted_llm(first_wrong_then_right))
    response = Checked(engine, limits=limits).query(QUESTION)
    note = response.metadata["denoise"]
    assert note["outcome"] == "abstained"
    assert len(note["attempts"]) == 1


@pytest.mark.parametrize(
    "setting",
    [
        {"keep": 2},
        {"utility": Groundedness()},
        {"top_n": 2},
        {"unsupported": "abstain"},
        {"budget": 3},
        {"limits": 2},
        {"judge": "gpt"},
        {"judge": Groundedness},
    ],
)
def test_an_unknown_setting_and_a_value_of_the_wrong_kind_are_errors(
    scripted_llm, setting
):
    for what in checkable(scripted_llm):
        with pytest.raises(InputError, match=next(iter(setting))):
            Checked(what, **setting)


def checkable(scripted_llm):
    """One of each kind."""
    llm, memory = (
        scripted_llm(lambda messages: RIGHT),
        ChatMemoryBuffer.from_defaults(token_limit=2000),
    )
    agent = FunctionAgent(name="guide", llm=Calling(script=None))
    chat = ContextChatEngine.from_defaults(Fixed(nodes()), llm=llm, memory=memory)
    return [
        inner(llm),
        chat,
        agent,
        AgentWorkflow(agents=[agent]),
    ]


def test_what_is_checked_is_a_copy_and_is_not_checked_twice(scripted_llm):
    for what in checkable(scripted_llm):
        before = dict(vars(what))
        restored = Checked(what)
        assert vars(what) == before
        assert isinstance(restored, (BaseQueryEngine, BaseChatEngine, Workflow))
        with pytest.raises(InputError, match="already"):
            Checked(restored)


@pytest.mark.parametrize(
    "wrong",
    [
        {"streaming": True},
        {"on_error": "raise"},
        {"no_evidence": "notes"},
    ],
)
def test_what_an_agent_does_not_read_is_an_error(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        Checked(FunctionAgent(name="guide", llm=Calling(script=None)), **wrong)


@pytest.mark.parametrize("is_workflow", [False, True])
@pytest.mark.parametrize("tool_name", ["note", "notes"])
def test_a_name_that_no_tool_has_is_refused(is_workflow, tool_name):
    def notes(query: str) -> str:
        """Reads the notebook."""
        return query

    agent = FunctionAgent(name="guide", tools=[notes], llm=Calling(script=None))
    if is_workflow:
        agent = AgentWorkflow(agents=[agent])
    if tool_name == "notes":
        assert Checked(agent, no_evidence={tool_name})
        return
    with pytest.raises(InputError, match=r"\['note'\]: no tool .* \['notes'\]"):
        Checked(agent, no_evidence={tool_name})


def test_a_tool_of_one_agent_among_several_may_be_named():
    def notes(query: str) -> str:
        """Reads the notebook."""
        return query

    llm = Calling(script=None)
    reader = FunctionAgent(name="reader", description="", tools=[notes], llm=llm)
    guide = FunctionAgent(name="guide", description="", llm=llm)
    workflow = AgentWorkflow(agents=[reader, guide], root_agent="guide")
    checked = Checked(workflow, no_evidence={"notes"})
    assert all(agent.no_evidence == {"notes"} for agent in checked.agents.values())


def test_an_agent_that_takes_nothing_back_is_refused():
    class Plain(BaseWorkflowAgent):
        async def take_step(self, ctx, llm_input, tools, memory):
            raise NotImplementedError

        handle_tool_call_results = finalize = take_step

    with pytest.raises(InputError, match="ReActAgent"):
        Checked(Plain(llm=Calling(script=None)))


def test_an_augmenter_and_its_settings_are_not_both_given(scripted_llm):
    with pytest.raises(InputError, match="Augmenter"):
        Checked(
            inner(scripted_llm(lambda messages: RIGHT)),
            augmenter=Augmenter(),
            budget=Budget(calls=1),
        )


BUNDLE = QueryBundle(
    QUESTION, image_path="a.png", custom_embedding_strs=["towers"], embedding=[0.5] * 8
)


async def test_the_bundle_arrives_whole(scripted_llm):
    retriever = Fixed(nodes())
    engine = checked_engine(scripted_llm, retriever=retriever)
    engine.query(BUNDLE)
    await engine.aquery(BUNDLE)
    assert len(retriever.queries) == 2
    assert all(q == BUNDLE for q in retriever.queries)
    assert BUNDLE.query_str == QUESTION  # feedback went into a copy


async def test_feedback_stands_in_the_words_and_not_in_the_vector(scripted_llm):
    heard = []

    class Whole(type(inner(scripted_llm(lambda messages: RIGHT)))):
        def synthesize(self, query_bundle, nodes, additional_source_nodes=None):
            heard.append(query_bundle)
            return super().synthesize(query_bundle, nodes, additional_source_nodes)

    plain_result = inner(scripted_llm(first_wrong_then_right))
    full_answer = Whole(plain_result._retriever, plain_result._response_synthesizer)
    Checked(full_answer).query(BUNDLE)
    first, second = heard
    assert first == BUNDLE
    assert "Lisbon" in second.query_str
    assert second.embedding == [0.5] * 8
    assert second.custom_embedding_strs == ["towers"]
    assert second.image_path == "a.png"
