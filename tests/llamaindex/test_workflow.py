"""The loop as a workflow: same answers as the query engine, a state that can be stored and resumed anywhere."""

import asyncio
import json

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.workflow import Context
from llamaindex_doubles import Calling
from workflows.errors import WorkflowRuntimeError

from denoise_core import Budget, InputError, Message, Price
from denoise_core.augmenter import Augmenter
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from denoise_core.text.chunk import sentences
from llamaindex_denoise import AugmentedQueryEngine, AugmentedWorkflow, LlamaLLM, RetrieverAdapter, record
from llamaindex_denoise.agents.workflow import AskEvent, ProgressEvent, TurnEvent

QUESTION = "Where is the red tower?"
RIGHT, WRONG = "The red tower is in Porto. [1]", "The red tower is in Lisbon, built in 1755."


class Fixed(BaseRetriever):
    def _retrieve(self, query_bundle):
        texts = ["The red tower is in Porto. Bread is cheap there.", "The blue bridge crosses the river."]
        return [
            NodeWithScore(
                node=TextNode(
                    text=t, id_=f"n{i}", metadata={"page": i}, embedding=[1.0], excluded_llm_metadata_keys=["page"]
                ),
                score=0.9 - i / 10,
            )
            for i, t in enumerate(texts)
        ]


def mends(messages):
    return RIGHT if "Lisbon" in " ".join(m.content or "" for m in messages) else WRONG


def augmenter(scripted, reply=mends, usage=None, **settings):
    return Augmenter(LlamaLLM(scripted(reply, usage)), RetrieverAdapter(Fixed()), **settings)


def denoised(scripted):
    scorer = FunctionScorer(lambda q, t: float("red" in t))
    return augmenter(scripted, denoiser=ENDDenoiser(scorer, threshold=0.5, chunker=sentences))


@pytest.mark.parametrize("build", [augmenter, denoised])
async def test_it_answers_as_the_query_engine_does(scripted, build):
    result = await AugmentedWorkflow(build(scripted)).run(question=QUESTION)
    response = result.response()
    expected = await AugmentedQueryEngine(build(scripted)).aquery(QUESTION)
    assert result.outcome == "supported"
    assert response.response == expected.response == RIGHT
    ours, theirs = response.metadata.pop("denoise"), expected.metadata.pop("denoise")
    assert {k: (v, theirs[k]) for k, v in ours.items() if v != theirs[k]} == {}
    assert response.metadata == expected.metadata
    assert [n.node.node_id for n in response.source_nodes] == [n.node.node_id for n in expected.source_nodes]
    for ours, theirs in zip(response.source_nodes, expected.source_nodes):
        assert ours.score == theirs.score
        assert ours.node.text == theirs.node.text
        assert ours.node.excluded_llm_metadata_keys == theirs.node.excluded_llm_metadata_keys
        assert record(ours.node) == record(theirs.node)


async def test_the_stream_shows_turns_and_no_draft(scripted):
    handler = AugmentedWorkflow(augmenter(scripted)).run(question=QUESTION)
    events = [e async for e in handler.stream_events() if isinstance(e, ProgressEvent)]
    await handler
    assert [e.last_action for e in events][:3] == [None, "Search", "Draft"]
    assert events[-1].attempts == 2
    assert not any("Lisbon" in e.model_dump_json() for e in events)


class FidelityGate:
    """Lets so many searches and drafts through, then keeps whoever comes until the run is cancelled."""

    def __init__(self, open_for):
        self.open_for = open_for

    async def __call__(self):
        if self.open_for == 0:
            await asyncio.Event().wait()
        self.open_for -= 1


class GatedModel(Calling):
    gate: object

    async def achat(self, messages, **kwargs):
        await self.gate()
        return ChatResponse(message=ChatMessage(role="assistant", content=mends(messages)))


