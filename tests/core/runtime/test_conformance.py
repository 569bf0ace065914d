"""Every part of ours against everything that goes wrong around it: nothing comes through `Guard` but mistakes."""

import asyncio
import time
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest
from faults import (
    MISBEHAVIOURS,
    Faulty,
    check_faults,
    check_hang,
    check_remote,
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
QUICK = RemoteLimits(attempts=2, cooldown=0, max_reply_bytes=1 << 20)
IMPATIENT = RemoteLimits(timeout=1, attempts=1, cooldown=0)


@pytest.mark.parametrize("name", faults_of("score"))
def test_scorers(name):
    check_faults(
        lambda part: ENDDenoiser(part, keep=1), "score", QUERY, PASSAGES, [name]
    )


@pytest.mark.parametrize("name", faults_of("score"))
@pytest.mark.parametrize("kind", ["cross-encoder", "embedding", "decision"])
def test_what_our_scorers_are_given(kind, name):
    make = {
        "cross-encoder": lambda part: CrossEncoderScorer(
            lambda pairs: part.fault(QUERY, pairs)
        ),
        "embedding": lambda part: EmbeddingScorer(
            lambda texts: part.fault(QUERY, texts)
        ),
        "decision": lambda part: DecisionScorer(
            lambda request: part.fault(QUERY, ["one"])
        ),
    }[kind]
    check_faults(
        lambda part: ENDDenoiser(make(part), keep=1), "score", QUERY, PASSAGES, [name]
    )


@pytest.mark.parametrize("name", faults_of("complete"))
@pytest.mark.parametrize("variant", ["select", "remove"])
def test_models_of_s2a(variant, name):
    check_faults(
        lambda part: S2ADenoiser(part, variant=variant),
        "complete",
        QUERY,
        PASSAGES,
        [name],
    )


@pytest.mark.parametrize("name", faults_of("complete"))
def test_models_that_score(name):
    check_faults(
        lambda part: ENDDenoiser(LLMDiscrim(part), keep=1),
        "complete",
        QUERY,
        PASSAGES,
        [name],
    )


class Failure(Exception):
    """What the world did, and no mistake."""


def asked(loop):
    return attempt(lambda: loop.answer(QUERY))


def attempt(call):
    try:
        return call()
    except Exception as error:
        if is_user_error(error):
            raise
        raise Failure from error


@pytest.mark.parametrize("name", faults_of("retrieve"))
def test_retrievers_of_the_loop(name):
    """The loop raises what it cannot answer around, and never as a mistake of the user's."""
    loop = Augmenter(
        FunctionLLM(lambda messages: "It is in Porto [1]."),
        Faulty(faults_of("retrieve")[name]),
    )
    with suppress(Failure):
        assert asked(loop).outcome


@pytest.mark.parametrize("name", faults_of("complete"))
def test_models_of_the_loop(name):
    loop = Augmenter(Faulty(faults_of("complete")[name]), ListRetriever(PASSAGES))
    with suppress(Failure):
        assert asked(loop).outcome


@pytest.mark.parametrize("name", faults_of("complete"))
def test_models_that_judge(name):
    judge = LLMJudge(Faulty(faults_of("complete")[name]), name="m")
    with suppress(Failure):
        assert (
            attempt(
                lambda: check(QUERY, "It is in Porto.", PASSAGES, judge=judge)
            ).supported
            is not True
        )


def cached(store):
    return S2ADenoiser(
        FunctionLLM(lambda messages: "1"),
        variant="select",
        options=Options(cache=Cache("m", store)),
    )


@pytest.mark.parametrize("name", faults_of("get"))
def test_stores_of_a_cache(name):
    """A store that fails costs the cache and no answer."""
    check_faults(cached, "get", QUERY, PASSAGES, [name])
    assert (
        cached(Faulty(faults_of("get")[name])).denoise(QUERY, PASSAGES).fallback is None
        or "gives" in name
    )


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_our_stores(kind, tmp_path):
    check_store(
        MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "replies")
    )


