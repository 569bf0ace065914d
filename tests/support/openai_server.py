"""A local server that speaks the OpenAI protocol and runs a (tiny, untrained) real model, with faults on demand.

Both adapters' tests of a real client talk to it: `serving` gives a running `Server`.
"""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from transformers import LlamaConfig, LlamaForCausalLM

NEW_TOKENS = 12


class TinyModel:
    """Bytes in, bytes out; greedy."""

    def __init__(self):
        torch.manual_seed(0)
        size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
        config = LlamaConfig(
            vocab_size=256, num_attention_heads=2, num_key_value_heads=2, pad_token_id=0, eos_token_id=None, **size
        )
        self.model = LlamaForCausalLM(config).eval()
        self.lock = threading.Lock()

    def reply(self, text):
        ids = torch.tensor([list(text.encode())[-200:]])
        with self.lock, torch.inference_mode():
            out = self.model.generate(ids, max_new_tokens=NEW_TOKENS, do_sample=False)[0, ids.shape[1] :]
        return "".join(chr(32 + i % 95) for i in out.tolist()), ids.shape[1]


class Server(ThreadingHTTPServer):
    """Serves ``/v1/chat/completions``; ``faults`` are taken one by one, each by one request.

    ``fields``: what a request that has to call a tool is answered with, as a server does that holds its model to
    a grammar; None has the model write text after all.
    """

    daemon_threads = True

    def __init__(self, model):
        super().__init__(("127.0.0.1", 0), Handler)
        self.model = model
        self.requests, self.faults = [], []
        self.fields = None
        self.lock = threading.Lock()
        self.now = self.peak = 0
        self.release, self.arrived = threading.Event(), threading.Event()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request, client_address):
        """A client that went away is part of the tests."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_POST(self):
        server = self.server
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with server.lock:
            server.requests.append(asked)
            server.now += 1
            server.peak = max(server.peak, server.now)
            fault = server.faults.pop(0) if server.faults else None
            server.arrived.set()
        try:
            self._answer(server, asked, fault)
        finally:
            with server.lock:
                server.now -= 1

    def _answer(self, server, asked, fault):
        if isinstance(fault, int):
            return self._send(fault, {"error": {"message": f"fault {fault}", "type": "fault"}})
        if fault == "hang":
            server.release.wait(30)
            self.close_connection = True
            return None
        if fault == "slow":
            time.sleep(0.05)
        text, count = server.model.reply("\n".join(m["content"] for m in asked["messages"]))
        usage = {"prompt_tokens": count, "completion_tokens": NEW_TOKENS, "total_tokens": count + NEW_TOKENS}
        about = {"id": "1", "created": 0, "model": "tiny"}
        if asked.get("stream"):
            return self._stream(about, text, usage, broken=fault == "break")
        message = {"role": "assistant", "content": text}
        if asked.get("tools") and server.fields is not None:
            call = {"name": asked["tools"][0]["function"]["name"], "arguments": json.dumps(server.fields)}
            message["tool_calls"] = [{"id": "call-1", "type": "function", "function": call}]
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return self._send(200, {**about, "object": "chat.completion", "choices": [choice], "usage": usage})

    def _send(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.send_header("retry-after-ms", "1")
        self.end_headers()
        self.wfile.write(data)

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
            choice = {"index": 0, "delta": {"role": "assistant", "content": piece}, "finish_reason": None}
            self._event(json.dumps({**about, "choices": [choice]}))
        self._event(json.dumps({**about, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
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
    with Server(model) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.release.set()
        running.shutdown()
        thread.join()
