"""To another process and back: what pickles works there, what does not says so, and the original stays whole."""

import copy
import os
import pickle
import subprocess
import sys
import threading

import pytest
from llama_index.core import Document, MockEmbedding
from llama_index.core.llms import MockLLM
from llamaindex_denoisers import red_vectors

from denoise_core import Guard
from denoise_core.end import ENDDenoiser
from denoise_core.s2a import S2ADenoiser
from denoise_core.scorers import BM25Scorer, EmbeddingScorer
from denoise_core.testing import FunctionScorer
from llamaindex_denoise import DenoisePostprocessor, DenoiseTransform, LlamaLLM
from llamaindex_denoise.models.scorers import EmbedModelScorer
from llamaindex_denoise.storage.fingerprint import fingerprint

DOCUMENTS = [Document(text=f"A red cat, number {i}. All else is blue.", id_=str(i)) for i in range(4)]


def step(denoiser):
    return DenoiseTransform(postprocessor=DenoisePostprocessor(denoiser=denoiser), subject="red things")


PICKLES = {
    "BM25": lambda: ENDDenoiser(BM25Scorer(), keep=1),
    "a lock inside": lambda: Guard(ENDDenoiser(EmbeddingScorer(red_vectors), keep=1)),
    "LlamaIndex's embedding": lambda: ENDDenoiser(EmbedModelScorer(MockEmbedding(4)), keep=1),
    "LlamaIndex's model": lambda: S2ADenoiser(LlamaLLM(MockLLM(max_tokens=5)), variant="select"),
}


@pytest.mark.parametrize("name", PICKLES)
def test_a_pickle_does_what_the_original_does_and_leaves_it_whole(name):
    made = step(PICKLES[name]())
    before = copy.copy(vars(made.postprocessor.denoiser))
    twin = pickle.loads(pickle.dumps(made))  # noqa: S301
    assert vars(made.postprocessor.denoiser) == before
    expected = [n.text for n in made(DOCUMENTS)]
    assert [n.text for n in twin(DOCUMENTS)] == expected


@pytest.mark.parametrize("used", [False, True])
def test_a_probe_on_a_model_in_a_folder_pickles_before_and_after_use(tmp_path, used):
    pytest.importorskip("torch")
    from tiny_models import probe_of, tiny_pair

    from denoise_core.end import ProbeScorer

    model, tokenizer = tiny_pair()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    probe = probe_of(model, tokenizer)
    made = step(ENDDenoiser(ProbeScorer(str(tmp_path), probe), keep=1))
    if used:
        assert made(DOCUMENTS)
    twin = pickle.loads(pickle.dumps(made))  # noqa: S301
    assert [n.text for n in twin(DOCUMENTS)] == [n.text for n in made(DOCUMENTS)]
    loaded = step(ENDDenoiser(ProbeScorer(model, probe, tokenizer=tokenizer), keep=1))
    with pytest.raises(ValueError, match="weights do not travel"):
        pickle.dumps(loaded)
    assert loaded(DOCUMENTS), "a failed pickle must leave the object whole"


def test_other_weights_are_another_fingerprint():
    pytest.importorskip("torch")
    from tiny_models import probe_of, tiny_pair

    from denoise_core.end import ProbeScorer

    model, tokenizer = tiny_pair()
    probe = probe_of(model, tokenizer)
    end = ENDDenoiser(ProbeScorer(model, probe, tokenizer=tokenizer), keep=1)
    other = copy.deepcopy(model)
    next(other.parameters()).data[0] += 1
    changed = ENDDenoiser(ProbeScorer(other, probe, tokenizer=tokenizer), keep=1)
    assert fingerprint(changed) != fingerprint(end)
    assert not fingerprint(end).unknown


def test_what_does_not_pickle_is_named_and_stays_whole():
    made = step(ENDDenoiser(FunctionScorer(lambda q, t: 1.0), keep=1))
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError), match=r"pickle|lambda"):
        pickle.dumps(made)
    assert made(DOCUMENTS), "a failed pickle must leave the object whole"


def test_a_field_of_a_model_that_does_not_pickle_is_named(local):
    model = local(threading.Lock())  # a handle in a field, which LlamaIndex's own pickling would delete
    made = step(S2ADenoiser(LlamaLLM(model), variant="select"))
    with pytest.raises(TypeError, match=r"LlamaLLM\.model\.reply"):
        pickle.dumps(made)
    assert model.reply is not None


SCRIPT = """
from llama_index.core import Document
from llama_index.core.ingestion import IngestionPipeline
from llamaindex_denoisers import red_vectors
from denoise_core.end import ENDDenoiser
from denoise_core.scorers import EmbeddingScorer
from denoise_core.embedded import default_denoiser
from denoise_core.text.chunk import sentences
from llamaindex_denoise import DenoisePostprocessor, DenoiseTransform, record

if __name__ == "__main__":
    denoiser = ENDDenoiser(EmbeddingScorer(red_vectors), threshold=0.9, chunker=sentences)  # a lock inside
    step = DenoiseTransform(postprocessor=DenoisePostprocessor(denoiser=denoiser), subject="red things")
    documents = [Document(text=f"A red cat, number {i}. All else is blue.", id_=str(i)) for i in range(4)]
    nodes = IngestionPipeline(transformations=[step], disable_cache=True).run(documents=documents, num_workers=2)
    assert all(record(n) for n in nodes)
    assert step(documents), "the caller's own is whole"
    print([n.text for n in nodes])
    step = DenoiseTransform(postprocessor=DenoisePostprocessor(denoiser=default_denoiser(keep=1)), subject="cats")
    nodes = IngestionPipeline(transformations=[step], disable_cache=True).run(documents=documents, num_workers=2)
    assert [n.text for n in nodes] == [n.text for n in step(documents)]
"""


def test_an_ingestion_pipeline_with_two_workers(tmp_path):
    script = tmp_path / "users_script.py"  # spawned workers import the main module, which pytest's is not
    script.write_text(SCRIPT)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    out = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=200,
        env=env,
    )
    assert out.stdout.strip() == str([f"A red cat, number {i}. " for i in range(4)]), out.stderr
