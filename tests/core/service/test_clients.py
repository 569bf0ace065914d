"""Stock rerank clients, Cohere's, LangChain's, Jina's and LiteLLM's, against the service as they ask their own."""

import asyncio

import pytest
from service_server import QUERY, TEXTS, best, serving

from denoise_core.embedded import default_denoiser
from denoise_core.service import Service

pytestmark = [pytest.mark.enable_socket, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def url():
    with serving(Service(default_denoiser())) as found:
        yield found


@pytest.mark.parametrize("version", ["Client", "ClientV2"])
def test_coheres(url, version):
    cohere = pytest.importorskip(
        "cohere", reason="cohere is not installed: its client is not tested"
    )
    client = getattr(cohere, version)(api_key="none", base_url=url)
    found = client.rerank(model="any", query=QUERY, documents=TEXTS, top_n=2).results
    assert [r.index for r in found] == best()[:2]
    assert found[0].relevance_score > found[1].relevance_score


def test_langchains(url):
    cohere = pytest.importorskip(
        "cohere", reason="cohere is not installed: LangChain's reranker is not tested"
    )
    langchain = pytest.importorskip(
        "langchain_cohere", reason="langchain-cohere is not installed"
    )
    from langchain_core.documents import Document

    client = cohere.ClientV2(api_key="none", base_url=url)
    ranking = langchain.CohereRerank(
        client=client, model="any", cohere_api_key="none", top_n=2
    )
    found = ranking.compress_documents([Document(t) for t in TEXTS], QUERY)
    assert [d.page_content for d in found] == [TEXTS[i] for i in best()[:2]]


def test_jinas(url):
    jina = pytest.importorskip(
        "llama_index.postprocessor.jinaai_rerank", reason="not installed"
    )
    from llama_index.core.schema import NodeWithScore, TextNode

    nodes = [NodeWithScore(node=TextNode(text=t)) for t in TEXTS]
    ranking = jina.JinaRerank(
        model="any", base_url=f"{url}/v1", api_key="none", top_n=2
    )
    found = ranking.postprocess_nodes(nodes, query_str=QUERY)
    assert [n.node.text for n in found] == [TEXTS[i] for i in best()[:2]]


@pytest.mark.parametrize(
    ("provider", "path"),
    [("hosted_vllm", ""), ("cohere", ""), ("jina_ai", "/v1/rerank")],
)
def test_litellms(url, monkeypatch, provider, path):
    # Without it LiteLLM asks the network when it is imported.
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm = pytest.importorskip("litellm", reason="litellm is not installed")
    asked = {
        "model": f"{provider}/rag-denoise",
        "query": QUERY,
        "documents": TEXTS,
        "top_n": 2,
        "api_base": url + path,
        "api_key": "none",
    }
    for found in (litellm.rerank(**asked), asyncio.run(litellm.arerank(**asked))):
        assert [r["index"] for r in found.results] == best()[:2]
        assert found.results[0]["relevance_score"] > found.results[1]["relevance_score"]
