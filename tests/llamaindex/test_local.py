"""One set of weights for `HuggingFaceLLM` and END."""

import pytest
from llama_index.llms.huggingface import HuggingFaceLLM
from tiny_models import QUESTION, TEXTS, addresses, build_probe, tiny_pair

from denoise_core.end import ENDDenoiser, LocalLLM, ProbeScorer
from denoise_core.end.answering import DenoisedAnswerer
from llamaindex_denoise import DenoisePostprocessor


@pytest.fixture
def pair():
    return tiny_pair()


@pytest.fixture
def llm(pair):
    model, tokenizer = pair
    return HuggingFaceLLM(
        model=model,
        tokenizer=tokenizer,
        context_window=512,
        max_new_tokens=4,
        is_chat_model=True,
    )


def test_end_reads_the_weights_the_llm_answers_with(pair, llm):
    probe = build_probe(*pair)
    llm.complete(QUESTION)
    shared = ProbeScorer(pair[0], probe, tokenizer=pair[1])
    separate = ProbeScorer(pair[0], probe, tokenizer=pair[1])
    assert (
        shared.score(QUESTION, TEXTS).tolist()
        == separate.score(QUESTION, TEXTS).tolist()
    )
    assert shared.reader.backbone.model is pair[0]
    assert addresses(shared.reader.backbone.model) == addresses(pair[0])


def test_denoiser_and_answers_share_the_loaded_model(pair, llm):
    end = ENDDenoiser(
        ProbeScorer(
            pair[0],
            build_probe(*pair),
            tokenizer=pair[1],
        )
    )
    postprocessor = DenoisePostprocessor(denoiser=end)
    second_pass = DenoisedAnswerer(end, LocalLLM(*pair))
    scorer = postprocessor.active_denoiser.scorer
    assert scorer.reader.backbone.model is llm._model
    assert second_pass.llm.model is pair[0]
