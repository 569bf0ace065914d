"""`shadow=True`: no node changes, and the report names the answers that would have lost something."""

import asyncio
import json

import pytest
from llama_index.core.indices.query.query_transform.base import IdentityQueryTransform
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.query_engine import TransformQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode
from llamaindex_denoisers import DENOISERS, Fails, RedSentences, frozen, nodes_of
from llamaindex_engines import always, inner, nodes

from llamaindex_denoise import DenoisePostprocessor, ShadowHandler

QUESTION = "Where is the red tower?"
KEPT_ANSWER = "The red tower is in Porto."
LOST_ANSWER = 'It says: "The blue bridge crosses the river."'


def shadow(denoiser=None, **settings):
    return DenoisePostprocessor(
        denoiser=denoiser or RedSentences(), shadow=True, **settings
    )


@pytest.fixture
def report(tmp_path):
    (tmp_path / "reports").mkdir()
    handler = ShadowHandler(tmp_path / "reports" / "shadow.jsonl")
    dispatcher = get_dispatcher()
    dispatcher.add_event_handler(handler)
    yield handler
    dispatcher.event_handlers.remove(handler)


@pytest.mark.parametrize("policy", ["keep", "drop", "raise"])
@pytest.mark.parametrize("name", sorted(DENOISERS))
def test_what_comes_back_is_what_went_in(name, policy):
    postprocessor = shadow(DENOISERS[name](), on_error=policy, on_empty=policy, top_n=1)
    for hits in ([*nodes_of(), *nodes_of()[:1]], nodes_of(["Nothing."])):
        before = frozen(hits)
        out = postprocessor.postprocess_nodes(hits, query_str=QUESTION)
        assert all(new is old for new, old in zip(out, hits, strict=True))
        assert frozen(out) == before


@pytest.mark.parametrize("is_async", [False, True])
def test_the_report_names_the_request_that_loses_its_answer(
    scripted_llm, report, is_async
):
    answers = [KEPT_ANSWER, LOST_ANSWER]
    for answer in answers:
        engine = inner(scripted_llm(always(answer)), node_postprocessors=[shadow()])
        if is_async:
            asyncio.run(engine.aquery(QUESTION))
        else:
            engine.query(QUESTION)
    summary = report.log.summary()
    assert summary["requests"] == 2
    assert summary["answered"] == 2
    assert summary["calls"] == 2
    assert summary["kept_tokens"] < summary["tokens"]
    assert list(summary["losses"]) == [report.log.requests[1].request_id]
    lines = report.log.path.read_text("utf-8")
    assert len(lines.splitlines()) == 2
    assert "tower" not in lines
    assert json.loads(lines.splitlines()[1])["losses"]


def test_a_query_inside_another_is_one_request(scripted_llm, report):
    llm = scripted_llm(always(KEPT_ANSWER))
    engine = inner(llm, node_postprocessors=[shadow()])
    TransformQueryEngine(engine, IdentityQueryTransform()).query(QUESTION)
    [request] = report.log.requests
    assert request.is_answered
    assert request.request_id.startswith("TransformQueryEngine.query")


async def test_concurrent_requests_keep_their_answers_apart(scripted_llm, report):
    queries = []
    for number in range(9):
        answer = LOST_ANSWER if number == 4 else KEPT_ANSWER
        engine = inner(scripted_llm(always(answer)), node_postprocessors=[shadow()])
        queries.append(engine.aquery(QUESTION))
    await asyncio.gather(*queries)
    assert report.log.summary()["requests"] == 9
    assert len(report.log.summary()["losses"]) == 1


def test_a_query_that_raises_is_counted_and_the_next_one_is_its_own(
    scripted_llm, report
):
    def down(messages):
        raise ConnectionError("no model")

    with pytest.raises(ConnectionError):
        inner(scripted_llm(down), node_postprocessors=[shadow()]).query(QUESTION)
    inner(scripted_llm(always(KEPT_ANSWER)), node_postprocessors=[shadow()]).query(
        QUESTION
    )
    answered = [request.is_answered for request in report.log.requests]
    assert answered == [False, True]


def test_a_streamed_answer_may_follow(scripted_llm, report):
    engine = inner(
        scripted_llm(always(LOST_ANSWER)),
        streaming=True,
        node_postprocessors=[shadow()],
    )
    text = str(engine.query(QUESTION))
    [request] = report.log.requests
    assert not request.is_answered
    assert report.log.add_answer(request.request_id, text).losses


def test_a_failure_is_counted(report):
    shadow(Fails()).postprocess_nodes(nodes(), query_str=QUESTION)
    summary = report.log.summary()
    assert summary["requests"] == 1
    assert summary["failures"] == 1
    assert summary["kept_tokens"] == summary["tokens"]


def test_a_report_that_cannot_be_written_is_logged_and_requests_stay_apart(
    report, caplog
):
    report.log.path.unlink()
    report.log.path.parent.rmdir()
    for _ in range(2):
        shadow().postprocess_nodes(nodes_of(), query_str=QUESTION)
    assert report.log.summary()["requests"] == 2
    assert "the request is not written" in caplog.text


def test_pinned_and_repeated_nodes_are_not_lost(report):
    hits = [*nodes_of(), *nodes_of()[:1]]
    pinned_text = "The blue bridge crosses the river."
    hits[1] = NodeWithScore(node=TextNode(text=pinned_text, id_="pinned"), score=0.1)
    shadow(must_keep="bridge").postprocess_nodes(hits, query_str=QUESTION)
    [request] = report.log.requests
    assert request.passages == len(hits)
    answered = report.log.add_answer(request.request_id, f'"{pinned_text}" [2][1]')
    assert not [loss for loss in answered.losses if "pinned" in loss.passage_ids]
    assert "quotation" not in {loss.kind for loss in answered.losses}
