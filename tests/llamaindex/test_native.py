"""What LlamaIndex's own parts take, ours take: models, embeddings, rerankers, Settings; and slips are named."""

import asyncio

import pytest
from llama_index.core import MockEmbedding, Settings
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import RetrieverTool
from llamaindex_denoisers import both, nodes_of, texts_of
from llamaindex_engines import QUESTION, Fixed, keep_red

from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from llamaindex_denoise import (
    DenoisePostprocessor,
    EmbeddedEmbedding,
)


@pytest.fixture
def settings():
    """LlamaIndex's Settings, as a user sets them, and unset again."""
    yield Settings
    Settings._llm = Settings._embed_model = None


def test_the_embedded_encoder_as_an_embedding():
    pytest.importorskip("tokenizers")
    built = EmbeddedEmbedding()
    tower, bread, seen_prompts = built.get_text_embedding_batch(
        ["The tower is in Porto.", "Bread.", "Where is the tower?"]
    )
    assert len(tower) == 384
    assert built.similarity(seen_prompts, tower) > built.similarity(seen_prompts, bread)


def test_a_model_is_passed_or_set_and_never_resolved(settings, scripted_llm):
    for make in (
        lambda: DenoisePostprocessor.from_llm(),
        lambda: DenoisePostprocessor(method="embedding"),
    ):
        with pytest.raises(ValueError, match="no default is resolved"):
            make()
    settings.llm, settings.embed_model = scripted_llm(keep_red), MockEmbedding(4)
    assert DenoisePostprocessor.from_llm().active_denoiser.llm.model is settings.llm
    assert (
        DenoisePostprocessor(method="embedding").active_denoiser.scorer.embed
        is settings.embed_model
    )


def lengths(keep=3):
    return ENDDenoiser(FunctionScorer(lambda q, t: float(len(t))), keep=keep)


def test_top_n_and_order():
    texts = ["aa", "aaaa", "a", "aaa"]
    inputs = both(DenoisePostprocessor(denoiser=lengths(), top_n=2), nodes_of(texts))
    assert texts_of(inputs) == ["aaaa", "aaa"]
    ranked = both(
        DenoisePostprocessor(denoiser=lengths(), order="score"), nodes_of(texts)
    )
    assert texts_of(ranked) == ["aaaa", "aaa", "aa"]


def one_text():
    """A retriever that finds one text."""
    text = "The red tower is in Porto. Bread is cheap there."
    return Fixed([NodeWithScore(node=TextNode(text=text), score=0.5)])


class Listens:
    """A scorer that remembers the questions it was asked and keeps what says red."""

    def __init__(self):
        self.questions = []

    def score(self, query, texts):
        self.questions.append(query)
        return FunctionScorer(lambda q, t: float("red" in t)).score(query, texts)


def listening():
    scorer = Listens()
    return scorer, DenoisePostprocessor(
        denoiser=ENDDenoiser(scorer, threshold=0.5), on_error="raise"
    )


@pytest.mark.parametrize(
    "question", [QUESTION, "what input is valid?", "two\nlines", "input is odd"]
)
def test_a_retriever_tools_prefix_is_not_part_of_the_question(question):
    scorer, postprocessor = listening()
    tool = RetrieverTool.from_defaults(
        one_text(), node_postprocessors=[postprocessor], description="towers"
    )
    output = tool.call(input=question)
    later = asyncio.run(tool.acall(input=question))
    assert scorer.questions == [question, question]
    assert (
        output.content
        == later.content
        == "The red tower is in Porto. Bread is cheap there.\n\n"
    )
