"""`shadow=True`: no node changes, and the report names the answers that would have lost something."""

import asyncio
import json

import pytest
from llama_index.core.indices.query.query_transform.base import IdentityQueryTransform
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.query_engine import TransformQueryEngine
from llamaindex_denoisers import (
    QUESTION,
    RedSentences,
    both,
    frozen,
    nodes_of,
    scored,
    sync_and_async,
)
from llamaindex_engines import inner

from llamaindex_denoise import DenoisePostprocessor, ShadowHandler

KEPT_ANSWER = "The red tower is in Porto."
LOST_ANSWER = 'It says: "The blue bridge crosses the river."'


def shadow(denoiser=None, **settings):
    return DenoisePostprocessor(
        denoiser=denoiser or RedSentences(), shadow=True, **settings
    )


def answering(reply, **settings):
    return inner(reply, node_postprocessors=[shadow()], **settings)


@pytest.fixture
def report(tmp_path):
    (tmp_path / "reports").mkdir()
    handler = ShadowHandler(tmp_path / "reports" / "shadow.jsonl")
    dispatcher = get_dispatcher()
    dispatcher.add_event_handler(handler)
    yield handler
    dispatcher.event_handlers.remove(handler)


@pytest.mark.parametrize("policy", ["keep", "drop", "raise"])
def test_what_comes_back_is_what_went_in(denoiser, policy):
    postprocessor = shadow(denoiser, on_error=policy, on_empty=policy, top_n=1)
    for hits in ([*nodes_of(), *nodes_of()[:1]], nodes_of(["Nothing."])):
        before = frozen(hits)
        out = both(postprocessor, hits)
        assert all(new is old for new, old in zip(out, hits, strict=True))
        assert frozen(out) == before


@sync_and_async
def test_the_report_names_the_request_that_loses_its_answer(report, sync):
    for answer in (KEPT_ANSWER, LOST_ANSWER):
        engine = answering(answer)
        if sync:
            engine.query(QUESTION)
        else:
            asyncio.run(engine.aquery(QUESTION))
    summary = report.log.summary()
    assert [summary[key] for key in ("requests", "answered", "calls")] == [2, 2, 2]
    assert summary["kept_tokens"] < summary["tokens"]
    assert list(summary["losses"]) == [report.log.requests[1].request_id]
    lines = report.log.path.read_text("utf-8")
    _, second = lines.splitlines()
    assert "tower" not in lines
    assert json.loads(second)["losses"]


def test_a_query_inside_another_is_one_request(report):
    engine = answering(KEPT_ANSWER)
    TransformQueryEngine(engine, IdentityQueryTransform()).query(QUESTION)
    [request] = report.log.requests
    assert request.is_answered
    assert request.request_id.startswith("TransformQueryEngine.query")


async def test_concurrent_requests_keep_their_answers_apart(report):
    queries = []
    for number in range(9):
        answer = LOST_ANSWER if number == 4 else KEPT_ANSWER
        queries.append(answering(answer).aquery(QUESTION))
    await asyncio.gather(*queries)
    summary = report.log.summary()
    assert summary["requests"] == 9
    assert len(summary["losses"]) == 1


def test_a_query_that_raises_is_counted_and_the_next_one_is_its_own(report):
    def down(messages):
        raise ConnectionError("no model")

    with pytest.raises(ConnectionError):
        answering(down).query(QUESTION)
    answering(KEPT_ANSWER).query(QUESTION)
    answered = [request.is_answered for request in report.log.requests]
    assert answered == [False, True]


def test_a_streamed_answer_may_follow(report):
    engine = answering(LOST_ANSWER, streaming=True)
    text = str(engine.query(QUESTION))
    [request] = report.log.requests
    assert not request.is_answered
    assert report.log.add_answer(request.request_id, text).losses


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
    hits[1] = scored(pinned_text, id_="pinned")
    shadow(must_keep="bridge").postprocess_nodes(hits, query_str=QUESTION)
    [request] = report.log.requests
    assert request.passages == len(hits)
    answered = report.log.add_answer(request.request_id, f'"{pinned_text}" [2][1]')
    assert not [loss for loss in answered.losses if "pinned" in loss.passage_ids]
    assert "quotation" not in {loss.kind for loss in answered.losses}
