"""Remote scorers against real servers here: what is tried again, where a document goes, when it ends."""

import asyncio
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from email.utils import formatdate
from itertools import pairwise

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rerank_server import reranking, words

from denoise_core import Guard, InputError, Passage
from denoise_core.end import ENDDenoiser
from denoise_core.errors import BadReply, BudgetExceeded, is_user_error
from denoise_core.runtime import fallbacks
from denoise_core.runtime.budget import Budget, Meter, current_meter
from denoise_core.runtime.engines import (
    RemoteLimits,
    ReplicaHung,
    _parse_retry_after,
    rendezvous_order,
)
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.scorers import RemoteReranker

pytestmark = pytest.mark.enable_socket

QUERY = "where is the tower"
TEXTS = [f"the tower number {i} is" if i % 3 else f"bread {i}" for i in range(60)]
EXPECTED = [words(QUERY, t) for t in TEXTS]
QUICK = RemoteLimits(cooldown=30)


@pytest.fixture
def server():
    fallbacks._counts.clear()
    with reranking() as served:
        yield served


@pytest.fixture
def pair():
    with ExitStack() as stack:
        yield [stack.enter_context(reranking()) for _ in range(2)]


async def test_async_and_sync_ask_the_same_and_get_the_same(server):
    scorer = RemoteReranker(server.url, batch=7)
    assert (await asyncio.to_thread(scorer.score, QUERY, TEXTS)).tolist() == EXPECTED
    assert (await scorer.ascore(QUERY, TEXTS)).tolist() == EXPECTED
    assert Counter(map(len, server.seen)) == {7: 16, 4: 2}
    assert (await scorer.ascore(QUERY, [])).shape == (0,)


def test_both_shapes(server):
    url = server.url.removesuffix("/v1")
    assert RemoteReranker(url, shape="tei").score(QUERY, TEXTS).tolist() == EXPECTED
    with pytest.raises(InputError, match="'jina' or 'tei'"):
        RemoteReranker(url, shape="other")


@pytest.mark.parametrize("fault", [408, 425, 429, 500, 502, 503, 504, "cut"])
def test_what_passes_is_tried_again(server, fault):
    server.faults = [fault, fault]
    assert RemoteReranker(server.url).score(QUERY, TEXTS[:5]).tolist() == EXPECTED[:5]
    assert len(server.seen) == 3


@pytest.mark.parametrize("fault", [301, 307, 404, 405, 409, 410, 501])
def test_what_does_not_pass_is_not(server, fault):
    server.faults = [fault]
    with pytest.raises(BadReply, match=rf"refused the request \({fault}\)$") as error:
        RemoteReranker(server.url).score(QUERY, TEXTS[:5])
    assert error.value.status == fault
    assert not is_user_error(error.value)
    assert len(server.seen) == 1


@pytest.mark.parametrize("fault", [401, 403])
def test_a_refused_key_is_a_mistake(server, fault):
    server.faults = [fault]
    with pytest.raises(
        InputError, match=rf"refused the key \({fault}\): set the key with key_env="
    ):
        RemoteReranker(server.url).score(QUERY, TEXTS[:5])
    assert len(server.seen) == 1


@pytest.mark.parametrize("fault", [400, 413, 422])
def test_a_text_that_is_refused_drops_none(server, fault):
    """It had the lowest score of all, so that it was the first to be dropped."""
    server.refuses = (TEXTS[7], fault)
    scorer = RemoteReranker(server.url, batch=5)
    with pytest.raises(BadReply, match=rf"\({fault}\): a text may be too long"):
        scorer.score(QUERY, TEXTS)
    passages = [Passage(text, str(i)) for i, text in enumerate(TEXTS)]
    result = Guard(ENDDenoiser(scorer, keep=1)).denoise(QUERY, passages)
    assert result.passages == tuple(passages)
    assert f"({fault})" in result.fallback


