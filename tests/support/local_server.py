"""A local server whose replies a function gives, and the replies that several tests need."""

import json
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def json_reply(value, status=200):
    return status, {}, json.dumps(value).encode()


def completion(text, input_tokens, output_tokens):
    message = {"role": "assistant", "content": text}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "tiny",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": input_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens,
        },
    }


def chat_reply(text, input_tokens=1):
    """Such a reply of one token, to be sent."""
    return json_reply(completion(text, input_tokens, 1))


class JSONHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args): ...

    def read_json(self):
        return json.loads(self.rfile.read(int(self.headers["content-length"])))

    def send_json(self, status, value, **headers):
        self.send_bytes(status, json.dumps(value).encode(), headers)

    def send_bytes(self, status, body, headers):
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
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, handler, port=0):
        super().__init__(("127.0.0.1", port), handler)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        """A client that went away is part of the tests."""

    def start(self):
        thread = threading.Thread(
            target=self.serve_forever,
            args=(0.01,),
            daemon=True,
        )
        thread.start()
        return thread


@contextmanager
def listening(server):
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

    def __init__(self, handler):
        super().__init__(handler)
        self.requests = []
        self.faults = []
        self.lock = threading.Lock()
        self.now = self.peak = 0
        self.release, self.arrived = threading.Event(), threading.Event()

    @property
    def url(self):
        return f"{super().url}/v1"

    @contextmanager
    def taken(self, asked):
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

    def shutdown(self):
        """Lets go what hangs."""
        self.release.set()
        super().shutdown()


@contextmanager
def answering(reply):
    """The address of a server on this machine.

    ``reply`` is given the JSON of a request's body, or the path of one without; None cuts the connection.
    """

    class Handler(JSONHandler):
        def do_GET(self):
            self._send(reply(self.path))

        def do_POST(self):
            self._send(reply(self.read_json()))

        def _send(self, sent):
            if sent is None:
                self.close_connection = True
                self.connection.close()
                return
            status, headers, body = sent
            # Announced, so that no client sends its next request into a closed connection.
            self.send_bytes(status, body, headers | {"connection": "close"})

    with listening(LocalServer(Handler)) as served:
        yield served.url
