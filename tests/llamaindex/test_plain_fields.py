"""The postprocessor's settings are plain values: schema, JSON, wrong names, models that are not there, repeats."""

import copy
import json
import pickle

import pytest
from llama_index.core import MockEmbedding
from llama_index.core.llms import MockLLM
from llamaindex_denoisers import QUESTION, RedSentences, end_red, ids_of, scored
from tiny_models import build_probe, tiny_pair

from denoise_core.end.selection import TokenLimit
from llamaindex_denoise import DenoisePostprocessor
from llamaindex_denoise.events import DenoiseEvent

OBJECTS = {
    "select": {"llm": MockLLM()},
    "embedding": {"embed_model": MockEmbedding(4)},
    "other": {"denoiser": RedSentences()},
}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"keep": 0.5, "record": "none"},
        {"keep": "auto", "risk": 0.05, "on_irrelevant": "drop"},
        {"max_tokens": 60, "must_keep": "status: failed", "chunks": "sentences"},
        {"threshold": 0.5, "top_n": 2, "order": "score", "cache_key": "mine"},
    ],
)
def test_plain_settings_come_back_from_json_and_pickle(settings):
    first = DenoisePostprocessor(**settings)
    restored = DenoisePostprocessor.from_dict(json.loads(first.to_json()))
    pickled = pickle.loads(pickle.dumps(first))  # noqa: S301  our own
    for copied in (restored, pickled, copy.deepcopy(first)):
        assert copied.to_dict() == first.to_dict()
        assert type(copied.active_denoiser) is type(first.active_denoiser)


def test_the_schema_lists_the_settings_and_no_object():
    names = set(DenoisePostprocessor.model_json_schema()["properties"])
    assert {"method", "model", "probe", "keep", "threshold", "top_n", "risk"} <= names
    assert {"must_keep", "max_tokens", "on_irrelevant", "cache_key"} <= names
    assert not names & {"llm", "embed_model", "denoiser"}


@pytest.mark.parametrize("method", OBJECTS)
def test_a_method_with_an_object_loads_with_it_and_never_without(method):
    first = DenoisePostprocessor(**OBJECTS[method], top_n=2)
    data = json.loads(first.to_json())
    assert data["method"] == method
    with pytest.raises(ValueError, match=r"model|denoiser="):
        DenoisePostprocessor.from_dict(dict(data))
    restored = DenoisePostprocessor.from_dict(dict(data), **OBJECTS[method])
    assert restored.to_dict() == first.to_dict()


def test_a_probe_comes_back_by_its_folder(tmp_path):
    model, tokenizer = tiny_pair()
    folder = str(build_probe(model, tokenizer).save(tmp_path / "probe"))
    model_folder = str(tmp_path / "model")
    for part in (model, tokenizer):
        part.save_pretrained(model_folder)
    first = DenoisePostprocessor(probe=folder, model=model_folder, keep=1)
    restored = DenoisePostprocessor.from_dict(json.loads(first.to_json()))
    assert restored.method == "probe"
    assert restored.active_denoiser.rule == first.active_denoiser.rule


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"similarity_cutoff": 0.5}, "write threshold="),
        ({"similarity_top_k": 3}, "write top_n="),
        ({"chunker": len}, "write chunks="),
        ({"keep": TokenLimit(60)}, "max_tokens="),
        ({"llm": MockLLM(), "embed_model": MockEmbedding(4)}, "give one of them"),
        ({"method": "select", "model": "m"}, "that is method='rerank'"),
        ({"method": "rerank"}, "needs model="),
        ({"method": "probe"}, "needs probe="),
        ({"llm": MockLLM(), "threshold": 0.5}, "threshold=0.5: a setting of END"),
        ({"llm": MockLLM(), "chunks": "sentences"}, "chunks='sentences': a setting"),
        ({"context": False}, "a setting of method='select'"),
        ({"llm": "gpt-4"}, "llm='gpt-4': expected the LLM object"),
        ({"embed_model": "bge"}, "write method='embedding', model='bge'"),
        ({"denoiser": "s2a"}, "expected the Denoiser object"),
        ({"denoiser": MockLLM()}, "write llm="),
        ({"denoiser": RedSentences(), "keep": 2}, "keep: RedSentences is built"),
        ({"denoiser": RedSentences(), "on_irrelevant": "drop"}, "is built already"),
        ({"keep": "much"}, "keep"),
        ({"keep": True}, "keep=True"),
        ({"treshold": 1}, "did you mean 'threshold'"),
        ({"on_error": "ignore"}, "on_error"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"must_keep": "("}, "must_keep="),
    ],
)
def test_a_wrong_setting_says_the_right_one(wrong, says):
    with pytest.raises(ValueError, match=says):
        DenoisePostprocessor(**wrong)


def test_a_model_that_is_not_there_is_an_error_before_the_first_query():
    pytest.importorskip("sentence_transformers")
    for settings in (
        {"model": "/no/such/model"},
        {"method": "embedding", "model": "/no/such/model"},
        {"probe": "/no/such/folder"},
    ):
        with pytest.raises((ValueError, OSError), match="/no/such"):
            DenoisePostprocessor(**settings)


def test_equal_nodes_pass_once_and_the_event_names_the_others(event_log):
    postprocessor = DenoisePostprocessor(denoiser=end_red())
    nodes = []
    for number in range(10):
        hit = scored(
            "The red tower is in Porto.",
            1.0 - number / 10,
            id_=f"n{number}",
            metadata={"page": "seven", "crawled": number},
            excluded_llm_metadata_keys=["crawled"],
        )
        nodes.append(hit)
    other_page = scored(
        nodes[0].node.text, 0.1, id_="other", metadata={"page": "eight"}
    )
    kept_nodes = postprocessor.postprocess_nodes(
        [*nodes, other_page], query_str=QUESTION
    )
    assert ids_of(kept_nodes) == ["n0", "other"]
    [event] = event_log.of(DenoiseEvent)
    reasons = {row["id"]: row["reason"] for row in event.summary["dropped"]}
    assert reasons == {f"n{number}": "the same as n0" for number in range(1, 10)}
