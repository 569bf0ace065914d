"""A pickle holds no key; what is loaded from it takes its key from the environment."""

import copy
import pickle

import pytest
from llama_index.core import MockEmbedding
from llama_index.llms.openai import OpenAI
from llama_index.llms.openai_like import OpenAILike

from denoise_core.end import ENDDenoiser
from denoise_core.s2a import S2ADenoiser
from denoise_core.scorers import EmbeddingScorer
from llamaindex_denoise import DenoisePostprocessor, DenoiseTransform, LlamaLLM
from llamaindex_denoise.models.scorers import EmbedModelScorer

KEY = "sk-proj-abcdefghijklmnop"
WORDS = "correct-horse-battery"


class Keyed(MockEmbedding):
    api_key: str = KEY


def model():
    base = f"https://user:{WORDS}@host/v1"
    return OpenAILike(model="tiny", api_key=KEY, api_base=base, default_headers={"Authorization": WORDS})


def used():
    """One whose client, which holds the key too, is made already."""
    made = OpenAI(api_key=KEY)
    assert made._get_client().api_key == KEY
    return made


WRAPPED = {
    "the core's model": lambda: LlamaLLM(model()),
    "one that was used": lambda: LlamaLLM(used()),
    "a postprocessor": lambda: DenoisePostprocessor(denoiser=S2ADenoiser(LlamaLLM(model()))),
    "a postprocessor over embeddings": lambda: DenoisePostprocessor(
        denoiser=ENDDenoiser(EmbedModelScorer(Keyed(embed_dim=4)), keep=1)
    ),
    "a scorer of the core over embeddings": lambda: DenoisePostprocessor(
        denoiser=ENDDenoiser(EmbeddingScorer(Keyed(embed_dim=4)), keep=1)
    ),
    "a transformation": lambda: DenoiseTransform(
        postprocessor=DenoisePostprocessor(denoiser=S2ADenoiser(LlamaLLM(used()))), subject="towers"
    ),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_no_secret_is_in_a_pickle(name):
    data = pickle.dumps(WRAPPED[name]())
    assert KEY.encode() not in data
    assert WORDS.encode() not in data


@pytest.mark.parametrize("make", [model, used])
def test_what_is_loaded_takes_its_key_from_the_environment(make, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-other-process")
    twin = pickle.loads(pickle.dumps(LlamaLLM(make(), max_threads=3)))  # noqa: S301
    assert twin.model.api_key == "sk-of-the-other-process"
    assert twin.model.model == make().model
    assert twin._threads.limit == 3


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_keeps_its_key_and_a_pickle_changes_nothing(copied):
    made = LlamaLLM(model())
    pickle.dumps(made)
    for one in (made, copied(made)):
        assert one.model.api_key == KEY
        assert one.model.default_headers == {"Authorization": WORDS}
