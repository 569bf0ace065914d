"""The cookbook's file for Ray Serve on a local cluster of two nodes: the service's answers, through replicas."""

import socket
import sys
import time
from pathlib import Path

import httpx
import pytest
from growing_texts import passages_of
from ray_cluster import two_nodes

from denoise_core.embedded import DefaultScorer, default_denoiser

COOKBOOK = Path(__file__).parents[3] / "cookbook"
QUERY = "Where is the tower?"
TEXTS = ["Bread is cheap.", "The tower is in Porto.", "Rain fell all day."]

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
    sys.path.insert(
        0, str(COOKBOOK)
    )  # before the cluster begins: its workers look where this process does
    try:
        import ray_serve

        with two_nodes(), socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
            free.close()
            serve.start(http_options={"host": "127.0.0.1", "port": port})
            serve.run(ray_serve.app)
            yield f"http://127.0.0.1:{port}"
            serve.shutdown()
    finally:
        sys.path.remove(str(COOKBOOK))


def post(url, path, **body):
    reply = httpx.post(url + path, json=body, timeout=60)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_answers_are_the_services_own(url):
    expected = default_denoiser().denoise(QUERY, passages_of(TEXTS)).as_json()
    assert (
        post(url, "/v1/denoise", query=QUERY, passages=TEXTS)["passages"]
        == expected["passages"]
    )
    scores = DefaultScorer().score(QUERY, TEXTS)
    ranked = post(url, "/v1/rerank", query=QUERY, documents=TEXTS)["results"]
    assert [r["index"] for r in ranked] == scores.argsort()[::-1].tolist()
    assert httpx.get(url + "/livez").json()["status"] == "ok"


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
    body = {"query": QUERY, "documents": TEXTS}
    found = [
        httpx.post(url + "/v1/rerank", json=body, timeout=60).status_code
        for _ in range(30)
    ]
    assert found.count(200) >= 25, (
        "the other one answers; what was on its way to the lost one may fail"
    )
    deadline = time.monotonic() + 120
    while len(replicas() - {killed}) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert httpx.post(url + "/v1/rerank", json=body, timeout=60).status_code == 200
