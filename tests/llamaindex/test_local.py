"""One set of weights for `HuggingFaceLLM` and END."""

import re
from pathlib import Path

import pytest
from llama_index.core.llms import MockLLM
from llama_index.llms.huggingface import HuggingFaceLLM
from tiny_models import QUESTION, TEXTS, addresses, build_probe, tiny_pair

from denoise_core import InputError
from denoise_core.end import ProbeScorer
from llamaindex_denoise import LlamaLLM
from llamaindex_denoise.models.local import local_model


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


@pytest.mark.parametrize("wrap", [lambda messages: messages, LlamaLLM])
def test_the_very_objects_come_out(pair, llm, wrap):
    model, tokenizer = local_model(wrap(llm))
    assert model is pair[0]
    assert tokenizer is pair[1]


def test_end_reads_the_weights_the_llm_answers_with(pair, llm):
    probe = build_probe(*pair)
    model, tokenizer = local_model(llm)
    shared = ProbeScorer(model, probe, tokenizer=tokenizer)
    separate = ProbeScorer(pair[0], probe, tokenizer=pair[1])
    assert (
        shared.score(QUESTION, TEXTS).tolist()
        == separate.score(QUESTION, TEXTS).tolist()
    )
    assert shared.reader.backbone.model is pair[0]
    assert addresses(shared.reader.backbone.model) == addresses(pair[0])


def test_the_documents_example_runs(pair, llm):
    text = (Path(__file__).resolve().parents[2] / "docs/llamaindex.md").read_text(
        "utf-8"
    )
    (example,) = [
        b
        for b in re.findall("```python\n(.*?)```", text, re.DOTALL)
        if "local_model" in b
    ]
    names = {"llm": llm, "probe": build_probe(*pair)}
    exec(example, names)
    assert names["model"] is pair[0]
    assert names["second_pass"].llm.model is pair[0]


def test_a_model_that_is_not_here_is_refused():
    with pytest.raises(InputError, match="expected a HuggingFaceLLM, got MockLLM"):
        local_model(LlamaLLM(MockLLM()))
