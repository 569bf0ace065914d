"""One set of weights for a Hugging Face pipeline of LangChain's and END.

`HuggingFacePipeline` itself does not install with the newest transformers; `tests/compat/huggingface.py` asks
the same of it in an environment where it does.
"""

from typing import Any

import pytest
from langchain_core.language_models import LLM
from tiny_models import QUESTION, TEXTS, addresses, build_probe, tiny_pair
from transformers import TextGenerationPipeline

from denoise_core.end import ProbeScorer


class PipelineLLM(LLM):
    """As `HuggingFacePipeline`: an LLM that keeps a transformers pipeline as ``pipeline``."""

    pipeline: Any = None

    @property
    def _llm_type(self):
        return "pipeline"

    def _call(self, prompt, stop=None, run_manager=None, **kwargs):
        built_value = self.pipeline(
            prompt, max_new_tokens=4, do_sample=False, return_full_text=False
        )
        return built_value[0]["generated_text"]


@pytest.fixture
def pair():
    return tiny_pair()


@pytest.fixture
def local_llm(pair):
    return PipelineLLM(
        pipeline=TextGenerationPipeline(model=pair[0], tokenizer=pair[1])
    )


def test_end_reads_the_weights_the_model_answers_with(pair, local_llm):
    probe = build_probe(*pair)
    before = local_llm.invoke(QUESTION)
    model, tokenizer = local_llm.pipeline.model, local_llm.pipeline.tokenizer
    shared_model = ProbeScorer(model, probe, tokenizer=tokenizer)
    single_run = ProbeScorer(pair[0], probe, tokenizer=pair[1])
    assert (
        shared_model.score(QUESTION, TEXTS).tolist()
        == single_run.score(QUESTION, TEXTS).tolist()
    )
    assert addresses(shared_model.reader.backbone.model) == addresses(pair[0])
    assert local_llm.invoke(QUESTION) == before
