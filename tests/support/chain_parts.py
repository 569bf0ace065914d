"""Denoisers of every kind for LangChain, and the chat model and the retriever that tests give them.

No name of this file may begin with "langchain": a denoiser from such a module is taken for a part of LangChain's.
"""

from function_chat_model import FunctionChatModel
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from rerank_server import words

from denoise_core import DenoiseResult, Drop, Guard, Passage
from denoise_core.end import ENDDenoiser
from denoise_core.s2a import Options, S2ADenoiser
from denoise_core.testing import FunctionScorer
from denoise_core.text.chunk import sentence_spans
from langchain_denoise import ChatModelLLM

QUESTION = "What is the capital of France?"


class ListRetriever(BaseRetriever):
    """Finds the same documents whatever is asked; ``k`` of them if that is given."""

    found: list[Document]

    def _get_relevant_documents(self, query, *, run_manager, k=None):
        return [document.model_copy(deep=True) for document in self.found[:k]]

    async def _aget_relevant_documents(self, query, *, run_manager, k=None):
        return self._get_relevant_documents(query, run_manager=run_manager, k=k)


def keep_first(messages):
    """A reply to the select prompt: the first sentence is needed."""
    return "1"


class Answers:
    """A denoiser that is a function of the query and the passages."""

    def __init__(self, answer):
        self.answer = answer

    def denoise(self, query, passages):
        return self.answer(query, tuple(passages))

    async def adenoise(self, query, passages):
        return self.denoise(query, passages)


def spans_of(passages):
    return tuple(source for passage in passages for source in passage.source_spans)


def merge(query, passages):
    if not passages:
        return DenoiseResult(query, ())
    return DenoiseResult(
        "rewritten " + query,
        (Passage("All in one.", "joint", spans=spans_of(passages), is_rewritten=True),),
    )


def drop_all(query, passages):
    drops = [Drop(span, "useless", -1.0) for span in spans_of(passages)]
    return DenoiseResult(query, (), tuple(drops))


def fail(*_):
    raise ConnectionError("no route to the model")


def chat(reply=keep_first, seconds=0.0):
    return FunctionChatModel(reply=reply, seconds=seconds)


def s2a_with(model, *, variant="select", **settings):
    """One call for each document, unless ``options`` say otherwise."""
    return S2ADenoiser(
        ChatModelLLM(model, structured=False),
        variant=variant,
        **{"options": Options(join_passages=False), **settings},
    )


def s2a(reply=keep_first, **settings):
    return s2a_with(chat(reply), **settings)


DENOISERS = {
    "end": lambda: ENDDenoiser(FunctionScorer(words), keep=0.5),
    "end-threshold": lambda: ENDDenoiser(
        FunctionScorer(words), threshold=2.0, chunker=sentence_spans
    ),
    "s2a-select": s2a,
    "s2a-default": lambda: s2a(
        lambda message: "Context: Paris is in France.", variant="default"
    ),
    "s2a-joint": lambda: s2a(options=Options(join_passages=True)),
    "s2a-nonsense": lambda: s2a(lambda message: "🤷"),
    "guard": lambda: Guard(ENDDenoiser(FunctionScorer(words), keep=2)),
    "joint-rewrite": lambda: Answers(merge),
    "keeps-all": lambda: Answers(lambda query, ps: DenoiseResult(query, ps)),
    "drops-all": lambda: Answers(drop_all),
    "fails": lambda: Answers(fail),
}
