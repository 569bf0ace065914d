"""What LlamaIndex's own parts take, ours take: models, embeddings, rerankers, Settings; and slips are named."""

import asyncio

import pytest
from llama_index.core import MockEmbedding, Settings
from llama_index.core.tools import RetrieverTool
from llamaindex_denoisers import nodes_of, processed, scored, texts_of
from llamaindex_doubles import scripted_llm
from llamaindex_engines import QUESTION, Fixed, keep_red

from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from llamaindex_denoise import (
    DenoisePostprocessor,
)


@pytest.fixture
def settings():
    """LlamaIndex's Settings, as a user sets them, and unset again."""
    yield Settings
    Settings._llm = Settings._embed_model = None


def test_a_model_is_passed_or_set_and_never_resolved(settings):
    methods = ("select", "embedding")
    for method in methods:
        with pytest.raises(ValueError, match="no default is resolved"):
            DenoisePostprocessor(method=method)
    settings.llm, settings.embed_model = scripted_llm(keep_red), MockEmbedding(4)
    by_llm, by_embedding = [
        DenoisePostprocessor(method=method).active_denoiser for method in methods
    ]
    assert by_llm.llm.model is settings.llm
    assert by_embedding.scorer.embed is settings.embed_model


def test_top_n_and_order():
    texts = ["aa", "aaaa", "a", "aaa"]
    lengths = ENDDenoiser(FunctionScorer(lambda q, t: float(len(t))), keep=3)
    kept = processed(lengths, nodes_of(texts), top_n=2)
    assert texts_of(kept) == ["aaaa", "aaa"]
    ranked = processed(lengths, nodes_of(texts), order="score")
    assert texts_of(ranked) == ["aaaa", "aaa", "aa"]


TEXT = "The red tower is in Porto. Bread is cheap there."


@pytest.mark.parametrize(
    "question", [QUESTION, "what input is valid?", "two\nlines", "input is odd"]
)
def test_a_retriever_tools_prefix_is_not_part_of_the_question(question):
    questions = []

    def score(query, text):
        questions.append(query)
        return float("red" in text)

    denoiser = ENDDenoiser(FunctionScorer(score), threshold=0.5)
    postprocessor = DenoisePostprocessor(denoiser=denoiser, on_error="raise")
    tool = RetrieverTool.from_defaults(
        Fixed([scored(TEXT)]), node_postprocessors=[postprocessor], description="towers"
    )
    output = tool.call(input=question)
    later = asyncio.run(tool.acall(input=question))
    assert questions == [question, question]
    assert output.content == later.content == f"{TEXT}\n\n"
