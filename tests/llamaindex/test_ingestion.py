"""Denoising at indexing time: what is stored, what a cache may answer, and settings that come back from JSON."""

import asyncio
import copy
import json
import pickle
import threading

import pytest
from llama_index.core import Document, MockEmbedding
from llama_index.core.ingestion import IngestionCache, IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import MetadataMode, NodeRelationship
from llama_index.core.vector_stores.utils import (
    metadata_dict_to_node,
    node_to_metadata_dict,
)
from llamaindex_denoisers import (
    RedSentences,
    both,
    end_red,
    frozen,
    nodes_of,
    sync_and_async,
)
from llamaindex_doubles import scripted_llm

from denoise_core.embedded import default_denoiser
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from denoise_core.text.chunk import sentence_spans
from llamaindex_denoise import DenoisePostprocessor, DenoiseTransform, record
from llamaindex_denoise.ingestion import DenoisingFailure

DOCUMENTS = [
    Document(text="A red cat. Ok so. A red dog.", id_="a"),
    Document(text="All blue. Not here.", id_="b"),
]


def texts(nodes):
    return [node.text for node in nodes]


def transform(postprocessor, query="red things", **settings):
    return DenoiseTransform(postprocessor=postprocessor, query=query, **settings)


def test_a_blank_query_is_refused():
    with pytest.raises(ValueError, match="query"):
        transform(DenoisePostprocessor(denoiser=end_red()), query=" \n")


def keep_red():
    return transform(DenoisePostprocessor(denoiser=end_red(chunker=sentence_spans)))


def run_pipeline(*steps, cache=None, sync=True):
    pipeline = IngestionPipeline(
        transformations=list(steps), cache=cache, disable_cache=cache is None
    )
    if sync:
        return pipeline.run(documents=DOCUMENTS)
    return asyncio.run(pipeline.arun(documents=DOCUMENTS))


@sync_and_async
def test_an_ingestion_pipeline_stores_denoised_nodes(sync):
    parts = SentenceSplitter(chunk_size=100, chunk_overlap=0)
    embedding = MockEmbedding(embed_dim=4)
    nodes = run_pipeline(parts, keep_red(), embedding, sync=sync)
    # END keeps one at least.
    assert texts(nodes) == ["A red cat. A red dog.", "All blue. "]
    assert [n.ref_doc_id for n in nodes] == ["a", "b"]
    assert NodeRelationship.SOURCE in nodes[0].relationships
    assert record(nodes[0])["origin_spans"] == [[0, 11], [18, 28]]
    assert "origin" not in nodes[0].get_content(MetadataMode.EMBED)
    assert nodes[0].embedding
    assert DOCUMENTS[0].metadata == {}


def test_the_record_leaves_metadata_flat_and_is_read_from_any_store():
    (node, _) = keep_red()(DOCUMENTS)
    stored = node_to_metadata_dict(
        node, flat_metadata=True
    )  # what vector stores keep; raises for nested metadata
    assert (
        record(metadata_dict_to_node(json.loads(json.dumps(stored))))["origin_id"]
        == "a"
    )


def test_the_cache_answers_under_the_same_key_and_settings_alone():
    cache, seen = IngestionCache(), []
    scorer = FunctionScorer(lambda query, text: seen.append(text) or 1.0)

    def runs_the_scorer(cache_key=None, **settings):
        before = len(seen)
        denoiser = ENDDenoiser(scorer, threshold=0.5)  # as another process builds it
        postprocessor = DenoisePostprocessor(denoiser=denoiser, cache_key=cache_key)
        run_pipeline(transform(postprocessor, **settings), cache=cache)
        return len(seen) > before

    assert runs_the_scorer(cache_key="red, 1")
    assert not runs_the_scorer(cache_key="red, 1")
    assert runs_the_scorer(cache_key="red, 2")
    assert runs_the_scorer(cache_key="red, 1", query="blue things")
    assert runs_the_scorer()
    assert runs_the_scorer(), "a denoiser without a key was answered from the cache"


@sync_and_async
def test_a_fallback_is_never_cached(sync):
    cache, is_down = IngestionCache(), True

    def reply(messages):
        if is_down:
            raise ConnectionError("model is down")
        return "1"

    def step(**settings):
        llm = scripted_llm(reply)
        return transform(DenoisePostprocessor(llm=llm), **settings)

    with pytest.raises(DenoisingFailure, match="model is down"):
        run_pipeline(step(), cache=cache, sync=sync)
    kept_items = run_pipeline(step(on_fallback="keep"), cache=cache, sync=sync)
    assert texts(kept_items) == texts(DOCUMENTS)
    is_down = False
    for settings in ({}, {"on_fallback": "keep"}):
        hits = run_pipeline(step(**settings), cache=cache, sync=sync)
        assert texts(hits) == ["A red cat. ", "All blue. "]


def test_an_empty_result_is_no_failure():
    postprocessor = DenoisePostprocessor(llm=scripted_llm("none"))
    assert texts(transform(postprocessor)(DOCUMENTS)) == texts(DOCUMENTS)


def test_named_methods_have_a_key_of_their_own():
    llm = scripted_llm(str)

    def keys():
        return [
            transform(postprocessor).to_dict()
            for postprocessor in (
                DenoisePostprocessor(),
                DenoisePostprocessor(keep=1),
                DenoisePostprocessor(llm=llm),
                DenoisePostprocessor(llm=llm, context=False),
                DenoisePostprocessor(llm=MockLLM()),
                DenoisePostprocessor(embed_model=MockEmbedding(4)),
                DenoisePostprocessor(embed_model=MockEmbedding(4), chunks=100),
                DenoisePostprocessor(embed_model=MockEmbedding(4, model_name="other")),
            )
        ]

    first = keys()
    assert keys() == first
    assert all(first.count(key) == 1 for key in first)


class Locked(RedSentences):
    def __init__(self):
        self.lock = threading.Lock()  # neither copies nor pickles


def test_copies_share_the_denoiser_and_none_goes_to_a_worker_without_it():
    postprocessor = DenoisePostprocessor(denoiser=Locked(), on_empty="drop")
    restored = copy.deepcopy({"deep": [postprocessor]})["deep"][0]
    assert restored.active_denoiser is postprocessor.active_denoiser
    assert frozen(both(restored, nodes_of())) == frozen(both(postprocessor, nodes_of()))
    step = pickle.dumps(transform(postprocessor))
    there = pickle.loads(step)  # noqa: S301  # our own bytes
    with pytest.raises((TypeError, AttributeError)):
        there(DOCUMENTS)
    assert both(postprocessor, nodes_of()), "pickling must leave the object whole"


def test_a_worker_of_a_pipeline_does_what_the_caller_would():
    step = transform(DenoisePostprocessor(denoiser=default_denoiser()))
    there = pickle.loads(pickle.dumps(step))  # noqa: S301  # our own bytes
    assert texts(there(DOCUMENTS)) == texts(step(DOCUMENTS))
