"""LiteLLM's rerank client against the service, as it asks vLLM, Cohere and Jina."""

import asyncio

import pytest
from service_server import QUERY, TEXTS, best, serving

from denoise_core.embedded import default_denoiser
from denoise_core.service import Service

pytestmark = [pytest.mark.enable_socket, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def litellm():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "LITELLM_LOCAL_MODEL_COST_MAP", "True"
        )  # else it asks the network at its import
        yield pytest.importorskip(
            "litellm",
            reason="litellm is not installed: its rerank client is not tested",
        )


@pytest.fixture(scope="module")
def url():
    with serving(Service(default_denoiser())) as found:
        yield found


@pytest.mark.parametrize(
    ("provider", "path"),
    [("hosted_vllm", ""), ("cohere", ""), ("jina_ai", "/v1/rerank")],
)
def test_the_client(litellm, url, provider, path):
    model = f"{provider}/rag-denoise"
    asked = {
        "model": model,
        "query": QUERY,
        "documents": TEXTS,
        "top_n": 2,
        "api_base": url + path,
        "api_key": "none",
    }
    for found in (litellm.rerank(**asked), asyncio.run(litellm.arerank(**asked))):
        assert [r["index"] for r in found.results] == best()[:2]
        assert found.results[0]["relevance_score"] > found.results[1]["relevance_score"]
