"""The augmented query engine answers with what was checked, from the user's nodes, and holds streams till then."""

import asyncio
import itertools
import json

import pytest
from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    StreamingResponse,
)
from llama_index.core.instrumentation.events.query import QueryEndEvent, QueryStartEvent
from llama_index.core.schema import ImageNode, NodeWithScore, QueryBundle, TextNode
from llamaindex_engines import (
    QUESTION,
    RIGHT,
    WRONG,
    Fixed,
    always,
    both,
    checked_engine,
    nodes,
    own_loop,
)

from denoise_core import Budget, InputError
from denoise_core.augmenter import LoopLimits
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from llamaindex_denoise import (
    AugmentedQueryEngine,
    Checked,
    LlamaLLM,
    record,
)
from llamaindex_denoise.events import AnswerEvent
from llamaindex_denoise.models.retriever import LlamaRetriever

MAKE = {"own loop": own_loop, "around an engine": checked_engine}


@pytest.fixture(params=MAKE)
def make(request, scripted_llm):
    return lambda *args, **settings: MAKE[request.param](
        scripted_llm, *args, **settings
    )


def test_a_wrong_draft_is_told_what_is_wrong_and_mended(make):
    response = both(make)
    note = response.metadata["denoise"]
    assert response.response == RIGHT
    assert note["outcome"] == "supported"
    assert note["stopped_because"] == "passed"
    assert [a["outcome"] for a in note["attempts"]] == ["fail", "pass"]
    assert "1755" in note["attempts"][0]["feedback"]
    assert json.loads(json.dumps(note)) == note


def test_an_answer_that_never_passes_is_sent_but_says_so(make):
    response = both(lambda: make(always(WRONG)))
    assert response.response == WRONG
    assert response.metadata["denoise"]["outcome"] == "unsupported"


def test_limits_decide_what_is_sent_instead(make):
    response = both(
        lambda: make(always(WRONG), limits=LoopLimits(unsupported="abstain"))
    )
    assert response.metadata["denoise"]["outcome"] == "abstained"
    assert "Lisbon" not in str(response)


def test_sources_are_the_users_nodes(make):
    response = both(make)
    assert [hit.node.node_id for hit in response.source_nodes] == ["n0", "n1", "n2"]
    assert [hit.score for hit in response.source_nodes] == [0.9, 0.8, 0.7]
    assert [hit.node.metadata["page"] for hit in response.source_nodes] == [0, 1, 2]
    assert set(response.metadata) == {"n0", "n1", "n2", "denoise"}


def test_the_search_sees_the_question_and_never_the_feedback(make):
    retriever = Fixed(nodes())
    make(retriever=retriever).query(QUESTION)
    assert {q.query_str for q in retriever.queries} == {QUESTION}


def test_nothing_found_is_said_without_asking(make, scripted_llm):
    response = both(lambda: make(retriever=Fixed([])))
    assert response.metadata["denoise"]["outcome"] in ("abstained", "unknown")
    assert response.metadata["denoise"]["stopped_because"] == "no_evidence"
    assert response.metadata["denoise"]["calls"] == 0
    assert response.source_nodes == []


def test_a_model_that_fails_gives_a_response_that_says_so(make):
    def down(messages):
        raise ConnectionError("model is down")

    response = both(lambda: make(down))
    assert response.metadata["denoise"]["outcome"] == "failed"
    assert "model is down" in response.metadata["denoise"]["failures"][0]["error"]


def test_the_budget_holds(make):
    reply_text = itertools.count()
    response = make(
        lambda messages: f"{WRONG} It has {next(reply_text)} floors.",
        budget=Budget(calls=2),
    ).query(QUESTION)
    note = response.metadata["denoise"]
    assert note["stopped_because"] == "budget"
    assert len(note["attempts"]) <= 2
    assert note["calls"] == next(reply_text) <= 2, "a call that was refused is no call"


def test_a_blank_question_is_refused(make):
    with pytest.raises(InputError, match="not blank"):
        make().query("  ")


