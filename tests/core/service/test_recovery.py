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
async def asking(**limits):
    """The remote server, and a client of a service that ranks with it."""
    with reranking() as server:
        scorer = RemoteReranker(server.url, limits=RemoteLimits(**limits))
        service = Service(ENDDenoiser(scorer), limits=LIMITS)
        with serving(service) as url:
            async with httpx.AsyncClient(base_url=url) as client:
                yield server, client


async def rerank(client):
    return await client.post("/v1/rerank", json=BODY, timeout=60)


async def check_well_soon(client):
    start_time = time.monotonic()
    while (await rerank(client)).status_code != 200:
        await asyncio.sleep(0.1)
        assert time.monotonic() - start_time < 10


FAULTS = {
    "hangs": ["hang"] * 3,
    "flaps": ["cut", 503, "hang"] * 3,
    "drips": ["drip"] * 2,
    "garbage": ["garbage"] * 4,
    "asks for time": [429] * 6,
}


@pytest.mark.parametrize("server_timeout", [1, 60])
@pytest.mark.parametrize("name", FAULTS)
async def test_it_is_well_soon_after_its_server_is(name, server_timeout):
    """With a time-out above the service's own, no reply ever says that a request hung."""
    async with asking(timeout=server_timeout) as (server, client):
        server.retry_after = "1"
        assert (await rerank(client)).status_code == 200
        server.faults = list(FAULTS[name])
        posts = [rerank(client) for _ in range(6)]
        replies = await asyncio.gather(*posts)
        statuses = {reply.status_code for reply in replies}
        assert statuses <= {200, 502, 503, 504}
        for reply in replies:
            assert reply.status_code == 200 or " " in reply.json()["detail"]
        server.faults = []  # the server is well
        await check_well_soon(client)
        for _ in range(5):
            assert (await rerank(client)).status_code == 200


async def readiness(client):
    reply = await client.get("/readyz")
    return reply.status_code, reply.json()["replicas"]


async def test_readiness_shows_that_every_replica_hung():
    async with asking(timeout=0.3, cooldown=2) as (server, client):
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
    async with asking(timeout=60) as (server, client):
        server.faults = ["hang"]
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/v1/rerank", json=BODY, timeout=0.5)
        start_time = time.monotonic()
        while (await client.get("/livez")).json()["working"]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        assert time.monotonic() - start_time < LIMITS.timeout / 2