HANGS = {
    "scorer": lambda part: Guard(ENDDenoiser(part)).adenoise(QUERY, PASSAGES),
    "cross-encoder": lambda part: ENDDenoiser(CrossEncoderScorer(part.fault)).adenoise(
        QUERY, PASSAGES
    ),
    "select": lambda part: Guard(S2ADenoiser(part, variant="select")).adenoise(
        QUERY, PASSAGES
    ),
    "remove": lambda part: S2ADenoiser(part, variant="remove").adenoise(
        QUERY, PASSAGES
    ),
    "store": lambda part: cached(part).adenoise(QUERY, PASSAGES),
    "model of the loop": lambda part: Augmenter(part, ListRetriever(PASSAGES)).aanswer(
        QUERY
    ),
    "retriever of the loop": lambda part: Augmenter(
        FunctionLLM(lambda m: "It is."), part
    ).aanswer(QUERY),
    "judge": lambda part: LLMJudge(part, name="m").ajudge(
        QUERY, extract_claims(parse_answer("It is.")), PASSAGES
    ),
}


@pytest.mark.parametrize("name", HANGS)
def test_a_part_that_hangs_holds_up_no_loop(name):
    check_hang(HANGS[name])


def test_the_kit_finds_what_holds_up_the_loop():
    async def careless(part):
        time.sleep(1.5)  # noqa: ASYNC251
        return await asyncio.sleep(30)

    with pytest.raises(AssertionError, match="stood still for"):
        check_hang(careless)
    with pytest.raises(AssertionError, match="yet it has ended"):
        check_hang(lambda part: asyncio.sleep(0))


def reranks(asked):
    return {
        "results": [
            {"index": i, "relevance_score": 0.5 + i}
            for i in range(len(asked["documents"]))
        ]
    }


def reranks_texts(asked):
    return [{"index": i, "score": 0.5 + i} for i in range(len(asked["texts"]))]


SERVED = {
    "jina": (lambda url, limits: RemoteReranker(url, limits=limits), reranks),
    "tei": (
        lambda url, limits: RemoteReranker(url, shape="tei", limits=limits),
        reranks_texts,
    ),
}


@pytest.mark.enable_socket
@pytest.mark.parametrize("kind", SERVED)
@pytest.mark.parametrize("name", MISBEHAVIOURS)
def test_servers(kind, name):
    (make, answer), limits = SERVED[kind], IMPATIENT if name == "silence" else QUICK
    told = check_remote(
        lambda url: make(url, limits).score(QUERY, ["a", "b"]), answer, [name]
    )
    assert told[name] != "answered"
    with misbehaving(answer, name) as url:
        result = Guard(ENDDenoiser(make(url, limits), keep=1)).denoise(QUERY, PASSAGES)
        assert result.passages
        assert result.fallback is not None


@pytest.mark.enable_socket
@pytest.mark.parametrize(
    ("name", "says"),
    [("a gzip bomb", "packed with 'gzip'"), ("too long", "more than 1,048,576 bytes")],
)
def test_a_reply_of_too_many_bytes_is_never_held(name, says):
    with misbehaving(reranks, name) as url:
        scorer = RemoteReranker(url, limits=QUICK)
        tracemalloc.start()
        with pytest.raises(BadReply, match=says):
            scorer.score(QUERY, ["a"])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 24 << 20, "64 MiB in the reply"


def test_the_kit_finds_what_is_wrong():
    class Careless:
        def denoise(self, query, passages):
            raise InputError("of a part, called a mistake")

        async def adenoise(self, query, passages):
            raise InputError("of a part, called a mistake")

    with pytest.raises(AssertionError, match="Guard let InputError through"):
        check_faults(lambda part: Careless(), "score", QUERY, PASSAGES)
    assert np.isnan(faults_of("score")["gives NaN"](QUERY, ["a"])).all()
