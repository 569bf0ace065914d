"""The service as any program meets it, over real HTTP: what it answers, what it refuses, and how it ends."""

import json

import httpx
import numpy as np
import pytest
from growing_texts import passages_of
from judging import WordForWord
from service_server import QUERY, TEXTS, best, serving

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

PASSAGES = tuple(passages_of(TEXTS))
LIMITS = ServiceLimits(max_body_bytes=20_000, max_passages=50, max_characters=10_000)


@pytest.fixture(scope="module")
def url():
    service = Service(default_denoiser(), judge=WordForWord(), limits=LIMITS)
    with serving(service) as served_url:
        yield served_url


def column(rows, name):
    return [row[name] for row in rows]


def post(url, path, status=200, **body):
    content = json.dumps(body)  # httpx spells no half characters
    headers = {"content-type": "application/json"}
    reply = httpx.post(url + path, content=content, headers=headers, timeout=60)
    assert reply.status_code == status, reply.text
    return reply.json()


def test_denoising_is_the_denoisers_own(url):
    expected = default_denoiser().denoise(QUERY, PASSAGES).as_json()
    assert post(url, "/v1/denoise", query=QUERY, passages=TEXTS) == expected
    named = [Passage(text, f"p{n}", metadata={"n": n}) for n, text in enumerate(TEXTS)]
    given = [{"text": p.text, "id": p.id, "metadata": p.metadata} for p in named]
    expected = default_denoiser().denoise(QUERY, named).as_json()
    assert post(url, "/v1/denoise", query=QUERY, passages=given) == expected


def test_checking_is_the_checkers_own(url):
    for answer in ("The tower is in Porto.", "It is in Rome.", ""):
        found = post(url, "/v1/check", question=QUERY, answer=answer, passages=TEXTS)
        here = check(QUERY, answer, PASSAGES, judge=WordForWord())
        assert found == {"passed": here.passed, **here.as_json()}


def test_ranking_is_the_scorers_own_order(url):
    scores = DefaultScorer().score(QUERY, TEXTS).tolist()
    order = best()
    ordered = [scores[i] for i in order]
    asked = {"query": QUERY, "documents": TEXTS, "model": "any"}
    # A field that only other servers know is no mistake here.
    rows = post(url, "/v1/rerank", max_tokens_per_doc=9, **asked)["results"]
    assert column(rows, "index") == order
    chances = 1 / (1 + np.exp(-np.array(ordered)))
    expected_scores = pytest.approx(chances.tolist(), abs=1e-5)
    assert column(rows, "relevance_score") == expected_scores
    # Our own remote scorer speaks to it too.
    remote_scores = RemoteReranker(url + "/v1").score(QUERY, TEXTS)
    assert remote_scores[order].tolist() == expected_scores
    asked |= {"documents": [{"text": t} for t in TEXTS], "top_n": 2}
    rows = post(url, "/v2/rerank", return_documents=True, **asked)["results"]
    ranked_texts = [TEXTS[i] for i in order]
    assert column(column(rows, "document"), "text") == ranked_texts[:2]
    assert post(url, "/v1/rerank", query=QUERY, documents=[])["results"] == []


@pytest.mark.parametrize(
    ("passages", "status", "says"),
    [
        ([{"text": "a", "id": "x"}] * 2, 422, "same id"),
        (["a"] * 51, 413, "at most 50"),
        (["a" * 10_001], 413, "at most 10,000"),
        (["a" * 20_001], 413, "20,000 bytes"),
    ],
)
def test_what_is_too_much_is_said(url, passages, status, says):
    reply = post(url, "/v1/denoise", status, query=QUERY, passages=passages)
    assert says in reply["detail"]


@pytest.mark.parametrize(
    "text",
    ["", " ", "\x00", "\U0001f5fc", "a" * 3000, "[INST] ignore </s>", "x\ud83d"],
)
def test_odd_texts_are_answered(url, text):
    """Half a character, which JSON can spell, is a mark."""
    odd = {"text": text, "metadata": {"a": text}}
    reply = post(url, "/v1/denoise", query="where?", passages=["x", odd])
    if text.strip():
        kept_texts = column(reply["passages"], "text")
        assert kept_texts[-1] == text.replace("\ud83d", "\ufffd")


def ask_as(url, host):
    return httpx.get(url + "/livez", headers={"host": host}).status_code


def test_only_this_machines_names_and_json_bodies(url):
    statuses = {"evil.example": 400, "localhost": 200, "[::1]": 200, "": 400}
    for host, status in (statuses | {"127.0.0.1:1": 200}).items():
        assert ask_as(url, host) == status
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        headers = {"content-type": kind}
        reply = httpx.post(url + "/v1/denoise", content=b"{}", headers=headers)
        assert reply.status_code == 415
    assert httpx.get(url + "/nowhere").status_code == 404
    assert httpx.get(url + "/v1/denoise").status_code == 405


def test_health_and_figures(url):
    post(url, "/v1/denoise", query=QUERY, passages=TEXTS)
    health = httpx.get(url + "/livez").json()
    assert (health["status"], health["model"]) == ("ok", "rag-denoise")
    fallbacks.log_fallback("some part", ValueError("x"), "something else was done")
    page = httpx.get(url + "/metrics").text
    for figure in (
        'request_seconds_count{path="/v1/denoise",status="200"}',
        'fallbacks{error="ValueError",part="some part"}',
        'cache_bytes{cache="embeddings",is_limit="no"}',
    ):
        _, _, rest = page.partition(f"denoise_{figure} ")
        value, *_ = rest.split()
        assert float(value) > 0
    assert "/nowhere" not in page


def test_other_names():
    hosts = ("denoise.internal",)
    with serving(Service(ENDDenoiser(BM25Scorer()), hosts=hosts)) as url:
        assert ask_as(url, "localhost") == 400
        assert ask_as(url, "denoise.internal") == 200
    with serving(Service(ENDDenoiser(BM25Scorer()), hosts=("*",))) as url:
        assert ask_as(url, "anything") == 200


def test_what_scores_is_found_inside():
    scorer = BM25Scorer()
    inside = ENDDenoiser(scorer)
    pipeline = Pipeline(default_denoiser(), Guard(inside))
    assert Service(Guard(pipeline)).scorer is scorer
    silent = Service(S2ADenoiser(FunctionLLM(lambda m: "[1]")))
    assert silent.scorer is None
    with serving(silent) as url:
        refusal = post(url, "/v1/rerank", 501, query=QUERY, documents=TEXTS)
        assert "gives no scores" in refusal["detail"]


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(InputError, match="denoiser"):
        Service("default")
    with pytest.raises(InputError, match="name is empty"):
        Service(default_denoiser(), name=" ")
