"""A copy, pickle or stored form of the postprocessor or of its nodes does what the original does."""

import copy
import json
import pickle
import threading

import pytest
from llamaindex_denoisers import RedSentences, both, frozen, nodes_of
from pydantic import ValidationError

from denoise_core.end import ENDDenoiser
from denoise_core.scorers import BM25Scorer
from llamaindex_denoise import DenoisePostprocessor


def test_results_copy_and_pickle(denoiser):
    out = both(DenoisePostprocessor(denoiser=denoiser), nodes_of())
    assert frozen(copy.deepcopy(out)) == frozen(out)
    assert frozen(pickle.loads(pickle.dumps(out))) == frozen(out)  # noqa: S301


def test_copies_of_the_postprocessor_work_and_share_the_denoiser():
    class Locked(RedSentences):
        def __init__(self):
            self.lock = threading.Lock()  # neither copies nor pickles

    postprocessor = DenoisePostprocessor(denoiser=Locked(), on_error="raise", on_empty="drop")
    twin = copy.deepcopy({"deep": [postprocessor]})["deep"][0]
    assert twin.denoiser is postprocessor.denoiser
    assert twin.on_empty == "drop"
    assert frozen(both(twin, nodes_of())) == frozen(both(postprocessor, nodes_of()))
    with pytest.raises((TypeError, AttributeError), match="pickle"):
        pickle.dumps(postprocessor)
    assert both(postprocessor, nodes_of()), "a failed pickle must leave the object whole"


def test_a_postprocessor_pickles_when_its_denoiser_does():
    postprocessor = DenoisePostprocessor(denoiser=RedSentences(), scores="replace")
    twin = pickle.loads(pickle.dumps(postprocessor))  # noqa: S301
    assert frozen(both(twin, nodes_of())) == frozen(both(postprocessor, nodes_of()))


def test_settings_store_and_load_with_the_denoiser_passed_in():
    denoiser = ENDDenoiser(BM25Scorer(), keep=1)
    postprocessor = DenoisePostprocessor(denoiser=denoiser, scores="replace", on_empty="drop", max_concurrency=3)
    data = json.loads(json.dumps(postprocessor.to_dict()))
    assert len(data["denoiser"]) == 64, "a hash, and nothing of the denoiser itself"
    twin = DenoisePostprocessor.from_dict(data, denoiser=denoiser)
    assert twin.to_dict() == postprocessor.to_dict()
    assert frozen(both(twin, nodes_of())) == frozen(both(postprocessor, nodes_of()))
    with pytest.raises(ValidationError, match="denoiser"):
        DenoisePostprocessor.from_dict(data)
