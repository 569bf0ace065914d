"""What tests of the LangChain adapters share: documents, denoisers in turn, a watch on the event loop."""

from functools import partial

import pytest
from blockbuster import blockbuster_ctx
from chain_parts import DENOISERS
from judging import let_words_judge
from langchain_core.documents import Document

from denoise_core.runtime import fallbacks


@pytest.fixture(autouse=True)
def no_blocking_calls():
    """A blocking call on the event loop fails the test that makes it."""
    with blockbuster_ctx() as watch:
        yield watch


@pytest.fixture(autouse=True)
def no_fallbacks_before():
    """The first fallback of a kind is logged."""
    fallbacks._counts.clear()


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


@pytest.fixture(params=DENOISERS)
def make_denoiser(request):
    return DENOISERS[request.param]


@pytest.fixture
def client(server):
    """Builds models of `langchain-openai` that ask the server."""
    from langchain_openai import ChatOpenAI

    settings = {"base_url": server.url, "api_key": "none", "max_retries": 0}
    return partial(ChatOpenAI, model="tiny", **settings)


words_judge = pytest.fixture(autouse=True)(let_words_judge)