class GatedSearch(Fixed):
    def __init__(self, gate):
        self.gate = gate
        super().__init__()

    async def _aretrieve(self, query_bundle):
        await self.gate()
        return self._retrieve(query_bundle)


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
async def test_it_goes_on_in_another_process_where_it_stood(scripted, turns):
    """The state after so many turns, through JSON, into a new workflow with new parts."""
    whole = await AugmentedWorkflow(augmenter(scripted)).run(question=QUESTION)

    gate = FidelityGate(min(turns, 2))  # the third turn asks nobody, the fourth waits for its draft
    stops = Augmenter(LlamaLLM(GatedModel(script=None, gate=gate)), RetrieverAdapter(GatedSearch(gate)))
    workflow = AugmentedWorkflow(stops)
    ctx = Context(workflow)
    handler = workflow.run(question=QUESTION, ctx=ctx)
    actions = []
    async for event in handler.stream_events():
        actions += [event.last_action] if isinstance(event, ProgressEvent) else []
        if len(actions) == turns + 1:
            break
    stored = json.dumps(ctx.to_dict())
    await handler.cancel_run()

    llm = scripted(mends)
    second = AugmentedWorkflow(Augmenter(LlamaLLM(llm), RetrieverAdapter(Fixed())))
    result = await second.run(ctx=Context.from_dict(second, json.loads(stored)))
    assert result.text == whole.text
    assert result.outcome == "supported"
    assert result.record == whole.record
    assert len(llm.asked) == 2 - actions.count("Draft"), "work that was done was done again"


def test_the_state_is_plain_json(scripted):
    async def finished():
        return await AugmentedWorkflow(denoised(scripted)).run(question=QUESTION)

    result = asyncio.run(finished())
    for data in (result.memory, result.nodes, result.record):
        assert json.loads(json.dumps(data)) == data
    assert result.nodes["n0"]["node"]["__data__"]["embedding"] is None
    event = TurnEvent(memory=result.memory, nodes=result.nodes, spent={"calls": 1.0})
    assert TurnEvent.model_validate_json(event.model_dump_json()) == event


@pytest.mark.parametrize(
    ("budget", "stop"),
    [
        (Budget(calls=2), "budget"),
        (Budget(tokens=100), "budget"),
        (Budget(money=0.0001, price=Price(1.0, 1.0)), "budget"),
        (Budget(seconds=0.0), "deadline"),
    ],
)
async def test_the_budget_holds_over_all_turns(scripted, budget, stop):
    used = {"prompt_tokens": 60, "completion_tokens": 50}
    settings = {"reply": lambda m: WRONG, "usage": used, "budget": budget}
    result = await AugmentedWorkflow(augmenter(scripted, **settings)).run(question=QUESTION)
    expected = augmenter(scripted, **settings).answer(QUESTION)
    assert result.record["stopped_because"] == stop
    assert result.record["stopped_because"] == expected.stopped_because
    assert len(result.record["attempts"]) == len(expected.memory.attempts)


async def test_what_comes_back_prints_as_its_answer(scripted):
    result = await AugmentedWorkflow(augmenter(scripted)).run(question=QUESTION)
    assert str(result) == f"{result}" == RIGHT


@pytest.mark.parametrize(
    "history",
    [
        [ChatMessage(role="user", content="I am in Portugal."), ChatMessage(role="tool", content="left out")],
        [Message("user", "I am in Portugal.")],
        [{"role": "user", "content": "I am in Portugal."}],
    ],
)
async def test_history_takes_messages_as_the_engines_do(scripted, history):
    workflow = AugmentedWorkflow(augmenter(scripted))
    await workflow.run(question=QUESTION, history=history)
    asked = workflow.augmenter.llm.model.asked[0]
    assert "I am in Portugal." in str(asked)
    assert "left out" not in str(asked)
    with pytest.raises(ValueError, match="expected a list of ChatMessages, got a str"):
        AskEvent(question=QUESTION, history="I am in Portugal.")


async def test_history_goes_to_the_model(scripted):
    llm = scripted(lambda m: RIGHT)
    workflow = AugmentedWorkflow(Augmenter(LlamaLLM(llm), RetrieverAdapter(Fixed())))
    await workflow.run(question=QUESTION, history=[{"role": "user", "content": "I am in Portugal."}])
    assert "I am in Portugal." in " ".join(m.content for m in llm.asked[0])


async def test_bad_input_is_named(scripted):
    # The first workflows wrap what a step raises, and keep its words.
    with pytest.raises((InputError, WorkflowRuntimeError), match="not blank"):
        await AugmentedWorkflow(augmenter(scripted)).run(question=" ")
    with pytest.raises(InputError, match="expected a denoise_core Augmenter"):
        AugmentedWorkflow("x")