@pytest.mark.parametrize("fault", [429, 503])
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_server_that_asks_for_time_gets_it(fault, replicas):
    """Without the header the second attempt comes within .1 s, and at once where another replica lives."""
    with ExitStack() as stack:
        servers = [stack.enter_context(reranking()) for _ in range(replicas)]
        for server in servers:
            server.faults, server.retry_after = [fault], "1"
        assert (
            RemoteReranker([s.url for s in servers]).score(QUERY, TEXTS[:1]).tolist()
            == EXPECTED[:1]
        )
        arrivals = sorted(at for server in servers for at in server.arrivals)
    assert len(arrivals) in (2, 3), (
        "429 is asked again where it was; of 503 the other replica is asked"
    )
    assert all(later - earlier >= 1 for earlier, later in pairwise(arrivals))


def test_both_forms_of_retry_after():
    soon = formatdate(time.time() + 30, usegmt=True)
    assert 25 < _parse_retry_after(soon) <= 30
    assert _parse_retry_after(formatdate(time.time() - 30, usegmt=True)) == 0
    for said, seconds in (
        ("7", 7),
        ("900", 60),
        ("-3", 0),
        ("soon", 0),
        ("٧", 0),
        ("9" * 400, 60),
        (None, 0),
    ):
        assert _parse_retry_after(said) == seconds


@pytest.mark.parametrize(
    ("fault", "error"), [(503, httpx.HTTPStatusError), ("cut", httpx.TransportError)]
)
def test_after_the_last_attempt_the_clients_own_error_comes_through(
    server, fault, error
):
    server.faults = [fault] * 9
    with pytest.raises(error):
        RemoteReranker(server.url, limits=RemoteLimits(attempts=3)).score(QUERY, ["a"])
    assert len(server.seen) == 3


def test_what_came_is_not_asked_again(server):
    server.faults = [503]
    scorer = RemoteReranker(server.url, batch=10, limits=RemoteLimits(concurrency=1))
    assert scorer.score(QUERY, TEXTS).tolist() == EXPECTED
    assert len(server.seen) == 7


