"""A local server that speaks the OpenAI protocol and answers nonsense or by a given model, with faults on demand.

Both adapters' tests of a real client talk to it, by the fixture ``server``: `serving` gives a running `Server`.
"""

import hashlib
import json
import threading
from contextlib import contextmanager
from functools import partial

from local_server import JSONHandler, LocalServer, listening

NEW_TOKENS = 12
NO_DIGITS = str.maketrans("0123456789", "ghijklmnop")  # no reply that is a selection


class Nonsense:
    """Answers as an untrained model does: letters that depend on the prompt."""

    def reply(self, text):
        data = text.encode("utf-8", "replace")
        letters = hashlib.sha256(data).hexdigest()[:NEW_TOKENS]
        return letters.translate(NO_DIGITS), len(data)


class Server(LocalServer):
    """Serves ``/v1/chat/completions``; ``faults`` are taken one by one, each by one request.

    ``fields``: what a request that has to call a tool or to keep to a schema is answered with, as a server does
    that holds its model to a grammar; None has the model write text after all. ``refuses``: words that a content
    filter answers with 400.
    ``peak``: the most requests that were ever under way at once, each from its arrival until its reply is ready.
    """

    def __init__(self, model):
        super().__init__(Handler)
        self.model = model
        self.requests, self.faults = [], []
        self.fields = None
        self.refuses = "\0"
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


class Handler(JSONHandler):
    def do_POST(self):
        asked = self.read_json()
        with self.server.taken(asked) as fault:
            send = self._answer(self.server, asked, fault)
        send()  # only now: who has the reply may ask again before this thread goes on, and would be counted twice

    def _answer(self, server, asked, fault):
        """The reply to a request, as the function that sends it."""
        if any(server.refuses in m["content"] for m in asked["messages"]):
            fault = 400
        if isinstance(fault, int):
            return partial(
                self._send,
                fault,
                {"error": {"message": f"fault {fault}", "type": "fault"}},
            )
        if fault == "hang":
            server.release.wait(30)
            return self._hang_up
        text, count = server.model.reply(
            "\n".join(m["content"] for m in asked["messages"])
        )
        usage = {
            "prompt_tokens": count,
            "completion_tokens": NEW_TOKENS,
            "total_tokens": count + NEW_TOKENS,
        }
        about = {"id": "1", "created": 0, "model": "tiny"}
        if asked.get("stream"):
            return partial(self._stream, about, text, usage, broken=fault == "break")
        if asked.get("response_format") and server.fields is not None:
            text = json.dumps(server.fields)
        message = {"role": "assistant", "content": text}
        if asked.get("tools") and server.fields is not None:
            call = {
                "name": asked["tools"][0]["function"]["name"],
                "arguments": json.dumps(server.fields),
            }
            message["tool_calls"] = [
                {"id": "call-1", "type": "function", "function": call}
            ]
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return partial(
            self._send,
            200,
            {**about, "object": "chat.completion", "choices": [choice], "usage": usage},
        )

    def _hang_up(self):
        self.close_connection = True

    def _send(self, status, body):
        self.send_json(status, body, retry_after_ms="1")

    def _stream(self, about, text, usage, broken):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        about = {**about, "object": "chat.completion.chunk"}
        for i, piece in enumerate(text):
            if broken and i == len(text) // 2:
                self.close_connection = True
                self.connection.close()
                return
            choice = {
                "index": 0,
                "delta": {"role": "assistant", "content": piece},
                "finish_reason": None,
            }
            self._event(json.dumps({**about, "choices": [choice]}))
        self._event(
            json.dumps(
                {
                    **about,
                    "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
                }
            )
        )
        self._event(json.dumps({**about, "choices": [], "usage": usage}))
        self._event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, data):
        line = f"data: {data}\n\n".encode()
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.flush()


@contextmanager
def serving(model):
    """A `Server` for ``model``, listening while the block runs."""
    with listening(Server(model)) as running:
        yield running
        running.release.set()
