"""A real local Ray cluster of two nodes: parts travel to its actors, and a bulk job outlives a node."""

import json
import threading
import time
from pathlib import Path

import pytest
from bulk_denoisers import Noted
from ray_cluster import two_nodes

from denoise_core import Passage
from denoise_core.embedded import default_denoiser
from denoise_core.service.bulk import bulk

ray = pytest.importorskip("ray", reason="Ray is not installed (extra `ray`): bulk work on a cluster is not tested")
pytestmark = [pytest.mark.enable_socket, pytest.mark.filterwarnings("ignore")]

PASSAGES = [Passage("The tower is in Porto.", "a"), Passage("Bread is cheap.", "b"), Passage("Rain fell.", "c")]


@pytest.fixture(scope="module")
def cluster():
    with two_nodes() as running:
        yield running


def test_a_denoiser_travels_to_an_actor(cluster):
    @ray.remote
    class Denoises:
        def __init__(self, denoiser):
            self.denoiser = denoiser

        def kept(self, query):
            return self.denoiser.denoise(query, PASSAGES).as_json()

    actor = Denoises.remote(default_denoiser(keep=1))
    expected = default_denoiser(keep=1).denoise("Where is the tower?", PASSAGES).as_json()
    found = ray.get(actor.kept.remote("Where is the tower?"))
    assert found["passages"] == expected["passages"]
    ray.kill(actor)


def test_a_job_outlives_a_node(cluster, tmp_path):
    rows = [
        {"id": str(i), "query": f"tower {i}", "passages": ["the tower", "bread", f"n {i}"]} for i in range(1600)
    ]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(r) + "\n" for r in rows))
    parts, log = tmp_path / "out.jsonl.parts", tmp_path / "log"

    def kill():
        while len(list(parts.glob("*.jsonl"))) < 4:
            time.sleep(0.02)
        cluster.remove_node(cluster.second, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    done = bulk(source, tmp_path / "out.jsonl", Noted(log, 0.005), engine="ray")
    killer.join()
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sorted(r["id"] for r in found) == sorted(r["id"] for r in rows)
    assert all(r["query"] == f"tower {r['id']}" for r in found)
    assert done.rows == 1600
    assert Path(log).read_text().count("\n") - 1600 <= 2 * 8 * 64, "what the lost node had under way, and no more"