def test_no_more_than_so_many_at_once_however_many_callers():
    with reranking(pause=0.02) as server:
        scorer = RemoteReranker(server.url, batch=1, limits=RemoteLimits(concurrency=3))
        threads = [
            threading.Thread(target=scorer.score, args=(QUERY, TEXTS[:8]))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.peak == 3


def test_a_document_goes_to_the_same_replica_whatever_the_question_and_company(pair):
    urls = [s.url for s in pair]
    for query, texts in (
        (QUERY, TEXTS),
        ("another", TEXTS[::-1]),
        ("third", TEXTS[10:]),
    ):
        RemoteReranker(urls[::-1], batch=5).score(query, texts)
    homes = {
        t: {n for n, s in enumerate(pair) for texts in s.seen if t in texts}
        for t in TEXTS
    }
    assert all(len(h) == 1 for h in homes.values())
    assert len(set(map(frozenset, homes.values()))) == 2, "both replicas have some"


def test_a_killed_replicas_documents_go_to_the_next_and_no_others(pair):
    scorer = RemoteReranker([s.url for s in pair], batch=4, limits=QUICK)
    assert scorer.score(QUERY, TEXTS).tolist() == EXPECTED
    first, second = pair
    own = {t for texts in second.seen for t in texts}
    first.faults = ["cut"] * 1000
    assert scorer.score("tower 2", TEXTS).tolist() == [
        words("tower 2", t) for t in TEXTS
    ]
    assert own < {t for texts in second.seen for t in texts} == set(TEXTS)
    asked = len(first.seen)
    scorer.score("tower 3", TEXTS)
    assert len(first.seen) == asked, "one that failed a moment ago is left alone"


def test_a_replica_that_rests_is_asked_when_no_other_is_there():
    with reranking() as server:
        server.faults = ["cut"]
        scorer = RemoteReranker([server.url, "http://127.0.0.1:9/v1"], limits=QUICK)
        assert scorer.score(QUERY, TEXTS).tolist() == EXPECTED


def test_a_replica_that_comes_back_gets_its_documents_again(pair):
    scorer = RemoteReranker([s.url for s in pair], limits=RemoteLimits(cooldown=0))
    scorer.score(QUERY, TEXTS)
    before = {t for texts in pair[0].seen for t in texts}
    pair[0].faults = [503]
    scorer.score(QUERY, TEXTS)
    pair[0].seen.clear()
    scorer.score(QUERY, TEXTS)
    assert {t for texts in pair[0].seen for t in texts} == before


def test_a_deadline_ends_it_retries_included(server):
    server.faults = ["hang"]
    with pytest.raises(TimeoutError, match="no answer"):
        RemoteReranker(server.url, limits=RemoteLimits(deadline=0.3)).score(
            QUERY, ["a"]
        )


def test_a_reply_in_drips_ends_at_the_timeout(server):
    """Each byte comes within the limit of a read; the whole does not."""
    server.faults = ["drip"] * 4
    scorer = RemoteReranker(server.url, limits=RemoteLimits(timeout=0.5, attempts=1))
    start_time = time.monotonic()
    with pytest.raises(httpx.ReadTimeout, match=r"in full within 0\.5 s"):
        scorer.score(QUERY, ["a"])
    assert time.monotonic() - start_time < 10


def test_a_replica_that_hung_is_tried_once_a_cooldown_and_then_used_again(server):
    limits = RemoteLimits(timeout=0.3, cooldown=600)
    scorer = RemoteReranker(server.url, limits=limits)
    server.faults = ["hang", "hang"]
    with pytest.raises(ReplicaHung, match="asked again in"):
        scorer.score(QUERY, ["a"])
    assert scorer.engine.replicas.states == ["hung"]
    assert not scorer.engine.replicas.can_ask
    requests = len(server.seen)
    for _ in range(5):
        with pytest.raises(ReplicaHung):
            scorer.score(QUERY, ["a"])
    assert len(server.seen) == requests, "the server is left alone meanwhile"
    scorer.engine.replicas._next_probe.update({server.url: 0.0})  # ten minutes later
    assert scorer.engine.replicas.can_ask
    assert scorer.score(QUERY, TEXTS).tolist() == EXPECTED
    assert scorer.engine.replicas.states == ["alive"]


@pytest.mark.parametrize("fault", [429, 503])
def test_a_replica_that_hung_and_then_refuses_is_asked_again(server, fault):
    """It answers: its callers were refused without a request, for a whole cooldown."""
    limits = RemoteLimits(timeout=0.3, cooldown=600)
    scorer = RemoteReranker(server.url, limits=limits)
    server.faults = ["hang", "hang"]
    with pytest.raises(ReplicaHung):
        scorer.score(QUERY, ["a"])
    scorer.engine.replicas._next_probe.update({server.url: 0.0})  # ten minutes later
    server.faults = [fault]
    assert scorer.score(QUERY, TEXTS).tolist() == EXPECTED


def test_where_another_replica_lives_nobody_waits_for_the_one_that_hung(pair):
    limits = RemoteLimits(timeout=0.5, cooldown=30)
    scorer = RemoteReranker([s.url for s in pair], limits=limits)
    pair[0].faults = ["hang"] * 100
    assert scorer.score(QUERY, TEXTS).tolist() == EXPECTED
    requests = len(pair[0].seen)
    for _ in range(5):
        assert scorer.score(QUERY, TEXTS).tolist() == EXPECTED
    assert len(pair[0].seen) == requests


async def test_after_many_cancelled_calls_the_next_one_succeeds(server):
    """Cancelled requests can keep connections of httpx's pool for ever."""
    limits = RemoteLimits(concurrency=4, timeout=20)
    scorer = RemoteReranker(server.url, limits=limits)
    random_number = random.Random(1)
    for _ in range(40):
        tasks = [asyncio.ensure_future(scorer.ascore(QUERY, ["a"])) for _ in range(20)]
        for task in tasks:
            await asyncio.sleep(random_number.random() * 0.003)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert (await scorer.ascore(QUERY, TEXTS)).tolist() == EXPECTED


async def test_a_pool_without_free_connections_is_replaced(server):
    limits = RemoteLimits(concurrency=1, timeout=20)
    scorer = RemoteReranker(server.url, limits=limits)
    await scorer.ascore(QUERY, ["a"])
    pool = scorer.engine._client._transport._pool
    pool._max_connections = 0  # as after many cancelled requests
    pool._connections.clear()
    assert (await scorer.ascore(QUERY, TEXTS)).tolist() == EXPECTED
    assert scorer.engine._client._transport._pool is not pool


def test_a_thread_that_is_abandoned_ends_its_request(server):
    server.faults = ["hang"]
    scorer = RemoteReranker(server.url)
    ended = threading.Event()

    def score():
        try:
            scorer.score(QUERY, ["a"])
        finally:
            ended.set()

    async def ask_for_a_moment():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run_in_pool(score), 0.3)

    asyncio.run(ask_for_a_moment())
    assert ended.wait(10), "it waited for the server's reply"


