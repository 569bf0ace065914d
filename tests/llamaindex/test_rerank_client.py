"""LlamaIndex's stock Jina reranker against the service."""

import pytest
from llama_index.core.schema import NodeWithScore, TextNode
from service_server import QUERY, TEXTS, best, serving

from denoise_core.embedded import default_denoiser
from denoise_core.service import Service

jina = pytest.importorskip(
    "llama_index.postprocessor.jinaai_rerank",
    reason="llama-index-postprocessor-jinaai-rerank is not installed",
)
pytestmark = pytest.mark.enable_socket


def test_the_jina_postprocessor():
    nodes = [
        NodeWithScore(node=TextNode(text=t, id_=str(i)), score=0.0)
        for i, t in enumerate(TEXTS)
    ]
    with serving(Service(default_denoiser())) as url:
        stock = jina.JinaRerank(
            top_n=2, model="rag-denoise", base_url=f"{url}/v1", api_key="none"
        )
        results = stock.postprocess_nodes(nodes, query_str=QUERY)
    assert [hit.node.node_id for hit in results] == [str(i) for i in best()[:2]]
