"""Slips that people make: each raises when the part is built, and says what to type."""

import pytest
from chain_parts import ListRetriever, chat
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda

from denoise_core import Guard
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from langchain_denoise import (
    DenoiseCompressor,
    DenoisingRetriever,
    EmbeddedEmbeddings,
    S2AMessages,
    Verifier,
    verified,
)

PROMPT = ChatPromptTemplate.from_template("{x}")
SOURCE_DOCUMENTS = [
    Document(page_content="Paris is the capital of France.", id="a"),
    Document(page_content="Hm.", id="b"),
]

MODEL = chat()
RETRIEVER = ListRetriever(found=SOURCE_DOCUMENTS)


@pytest.mark.parametrize(
    ("part", "settings", "message"),
    [
        (DenoisingRetriever, {"model": RETRIEVER, "retriever": MODEL}, "retriever"),
        (DenoisingRetriever, {"model": MODEL}, "retriever"),
        (DenoisingRetriever, {"retriver": RETRIEVER}, "did you mean 'retriever'"),
        (DenoisingRetriever, {"retriever": RETRIEVER, "k": 0}, "\nk\n"),
        (
            DenoisingRetriever,
            {"retriever": RETRIEVER, "k": 3, "top_n": 2},
            "\ntop_n\n",
        ),
        (DenoiseCompressor, {"model": PROMPT}, "model"),
        (S2AMessages, {"model": MODEL, "variant": "selct"}, "select"),
        (S2AMessages, {"model": RETRIEVER}, "ListRetriever"),
        (Verifier, {"limits": 3}, "LoopLimits"),
        (Verifier, {"judge": 3}, "a function"),
        (verified, {"chain": MODEL, "verifier": "strict"}, "Verifier"),
        (verified, {"chain": MODEL, "verifier": MODEL}, "judge="),
    ],
)
def test_a_slip_raises_when_the_part_is_built(part, settings, message):
    with pytest.raises(ValueError, match=message):
        part(**settings)


def test_a_number_of_documents_with_the_call_is_checked():
    with pytest.raises(ValueError, match="top_n=0"):
        DenoisingRetriever(retriever=RETRIEVER).invoke("q", k=0)


END = ENDDenoiser(FunctionScorer(len))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"denoiser": EmbeddedEmbeddings()},
            "denoiser: expected an object with denoise and adenoise, got a Embedded",
        ),
        ({"denoiser": ENDDenoiser}, "the class ENDDenoiser"),
        ({"scorer": "bm25"}, "scorer: expected embeddings"),
        ({"scorer": RunnableLambda(str)}, "a chat model goes to model="),
        ({"scorer": END}, "a denoiser to denoiser="),
        ({"model": 7}, "model: expected a chat model"),
        ({"keep": 7.5}, "keep=7.5"),
        ({"keep": 3, "threshold": 0.5}, "keep and threshold: give one of them"),
        ({"keep": 2, "max_tokens": 9}, "keep and max_tokens: give one of them"),
        ({"threshold": 0.5, "risk": 0.05}, "risk=0.05: goes with keep='auto'"),
        ({"risk": 0.33}, "calibrated for"),
        ({"header_keys": "title"}, "header_keys"),
        (
            {"scorer": EmbeddedEmbeddings(), "model": RunnableLambda(str)},
            "model and scorer: give one of them",
        ),
        ({"model": RunnableLambda(str), "keep": 3}, "keep=3: a setting of END"),
        (
            {"denoiser": Guard(END), "scorer": EmbeddedEmbeddings()},
            "denoiser and scorer: give one of them",
        ),
        ({"top_n": 0}, "top_n"),
        ({"order": "best"}, "order"),
        ({"kep": 3}, "did you mean 'keep'"),
    ],
)
def test_a_wrong_setting_of_a_compressor(settings, message):
    with pytest.raises(ValueError, match=message):
        DenoiseCompressor(**settings)


@pytest.mark.parametrize(
    "asked_input",
    [
        {"order": "best"},
        {"top_n": 0},
        {"keep": -1},
        {"threshold": "high"},
        {"ordr": "score"},
    ],
)
def test_a_slip_in_one_request(asked_input):
    """A wrong name is told the right ones, a wrong value is not."""
    better = DenoiseCompressor(denoiser=END)
    chain_input = {"documents": SOURCE_DOCUMENTS, "query": "q"}
    [name] = asked_input
    with pytest.raises(ValueError, match=name) as raised:
        better.invoke(chain_input, {"configurable": {"denoise": asked_input}})
    assert ("it takes keep" in str(raised.value)) is (name == "ordr")
