"""A checked query engine answers with what was checked, from the user's nodes, and holds streams till then."""

import asyncio
import itertools
import json

import pytest
from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.instrumentation.events.query import QueryEndEvent, QueryStartEvent
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import CustomQueryEngine
from llamaindex_denoisers import ids_of
from llamaindex_engines import (
    QUESTION,
    RIGHT,
    WRONG,
    Fixed,
    always,
    both,
    checked_engine,
    inner,
    nodes,
    outcome_of,
)

from denoise_core import Budget, InputError
from denoise_core.augmenter import Augmenter
from llamaindex_denoise import Checked, LlamaLLM
from llamaindex_denoise.models.retriever import LlamaRetriever


@pytest.fixture
def make(scripted_llm):
    return lambda *args, **settings: checked_engine(scripted_llm, *args, **settings)


def test_a_wrong_draft_is_told_what_is_wrong_and_mended(make):
    response = both(make)
    note = response.metadata["denoise"]
    assert response.response == RIGHT
    assert note["outcome"] == "supported"
    assert note["stopped_because"] == "passed"
    assert [a["outcome"] for a in note["attempts"]] == ["fail", "pass"]
    assert "1755" in note["attempts"][0]["feedback"]
    assert "failed" not in note
    assert json.loads(json.dumps(note)) == note


def test_an_answer_that_never_passes_is_sent_but_says_so(make):
    response = both(lambda: make(always(WRONG)))
    assert response.response == WRONG
    assert outcome_of(response) == "unsupported"


def test_sources_are_the_users_nodes(make):
    response = both(make)
    assert ids_of(response.source_nodes) == ["n0", "n1", "n2"]
    assert [hit.score for hit in response.source_nodes] == [0.9, 0.8, 0.7]
    assert [hit.node.metadata["page"] for hit in response.source_nodes] == [0, 1, 2]
    assert set(response.metadata) == {"n0", "n1", "n2", "denoise"}


def test_the_search_sees_the_question_and_never_the_feedback(make):
    retriever = Fixed(nodes())
    make(retriever=retriever).query(QUESTION)
    assert {q.query_str for q in retriever.queries} == {QUESTION}


def test_nothing_found_is_said_without_asking(make, scripted_llm):
    response = both(lambda: make(retriever=Fixed([])))
    assert outcome_of(response) in ("abstained", "unknown")
    assert response.metadata["denoise"]["stopped_because"] == "no_evidence"
    assert response.metadata["denoise"]["calls"] == 0
    assert response.source_nodes == []


def test_the_budget_holds(scripted_llm):
    drafts = itertools.count()
    llm = scripted_llm(lambda messages: f"{WRONG} It has {next(drafts)} floors.")
    response = Checked(inner(llm), budget=Budget(calls=2)).query(QUESTION)
    note = response.metadata["denoise"]
    assert note["stopped_because"] == "budget"
    assert len(note["attempts"]) <= 2
    assert note["calls"] == next(drafts) <= 2, "a call that was refused is no call"


def test_a_blank_question_is_refused(make):
    with pytest.raises(InputError, match="not blank"):
        make().query("  ")


def test_events_and_spans_for_a_real_handler(make, event_log):
    events, spans = event_log
    make().query(QUESTION)
    asyncio.run(make().aquery(QUESTION))
    assert sum(isinstance(e, QueryStartEvent) for e in events) == 2
    responses = [e.response for e in events if isinstance(e, QueryEndEvent)]
    assert list(map(outcome_of, responses)) == ["supported", "supported"]
    tree = spans.tree()
    ours = type(make()).__name__
    assert {
        f"{ours}._query",
        f"{ours}._aquery",
        "Scripted.chat",
    } <= set(tree)
    assert tree["Scripted.chat"], "the model's span has no parent"


class Answers(CustomQueryEngine):
    """An engine with its own async form."""

    def custom_query(self, query_str):
        return Response(RIGHT, nodes())

    async def acustom_query(self, query_str):
        return self.custom_query(query_str)


async def test_nothing_of_ours_blocks_the_event_loop(no_blocking):
    response = await Checked(Answers()).aquery(QUESTION)
    assert outcome_of(response) == "supported"


def test_a_stream_carries_only_the_final_text(make):
    engine = make()
    engine.streaming = True
    response = engine.query(QUESTION)
    assert isinstance(response, StreamingResponse)
    assert "".join(response.response_gen) == RIGHT
    assert outcome_of(response) == "supported"

    async def read():
        later = await engine.aquery(QUESTION)
        assert isinstance(later, AsyncStreamingResponse)
        return "".join([piece async for piece in later.async_response_gen()])

    assert asyncio.run(read()) == RIGHT


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (Checked, "expected a llama_index query engine, .* got Fixed"),
        (LlamaRetriever, "expected a llama_index retriever, got RetrieverQuery"),
        (LlamaLLM, "expected a llama_index LLM, got Fixed"),
        (lambda part: Augmenter(LlamaLLM(MockLLM()), part), "LlamaRetriever"),
        (lambda part: Checked(Answers(), on_error="keep"), "on_error='keep'"),
        (lambda part: Checked(Answers(), streaming="fast"), "streaming='fast'"),
    ],
)
def test_wrong_parts_are_named(build, says):
    part = inner(MockLLM()) if build is LlamaRetriever else Fixed([])
    with pytest.raises(InputError, match=says):
        build(part)
