"""What a client reads when its body is wrong, what drop-in clients ask, and connections that send nothing."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import pytest
from service_server import QUERY, TEXTS, serving

from denoise_core.embedded import default_denoiser
from denoise_core.end import ENDDenoiser
from denoise_core.service import Service
from denoise_core.service.bodies import MAX_QUESTION_CHARACTERS
from denoise_core.service.connections import make_protocol_class
from denoise_core.testing import FunctionScorer

pytestmark = pytest.mark.enable_socket
DENOISE = "/v1/denoise"


PLAIN = {"query": QUERY, "passages": TEXTS}
RANKED = {"query": QUERY, "documents": TEXTS}


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        (
            DENOISE,
            PLAIN | {"passages": ["a", {"text": "b", "id": 3}]},
            "passages[1].id: expected text, got a number",
        ),
        (
            DENOISE,
            PLAIN | {"passages": [3]},
            "passages[0]: expected text or an object, got a number",
        ),
        (DENOISE, PLAIN | {"passages": "a"}, "passages: expected a list, got text"),
        (DENOISE, {"query": QUERY}, "passages: it is missing"),
        (
            DENOISE,
            PLAIN | {"passages": [{"id": "a"}]},
            "passages[0].text: it is missing",
        ),
        (
            DENOISE,
            PLAIN | {"passages": [{"text": "a", "secret": 1}]},
            "passages[0].?: no such field; /docs names those that there are",
        ),
        (
            DENOISE,
            PLAIN | {"passages": [{"text": "a", "metadata": 3}]},
            "passages[0].metadata: expected an object, got a number",
        ),
        (
            DENOISE,
            PLAIN | {"query": "a" * (MAX_QUESTION_CHARACTERS + 1)},
            "query: expected at most 10,000 characters",
        ),
        ("/v1/rerank", RANKED | {"top_n": -1}, "top_n: expected 0 or more"),
        ("/v1/rerank", RANKED | {"top_n": "many"}, "top_n: expected a whole number"),
    ],
)
def test_a_wrong_body_gets_a_sentence(default_url, path, body, sentence):
    reply = httpx.post(default_url + path, json=body, timeout=60)
    assert reply.status_code == 422
    assert reply.json()["detail"] == sentence


def test_what_drop_in_clients_ask(default_url):
    assert httpx.get(default_url + "/health").status_code == 200


def test_a_connection_without_a_whole_header_is_closed_and_others_are_not():
    service = Service(default_denoiser())
    with (
        serving(service, http=make_protocol_class(0.5)) as url,
        socket.create_connection(("127.0.0.1", urlsplit(url).port), 30) as half,
        httpx.Client(base_url=url) as client,
    ):
        assert client.get("/livez").status_code == 200
        half.sendall(b"GET /livez HTTP/1.1\r\nHost: local")
        assert half.recv(1000) == b"", "it was closed without a reply"
        used_connection = next(iter(client._transport._pool.connections))
        assert client.get("/livez").status_code == 200
        assert client._transport._pool.connections == [used_connection]


def test_a_service_that_stops_leaves_no_traceback(capfd, caplog):
    """What is under way when the time for it is over is cancelled by uvicorn."""
    go = threading.Event()
    begun = threading.Event()

    def score(query, text):
        begun.set()
        go.wait(30)
        return 1.0

    service = Service(ENDDenoiser(FunctionScorer(score)))
    with ThreadPoolExecutor() as pool:
        with serving(service, timeout_graceful_shutdown=1) as url:
            asking = pool.submit(httpx.post, url + DENOISE, json=PLAIN, timeout=60)
            begun.wait(30)
        go.set()
        error = asking.exception()
    assert isinstance(error, httpx.HTTPError) or asking.result().status_code == 503
    logged = "".join(capfd.readouterr()) + caplog.text
    assert "Traceback" not in logged
