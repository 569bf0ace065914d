"""A folder with a probe, on states or on heads, is what a LangChain compressor keeps by."""

import numpy as np
import pytest
from tiny_models import LAYER, QUESTION, TEXTS, build_probe, tiny_pair

from denoise_core.end import ENDDenoiser, HeadReader, HiddenReader, Probe, ProbeScorer


@pytest.fixture(scope="module")
def pair():
    return tiny_pair()


@pytest.fixture(params=["states", "heads"])
def probe_reader(request, pair, tmp_path):
    """A reader, and the folder of a probe that belongs to it."""
    model, tokenizer = pair
    if request.param == "states":
        reader = HiddenReader(model, tokenizer=tokenizer)
        probe = build_probe(model, tokenizer)
    else:
        reader = HeadReader(model, tokenizer=tokenizer)
        heads = ((LAYER - 1, 0), (0, 3))
        probe = Probe(
            np.array([1.0, 2.0]), 0.0, reader.with_heads(heads).reading(LAYER)
        )
    return reader, probe.save(tmp_path / "probe")


def best_text(reader, folder):
    scores = ProbeScorer(reader, Probe.load(folder)).score(QUESTION, TEXTS)
    return TEXTS[int(np.argmax(scores))]


def test_langchain(probe_reader):
    documents = pytest.importorskip("langchain_core.documents")
    from langchain_denoise import DenoiseCompressor

    reader, folder = probe_reader
    scorer = ProbeScorer(reader, Probe.load(folder))
    compressor = DenoiseCompressor(denoiser=ENDDenoiser(scorer), keep=1)
    kept = compressor.compress_documents(
        [documents.Document(page_content=text) for text in TEXTS], QUESTION
    )
    assert [document.page_content for document in kept] == [best_text(reader, folder)]
