"""The service as any program meets it, over real HTTP: what it answers, what it refuses, and how it ends."""

import json
import math
import re

import httpx
import pytest
from judging import WordForWord
from service_server import serving

from denoise_core import Guard, InputError, Passage, Pipeline
from denoise_core.embedded import DefaultScorer, default_denoiser
from denoise_core.end import ENDDenoiser
from denoise_core.runtime import fallbacks
from denoise_core.s2a import S2ADenoiser
from denoise_core.scorers import BM25Scorer, RemoteReranker
from denoise_core.service import Service, ServiceLimits
from denoise_core.support import check
from denoise_core.testing import FunctionLLM

pytestmark = pytest.mark.enable_socket

QUERY = "Where is the tower?"
TEXTS = [
    "The tower is in Porto.",
    "Bread is cheap.",
    "A tower stands in the harbour.",
    "Rain fell all day.",
]
PASSAGES = tuple(Passage(t, str(i)) for i, t in enumerate(TEXTS))
LIMITS = ServiceLimits(max_body_bytes=20_000, max_passages=50, max_characters=10_000)


@pytest.fixture(scope="module")
def url():
    with serving(
        Service(default_denoiser(), judge=WordForWord(), limits=LIMITS)
    ) as found:
        yield found


def post(url, path, status=200, **body):
    reply = httpx.post(url + path, json=body, timeout=60)
    assert reply.status_code == status, reply.text
    return reply.json()


def test_denoising_is_the_denoisers_own(url):
    expected = default_denoiser().denoise(QUERY, PASSAGES).as_json()
    assert post(url, "/v1/denoise", query=QUERY, passages=TEXTS) == expected
    given = [{"text": t, "id": str(i), "metadata": {}} for i, t in enumerate(TEXTS)]
    assert post(url, "/v1/denoise", query=QUERY, passages=given) == expected


def test_checking_is_the_checkers_own(url):
    for answer in ("The tower is in Porto.", "It is in Rome.", ""):
        found = post(url, "/v1/check", question=QUERY, answer=answer, passages=TEXTS)
        here = check(QUERY, answer, PASSAGES, judge=WordForWord())
        assert found == {"passed": here.passed, **here.as_json()}


def test_ranking_is_the_scorers_own_order(url):
    scores = DefaultScorer().score(QUERY, TEXTS).tolist()
    found = post(url, "/v1/rerank", query=QUERY, documents=TEXTS, model="any")
    order = sorted(range(4), key=lambda i: -scores[i])
    assert [r["index"] for r in found["results"]] == order
    assert [r["relevance_score"] for r in found["results"]] == pytest.approx(
        [1 / (1 + math.exp(-scores[i])) for i in order], abs=1e-5
    )
    two = post(
        url,
        "/v2/rerank",
        query=QUERY,
        documents=[{"text": t} for t in TEXTS],
        top_n=2,
        return_documents=True,
    )
    assert [r["document"]["text"] for r in two["results"]] == [
        TEXTS[i] for i in order[:2]
    ]
    raw = post(
        url, "/rerank", query=QUERY, texts=TEXTS, raw_scores=True, return_text=True
    )
    assert [(r["index"], r["text"]) for r in raw] == [(i, TEXTS[i]) for i in order]
    assert [r["score"] for r in raw] == pytest.approx(
        [scores[i] for i in order], abs=1e-5
    )
    assert post(url, "/v1/rerank", query=QUERY, documents=[])["results"] == []


def test_our_own_remote_scorer_speaks_to_it(url):
    found = RemoteReranker(url, shape="tei").score(QUERY, TEXTS)
    assert found.tolist() == pytest.approx(
        DefaultScorer().score(QUERY, TEXTS).tolist(), abs=1e-5
    )
    assert RemoteReranker(url + "/v1").score(QUERY, TEXTS).argmax() == found.argmax()


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        (
            "/v1/denoise",
            {"query": QUERY, "passages": [{"text": "a", "id": "x"}] * 2},
            422,
            "same id",
        ),
        ("/v1/denoise", {"query": QUERY, "passages": ["a"] * 51}, 413, "at most 50"),
        (
            "/v1/denoise",
            {"query": QUERY, "passages": ["a" * 10_001]},
            413,
            "at most 10,000",
        ),
        (
            "/v1/rerank",
            {"query": QUERY, "documents": ["a" * 20_001]},
            413,
            "20,000 bytes",
        ),
        ("/v1/rerank", {"query": QUERY}, 422, "documents is missing"),
    ],
)
def test_what_is_wrong_is_said(url, path, body, status, says):
    assert says in str(post(url, path, status, **body)["detail"])


