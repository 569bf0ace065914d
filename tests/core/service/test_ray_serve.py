"""The cookbook's file for Ray Serve on a local cluster of two nodes: the service's answers, through replicas."""

import socket
import time
from pathlib import Path

import httpx
import pytest
from growing_texts import passages_of
from ray_cluster import two_nodes
from service_server import QUERY, TEXTS, best

from denoise_core.embedded import default_denoiser

COOKBOOK = Path(__file__).parents[3] / "cookbook"
ray = pytest.importorskip(
    "ray", reason="Ray is not installed: the recipe for Ray Serve is not run"
)
serve = pytest.importorskip(
    "ray.serve",
    reason="ray[serve] is not installed: the recipe for Ray Serve is not run",
)
pytestmark = [pytest.mark.enable_socket, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def url():
    with pytest.MonkeyPatch.context() as patch:
        # Before the cluster begins: its workers look where this process does.
        patch.syspath_prepend(COOKBOOK)
        import ray_serve

        with two_nodes(), socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
            free.close()
            serve.start(http_options={"host": "127.0.0.1", "port": port})
            serve.run(ray_serve.app)
            yield f"http://127.0.0.1:{port}"
            serve.shutdown()


RANKED = {"query": QUERY, "documents": TEXTS}


def post(url, path, body):
    return httpx.post(url + path, json=body, timeout=60)


def test_answers_are_the_services_own(url):
    expected = default_denoiser().denoise(QUERY, passages_of(TEXTS)).as_json()
    denoised = post(url, "/v1/denoise", {"query": QUERY, "passages": TEXTS}).json()
    assert denoised["passages"] == expected["passages"]
    ranked = post(url, "/v1/rerank", RANKED).json()["results"]
    assert [row["index"] for row in ranked] == best()
    assert httpx.get(url + "/livez").json()["status"] == "ok"


def rerank_status(url):
    return post(url, "/v1/rerank", RANKED).status_code


def test_a_killed_replica_is_replaced(url):
    from ray.util import list_named_actors

    def replicas():
        return {
            a["name"]
            for a in list_named_actors(all_namespaces=True)
            if "#Denoising#" in a["name"]
        }

    before = replicas()
    assert len(before) == 2
    killed = min(before)
    ray.kill(ray.get_actor(killed, namespace="serve"))
    found = [rerank_status(url) for _ in range(30)]
    assert found.count(200) >= 25, (
        "the other one answers; what was on its way to the lost one may fail"
    )
    deadline = time.monotonic() + 120
    while len(replicas() - {killed}) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert rerank_status(url) == 200
