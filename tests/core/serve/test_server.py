"""The server as any program meets it: raw HTTP, good and bad, and clients that go away."""

import http.client
import json
import queue
import socket
import threading
import time

import pytest
from tiny_llm import passes, tiny_llm

from denoise_core import InputError, Message
from denoise_core.serve import LLMServer, ServerLimits

pytestmark = pytest.mark.enable_socket

CHAT = "/v1/chat/completions"
HELLO = [{"role": "user", "content": "hello"}]
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def llm():
    return tiny_llm()


@pytest.fixture
def lines():
    """What the server reports, which it does after it has replied."""
    return queue.Queue()


@pytest.fixture
def server(llm, lines):
    with LLMServer(llm, name="tiny", limits=ServerLimits(body=2000, tokens=5000), report=lines.put) as running:
        yield running


def port(server):
    return int(server.url.split(":")[2].split("/")[0])


@pytest.fixture
def ask(server):
    def ask(method="POST", path=CHAT, body=None, headers=JSON, **fields):
        connection = http.client.HTTPConnection("127.0.0.1", port(server), timeout=60)
        data = json.dumps({"model": "tiny", "messages": HELLO, **fields}).encode() if body is None else body
        connection.request(method, path, data if method == "POST" else None, headers)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response, text

    return ask


def events(text):
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return [json.loads(line) for line in lines if line != "[DONE]"], lines[-1]


def test_whole_and_streamed_replies_are_the_models_own(llm, ask):
    reply = llm.complete([Message("user", "hello")])
    response, text = ask()
    whole = json.loads(text)
    assert response.status == 200
    assert whole["choices"][0]["message"] == {"role": "assistant", "content": reply.text}
    assert whole["choices"][0]["finish_reason"] == "length"
    assert whole["usage"]["completion_tokens"] == reply.usage.output_tokens == 24
    response, text = ask(stream=True, stream_options={"include_usage": True})
    parts, last = events(text)
    assert response.headers["content-type"] == "text/event-stream"
    assert last == "[DONE]"
    assert "".join(p["choices"][0]["delta"].get("content", "") for p in parts[:-1]) == reply.text
    assert [p["choices"][0]["finish_reason"] for p in parts[:-1]] == [None] * (len(parts) - 2) + ["length"]
    assert parts[0]["choices"][0]["delta"]["role"] == "assistant"
    assert parts[-1]["usage"] == whole["usage"]
    assert len({p["id"] for p in parts}) == 1


def test_a_stop_ends_the_reply_before_it_and_the_generation_at_it(llm, ask):
    text = llm.complete([Message("user", "hello")]).text
    stop = text[5:8]
    for streamed in (False, True):
        _, said = ask(stop=[stop, "never there"], stream=streamed, stream_options={"include_usage": True})
        parts = events(said)[0] if streamed else [json.loads(said)]
        whole = "".join(
            (p["choices"][0].get("delta") or p["choices"][0].get("message") or {}).get("content", "")
            for p in parts
            if p["choices"]
        )
        assert whole == text[: text.index(stop)]
        assert parts[-1]["usage"]["completion_tokens"] == text.index(stop) + len(stop)
        assert [p["choices"][0]["finish_reason"] for p in parts if p["choices"]][-1] == "stop"


