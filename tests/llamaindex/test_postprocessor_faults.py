"""A failing denoiser costs what `on_error` and `on_empty` say and no more; wrong arguments are named."""

import asyncio

import pytest
from llama_index.core.schema import QueryBundle, TextNode
from llamaindex_denoisers import (
    QUESTION,
    TEXTS,
    Fails,
    RedSentences,
    Untouched,
    both,
    nodes_of,
    texts_of,
)

from denoise_core import EmptyResult, InputError
from llamaindex_denoise import DenoisePostprocessor, record


@pytest.mark.parametrize("how", ["keep", "drop", "raise"])
def test_on_error(how):
    nodes = nodes_of()
    postprocessor = DenoisePostprocessor(denoiser=Fails(), on_error=how)
    if how == "raise":
        with pytest.raises(ConnectionError, match="model is down"):
            postprocessor.postprocess_nodes(nodes, query_str=QUESTION)
        with pytest.raises(ConnectionError, match="model is down"):
            asyncio.run(postprocessor.apostprocess_nodes(nodes, query_str=QUESTION))
        return
    out = both(postprocessor, nodes)
    assert texts_of(out) == (list(TEXTS) if how == "keep" else [])
    assert all("model is down" in record(hit.node)["fallback"] for hit in out)


@pytest.mark.parametrize("how", ["keep", "drop", "raise"])
def test_on_empty(how):
    nodes = nodes_of(["Not here.", "Not at all."])
    postprocessor = DenoisePostprocessor(denoiser=RedSentences(), on_empty=how)
    if how == "raise":
        with pytest.raises(EmptyResult, match="nothing was kept of 2"):
            postprocessor.postprocess_nodes(nodes, query_str=QUESTION)
        return
    out = both(postprocessor, nodes)
    assert texts_of(out) == (["Not here.", "Not at all."] if how == "keep" else [])
    assert all("nothing was kept" in record(hit.node)["fallback"] for hit in out)


def test_the_query_may_be_a_bundle_and_must_be_there():
    postprocessor = DenoisePostprocessor(denoiser=Untouched())
    assert len(postprocessor.postprocess_nodes(nodes_of(), QueryBundle(QUESTION))) == 5
    with pytest.raises(InputError, match="query_str"):
        postprocessor.postprocess_nodes(nodes_of())
    with pytest.raises(InputError, match="query_str"):
        asyncio.run(postprocessor.apostprocess_nodes(nodes_of()))


def test_bad_arguments_say_what_is_expected():
    with pytest.raises(
        InputError, match=r"nodes\[1\]: expected a NodeWithScore, got TextNode"
    ):
        DenoisePostprocessor(denoiser=Untouched()).postprocess_nodes(
            [*nodes_of()[:1], TextNode(text="a")], query_str="q"
        )
