"""Remote scorers against real servers here: what is tried again, where a document goes, when it ends."""

import asyncio
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from email.utils import formatdate
from itertools import chain, pairwise

import httpx
import pytest
from growing_texts import passages_of
from hypothesis import given
from hypothesis import strategies as st
from rerank_server import reranking, words

from denoise_core import Guard, InputError
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
EXPECTED = [words(QUERY, text) for text in TEXTS]


@pytest.fixture
def server():
    fallbacks._counts.clear()
    with reranking() as served:
        yield served


@pytest.fixture
def pair():
    with reranking() as first, reranking() as second:
        yield first, second


def reranker(*servers, key_env=None, batch=32, **limits):
    return RemoteReranker(
        [server.url for server in servers],
        key_env=key_env,
        batch=batch,
        limits=RemoteLimits(**limits),
    )


def check_scores(scorer, query=QUERY, texts=TEXTS):
    expected = [words(query, text) for text in texts]
    assert scorer.score(query, texts).tolist() == expected


def texts_seen(server):
    return set(chain.from_iterable(server.seen))


async def test_async_and_sync_ask_the_same_and_get_the_same(server):
    scorer = reranker(server, batch=7)
    await asyncio.to_thread(check_scores, scorer)
    assert (await scorer.ascore(QUERY, TEXTS)).tolist() == EXPECTED
    assert Counter(map(len, server.seen)) == {7: 16, 4: 2}
    assert (await scorer.ascore(QUERY, [])).shape == (0,)


@pytest.mark.parametrize("fault", [408, 425, 429, 500, 502, 503, 504, "cut"])
def test_what_passes_is_tried_again(server, fault):
    server.faults = [fault, fault]
    check_scores(reranker(server), texts=TEXTS[:5])
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        *(
            (status, BadReply, rf"refused the request \({status}\)$")
            for status in (301, 307, 404, 405, 409, 410, 501)
        ),
        (401, InputError, r"refused the key \(401\): set the key with key_env="),
        (403, InputError, r"refused the key \(403\): set the key with key_env="),
    ],
)
def test_what_does_not_pass_is_not_and_a_refused_key_is_a_mistake(
    server, fault, error, message
):
    server.faults = [fault]
    with pytest.raises(error, match=message) as caught:
        reranker(server).score(QUERY, TEXTS[:5])
    assert getattr(caught.value, "status", fault) == fault
    assert is_user_error(caught.value) == (error is InputError)
    assert len(server.seen) == 1


@pytest.mark.parametrize("fault", [400, 413, 422])
def test_a_text_that_is_refused_drops_none(server, fault):
    """It had the lowest score of all, so that it was the first to be dropped."""
    server.refuses = (TEXTS[7], fault)
    scorer = RemoteReranker(server.url, batch=5)
    with pytest.raises(BadReply, match=rf"\({fault}\): a text may be too long"):
        scorer.score(QUERY, TEXTS)
    passages = passages_of(TEXTS)
    result = Guard(ENDDenoiser(scorer, keep=1)).denoise(QUERY, passages)
    assert result.passages == tuple(passages)
    assert f"({fault})" in result.fallback


@pytest.mark.parametrize(("fault", "replicas"), [(429, 1), (503, 2)])
def test_a_server_that_asks_for_time_gets_it(pair, fault, replicas):
    """Without the header the second attempt comes within .1 s, and at once where another replica lives."""
    for server in pair:
        server.faults, server.retry_after = [fault], "1"
    check_scores(reranker(*pair[:replicas]), texts=TEXTS[:1])
    arrivals = sorted(pair[0].arrivals + pair[1].arrivals)
    # 429 is asked again where it was; of 503 the other replica is asked.
    assert len(arrivals) in (2, 3)
    for earlier, later in pairwise(arrivals):
        assert later - earlier >= 1


