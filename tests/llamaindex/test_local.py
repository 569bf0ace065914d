"""One set of weights for `HuggingFaceLLM` and END."""

import re
from pathlib import Path

import pytest
from llama_index.llms.huggingface import HuggingFaceLLM
from tiny_models import QUESTION, TEXTS, addresses, build_probe, tiny_pair

from denoise_core.end import ProbeScorer


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


def test_the_documents_example_runs(pair, llm):
    text = (Path(__file__).resolve().parents[2] / "docs/llamaindex.md").read_text(
        "utf-8"
    )
    (example,) = [
        b
        for b in re.findall("```python\n(.*?)```", text, re.DOTALL)
        if "ProbeScorer" in b
    ]
    names = {"model": pair[0], "tokenizer": pair[1], "probe": build_probe(*pair)}
    exec(example, names)
    assert names["end"].scorer.reader.backbone.model is llm._model
    assert names["second_pass"].llm.model is pair[0]
