"""Slips that people make: each raises when the part is built, and says what to type."""

import pytest
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate

from langchain_denoise import (
    AugmentedRunnable,
    ChatModelLLM,
    Denoise,
    DenoiseCompressor,
    DenoisingRetriever,
    RetrieverAdapter,
    S2AMessages,
    Verifier,
    verified,
)

PROMPT = ChatPromptTemplate.from_template("{x}")
FOUND = [
    Document(page_content="Paris is the capital of France.", id="a"),
    Document(page_content="Hm.", id="b"),
]

SLIPS = {
    "swapped": (lambda m, r: DenoisingRetriever.from_llm(r, retriever=m), "retriever"),
    "swapped embeddings": (lambda m, r: DenoisingRetriever.from_embeddings(r, retriever=r), "scorer"),
    "no retriever": (lambda m, r: DenoisingRetriever.from_llm(m), "retriever"),
    "settings of another kind": (lambda m, r: DenoiseCompressor(settings=m), "settings"),
    "two rules": (lambda m, r: Denoise(keep=0.5, threshold=1.0), "keep"),
    "a retriever as model": (lambda m, r: DenoiseCompressor.from_llm(r), "retriever"),
    "a retriever as a core model": (lambda m, r: ChatModelLLM(r), "retriever"),
    "a prompt as model": (lambda m, r: DenoiseCompressor.from_llm(PROMPT), "model"),
    "a model as retriever": (lambda m, r: DenoisingRetriever(retriever=m), "retriever"),
    "a model as the core's retriever": (lambda m, r: RetrieverAdapter(m), "retriever"),
    "variant": (lambda m, r: DenoiseCompressor.from_llm(m, variant="selct"), "select"),
    "variant around a retriever": (lambda m, r: DenoisingRetriever(retriever=r, model=m, variant="x"), "select"),
    "no probe there": (lambda m, r: DenoiseCompressor.from_probe("/nope"), "/nope"),
    "no file there": (lambda m, r: DenoiseCompressor.from_file("/nope"), "/nope"),
    "S2AMessages of a retriever": (lambda m, r: S2AMessages(model=r), "retriever"),
    "S2AMessages of 5": (lambda m, r: S2AMessages(model=5), "model"),
    "AugmentedRunnable of a model": (lambda m, r: AugmentedRunnable(augmenter=m), "Augmenter"),
    "verified by a string": (lambda m, r: verified(m, "strict"), "Verifier"),
    "a judge as verifier": (lambda m, r: verified(m, m), "judge="),
    "a judge beside a verifier": (lambda m, r: verified(m, Verifier(), judge=m), "alone"),
    "limits": (lambda m, r: Verifier(limits=3), "LoopLimits"),
    "chunks": (lambda m, r: DenoiseCompressor(chunks=-5), "chunks"),
    "no such setting": (lambda m, r: DenoiseCompressor(kep=3), "did you mean 'keep'"),
    "no such setting around": (lambda m, r: DenoisingRetriever(retriver=r), "did you mean 'retriever'"),
    "another library's name": (lambda m, r: DenoiseCompressor(similarity_threshold=0.3), "no such setting"),
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_raises_when_the_part_is_built(kit, slip):
    build, says = SLIPS[slip]
    with pytest.raises(ValueError, match=says):
        build(kit.chat(), kit.ListRetriever(found=FOUND))


@pytest.mark.parametrize(
    "slip",
    [{"scope": "all"}, {"variant": "selct"}, {"on_error": "ignore"}],
    ids=lambda s: next(iter(s)),
)
def test_a_slip_in_middleware(kit, slip):
    middleware = pytest.importorskip("langchain_denoise.middleware")
    with pytest.raises(ValueError, match=next(iter(slip))):
        middleware.S2AMiddleware(kit.chat(), **slip)


@pytest.mark.parametrize(
    "asked",
    [
        {"order": "best"},
        {"top_n": 0},
        {"top_n": "3"},
        {"keep": -1},
        {"threshold": "high"},
        {"ordr": "score"},
    ],
    ids=str,
)
def test_a_slip_in_one_request(kit, asked):
    better = DenoiseCompressor(denoiser=kit.denoisers["end"]())
    with pytest.raises(ValueError, match=next(iter(asked))):
        better.invoke(
            {"documents": FOUND, "query": "q"}, {"configurable": {"denoise": asked}}
        )


def test_a_variant_in_one_request(kit):
    asked = {"configurable": {"denoise": {"variant": "selct"}}}
    with pytest.raises(ValueError, match="select"):
        DenoiseCompressor.from_llm(kit.chat()).invoke(
            {"documents": FOUND, "query": "q"}, asked
        )
