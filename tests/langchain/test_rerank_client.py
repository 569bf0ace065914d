"""LangChain's stock Cohere reranker, and the Cohere client itself, against the service."""

import pytest
from langchain_core.documents import Document
from service_server import QUERY, TEXTS, best, serving

from denoise_core.embedded import default_denoiser
from denoise_core.service import Service

cohere = pytest.importorskip("cohere", reason="the Cohere client is not installed")
pytestmark = pytest.mark.enable_socket


@pytest.fixture(scope="module")
def url():
    with serving(Service(default_denoiser())) as found:
        yield found


@pytest.mark.parametrize("client", [cohere.Client, cohere.ClientV2])
def test_the_cohere_client(url, client):
    found = client(api_key="none", base_url=url).rerank(model="rag-denoise", query=QUERY, documents=TEXTS, top_n=3)
    assert [r.index for r in found.results] == best()[:3]
    assert all(0 <= r.relevance_score <= 1 for r in found.results)


def test_langchains_compressor(url):
    langchain_cohere = pytest.importorskip("langchain_cohere", reason="langchain-cohere is not installed")
    compressor = langchain_cohere.CohereRerank(
        client=cohere.ClientV2(api_key="none", base_url=url), model="rag-denoise", top_n=2
    )
    documents = [Document(page_content=t, metadata={"n": i}) for i, t in enumerate(TEXTS)]
    found = compressor.compress_documents(documents, QUERY)
    assert [d.metadata["n"] for d in found] == best()[:2]
    assert found[0].metadata["relevance_score"] > found[1].metadata["relevance_score"]
