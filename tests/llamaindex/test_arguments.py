"""What is said to a front door acts, what nothing reads is an error, and a question's bundle travels whole."""

from dataclasses import replace

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.agent.workflow.base_agent import BaseWorkflowAgent
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import QueryBundle
from llama_index.core.workflow import Workflow
from llamaindex_doubles import Calling, scripted_llm
from llamaindex_engines import (
    QUESTION,
    RIGHT,
    Fixed,
    first_wrong_then_right,
    inner,
    nodes,
)

from denoise_core import Budget, InputError
from denoise_core.augmenter import Augmenter, Groundedness
from llamaindex_denoise import Checked


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
def test_an_unknown_setting_and_a_value_of_the_wrong_kind_are_errors(setting):
    for what in checkable():
        with pytest.raises(InputError, match=next(iter(setting))):
            Checked(what, **setting)


def checkable():
    llm = scripted_llm(RIGHT)
    memory = ChatMemoryBuffer.from_defaults(token_limit=2000)
    agent = FunctionAgent(name="guide", llm=Calling(script=None))
    chat = ContextChatEngine.from_defaults(Fixed(nodes()), llm=llm, memory=memory)
    return [
        inner(llm),
        chat,
        agent,
        AgentWorkflow(agents=[agent]),
    ]


def test_what_is_checked_is_a_copy_and_is_not_checked_twice():
    for what in checkable():
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
def test_a_name_that_no_tool_has_is_refused(is_workflow):
    def notes(query: str):
        """Reads the notebook."""
        return query

    agent = FunctionAgent(name="guide", tools=[notes], llm=Calling(script=None))
    if is_workflow:
        agent = AgentWorkflow(agents=[agent])
    assert Checked(agent, no_evidence={"notes"})
    with pytest.raises(InputError, match="no 'note'; did you mean 'notes'"):
        Checked(agent, no_evidence={"note"})


def test_an_agent_that_takes_nothing_back_is_refused():
    class Plain(BaseWorkflowAgent):
        async def take_step(self, ctx, llm_input, tools, memory):
            raise NotImplementedError

        handle_tool_call_results = finalize = take_step

    with pytest.raises(InputError, match="ReActAgent"):
        Checked(Plain(llm=Calling(script=None)))


def test_an_augmenter_and_its_settings_are_not_both_given():
    with pytest.raises(InputError, match="Augmenter"):
        Checked(
            inner(RIGHT),
            augmenter=Augmenter(),
            budget=Budget(calls=1),
        )


BUNDLE = QueryBundle(
    QUESTION, image_path="a.png", custom_embedding_strs=["towers"], embedding=[0.5] * 8
)


async def test_feedback_stands_in_the_words_and_not_in_the_vector():
    heard = []
    plain = inner(first_wrong_then_right)

    class Whole(type(plain)):
        def synthesize(self, query_bundle, nodes, additional_source_nodes=None):
            heard.append(query_bundle)
            return super().synthesize(query_bundle, nodes, additional_source_nodes)

    whole = Whole(plain._retriever, plain._response_synthesizer)
    Checked(whole).query(BUNDLE)
    first, second = heard
    assert first == BUNDLE
    assert "Lisbon" in second.query_str
    assert replace(second, query_str=QUESTION) == BUNDLE