def test_denoised_evidence_points_to_the_users_nodes(scripted_llm):
    denoiser = ENDDenoiser(
        FunctionScorer(lambda q, t: float("Porto" in t)), threshold=0.5
    )
    response = both(lambda: own_loop(scripted_llm, always(RIGHT), denoiser=denoiser))
    (node,) = response.source_nodes
    assert record(node.node)["origin_id"] == "n0"
    assert record(node.node)["origin_spans"] == [[0, len(nodes()[0].node.text)]]


def test_retrieve_and_synthesize_are_delegated(make):
    engine = make()
    bundle = QueryBundle(QUESTION)
    results = engine.retrieve(bundle)
    assert [hit.node.node_id for hit in results] == ["n0", "n1", "n2"]
    assert [hit.node.node_id for hit in asyncio.run(engine.aretrieve(bundle))] == [
        "n0",
        "n1",
        "n2",
    ]
    image = NodeWithScore(
        node=ImageNode(image_url="https://example.org/a.png", id_="img")
    )
    extra = NodeWithScore(node=TextNode(text="more", id_="extra"))
    for response in (
        engine.synthesize(
            bundle,
            [results[0], image],
            [extra],
        ),
        asyncio.run(
            engine.asynthesize(
                bundle,
                [results[0], image],
                [extra],
            )
        ),
    ):
        assert response.metadata["denoise"]["outcome"] == "supported"
        assert [hit.node.node_id for hit in response.source_nodes] == [
            "n0",
            "img",
            "extra",
        ]


def test_events_and_spans_for_a_real_handler(make, event_log):
    events, spans = event_log
    make().query(QUESTION)
    asyncio.run(make().aquery(QUESTION))
    assert sum(isinstance(e, QueryStartEvent) for e in events) == 2
    assert sum(isinstance(e, QueryEndEvent) for e in events) == 2
    seen_events = [e for e in events if isinstance(e, AnswerEvent)]
    assert [e.record["outcome"] for e in seen_events] == ["supported", "supported"]
    tree = spans.tree()
    ours = type(make()).__name__
    assert {
        f"{ours}._query",
        f"{ours}._aquery",
        "Scripted.chat",
    } <= set(tree)
    assert tree["Scripted.chat"], "the model's span has no parent"


async def test_no_blocking_call_and_a_retriever_without_async_form(
    scripted_llm, no_blocking
):
    class Slow(Fixed):
        def _retrieve(self, query_bundle):
            import time

            time.sleep(0.01)  # on the event loop this would be an error here
            return super()._retrieve(query_bundle)

    response = await own_loop(scripted_llm, retriever=Slow(nodes())).aquery(QUESTION)
    assert response.metadata["denoise"]["outcome"] == "supported"


@pytest.mark.parametrize("how", ["own loop", "around an engine"])
def test_a_stream_carries_only_the_final_text(scripted_llm, how):
    engine = MAKE[how](scripted_llm)
    engine.streaming = True
    response = engine.query(QUESTION)
    assert isinstance(response, StreamingResponse)
    assert "".join(response.response_gen) == RIGHT
    assert response.metadata["denoise"]["outcome"] == "supported"

    async def read():
        later = await engine.aquery(QUESTION)
        assert isinstance(later, AsyncStreamingResponse)
        return "".join([piece async for piece in later.async_response_gen()])

    assert asyncio.run(read()) == RIGHT


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (
            lambda: AugmentedQueryEngine("x"),
            "expected a denoise_core Augmenter, got str",
        ),
        (
            lambda: Checked(Fixed([])),
            "expected a llama_index query engine, .* got Fixed",
        ),
        (lambda: LlamaLLM("gpt-4"), "expected a llama_index LLM, got str"),
        (lambda: LlamaRetriever([]), "expected a llama_index retriever, got list"),
    ],
)
def test_wrong_parts_are_named(build, says):
    with pytest.raises(InputError, match=says):
        build()
