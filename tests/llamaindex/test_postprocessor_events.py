"""LlamaIndex's handlers are told of every run of the postprocessor, with no more text than is allowed."""

import asyncio

from llamaindex_denoisers import QUESTION, nodes_of

from llamaindex_denoise import DenoisePostprocessor
from llamaindex_denoise.events import DenoiseEvent


def test_events_for_a_real_handler(event_log, denoiser):
    events, _ = event_log
    nodes = nodes_of()
    out = DenoisePostprocessor(denoiser=denoiser).postprocess_nodes(
        nodes, query_str=QUESTION
    )
    [own_value] = [event for event in events if isinstance(event, DenoiseEvent)]
    assert len(own_value.summary["passages"]) == len(out)
    assert own_value.summary["given"] == ["n0", "n1", "n2", "n3", "n4"]
    assert "Porto" not in own_value.model_dump_json()
    assert own_value.span_id, "the event belongs to no span"


def test_spans_sync_and_async(event_log, denoiser):
    postprocessor = DenoisePostprocessor(denoiser=denoiser)
    postprocessor.postprocess_nodes(nodes_of(), query_str=QUESTION)
    asyncio.run(postprocessor.apostprocess_nodes(nodes_of(), query_str=QUESTION))
    assert {
        "DenoisePostprocessor._postprocess_nodes",
        "DenoisePostprocessor._apostprocess_nodes",
    } <= set(event_log[1].tree())
