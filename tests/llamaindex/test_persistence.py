"""Stored settings, cache keys and denoising at indexing time."""

import asyncio
import functools
import json

import numpy as np
import pytest
from llama_index.core import Document, MockEmbedding, VectorStoreIndex
from llama_index.core.ingestion import IngestionCache, IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import MetadataMode, NodeRelationship
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict
from pydantic import ValidationError

from denoise_core import Guard
from denoise_core.end import ENDDenoiser
from denoise_core.s2a import Options, Prompt, Prompts, S2ADenoiser
from denoise_core.scorers import BM25Scorer
from denoise_core.testing import FunctionScorer
from denoise_core.text.chunk import chunks, sentences
from llamaindex_denoise import DenoisePostprocessor, DenoiseTransform, LlamaLLM, record
from llamaindex_denoise.nodes.citations import origins
from llamaindex_denoise.storage.fingerprint import fingerprint


def says_red(query, text):
    return float("red" in text)


def fixed(values):
    """A scorer with weights, whose code is that of a release."""
    return FunctionScorer(functools.partial(max, np.asarray(values, dtype=np.float32)))


def fields(text):
    return Prompt("select", "1", text, "{question} {document}")


SETTINGS = [
    lambda: ENDDenoiser(FunctionScorer(str.count), threshold=0.5),
    lambda: ENDDenoiser(FunctionScorer(str.count), threshold=0.6),
    lambda: ENDDenoiser(FunctionScorer(str.count), threshold=0.5, chunker=sentences),
    lambda: ENDDenoiser(FunctionScorer(str.count), threshold=0.5, chunker=chunks(100)),
    lambda: ENDDenoiser(FunctionScorer(str.count), threshold=0.5, chunker=chunks(200)),
    lambda: ENDDenoiser(FunctionScorer(str.count), keep=0.5),
    lambda: ENDDenoiser(fixed(1), threshold=0.5),
    lambda: ENDDenoiser(fixed(2), threshold=0.5),
    lambda: ENDDenoiser(fixed([1, 2]), threshold=0.5),
    lambda: ENDDenoiser(fixed([1, 3]), threshold=0.5),
    lambda: Guard(ENDDenoiser(fixed([1, 3]), threshold=0.5)),
    lambda: Guard(ENDDenoiser(fixed([1, 3]), threshold=0.5), on_empty="drop"),
    lambda: S2ADenoiser(LlamaLLM(MockLLM()), variant="select"),
    lambda: S2ADenoiser(LlamaLLM(MockLLM()), variant="remove"),
    lambda: S2ADenoiser(LlamaLLM(MockLLM(max_tokens=5)), variant="select"),
    lambda: S2ADenoiser(
        LlamaLLM(MockLLM()), variant="select", options=Options(prompts=Prompts(select=fields("a")))
    ),
    lambda: S2ADenoiser(
        LlamaLLM(MockLLM()), variant="select", options=Options(prompts=Prompts(select=fields("b")))
    ),
]


def test_a_fingerprint_tells_settings_apart_and_nothing_else():
    prints = [fingerprint(make()).digest for make in SETTINGS]
    assert prints == [fingerprint(make()).digest for make in SETTINGS], "equal settings, other hash"
    assert len(set(prints)) == len(prints), "other settings, equal hash"


def test_using_a_denoiser_does_not_change_its_fingerprint():
    for make in (SETTINGS[0], SETTINGS[14]):
        denoiser = make()
        before = fingerprint(denoiser)
        pipeline_nodes = VectorStoreIndex.from_documents(
            [Document(text="A red cat.")], embed_model=MockEmbedding(4)
        )
        found = pipeline_nodes.as_retriever().retrieve("red")
        asyncio.run(DenoisePostprocessor(denoiser=denoiser).apostprocess_nodes(found, query_str="red"))
        assert fingerprint(denoiser) == before


