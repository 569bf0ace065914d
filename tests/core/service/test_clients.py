"""Stock rerank clients, Cohere's, LangChain's, Jina's and LiteLLM's, against the service as they ask their own."""

import asyncio

import pytest
from service_server import QUERY, TEXTS, best

pytestmark = [pytest.mark.enable_socket, pytest.mark.filterwarnings("ignore")]
ASKED = {"query": QUERY, "documents": TEXTS, "top_n": 2}


def best_texts():
    return [TEXTS[i] for i in best()[:2]]


def load(name):
    return pytest.importorskip(name, reason=f"{name} is not installed")


@pytest.mark.parametrize("version", ["Client", "ClientV2"])
def test_coheres(default_url, version):
    client = getattr(load("cohere"), version)(api_key="none", base_url=default_url)
    ranked = client.rerank(model="any", **ASKED).results
    assert [row.index for row in ranked] == best()[:2]
    assert ranked[0].relevance_score > ranked[1].relevance_score


def test_langchains(default_url):
    from langchain_core.documents import Document

    client = load("cohere").ClientV2(api_key="none", base_url=default_url)
    ranking = load("langchain_cohere").CohereRerank(
        client=client, model="any", cohere_api_key="none", top_n=2
    )
    documents = [Document(text) for text in TEXTS]
    kept = ranking.compress_documents(documents, QUERY)
    assert [document.page_content for document in kept] == best_texts()


def test_jinas(default_url):
    jina = load("llama_index.postprocessor.jinaai_rerank")
    from llama_index.core.schema import NodeWithScore, TextNode

    nodes = [NodeWithScore(node=TextNode(text=text)) for text in TEXTS]
    ranking = jina.JinaRerank(
        model="any", base_url=f"{default_url}/v1", api_key="none", top_n=2
    )
    ranked = ranking.postprocess_nodes(nodes, query_str=QUERY)
    assert [node.node.text for node in ranked] == best_texts()


@pytest.mark.parametrize(
    ("provider", "path"),
    [("hosted_vllm", ""), ("cohere", ""), ("jina_ai", "/v1/rerank")],
)
def test_litellms(default_url, monkeypatch, provider, path):
    # Without it LiteLLM asks the network when it is imported.
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm = load("litellm")
    server = {"api_base": default_url + path, "api_key": "none"}
    asked = {"model": f"{provider}/rag-denoise", **server, **ASKED}
    for reply in (litellm.rerank(**asked), asyncio.run(litellm.arerank(**asked))):
        assert [row["index"] for row in reply.results] == best()[:2]
