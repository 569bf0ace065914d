"""What a client reads when its body is wrong, what drop-in clients ask, and connections that send nothing."""

import asyncio
import socket
import threading

import httpx
import pytest
import uvicorn
from service_server import QUERY, TEXTS, best, serving

from denoise_core.embedded import default_denoiser
from denoise_core.end import ENDDenoiser
from denoise_core.service import Service
from denoise_core.service.app import make_app
from denoise_core.service.bodies import MAX_QUESTION_CHARACTERS
from denoise_core.service.connections import make_protocol_class
from denoise_core.testing import FunctionScorer

pytestmark = pytest.mark.enable_socket
DENOISE = "/v1/denoise"


@pytest.fixture(scope="module")
def url():
    with serving(Service(default_denoiser())) as served_url:
        yield served_url


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        (
            DENOISE,
            {"query": QUERY, "passages": ["a", {"text": "b", "id": 3}]},
            "passages[1].id: expected text, got a number",
        ),
        (
            DENOISE,
            {"query": QUERY, "passages": [3]},
            "passages[0]: expected text, got a number",
        ),
        (
            DENOISE,
            {"query": QUERY, "passages": [None]},
            "passages[0]: expected text, got null",
        ),
        (
            DENOISE,
            {"query": QUERY, "passages": "a"},
            "passages: expected a list, got text",
        ),
        (DENOISE, {"query": QUERY}, "passages: it is missing"),
        (
            DENOISE,
            {"query": QUERY, "passages": [{"id": "a"}]},
            "passages[0].text: it is missing",
        ),
        (
            DENOISE,
            {"query": QUERY, "passages": [{"text": "a", "secret": 1}]},
            "passages[0].?: no such field",
        ),
        (
            DENOISE,
            {"query": QUERY, "passages": [{"text": "a", "metadata": 3}]},
            "passages[0].metadata: expected an object, got a number",
        ),
        (
            DENOISE,
            {"query": "a" * (MAX_QUESTION_CHARACTERS + 1), "passages": ["a"]},
            "query: expected at most 10,000 characters",
        ),
        (
            "/v1/check",
            {"question": "a" * 900_000, "answer": "a", "passages": ["a"]},
            "question: expected at most 10,000 characters",
        ),
        (
            "/v1/rerank",
            {"query": QUERY, "documents": ["a"], "top_n": -1},
            "top_n: expected 0 or more",
        ),
        (
            "/v1/rerank",
            {"query": QUERY, "documents": ["a"], "top_n": "many"},
            "top_n: expected a whole number",
        ),
    ],
)
def test_a_wrong_body_gets_a_sentence(url, path, body, sentence):
    reply = httpx.post(url + path, json=body, timeout=60)
    assert (reply.status_code, reply.json()["detail"]) == (422, sentence)


def test_what_drop_in_clients_ask(url):
    assert httpx.get(url + "/health").status_code == 200
    body = {"model": "any", "text_1": QUERY, "text_2": TEXTS}
    for path in ("/score", "/v1/score"):
        reply = httpx.post(url + path, json=body, timeout=60).json()
        scores = [row["score"] for row in reply["data"]]
        assert [row["index"] for row in reply["data"]] == [0, 1, 2, 3]
        assert sorted(range(4), key=lambda i: -scores[i]) == best()
    one = httpx.post(url + "/score", json={**body, "text_2": TEXTS[0]}, timeout=60)
    assert len(one.json()["data"]) == 1


def test_a_connection_without_a_whole_header_is_closed_and_others_are_not():
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        make_app(Service(default_denoiser())),
        http=make_protocol_class(0.5),
        log_level="warning",
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    address = listener.getsockname()
    try:
        with (
            socket.create_connection(address, 30) as half,
            httpx.Client(base_url=f"http://127.0.0.1:{address[1]}") as client,
        ):
            assert client.get("/livez").status_code == 200
            half.sendall(b"GET /livez HTTP/1.1\r\nHost: local")
            assert half.recv(1000) == b"", "it was closed without a reply"
            used_connection = next(iter(client._transport._pool.connections))
            assert client.get("/livez").status_code == 200
            assert client._transport._pool.connections == [used_connection]
    finally:
        server.should_exit = True
        thread.join()


def test_a_service_that_stops_leaves_no_traceback(capfd, caplog):
    """What is under way when the time for it is over is cancelled by uvicorn."""
    go = threading.Event()
    begun = threading.Event()

    def score(query, text):
        begun.set()
        go.wait(30)
        return 1.0

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        make_app(Service(ENDDenoiser(FunctionScorer(score)))),
        log_level="warning",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    async def ask_and_stop():
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            body = {"query": QUERY, "passages": TEXTS}
            asking = asyncio.ensure_future(client.post("/v1/denoise", json=body))
            await asyncio.to_thread(begun.wait, 30)
            server.should_exit = True
            return await asyncio.gather(asking, return_exceptions=True)

    (outcome,) = asyncio.run(ask_and_stop())
    go.set()
    thread.join()
    assert isinstance(outcome, httpx.HTTPError) or outcome.status_code == 503
    logged = "".join(capfd.readouterr()) + caplog.text
    assert "Traceback" not in logged
