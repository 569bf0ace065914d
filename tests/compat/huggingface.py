"""END on the weights of LangChain's own `HuggingFacePipeline` under `ChatHuggingFace`; see `matrix.py`."""

import pytest
from langchain_huggingface import ChatHuggingFace, HuggingFacePipeline
from tiny_models import QUESTION, TEXTS, addresses, build_probe, tiny_pair
from transformers import pipeline

from denoise_core import Message
from denoise_core.end import ProbeScorer
from langchain_denoise import ChatModelLLM


@pytest.fixture
def pair():
    return tiny_pair()


@pytest.fixture
def llm(pair):
    settings = {"max_new_tokens": 4, "do_sample": False, "return_full_text": False}
    return HuggingFacePipeline(
        pipeline=pipeline(
            "text-generation", model=pair[0], tokenizer=pair[1], **settings
        )
    )


def chat_over(llm):
    return ChatHuggingFace(llm=llm, tokenizer=llm.pipeline.tokenizer)


def test_end_reads_the_weights_the_chat_model_answers_with(pair, llm):
    probe = build_probe(*pair)
    chat = ChatModelLLM(chat_over(llm))
    asked = (Message("user", QUESTION),)
    before = chat.complete(asked)
    model, tokenizer = llm.pipeline.model, llm.pipeline.tokenizer
    shared = ProbeScorer(model, probe, tokenizer=tokenizer)
    alone = ProbeScorer(pair[0], probe, tokenizer=pair[1])
    assert (
        shared.score(QUESTION, TEXTS).tolist() == alone.score(QUESTION, TEXTS).tolist()
    )
    assert addresses(shared.reader.backbone.model) == addresses(pair[0])
    assert chat.complete(asked) == before