def test_both_forms_of_retry_after():
    now = time.time()
    assert 25 < _parse_retry_after(formatdate(now + 30, usegmt=True)) <= 30
    for said, seconds in (
        (formatdate(now - 30, usegmt=True), 0),
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
        reranker(server, attempts=3).score(QUERY, ["a"])
    assert len(server.seen) == 3


def test_what_came_is_not_asked_again(server):
    server.faults = [503]
    check_scores(reranker(server, batch=10, concurrency=1))
    assert len(server.seen) == 7


def test_no_more_than_so_many_at_once_however_many_callers():
    with reranking(pause=0.02) as server, ThreadPoolExecutor(4) as pool:
        scorer = reranker(server, batch=1, concurrency=3)
        for _ in range(4):
            pool.submit(scorer.score, QUERY, TEXTS[:6])
        pool.shutdown()
        assert server.peak == 3


@pytest.mark.parametrize("fault", ["cut", "hang"])
def test_a_killed_replicas_documents_go_to_the_next_and_no_others(pair, fault):
    scorer = reranker(*pair, batch=4, cooldown=30, timeout=1)
    check_scores(scorer)
    first, second = pair
    own = texts_seen(second)
    first.faults = [fault] * 1000
    check_scores(scorer, "tower 2")
    assert own < texts_seen(second) == set(TEXTS)
    asked = len(first.seen)
    check_scores(scorer, "tower 3")
    assert len(first.seen) == asked, "one that failed a moment ago is left alone"


def test_a_replica_that_rests_is_asked_when_no_other_is_there(server):
    server.faults = ["cut"]
    urls = [server.url, "http://127.0.0.1:9/v1"]
    check_scores(RemoteReranker(urls, limits=RemoteLimits(cooldown=30)))


def test_a_replica_that_comes_back_gets_its_documents_again_whatever_is_asked(pair):
    scorer = reranker(*pair, cooldown=0)
    check_scores(scorer)
    first, second = map(texts_seen, pair)
    assert first | second == set(TEXTS)
    assert len(first & second) == 0 < min(len(first), len(second))
    pair[0].faults = [503]
    check_scores(scorer)
    pair[0].seen.clear()
    check_scores(reranker(*pair[::-1], batch=5), "another", TEXTS[::-1])
    assert texts_seen(pair[0]) == first


def test_a_deadline_ends_it_retries_included(server):
    server.faults = ["hang"]
    with pytest.raises(TimeoutError, match="no reply of http"):
        reranker(server, deadline=0.3).score(QUERY, ["a"])


def test_a_reply_in_drips_ends_at_the_timeout(server):
    """Each byte comes within the limit of a read; the whole, of 100 seconds, does not."""
    server.faults = ["drip"]
    with pytest.raises(httpx.ReadTimeout, match=r"in full within 0\.3 s"):
        reranker(server, timeout=0.3, attempts=1).score(QUERY, ["a"])


@pytest.fixture
def hung(server):
    """A scorer whose only replica let two requests run out of time."""
    scorer = reranker(server, timeout=0.3, cooldown=600)
    server.faults = ["hang", "hang"]
    with pytest.raises(ReplicaHung, match="asked again in"):
        scorer.score(QUERY, ["a"])
    return scorer


def pass_cooldown(scorer):
    replicas = scorer.engine.replicas
    replicas._next_probe.update(dict.fromkeys(replicas.urls, 0.0))


def test_a_replica_that_hung_is_tried_once_a_cooldown_and_then_used_again(server, hung):
    replicas = hung.engine.replicas
    assert replicas.states == ["hung"]
    assert replicas.can_ask is False
    requests = len(server.seen)
    for _ in range(5):
        with pytest.raises(ReplicaHung):
            hung.score(QUERY, ["a"])
    assert len(server.seen) == requests, "the server is left alone meanwhile"
    pass_cooldown(hung)
    assert replicas.can_ask
    check_scores(hung)
    assert replicas.states == ["alive"]


@pytest.mark.parametrize("fault", [429, 503])
def test_a_replica_that_hung_and_then_refuses_is_asked_again(server, hung, fault):
    """It answers: its callers were refused without a request, for a whole cooldown."""
    pass_cooldown(hung)
    server.faults = [fault]
    check_scores(hung)


async def test_after_many_cancelled_calls_the_next_one_succeeds(server):
    """Cancelled requests can keep connections of httpx's pool for ever."""
    scorer = reranker(server, concurrency=4, timeout=20)
    drawn = random.Random(1)
    for _ in range(10):
        tasks = [asyncio.ensure_future(scorer.ascore(QUERY, ["a"])) for _ in range(20)]
        for task in tasks:
            await asyncio.sleep(drawn.random() * 0.003)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert (await scorer.ascore(QUERY, TEXTS)).tolist() == EXPECTED


async def test_a_pool_without_free_connections_is_replaced(server):
    scorer = reranker(server, concurrency=1, timeout=20)
    await scorer.ascore(QUERY, ["a"])
    pool = scorer.engine._client._transport._pool
    pool._max_connections = 0  # as after many cancelled requests
    pool._connections.clear()
    assert (await scorer.ascore(QUERY, TEXTS)).tolist() == EXPECTED
    assert scorer.engine._client._transport._pool is not pool


async def test_a_thread_that_is_abandoned_ends_its_request(server):
    server.faults = ["hang"]
    scorer, ended = reranker(server), threading.Event()

    def score():
        try:
            scorer.score(QUERY, ["a"])
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(run_in_pool(score), 0.3)
    assert await asyncio.to_thread(ended.wait, 10), "it waited for the server's reply"


@contextmanager
def within(**limits):
    meter = Meter(Budget(**limits))
    token = current_meter.set(meter)
    try:
        yield meter
    finally:
        current_meter.reset(token)


def test_the_surrounding_budget_is_drawn_on(server):
    scorer = reranker(server, batch=10)
    with within(calls=7) as meter:
        scorer.score(QUERY, TEXTS)
        assert meter.calls == 6
        with pytest.raises(BudgetExceeded, match="7 calls"):
            scorer.score(QUERY, TEXTS)
    server.faults = ["hang"] * 20
    with within(seconds=0.3), pytest.raises(BudgetExceeded, match="seconds"):
        scorer.score(QUERY, ["a"])


async def test_many_denoisers_await_one_scorer(server):
    passages = passages_of(TEXTS)
    denoiser = ENDDenoiser(reranker(server), keep=5)
    calls = [denoiser.adenoise(QUERY, passages) for _ in range(5)]
    kept = [result.passages for result in await asyncio.gather(*calls)]
    alone = await asyncio.to_thread(denoiser.denoise, QUERY, passages)
    assert kept == [alone.passages] * 5


def test_the_key_is_read_from_the_environment_and_stays_there(server, monkeypatch):
    scorer = reranker(server, key_env="ENGINE_KEY")
    with pytest.raises(
        InputError, match="'ENGINE_KEY': that environment variable is not set"
    ):
        scorer.score(QUERY, ["a"])
    monkeypatch.setenv("ENGINE_KEY", "hush")
    scorer.score(QUERY, ["a"])
    assert server.headers[-1]["Authorization"] == "Bearer hush"
    assert "hush" not in f"{vars(scorer)}{vars(scorer.engine)}"


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
    subprocess.run([sys.executable, "-c", script], timeout=60, check=True)


NAMES = st.lists(st.text(min_size=1, max_size=8), min_size=2, max_size=6, unique=True)


@given(key=st.binary(max_size=40), names=NAMES)
def test_losing_a_replica_moves_its_documents_alone(key, names):
    order = rendezvous_order(key, names)
    assert sorted(order) == sorted(names)
    for lost in names:
        left = rendezvous_order(key, [name for name in names if name != lost])
        assert left == [name for name in order if name != lost]


def test_documents_are_spread_evenly():
    names = [f"http://10.0.0.{i}:8000" for i in range(5)]
    homes = Counter(rendezvous_order(str(i).encode(), names)[0] for i in range(5000))
    for count in homes.values():
        assert 850 < count < 1150, homes
