"""A failing denoiser costs what `on_error` and `on_empty` say and no more; wrong arguments are named."""

import asyncio

import pytest
from llama_index.core.schema import QueryBundle
from llamaindex_denoisers import (
    QUESTION,
    TEXTS,
    Fails,
    RedSentences,
    Untouched,
    nodes_of,
    processed,
    texts_of,
)
from llamaindex_doubles import Calling

from denoise_core import EmptyResult, InputError
from llamaindex_denoise import DenoisePostprocessor, record


@pytest.mark.parametrize(
    ("setting", "denoiser", "texts", "error", "says"),
    [
        ("on_error", Fails(), TEXTS, ConnectionError, "model is down"),
        (
            "on_empty",
            RedSentences(),
            ("Not here.", "Not at all."),
            EmptyResult,
            "nothing was kept",
        ),
    ],
)
def test_a_failure_and_an_empty_result_follow_their_policy(
    setting, denoiser, texts, error, says
):
    nodes = nodes_of(texts)
    for how, expected in (("keep", list(texts)), ("drop", [])):
        out = processed(denoiser, nodes, **{setting: how})
        assert texts_of(out) == expected
        assert all(says in record(hit.node)["fallback"] for hit in out)
    raising = DenoisePostprocessor(denoiser=denoiser, **{setting: "raise"})
    with pytest.raises(error, match=says):
        raising.postprocess_nodes(nodes, query_str=QUESTION)
    with pytest.raises(error, match=says):
        asyncio.run(raising.apostprocess_nodes(nodes, query_str=QUESTION))


def test_a_failed_call_of_the_model_follows_on_error():
    def fail(messages, **kwargs):
        raise ConnectionError("model is down")

    nodes = nodes_of(["The red tower is in Porto.", "Bread is cheap."])
    settings = {"llm": Calling(script=fail), "on_empty": "drop"}
    for policy, count in (("keep", 2), ("drop", 0)):
        part = DenoisePostprocessor(**settings, on_error=policy)
        assert len(part.postprocess_nodes(nodes, query_str=QUESTION)) == count
    raising = DenoisePostprocessor(**settings, on_error="raise")
    with pytest.raises(ConnectionError, match="model is down"):
        raising.postprocess_nodes(nodes, query_str=QUESTION)
    shadow = DenoisePostprocessor(**settings, on_error="raise", shadow=True)
    assert shadow.postprocess_nodes(nodes, query_str=QUESTION) == nodes


def test_the_query_may_be_a_bundle_and_must_be_there():
    postprocessor = DenoisePostprocessor(denoiser=Untouched())
    assert len(postprocessor.postprocess_nodes(nodes_of(), QueryBundle(QUESTION))) == 5
    with pytest.raises(InputError, match="query_str"):
        postprocessor.postprocess_nodes(nodes_of())
    with pytest.raises(InputError, match="query_str"):
        asyncio.run(postprocessor.apostprocess_nodes(nodes_of()))
