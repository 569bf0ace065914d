"""What every test of the LangChain adapters shares: documents, denoisers, and a watch on the event loop."""

from types import SimpleNamespace

import langchain_agents
import pytest
from blockbuster import blockbuster_ctx
from function_chat_model import FunctionChatModel
from judging import let_words_judge
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from denoise_core import DenoiseResult, Drop, Guard, Passage
from denoise_core.end import ENDDenoiser
from denoise_core.s2a import Options, S2ADenoiser
from denoise_core.testing import FunctionScorer
from denoise_core.text.chunk import sentence_spans
from langchain_denoise import ChatModelLLM

QUESTION = "What is the capital of France?"


@pytest.fixture(autouse=True)
def no_blocking_calls():
    """A blocking call on the event loop fails the test that makes it."""
    with blockbuster_ctx() as watch:
        yield watch


@pytest.fixture
def documents():
    return [
        Document(
            page_content="Paris is the capital of France. It rains.",
            id="a",
            metadata={"source": "x.md"},
        ),
        Document(
            page_content="Bananas are yellow.",
            id="b",
            metadata={"source": "y.md", "page": 3},
        ),
        Document(
            page_content="France is in Europe. Paris has two million people.",
            metadata={"tags": ["geo"]},
        ),
        Document(page_content="Paris again.", id="a", metadata={}),
        Document(page_content="", id="empty", metadata={"source": "z.md"}),
        Document(
            page_content="باريس هي عاصمة فرنسا. 🗼🇫🇷",
            id="ar",
            metadata={"relevance_score": 0.5},
        ),
    ]


class ListRetriever(BaseRetriever):
    """Finds the same documents whatever is asked; ``k`` of them if that is given."""

    found: list[Document]

    def _get_relevant_documents(self, query, *, run_manager, k=None):
        return [document.model_copy(deep=True) for document in self.found[:k]]

    async def _aget_relevant_documents(self, query, *, run_manager, k=None):
        return [document.model_copy(deep=True) for document in self.found[:k]]


def overlap(query, text):
    return float(len(set(query.lower().split()) & set(text.lower().split())))


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


def merge(query, passages):
    """A joint rewrite: one text for all passages."""
    if not passages:
        return DenoiseResult(query, ())
    spans = tuple(source for passage in passages for source in passage.source_spans)
    return DenoiseResult(
        "rewritten " + query,
        (Passage("All in one.", "joint", spans=spans, is_rewritten=True),),
    )


def drop_all(query, passages):
    return DenoiseResult(
        query,
        (),
        tuple(
            Drop(source, "useless", -1.0)
            for passage in passages
            for source in passage.source_spans
        ),
    )


def fail(query, passages):
    raise ConnectionError("no route to the model")


def fail_chat(messages):
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
    "end": lambda: ENDDenoiser(FunctionScorer(overlap), keep=0.5),
    "end-threshold": lambda: ENDDenoiser(
        FunctionScorer(overlap), threshold=2.0, chunker=sentence_spans
    ),
    "s2a-select": s2a,
    "s2a-default": lambda: s2a(
        lambda message: "Context: Paris is in France.", variant="default"
    ),
    "s2a-joint": lambda: s2a(options=Options(join_passages=True)),
    "s2a-nonsense": lambda: s2a(lambda message: "🤷"),
    "guard": lambda: Guard(ENDDenoiser(FunctionScorer(overlap), keep=2)),
    "joint-rewrite": lambda: Answers(merge),
    "keeps-all": lambda: Answers(lambda query, ps: DenoiseResult(query, ps)),
    "drops-all": lambda: Answers(drop_all),
    "fails": lambda: Answers(fail),
}


@pytest.fixture(params=DENOISERS)
def make_denoiser(request):
    return DENOISERS[request.param]


@pytest.fixture
def test_kit():
    """The helpers of this file, for tests that cannot import it."""
    return SimpleNamespace(
        Answers=Answers,
        ListRetriever=ListRetriever,
        chat=chat,
        denoisers=DENOISERS,
        drop_all=drop_all,
        fail=fail,
        fail_chat=fail_chat,
        merge=merge,
        overlap=overlap,
        question=QUESTION,
        s2a=s2a,
        s2a_with=s2a_with,
    )


@pytest.fixture
def make_agent(test_kit):
    """An agent with a retrieval tool and the middleware under test."""

    def make_agent(*middleware, reply=None, checkpointer=None, **tool_settings):
        from langchain.agents import (
            create_agent,
        )  # missing with the oldest langchain-core
        from langchain_core.tools import create_retriever_tool

        settings = {"response_format": "content_and_artifact", **tool_settings}
        found_documents = test_kit.ListRetriever(
            found=langchain_agents.SOURCE_DOCUMENTS
        )
        search = create_retriever_tool(
            found_documents, "search", "Looks things up.", **settings
        )
        model = test_kit.chat(reply or langchain_agents.search_then_answer())
        return create_agent(
            model, [search], middleware=list(middleware), checkpointer=checkpointer
        ), model

    return make_agent


words_judge = pytest.fixture(autouse=True)(let_words_judge)
