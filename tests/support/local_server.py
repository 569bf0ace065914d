"""A local server whose replies a function gives, and the replies that several tests need."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

Sent = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""


def json_reply(value: Any, status: int = 200) -> Sent:
    return status, {}, json.dumps(value).encode()


def chat_reply(text: str, input_tokens: int = 1) -> Sent:
    """A reply of the chat protocol, of one token."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": input_tokens, "completion_tokens": 1}
    total = {"total_tokens": input_tokens + 1}
    names = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
    }
    return json_reply({**names, "choices": [choice], "usage": usage | total})


class JSONHandler(BaseHTTPRequestHandler):
    """Reads a request as JSON, and sends JSON."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None: ...

    def read_json(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["content-length"])))

    def send_json(self, status: int, value: Any, **headers: str) -> None:
        self.send_bytes(status, json.dumps(value).encode(), headers)

    def send_bytes(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        defaults = {
            "content-type": "application/json",
            "content-length": str(len(body)),
        }
        self.send_response(status)
        for name, value in (defaults | headers).items():
            self.send_header(name.replace("_", "-"), value)
        with suppress(OSError):  # who was killed, or got too much, has hung up
            self.end_headers()
            self.wfile.write(body)


class LocalServer(ThreadingHTTPServer):
    """Listens on this machine."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, handler: type[JSONHandler], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is part of the tests."""

    def start(self) -> threading.Thread:
        thread = threading.Thread(
            target=self.serve_forever,
            args=(0.01,),
            daemon=True,
        )
        thread.start()
        return thread


Served = TypeVar("Served", bound=LocalServer)


@contextmanager
def listening(server: Served) -> Iterator[Served]:
    """Let a server listen while the block runs."""
    with server:
        thread = server.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class FaultyServer(LocalServer):
    """Keeps its requests; ``faults`` are taken one by one, each by one request.

    ``peak``: the most requests that were ever under way at once, each from its arrival until its reply is ready.
    """

    def __init__(self, handler: type[JSONHandler]) -> None:
        super().__init__(handler)
        self.requests: list[Any] = []
        self.faults: list[Any] = []
        self.lock = threading.Lock()
        self.now = self.peak = 0
        self.release, self.arrived = threading.Event(), threading.Event()

    @property
    def url(self) -> str:
        return f"{super().url}/v1"

    @contextmanager
    def taken(self, asked: Any) -> Iterator[Any]:
        """Counts a request as under way while the block runs; gives the fault that it has to meet with."""
        with self.lock:
            self.requests.append(asked)
            self.now += 1
            self.peak = max(self.peak, self.now)
            fault = self.faults.pop(0) if self.faults else None
            self.arrived.set()
        try:
            yield fault
        finally:
            with self.lock:
                self.now -= 1

    def shutdown(self) -> None:
        """Lets go what hangs."""
        self.release.set()
        super().shutdown()


@contextmanager
def answering(reply: Callable[[Any], Sent | None]) -> Iterator[str]:
    """The address of a server on this machine.

    ``reply`` is given the JSON of a request's body, or the path of one without; None cuts the connection.
    """

    class Handler(JSONHandler):
        def do_GET(self) -> None:
            self._send(reply(self.path))

        def do_POST(self) -> None:
            self._send(reply(self.read_json()))

        def _send(self, sent: Sent | None) -> None:
            if sent is None:
                self.close_connection = True
                self.connection.close()
                return
            status, headers, body = sent
            # Announced, so that no client sends its next request into a closed connection.
            self.send_bytes(status, body, headers | {"connection": "close"})

    with listening(LocalServer(Handler)) as served:
        yield served.url
