"""Slips that people make: each raises when the part is built, and says what to type."""

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda

from denoise_core import Guard, InputError
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from langchain_denoise import (
    DenoiseCompressor,
    DenoisingRetriever,
    EmbeddedEmbeddings,
    RetrieverAdapter,
    S2AMessages,
    Verifier,
    verified,
)

PROMPT = ChatPromptTemplate.from_template("{x}")
SOURCE_DOCUMENTS = [
    Document(page_content="Paris is the capital of France.", id="a"),
    Document(page_content="Hm.", id="b"),
]

SLIPS = {
    "swapped": (
        lambda model, retriever: DenoisingRetriever(model=retriever, retriever=model),
        "retriever",
    ),
    "no retriever": (
        lambda model, retriever: DenoisingRetriever(model=model),
        "retriever",
    ),
    "a prompt as model": (
        lambda model, retriever: DenoiseCompressor(model=PROMPT),
        "model",
    ),
    "a model as retriever": (
        lambda model, retriever: DenoisingRetriever(retriever=model),
        "retriever",
    ),
    "a model as the core's retriever": (
        lambda model, retriever: RetrieverAdapter(model),
        "retriever",
    ),
    "variant": (
        lambda model, retriever: S2AMessages(model=model, variant="selct"),
        "select",
    ),
    "S2AMessages of a retriever": (
        lambda model, retriever: S2AMessages(model=retriever),
        "retriever",
    ),
    "S2AMessages of 5": (lambda model, retriever: S2AMessages(model=5), "model"),
    "verified by a string": (
        lambda model, retriever: verified(model, "strict"),
        "Verifier",
    ),
    "a judge as verifier": (lambda model, retriever: verified(model, model), "judge="),
    "a judge with a verifier": (
        lambda model, retriever: verified(model, Verifier(), judge=model),
        "alone",
    ),
    "limits": (lambda model, retriever: Verifier(limits=3), "LoopLimits"),
    "no such setting around": (
        lambda model, retriever: DenoisingRetriever(retriver=retriever),
        "did you mean 'retriever'",
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_raises_when_the_part_is_built(test_kit, slip):
    build, says = SLIPS[slip]
    with pytest.raises(ValueError, match=says):
        build(test_kit.chat(), test_kit.ListRetriever(found=SOURCE_DOCUMENTS))


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
        ({"scorer": END}, "pass denoiser="),
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
    ids=str,
)
def test_a_slip_in_one_request(test_kit, asked_input):
    better = DenoiseCompressor(denoiser=test_kit.denoisers["end"]())
    with pytest.raises(ValueError, match=next(iter(asked_input))):
        better.invoke(
            {"documents": SOURCE_DOCUMENTS, "query": "q"},
            {"configurable": {"denoise": asked_input}},
        )


@pytest.mark.parametrize(
    "override",
    [
        {"keep": 1},
        {"threshold": 0.9},
        {"risk": 0.01},
    ],
)
def test_a_request_cannot_set_what_a_model_decides(override):
    model = GenericFakeChatModel(messages=iter([]))
    compressor = DenoiseCompressor(model=model, max_tokens=50)
    with pytest.raises(InputError, match="a setting of END"):
        compressor.denoiser_for(override)
    assert compressor.denoiser_for({}).keep is not None
