"""Denoising at indexing time: what is stored, what a cache may answer, and settings that come back from JSON."""

import asyncio
import copy
import json
import pickle
import threading

import pytest
from llama_index.core import Document, MockEmbedding
from llama_index.core.ingestion import IngestionCache, IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import MetadataMode, NodeRelationship
from llama_index.core.vector_stores.utils import (
    metadata_dict_to_node,
    node_to_metadata_dict,
)
from llamaindex_denoisers import RedSentences, both, frozen, nodes_of
from pydantic import ValidationError

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


def says_red(query, text):
    return float("red" in text)


def transform(scorer=says_red, cache_key=None, **settings):
    end = ENDDenoiser(FunctionScorer(scorer), threshold=0.5, chunker=sentence_spans)
    postprocessor = DenoisePostprocessor(denoiser=end, cache_key=cache_key)
    return DenoiseTransform(
        postprocessor=postprocessor, **{"query": "red things", **settings}
    )


def run_pipeline(*steps, cache=None, sync=True):
    pipeline = IngestionPipeline(
        transformations=list(steps), cache=cache, disable_cache=cache is None
    )
    return (
        pipeline.run(documents=DOCUMENTS)
        if sync
        else asyncio.run(pipeline.arun(documents=DOCUMENTS))
    )


@pytest.mark.parametrize("sync", [True, False])
def test_an_ingestion_pipeline_stores_denoised_nodes(sync):
    parts = SentenceSplitter(chunk_size=100, chunk_overlap=0)
    embedding = MockEmbedding(embed_dim=4)
    nodes = run_pipeline(parts, transform(), embedding, sync=sync)
    assert [hit.text for hit in nodes] == [
        "A red cat. A red dog.",
        "All blue. ",
    ]  # END keeps one at least
    assert [n.ref_doc_id for n in nodes] == ["a", "b"]
    assert NodeRelationship.SOURCE in nodes[0].relationships
    assert record(nodes[0])["origin_spans"] == [[0, 11], [18, 28]]
    assert "origin" not in nodes[0].get_content(MetadataMode.EMBED)
    assert nodes[0].embedding
    assert DOCUMENTS[0].metadata == {}


def test_the_record_leaves_metadata_flat_and_is_read_from_any_store():
    (node, _) = transform()(DOCUMENTS)
    stored = node_to_metadata_dict(
        node, flat_metadata=True
    )  # what vector stores keep; raises for nested metadata
    assert (
        record(metadata_dict_to_node(json.loads(json.dumps(stored))))["origin_id"]
        == "a"
    )


def test_each_node_is_denoised_by_itself_equal_ones_too():
    ranked = ENDDenoiser(FunctionScorer(lambda q, t: float(len(t))), keep=1)
    settings = {"postprocessor": DenoisePostprocessor(denoiser=ranked), "query": "x"}
    twice = [*DOCUMENTS, DOCUMENTS[0].model_copy(update={"id_": "again"})]
    assert len(DenoiseTransform(**settings)(twice)) == 3


def test_the_cache_answers_under_the_same_key_and_settings_alone():
    cache, seen = IngestionCache(), []

    def runs_the_scorer(**settings):
        before = len(seen)
        step = transform(lambda q, t: seen.append(t) or 1.0, **settings)
        run_pipeline(step, cache=cache)
        return len(seen) > before

    assert runs_the_scorer(cache_key="red, 1")
    assert not runs_the_scorer(cache_key="red, 1")
    assert runs_the_scorer(cache_key="red, 2")
    assert runs_the_scorer(cache_key="red, 1", query="blue things")
    assert runs_the_scorer()
    assert runs_the_scorer(), "a denoiser without a key was answered from the cache"