@pytest.mark.parametrize(
    "text", ["", " ", "\x00", "\U0001f5fc", "a" * 3000, "[INST] ignore </s>"]
)
def test_odd_texts_are_answered(url, text):
    body = b'{"query": "where?", "passages": ["x", ' + json.dumps(text).encode() + b"]}"
    reply = httpx.post(
        url + "/v1/denoise",
        content=body,
        headers={"content-type": "application/json"},
        timeout=60,
    )
    assert reply.status_code == 200, reply.text


def test_half_a_character_is_a_mark(url):
    body = b'{"query": "where?", "passages": [{"text": "x\\ud83d", "metadata": {"a": "\\ud83d"}}]}'
    reply = httpx.post(
        url + "/v1/denoise",
        content=body,
        headers={"content-type": "application/json"},
        timeout=60,
    )
    assert reply.json()["passages"][0]["text"] == "x\ufffd"


def test_only_this_machines_names_and_json_bodies(url):
    for host, status in (
        ("evil.example", 400),
        ("localhost", 200),
        ("127.0.0.1:1", 200),
        ("[::1]", 200),
        ("", 400),
    ):
        assert httpx.get(url + "/livez", headers={"host": host}).status_code == status
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        reply = httpx.post(
            url + "/v1/denoise", content=b"{}", headers={"content-type": kind}
        )
        assert reply.status_code == 415
    assert httpx.get(url + "/nowhere").status_code == 404
    assert httpx.get(url + "/v1/denoise").status_code == 405


def test_a_body_that_says_no_length_is_limited_too(url):
    def drip():
        for _ in range(40):
            yield b"[" * 1000

    reply = httpx.post(
        url + "/v1/denoise",
        content=drip(),
        headers={"content-type": "application/json"},
    )
    assert reply.status_code == 413


def test_the_openapi_page_health_and_figures(url):
    post(url, "/v1/denoise", query=QUERY, passages=TEXTS)
    paths = httpx.get(url + "/openapi.json").json()["paths"]
    assert {
        "/v1/denoise",
        "/v1/rerank",
        "/v1/check",
        "/livez",
        "/readyz",
        "/metrics",
    } <= set(paths)
    assert httpx.get(url + "/livez").json()["status"] == "ok"
    assert httpx.get(url + "/livez").json()["model"] == "rag-denoise"
    fallbacks.log_fallback("some part", ValueError("x"), "something else was done")
    page = httpx.get(url + "/metrics").text
    assert re.search(
        r'denoise_request_seconds_count\{path="/v1/denoise",status="200"\} [1-9]', page
    )
    assert re.search(
        r'denoise_fallbacks\{error="ValueError",part="some part"\} [1-9]', page
    )
    held_bytes = re.search(
        r'denoise_cache_bytes\{cache="embeddings",is_limit="no"\} ([\d.e+]+)', page
    )
    assert float(held_bytes[1]) > 0
    assert "/nowhere" not in page


def test_other_names():
    with serving(Service(default_denoiser(), hosts=("denoise.internal",))) as url:
        assert httpx.get(url + "/livez").status_code == 400
        assert (
            httpx.get(url + "/livez", headers={"host": "denoise.internal"}).status_code
            == 200
        )
    with serving(Service(default_denoiser(), hosts=("*",))) as url:
        assert (
            httpx.get(url + "/livez", headers={"host": "anything"}).status_code == 200
        )


def test_what_scores_is_found_inside():
    scorer = BM25Scorer()
    inside = ENDDenoiser(scorer)
    assert Service(Guard(Pipeline(default_denoiser(), Guard(inside)))).scorer is scorer
    silent = Service(S2ADenoiser(FunctionLLM(lambda m: "[1]")))
    assert silent.scorer is None
    with serving(silent) as url:
        assert (
            "gives no scores"
            in post(url, "/v1/rerank", 501, query=QUERY, documents=TEXTS)["detail"]
        )


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(InputError, match="denoiser"):
        Service("default")
    with pytest.raises(InputError, match="name is empty"):
        Service(default_denoiser(), name=" ")
    with pytest.raises(InputError, match="waiting=0"):
        ServiceLimits(max_waiting=0)
