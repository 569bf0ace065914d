"""Every part of ours against everything that goes wrong around it: nothing comes through `Guard` but mistakes."""

import asyncio
import time
import tracemalloc
from functools import partial

import numpy as np
import pytest
from faults import (
    MISBEHAVIOURS,
    Faulty,
    check_faults,
    check_hang,
    check_store,
    faults_of,
    misbehaving,
)

from denoise_core import Guard, Passage
from denoise_core.augmenter import Augmenter
from denoise_core.end import ENDDenoiser
from denoise_core.errors import BadReply, InputError, is_user_error
from denoise_core.runtime.caches import Cache, MemoryStore, SqliteStore
from denoise_core.runtime.engines import RemoteLimits
from denoise_core.s2a import Options, S2ADenoiser
from denoise_core.scorers import (
    CrossEncoderScorer,
    DecisionScorer,
    EmbeddingScorer,
    LLMDiscrim,
    RemoteReranker,
)
from denoise_core.support.answers import parse_answer
from denoise_core.support.check import check, extract_claims
from denoise_core.support.quoting import LLMJudge
from denoise_core.testing import FunctionLLM, ListRetriever

QUERY = "Where is the tower?"
PASSAGES = [
    Passage("The tower is in Porto. It is old.", "a"),
    Passage("Bread is cheap.", "b"),
]


def scoring(scorer):
    return ENDDenoiser(scorer, keep=1)


def cached(store):
    options = Options(cache=Cache("m", store))
    return S2ADenoiser(FunctionLLM(lambda messages: "1"), options=options)


def with_model(kind):
    """END with a scorer of this kind whose model is the part."""
    return lambda part: scoring(kind(lambda asked: part.fault(QUERY, asked)))


def with_decision(part):
    return scoring(DecisionScorer(lambda request: part.fault(QUERY, ["one"])))


# By name: a denoiser around a part, and the verb of the part that goes wrong.
DENOISERS = {
    "scorer": (scoring, "score"),
    "cross-encoder": (with_model(CrossEncoderScorer), "score"),
    "embedding": (with_model(EmbeddingScorer), "score"),
    "decision": (with_decision, "score"),
    "select": (S2ADenoiser, "complete"),
    "discrim": (lambda part: scoring(LLMDiscrim(part)), "complete"),
    "store": (cached, "get"),
}


def loop(llm, retriever):
    return Augmenter(llm, retriever).answer(QUERY).outcome


def is_unsupported(part):
    judge = LLMJudge(part, name="m")
    report = check(QUERY, "It is in Porto.", PASSAGES, judge=judge)
    return report.supported is not True


ANSWERING = FunctionLLM(lambda messages: "It is in Porto [1].")
FINDING = ListRetriever(PASSAGES)
# What may raise what it cannot work around, but never as a mistake of the user's.
OTHERS = {
    "retriever of the loop": (lambda part: loop(ANSWERING, part), "retrieve"),
    "model of the loop": (lambda part: loop(part, FINDING), "complete"),
    "judge": (is_unsupported, "complete"),
}


def with_faults(parts):
    return [(kind, name) for kind in parts for name in faults_of(parts[kind][1])]


@pytest.mark.parametrize(("kind", "name"), with_faults(DENOISERS))
def test_the_guard_loses_nothing_whatever_a_part_does(kind, name):
    make, verb = DENOISERS[kind]
    check_faults(make, verb, QUERY, PASSAGES, [name])


@pytest.mark.parametrize("name", faults_of("get"))
def test_a_store_that_fails_costs_the_cache_and_no_answer(name):
    result = cached(Faulty(faults_of("get")[name])).denoise(QUERY, PASSAGES)
    assert result.fallback is None or "gives" in name


@pytest.mark.parametrize(("kind", "name"), with_faults(OTHERS))
def test_a_failure_of_the_world_is_no_mistake_of_the_users(kind, name):
    call, verb = OTHERS[kind]
    try:
        is_right = call(Faulty(faults_of(verb)[name]))
    except Exception as error:
        is_right = not is_user_error(error)
    assert is_right


def test_our_stores(tmp_path):
    check_store(MemoryStore())
    check_store(SqliteStore(tmp_path / "replies"))


def hang(kind, part):
    """The call of this kind of part, not awaited yet."""
    if kind == "model of the loop":
        return Augmenter(part, FINDING).aanswer(QUERY)
    if kind == "retriever of the loop":
        return Augmenter(ANSWERING, part).aanswer(QUERY)
    if kind == "judge":
        claims = extract_claims(parse_answer("It is."))
        return LLMJudge(part, name="m").ajudge(QUERY, claims, PASSAGES)
    return Guard(DENOISERS[kind][0](part)).adenoise(QUERY, PASSAGES)


@pytest.mark.parametrize(
    "kind", [*OTHERS, "scorer", "cross-encoder", "select", "store"]
)
def test_a_part_that_hangs_holds_up_no_loop(kind):
    check_hang(partial(hang, kind))


def test_the_kit_finds_what_holds_up_the_loop():
    async def careless(part):
        time.sleep(1.1)  # noqa: ASYNC251
        return await asyncio.sleep(30)

    with pytest.raises(AssertionError, match="stood still for"):
        check_hang(careless)
    with pytest.raises(AssertionError, match="yet it has ended"):
        check_hang(lambda part: asyncio.sleep(0))


def reranks(asked):
    indices = range(len(asked["documents"]))
    return {"results": [{"index": i, "relevance_score": 0.5 + i} for i in indices]}


@pytest.mark.enable_socket
@pytest.mark.parametrize("name", MISBEHAVIOURS)
def test_servers(name):
    patience = {"timeout": 30, "attempts": 2}
    if name == "silence":
        patience = {"timeout": 0.3, "attempts": 1}
    limits = RemoteLimits(cooldown=0, max_reply_bytes=1 << 20, **patience)
    with misbehaving(reranks, name) as url:
        scorer = RemoteReranker(url, limits=limits)
        with pytest.raises(Exception) as caught:  # noqa: PT011
            scorer.score(QUERY, ["a", "b"])
        assert not is_user_error(caught.value)
        result = Guard(scoring(scorer)).denoise(QUERY, PASSAGES)
    assert result.passages == tuple(PASSAGES)
    assert result.fallback is not None


@pytest.mark.enable_socket
@pytest.mark.parametrize(
    ("name", "says"),
    [("a gzip bomb", "packed with 'gzip'"), ("too long", "more than 1,048,576 bytes")],
)
def test_a_reply_of_too_many_bytes_is_never_held(name, says):
    with misbehaving(reranks, name) as url:
        scorer = RemoteReranker(url, limits=RemoteLimits(max_reply_bytes=1 << 20))
        tracemalloc.start()
        with pytest.raises(BadReply, match=says):
            scorer.score(QUERY, ["a"])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 24 << 20, "64 MiB in the reply"


def test_the_kit_finds_what_is_wrong():
    def call_a_mistake(query, passages):
        raise InputError("of a part, called a mistake")

    with pytest.raises(AssertionError, match="Guard let InputError through"):
        check_faults(lambda part: Faulty(call_a_mistake), "score", QUERY, PASSAGES)
    assert np.isnan(faults_of("score")["gives NaN"](QUERY, ["a"])).all()
