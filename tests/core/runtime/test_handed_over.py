"""What is handed over in the place of an LLM, a scorer or a denoiser is refused, with what to write instead."""

import types

import pytest

from denoise_core import Guard, InputError, Passage
from denoise_core.protocols import (
    expect_denoiser,
    expect_llm,
    expect_retriever,
    expect_scorer,
)
from denoise_core.scorers import BM25Scorer
from denoise_core.testing import FunctionLLM
from denoise_core.types import check_passages


def foreign(module, **methods):
    """An object whose class comes from ``module``, with these methods."""
    base = types.new_class("Base", exec_body=lambda ns: ns.update(__module__=module))
    return types.new_class("Theirs", (base,), exec_body=lambda ns: ns.update(methods))()


def method(self, *given):
    raise AssertionError("called")


@pytest.mark.parametrize(
    ("check", "value", "says"),
    [
        (expect_llm, FunctionLLM, "an instance: FunctionLLM(...)"),
        (expect_llm, lambda m: "x", "FunctionLLM(llm)"),
        (expect_llm, "gpt", "not its name"),
        (expect_llm, None, "got None"),
        (
            expect_retriever,
            foreign("langchain_community.vs", as_retriever=method),
            "llm.as_retriever()",
        ),
        (
            expect_retriever,
            foreign("llama_index.core", retrieve=method, aretrieve=method),
            "llamaindex_denoise.models.retriever.LlamaRetriever(llm)",
        ),
        (expect_retriever, [Passage("x", id="a")], "ListRetriever(llm)"),
        (
            expect_scorer,
            foreign("langchain_openai", embed_documents=method),
            "EmbeddingScorer(llm)",
        ),
        (
            expect_scorer,
            foreign("sentence_transformers", predict=method),
            "CrossEncoderScorer(llm)",
        ),
        (expect_scorer, lambda q, t: 0.0, "FunctionScorer(llm)"),
        (expect_scorer, BM25Scorer, "BM25Scorer(...)"),
        (expect_denoiser, BM25Scorer(), "ENDDenoiser(llm)"),
        (expect_denoiser, FunctionLLM(lambda m: ""), "S2ADenoiser(llm)"),
        (expect_denoiser, [Guard], "Pipeline(*llm)"),
    ],
)
def test_the_wrong_thing_is_refused_with_the_right_one(check, value, says):
    with pytest.raises(InputError) as caught:
        check(value, "llm")
    assert says in str(caught.value)


def test_a_real_framework_object_is_refused():
    chat = pytest.importorskip("langchain_core.language_models.fake_chat_models")
    with pytest.raises(InputError, match=r"langchain_denoise\.ChatModelLLM\(llm\)"):
        expect_llm(chat.FakeListChatModel(responses=["x"]))


def test_a_real_llamaindex_model_is_refused():
    mock = pytest.importorskip("llama_index.core.llms.mock")
    with pytest.raises(InputError, match=r"llamaindex_denoise\.LlamaLLM\(llm\)"):
        expect_llm(mock.MockLLM())


def test_a_secret_handed_over_by_mistake_is_not_shown():
    with pytest.raises(InputError) as caught:
        expect_llm("sk-abcdefghijklmnop")
    assert "abcdef" not in str(caught.value)


@pytest.mark.parametrize(
    "passages", ["a text", Passage("x", id="a"), None, 3, ["a text"], [{"text": "x"}]]
)
def test_passages_that_are_none_are_refused(passages):
    with pytest.raises(InputError, match="passages"):
        check_passages(passages)