@pytest.mark.parametrize("sync", [True, False])
def test_a_fallback_is_never_cached(local, sync):
    cache, is_down = IngestionCache(), True

    def reply(prompt):
        if is_down:
            raise ConnectionError("model is down")
        return "1"

    def step(**settings):
        postprocessor = DenoisePostprocessor.from_llm(local(reply))
        return DenoiseTransform(
            postprocessor=postprocessor, query="red things", **settings
        )

    with pytest.raises(DenoisingFailure, match="model is down"):
        run_pipeline(step(), cache=cache, sync=sync)
    kept_items = run_pipeline(step(on_fallback="keep"), cache=cache, sync=sync)
    assert [hit.text for hit in kept_items] == [d.text for d in DOCUMENTS]
    is_down = False
    for settings in ({}, {"on_fallback": "keep"}):
        hits = run_pipeline(step(**settings), cache=cache, sync=sync)
        assert [hit.text for hit in hits] == ["A red cat. ", "All blue. "]


def test_an_empty_result_is_no_failure(local):
    postprocessor = DenoisePostprocessor.from_llm(local(lambda prompt: "none"))
    nodes = DenoiseTransform(postprocessor=postprocessor, query="red things")(DOCUMENTS)
    assert [hit.text for hit in nodes] == [d.text for d in DOCUMENTS]


def keys_of(*postprocessors):
    return [
        DenoiseTransform(postprocessor=p, query="x").to_dict() for p in postprocessors
    ]


def test_named_methods_have_a_key_of_their_own(scripted_llm, local):
    llm = scripted_llm(str)
    built = [
        lambda: DenoisePostprocessor(),
        lambda: DenoisePostprocessor(keep=1),
        lambda: DenoisePostprocessor.from_llm(llm),
        lambda: DenoisePostprocessor.from_llm(llm, context=False),
        lambda: DenoisePostprocessor.from_llm(local(str)),
        lambda: DenoisePostprocessor(embed_model=MockEmbedding(4)),
        lambda: DenoisePostprocessor(embed_model=MockEmbedding(4), chunks=100),
        lambda: DenoisePostprocessor(embed_model=MockEmbedding(4, model_name="other")),
    ]
    first, second_result = (keys_of(*(make() for make in built)) for _ in range(2))
    assert first == second_result
    assert all(first.count(key) == 1 for key in first)


def test_a_transform_is_stored_and_loaded_with_its_parts_passed_in():
    step = transform(cache_key="red", on_fallback="raise")
    data = json.loads(json.dumps(step.to_dict()))
    restored = DenoiseTransform.from_dict(data, postprocessor=step.postprocessor)
    assert restored.to_dict() == step.to_dict()
    with pytest.raises(ValidationError, match="postprocessor"):
        DenoiseTransform.from_dict(data | {"postprocessor": None})
    with pytest.raises(ValidationError, match="query"):
        DenoiseTransform(postprocessor=step.postprocessor, query="")


class Locked(RedSentences):
    def __init__(self):
        self.lock = threading.Lock()  # neither copies nor pickles


def test_copies_share_the_denoiser_and_none_goes_to_a_worker_without_it():
    postprocessor = DenoisePostprocessor(denoiser=Locked(), on_empty="drop")
    restored = copy.deepcopy({"deep": [postprocessor]})["deep"][0]
    assert restored.active_denoiser is postprocessor.active_denoiser
    assert frozen(both(restored, nodes_of())) == frozen(both(postprocessor, nodes_of()))
    step = DenoiseTransform(postprocessor=postprocessor, query="x")
    there = pickle.loads(pickle.dumps(step))  # noqa: S301  # our own bytes
    with pytest.raises((TypeError, AttributeError)):
        there(DOCUMENTS)
    assert both(postprocessor, nodes_of()), "pickling must leave the object whole"


def test_a_worker_of_a_pipeline_does_what_the_caller_would():
    step = DenoiseTransform(
        postprocessor=DenoisePostprocessor(denoiser=default_denoiser()),
        query="red things",
    )
    there = pickle.loads(pickle.dumps(step))  # noqa: S301  # our own bytes
    assert [hit.text for hit in there(DOCUMENTS)] == [
        hit.text for hit in step(DOCUMENTS)
    ]