def test_seeds_make_sampling_repeatable_also_when_requests_come_together(ask):
    def said(seed):
        return json.loads(ask(temperature=2, seed=seed)[1])["choices"][0]["message"]["content"]

    alone = {seed: said(seed) for seed in (1, 2)}
    assert alone[1] != alone[2]
    found = []
    threads = [threading.Thread(target=lambda s=s: found.append((s, said(s)))) for s in (1, 2, 1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted([*alone.items()] * 2)


def test_models_are_listed(ask):
    listed = json.loads(ask("GET", "/v1/models")[1])
    assert [m["id"] for m in listed["data"]] == ["tiny"]
    assert json.loads(ask("GET", "/v1/models/tiny/?x=1")[1]) == listed["data"][0]


@pytest.mark.parametrize(
    ("status", "says", "given"),
    [
        (404, "there is no '/v1/nothing' here", {"path": "/v1/nothing"}),
        (405, "use POST", {"method": "GET"}),
        (405, "use GET", {"path": "/v1/models"}),
        (405, "use POST", {"method": "DELETE"}),
        (415, "application/json", {"headers": {"Content-Type": "text/plain"}}),
        (403, "localhost", {"headers": {**JSON, "Host": "evil.example"}}),
        (403, "localhost", {"headers": {**JSON, "Host": "127.0.0.1.evil.example:80"}}),
        (413, "at most 2,000", {"body": b" " * 2001}),
        (411, "Content-Length", {"headers": {**JSON, "Transfer-Encoding": "chunked"}, "body": b"0\r\n\r\n"}),
        (400, "not JSON", {"body": b"\xff\xfe"}),
        (400, "seed", {"seed": "x"}),
        (400, "window is 512", {"messages": [{"role": "user", "content": "x" * 600}]}),
        (400, "window is 512", {"messages": [{"role": "user", "content": "x" * 600}], "stream": True}),
    ],
)
def test_what_is_wrong_is_said_with_its_status(ask, status, says, given):
    response, text = ask(**given)
    assert response.status == status
    assert says in json.loads(text)["error"]["message"]
    assert (response.headers["allow"] is not None) == (status == 405)
    assert ask("GET", "/v1/models")[0].status == 200


def test_head_has_no_body_and_garbage_is_refused_in_the_protocols_form(ask, server):
    assert ask("HEAD", "/v1/models")[1] == ""
    with socket.create_connection(("127.0.0.1", port(server)), timeout=60) as raw:
        raw.sendall(b"GET / HTTP/9.9\r\n\r\n")
        said = raw.makefile("rb").read()
    assert b"HTTP/1.1 505" in said
    assert b'"error"' in said


def test_one_connection_serves_many_requests(server):
    connection = http.client.HTTPConnection("127.0.0.1", port(server), timeout=60)
    for fields in ({}, {"seed": "bad"}, {"stream": True}, {}):
        connection.request("POST", CHAT, json.dumps({"messages": HELLO, **fields, "max_tokens": 2}), JSON)
        assert connection.getresponse().read()
    connection.close()


@pytest.mark.parametrize("streamed", [True, False])
def test_a_client_that_goes_away_stops_the_generation(llm, server, streamed):
    made = passes(llm)
    body = json.dumps({"messages": HELLO, "stream": streamed, "max_tokens": 5000, "seed": 1}).encode()
    raw = socket.create_connection(("127.0.0.1", port(server)), timeout=60)
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    raw.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    if streamed:
        assert raw.recv(20).startswith(b"HTTP/1.1 200")
    else:
        until(lambda: len(made) > 3)
    raw.close()
    for thread in threading.enumerate():
        if thread.name == "denoise-generate":
            thread.join()
    assert 0 < len(made) < 4900


def until(true):
    while not true():  # the suite's own limit ends it
        time.sleep(0.01)


def test_closing_ends_what_is_under_way(llm):
    made = passes(llm)
    server = LLMServer(llm, limits=ServerLimits(tokens=5000))
    server.start()
    said = []

    def call():
        connection = http.client.HTTPConnection("127.0.0.1", at, timeout=60)
        connection.request("POST", CHAT, json.dumps({"messages": HELLO, "max_tokens": 5000}), JSON)
        said.append(connection.getresponse().status)

    at = port(server)
    thread = threading.Thread(target=call)
    thread.start()
    until(lambda: len(made) > 3)
    server.close()
    thread.join()
    assert said == [503]
    assert len(made) < 4900


def test_a_model_that_fails_gives_an_error_and_the_next_request_is_served(llm, lines):
    broken, failing = tiny_llm(), [True]

    def fail(module, arguments):
        if failing:
            raise ValueError("a bug of the model")

    broken.model.model.layers[1].register_forward_pre_hook(fail)
    with LLMServer(broken, report=lines.put) as server:
        for streamed in (False, True):
            connection = http.client.HTTPConnection("127.0.0.1", port(server), timeout=60)
            connection.request("POST", CHAT, json.dumps({"messages": HELLO, "stream": streamed}), JSON)
            response = connection.getresponse()
            assert response.status == 500
            assert "a bug" not in response.read().decode()
        failing.clear()
        connection.request("POST", CHAT, json.dumps({"messages": HELLO}), JSON)
        assert connection.getresponse().status == 200
    while lines.get(timeout=60) != "500 ValueError: a bug of the model":
        pass


def test_more_connections_than_allowed_are_sent_away(llm):
    with LLMServer(llm, limits=ServerLimits(connections=1)) as server:
        first = http.client.HTTPConnection("127.0.0.1", port(server), timeout=60)
        first.request("GET", "/v1/models")
        first.getresponse().read()
        with socket.create_connection(("127.0.0.1", port(server)), timeout=60) as second:
            assert second.recv(100).startswith(b"HTTP/1.1 503")
        first.close()


def test_no_text_is_reported(ask, lines):
    ask(messages=[{"role": "user", "content": "a secret"}])
    while "tokens" not in (line := lines.get(timeout=60)):
        assert "secret" not in line
    assert "secret" not in line


def test_addresses_and_names_that_cannot_be_are_refused(llm, server, tmp_path):
    for wrong in (port(server), 70_000, -1):
        with pytest.raises(InputError, match="cannot listen"):
            LLMServer(llm, port=wrong).start()
    with pytest.raises(InputError, match="cannot listen"):
        LLMServer(llm, host="no such host").start()
    with pytest.raises(InputError, match="name is empty"):
        LLMServer(llm, name=" ")
    with pytest.raises(InputError, match="not started"):
        _ = LLMServer(llm).url
    with pytest.raises(InputError, match="started already"):
        server.start()
    assert not LLMServer(llm, host="0.0.0.0").local
    assert LLMServer(llm, host="::1").local
