"""A local server whose replies a function gives, and the replies that several tests need."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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
    names = {"id": "x", "object": "chat.completion", "created": 0, "model": "m"}
    return json_reply({**names, "choices": [choice], "usage": usage | total})


@contextmanager
def answering(reply: Callable[[Any], Sent | None]) -> Iterator[str]:
    """The address of a server on this machine.

    ``reply`` is given the JSON of a request's body, or the path of one without; None cuts the connection.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None: ...

        def do_GET(self) -> None:
            self._send(reply(self.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self._send(reply(json.loads(body)))

        def _send(self, sent: Sent | None) -> None:
            self.close_connection = True
            if sent is None:
                self.connection.close()
                return
            status, headers, body = sent
            length = {"content-length": str(len(body))}
            self.send_response(status)
            for key, value in (
                {"content-type": "application/json"} | length | headers
            ).items():
                self.send_header(key, value)
            with suppress(OSError):  # who was killed, or got too much, has hung up
                self.end_headers()
                self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        served.daemon_threads = True
        thread = threading.Thread(
            target=served.serve_forever, args=(0.01,), daemon=True
        )
        thread.start()
        try:
            yield f"http://127.0.0.1:{served.server_port}"
        finally:
            served.shutdown()
            thread.join()
