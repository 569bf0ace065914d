"""A checked query engine answers with what was checked, from the user's nodes, and holds streams till then."""

import asyncio
import json

import pytest
from llama_index.core.base.response.schema import (
    Response,
)
from llama_index.core.instrumentation.events.query import QueryEndEvent, QueryStartEvent
from llama_index.core.llms import MockLLM
from llama_index.core.prompts import PromptTemplate
from llama_index.core.query_engine import CustomQueryEngine, FLAREInstructQueryEngine
from llama_index.core.schema import ImageNode, NodeWithScore
from llamaindex_denoisers import ids_of
from llamaindex_engines import (
    QUESTION,
    RIGHT,
    Fixed,
    both,
    checked_engine,
    inner,
    nodes,
    outcome_of,
)

from denoise_core import InputError
from denoise_core.augmenter import Augmenter
from llamaindex_denoise import Checked, LlamaLLM
from llamaindex_denoise.agents.chat import CheckedChatEngine
from llamaindex_denoise.engines.query import CheckedQueryEngine
from llamaindex_denoise.models.retriever import LlamaRetriever


def test_a_wrong_draft_is_told_what_is_wrong_and_mended():
    response = both(checked_engine)
    note = response.metadata["denoise"]
    assert response.response == RIGHT
    assert (note["outcome"], note["stopped_because"]) == ("supported", "passed")
    first, last = note["attempts"]
    assert (first["outcome"], last["outcome"]) == ("fail", "pass")
    assert "1755" in first["feedback"]
    assert "failed" not in note
    assert json.loads(json.dumps(note)) == note


def test_sources_are_the_users_nodes():
    response = both(checked_engine)
    assert ids_of(response.source_nodes) == ["n0", "n1", "n2"]
    assert [hit.score for hit in response.source_nodes] == [0.9, 0.8, 0.7]
    assert [hit.node.metadata["page"] for hit in response.source_nodes] == [0, 1, 2]
    assert set(response.metadata) == {"n0", "n1", "n2", "denoise"}


def test_the_search_sees_the_question_and_never_the_feedback():
    retriever = Fixed(nodes())
    checked_engine(retriever=retriever).query(QUESTION)
    assert {q.query_str for q in retriever.queries} == {QUESTION}


def test_nothing_found_is_said_without_asking():
    response = both(lambda: checked_engine(retriever=Fixed([])))
    note = response.metadata["denoise"]
    assert note["outcome"] in ("abstained", "unknown")
    assert note["stopped_because"] == "no_evidence"
    assert note["calls"] == 0
    assert response.source_nodes == []


def test_a_blank_question_is_refused():
    with pytest.raises(InputError, match="not blank"):
        checked_engine().query("  ")


def test_events_and_spans_for_a_real_handler(event_log, span_log):
    checked_engine().query(QUESTION)
    asyncio.run(checked_engine().aquery(QUESTION))
    assert len(event_log.of(QueryStartEvent)) == 2
    responses = [event.response for event in event_log.of(QueryEndEvent)]
    assert list(map(outcome_of, responses)) == ["supported", "supported"]
    parents = {span.id_.split("-")[0]: span.parent_id for span in span_log}
    ours = type(checked_engine()).__name__
    assert {
        f"{ours}._query",
        f"{ours}._aquery",
        "Calling.chat",
    } <= set(parents)
    assert parents["Calling.chat"], "the model's span has no parent"


class Answers(CustomQueryEngine):
    text: str = RIGHT
    sources: list = nodes()

    def custom_query(self, query_str):
        return Response(self.text, self.sources)

    async def acustom_query(self, query_str):
        return self.custom_query(query_str)


def test_a_citation_counts_pictures_and_repeats():
    picture = NodeWithScore(node=ImageNode(id_="p", image="aGk=", metadata={"n": 1}))
    answer, *others = nodes()
    sources = [picture, *others, *others, answer]
    engine = Checked(Answers(text=RIGHT.replace("[1]", "[6]"), sources=sources))
    response = engine.query(QUESTION)
    assert outcome_of(response) == "supported"
    assert response.metadata["denoise"]["citations"] == ["n0"]


async def test_nothing_of_ours_blocks_the_event_loop(no_blocking):
    response = await Checked(Answers()).aquery(QUESTION)
    assert outcome_of(response) == "supported"


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (Checked, "expected a llama_index query engine, .* got Fixed"),
        (LlamaRetriever, "expected a llama_index retriever, got RetrieverQuery"),
        (LlamaLLM, "expected a llama_index LLM, got Fixed"),
        (lambda part: Augmenter(LlamaLLM(MockLLM()), part), "LlamaRetriever"),
        (
            lambda part: CheckedQueryEngine(part, None, on_error="keep"),
            "on_error='keep",
        ),
        (lambda part: CheckedChatEngine(part, None, on_error="keep"), "on_error='keep"),
        (lambda part: Checked(Answers(), streaming="fast"), "streaming='fast'"),
    ],
)
def test_wrong_parts_are_named(build, says):
    part = inner(MockLLM()) if build is LlamaRetriever else Fixed([])
    with pytest.raises(InputError, match=says):
        build(part)


def test_prompts_have_the_names_of_the_engine():
    engine = Checked(FLAREInstructQueryEngine(inner(RIGHT), llm=MockLLM()))
    names = ("instruct_prompt", "lookahead_answer_inserter:answer_insert_prompt")
    prompts = dict.fromkeys(names, PromptTemplate("Say {query_str}"))
    engine.update_prompts(prompts)
    assert prompts.items() <= engine.get_prompts().items()