def test_a_ring_of_objects_has_a_fingerprint():
    ring = {}
    ring["itself"] = [ring]
    assert fingerprint(ring) == fingerprint(ring)


def transform():
    denoiser = ENDDenoiser(FunctionScorer(says_red), threshold=0.5, chunker=sentences)
    return DenoiseTransform(postprocessor=DenoisePostprocessor(denoiser=denoiser), subject="red things")


DOCUMENTS = [Document(text="A red cat. Ok so. A red dog.", id_="a"), Document(text="All blue. Not here.", id_="b")]


@pytest.mark.parametrize("how", ["sync", "async"])
def test_an_ingestion_pipeline_stores_denoised_nodes(how):
    parts = SentenceSplitter(chunk_size=100, chunk_overlap=0)
    pipeline = IngestionPipeline(
        transformations=[parts, transform(), MockEmbedding(embed_dim=4)], disable_cache=True
    )
    nodes = pipeline.run(documents=DOCUMENTS) if how == "sync" else asyncio.run(pipeline.arun(documents=DOCUMENTS))
    assert [n.text for n in nodes] == ["A red cat. A red dog.", "All blue. "]  # END keeps one at least
    assert [n.ref_doc_id for n in nodes] == ["a", "b"]
    assert NodeRelationship.SOURCE in nodes[0].relationships
    assert origins(nodes[0])[0].document_ranges == ((0, 11), (18, 28))
    assert "origin" not in nodes[0].get_content(MetadataMode.EMBED)
    assert nodes[0].embedding
    assert DOCUMENTS[0].metadata == {}


def test_the_record_leaves_metadata_flat_and_is_read_from_any_store():
    (node, _) = transform()(DOCUMENTS)
    stored = node_to_metadata_dict(node, flat_metadata=True)  # what vector stores keep; raises for nested metadata
    assert record(metadata_dict_to_node(json.loads(json.dumps(stored))))["origin_id"] == "a"


def test_each_node_by_itself_or_all_together():
    ranked = ENDDenoiser(FunctionScorer(lambda q, t: float(len(t))), keep=1)
    settings = {"postprocessor": DenoisePostprocessor(denoiser=ranked), "subject": "x"}
    assert len(DenoiseTransform(**settings)(DOCUMENTS)) == 2
    assert len(DenoiseTransform(**settings, together=True)(DOCUMENTS)) == 1


def test_the_cache_is_used_until_a_setting_changes(monkeypatch):
    cache, seen = IngestionCache(), []

    def score(self, query, texts):
        seen.extend(texts)
        return np.ones(len(texts), dtype=np.float32)

    monkeypatch.setattr(BM25Scorer, "score", score)

    def scored_by_a_run(threshold, subject="red things"):
        denoiser = ENDDenoiser(BM25Scorer(), threshold=threshold)
        step = DenoiseTransform(postprocessor=DenoisePostprocessor(denoiser=denoiser), subject=subject)
        before = len(seen)
        IngestionPipeline(transformations=[step], cache=cache).run(documents=DOCUMENTS)
        return len(seen) - before

    assert scored_by_a_run(0.5) == 2
    assert scored_by_a_run(0.5) == 0
    assert scored_by_a_run(0.6) == 2
    assert scored_by_a_run(0.5, "blue things") == 2


def test_a_transform_is_stored_and_loaded_with_its_parts_passed_in():
    denoiser = ENDDenoiser(BM25Scorer(), threshold=0.5)
    postprocessor = DenoisePostprocessor(denoiser=denoiser)
    step = DenoiseTransform(postprocessor=postprocessor, subject="red things", together=True)
    data = step.to_dict()
    twin = DenoiseTransform.from_dict(data, postprocessor=step.postprocessor)
    assert twin.to_dict() == data
    with pytest.raises(ValidationError, match="postprocessor"):
        DenoiseTransform.from_dict(data | {"postprocessor": None})
    with pytest.raises(ValidationError, match="subject"):
        DenoiseTransform(postprocessor=step.postprocessor, subject="")