def test_the_surrounding_budget_is_drawn_on(server):
    scorer = RemoteReranker(server.url, batch=10)
    token = current_meter.set(meter := Meter(Budget(calls=7)))
    try:
        scorer.score(QUERY, TEXTS)
        assert meter.calls == 6
        with pytest.raises(BudgetExceeded, match="7 calls"):
            scorer.score(QUERY, TEXTS)
    finally:
        current_meter.reset(token)
    token = current_meter.set(Meter(Budget(seconds=0.3)))
    server.faults = ["hang"] * 20
    try:
        with pytest.raises(BudgetExceeded, match="seconds"):
            scorer.score(QUERY, ["a"])
    finally:
        current_meter.reset(token)


def test_a_denoiser_awaits_its_scorer_without_a_thread(server):
    passages = [Passage(t, str(i)) for i, t in enumerate(TEXTS)]
    denoiser = ENDDenoiser(RemoteReranker(server.url), keep=5)

    async def many():
        return await asyncio.gather(
            *(denoiser.adenoise(QUERY, passages) for _ in range(20))
        )

    for result in asyncio.run(many()):
        assert result.passages == denoiser.denoise(QUERY, passages).passages


def test_the_key_is_read_from_the_environment_and_stays_there(server, monkeypatch):
    scorer = RemoteReranker(server.url, key_env="ENGINE_KEY")
    with pytest.raises(
        InputError, match="'ENGINE_KEY': that environment variable is not set"
    ):
        scorer.score(QUERY, ["a"])
    monkeypatch.setenv("ENGINE_KEY", "hush")
    scorer.score(QUERY, ["a"])
    assert server.headers[-1]["Authorization"] == "Bearer hush"
    assert "hush" not in repr(vars(scorer)) + repr(vars(scorer.engine))


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("localhost:1", "http://"),
        ([], "one address"),
        (["http://a", "http://a"], "once"),
        ("http://u:p@a", "user"),
    ],
)
def test_addresses_that_cannot_be_right_are_refused(url, match):
    with pytest.raises(InputError, match=match):
        RemoteReranker(url)


def test_after_a_fork_the_child_has_a_loop_of_its_own(server):
    script = f"""
import os, sys
from denoise_core.scorers import RemoteReranker
scorer = RemoteReranker({server.url!r})
scorer.score("a", ["a"])
if (child := os.fork()) == 0:
    os._exit(0 if scorer.score("a", ["a"]).tolist() == [1.0] else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert (
        subprocess.run(
            [sys.executable, "-c", script], timeout=60, check=False
        ).returncode
        == 0
    )


NAMES = st.lists(st.text(min_size=1, max_size=8), min_size=2, max_size=6, unique=True)


@given(key=st.binary(max_size=40), names=NAMES)
def test_losing_a_replica_moves_its_documents_alone(key, names):
    order = rendezvous_order(key, names)
    assert sorted(order) == sorted(names)
    for lost in names:
        left = rendezvous_order(key, [n for n in names if n != lost])
        assert left == [n for n in order if n != lost]


def test_documents_are_spread_evenly():
    names = [f"http://10.0.0.{i}:8000" for i in range(5)]
    homes = Counter(rendezvous_order(str(i).encode(), names)[0] for i in range(5000))
    assert all(850 < n < 1150 for n in homes.values()), homes
