"""A service whose scorer is a remote server with faults works again once the server does."""

import asyncio
import time
from contextlib import asynccontextmanager

import httpx
import pytest
from rerank_server import reranking
from service_server import serving

from denoise_core.end import ENDDenoiser
from denoise_core.runtime.engines import RemoteLimits
from denoise_core.scorers import RemoteReranker
from denoise_core.service import Service, ServiceLimits

pytestmark = pytest.mark.enable_socket

BODY = {"query": "Where is the tower?", "documents": ["The tower is here.", "Bread."]}
LIMITS = ServiceLimits(workers=1, timeout=4)


@asynccontextmanager
async def asking(scorer):
    service = Service(ENDDenoiser(scorer), limits=LIMITS)
    with serving(service) as url:
        async with httpx.AsyncClient(base_url=url) as client:
            yield client


async def rerank(client):
    return await client.post("/v1/rerank", json=BODY, timeout=60)


async def seconds_until_well(client):
    start_time = time.monotonic()
    while (await rerank(client)).status_code != 200:
        await asyncio.sleep(0.1)
        assert time.monotonic() - start_time < 30
    return time.monotonic() - start_time


FAULTS = {
    "hangs": ["hang"] * 3,
    "flaps": ["cut", 503, "hang"] * 3,
    "drips": ["drip"] * 2,
    "garbage": ["garbage"] * 4,
    "asks for time": [429] * 6,
}


@pytest.mark.parametrize(
    ("name", "server_timeout"),
    [
        ("hangs", 1),
        ("flaps", 1),
        ("drips", 1),
        ("garbage", 1),
        ("asks for time", 1),
        ("hangs", 60),
        ("flaps", 60),
        ("drips", 60),
    ],
)
async def test_it_is_well_soon_after_its_server_is(name, server_timeout):
    """With a time-out above the service's own, no reply ever says that a request hung."""
    with reranking() as server:
        server.retry_after = "1"
        limits = RemoteLimits(timeout=server_timeout)
        scorer = RemoteReranker(server.url, limits=limits)
        async with asking(scorer) as client:
            assert (await rerank(client)).status_code == 200
            server.faults = list(FAULTS[name])
            posts = [rerank(client) for _ in range(6)]
            replies = await asyncio.gather(*posts)
            statuses = {reply.status_code for reply in replies}
            assert statuses <= {200, 500, 502, 503, 504}
            server.faults = []  # the server is well
            assert await seconds_until_well(client) < 10
            for _ in range(5):
                assert (await rerank(client)).status_code == 200


async def readiness(client):
    reply = await client.get("/readyz")
    return reply.status_code, reply.json()["replicas"]


async def test_readiness_shows_that_every_replica_hung():
    with reranking() as server:
        limits = RemoteLimits(timeout=0.3, cooldown=2)
        scorer = RemoteReranker(server.url, limits=limits)
        async with asking(scorer) as client:
            assert await readiness(client) == (200, ["alive"])
            server.faults = ["hang"] * 2
            refusal = await rerank(client)
            assert (refusal.status_code, refusal.headers["retry-after"]) == (503, "2")
            assert await readiness(client) == (503, ["hung"])
            await asyncio.sleep(2)
            assert await readiness(client) == (200, ["hung"]), "a trial is due"
            assert (await rerank(client)).status_code == 200
            assert await readiness(client) == (200, ["alive"])


async def test_a_client_that_leaves_ends_its_work():
    with reranking() as server:
        server.faults = ["hang"]
        scorer = RemoteReranker(server.url, limits=RemoteLimits(timeout=60))
        async with asking(scorer) as client:
            with pytest.raises(httpx.ReadTimeout):
                await client.post("/v1/rerank", json=BODY, timeout=0.5)
            start_time = time.monotonic()
            while (await client.get("/livez")).json()["working"]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            assert time.monotonic() - start_time < LIMITS.timeout / 2
