"""`langchain-openai` against a local server that speaks its protocol and runs a (tiny, untrained) real model.

What is tested is the way there and back: tokens, settings, streams, limits, time-outs and broken connections.
An untrained model answers nonsense, so every reading of it ends in the fallback, which is the point.
"""

import asyncio
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch
from langchain_core.documents import Document
from langchain_openai import ChatOpenAI
from transformers import LlamaConfig, LlamaForCausalLM

from denoise_core import Message
from denoise_core.s2a import S2ADenoiser
from langchain_denoise import ChatModelLLM, DenoiseCompressor

pytestmark = pytest.mark.enable_socket

ASKED = (Message("system", "be brief"), Message("user", "what?"))
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
    """Serves ``/v1/chat/completions``; ``faults`` are taken one by one, each by one request."""

    daemon_threads = True

    def __init__(self, model):
        super().__init__(("127.0.0.1", 0), Handler)
        self.model = model
        self.requests, self.faults = [], []
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


@pytest.fixture(scope="module")
def tiny():
    return TinyModel()


@pytest.fixture
def server(tiny):
    with Server(tiny) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.release.set()
        running.shutdown()
        thread.join()


@pytest.fixture
def client(server):
    def client(**settings):
        return ChatOpenAI(model="tiny", base_url=server.url, api_key="none", **{"max_retries": 0, **settings})

    return client


def documents(count):
    return [Document(page_content=f"One sentence {i}. Another one.", id=str(i)) for i in range(count)]


def compressor(model, **settings):
    return DenoiseCompressor(denoiser=S2ADenoiser(ChatModelLLM(model), variant="select"), **settings)


@pytest.mark.parametrize("streaming", [False, True])
async def test_text_and_tokens_are_the_servers(server, client, streaming):
    llm = ChatModelLLM(client(streaming=streaming, stream_usage=True))
    reply = await llm.acomplete(ASKED)
    assert await asyncio.to_thread(llm.complete, ASKED) == reply
    assert len(reply.text) == NEW_TOKENS
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (len("be brief\nwhat?"), NEW_TOKENS)
    assert [m["role"] for m in server.requests[0]["messages"]] == ["system", "user"]
    assert bool(server.requests[0].get("stream")) is streaming


def test_stop_seed_and_temperature_arrive(server, client):
    ChatModelLLM(client(temperature=0.25).bind(stop=["\n\n"], seed=7)).complete(ASKED)
    sent = server.requests[0]
    assert (sent["temperature"], sent["seed"], sent["stop"]) == (0.25, 7, ["\n\n"])


@pytest.mark.parametrize("sync", [True, False])
async def test_twenty_documents_are_asked_about_ten_at_a_time(server, client, sync):
    server.faults = ["slow"] * 20
    ours = compressor(client(), max_concurrency=10)
    if sync:
        out = await asyncio.to_thread(ours.compress_documents, documents(20), "q")
    else:
        out = await ours.acompress_documents(documents(20), "q")
    assert len(server.requests) == 20
    assert 2 <= server.peak <= 10
    assert [d.id for d in out] == [str(i) for i in range(20)]
    assert "'0'" in out[0].metadata["denoise"]["fallback"]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_the_clients_own_retries_work(server, client, status):
    server.faults = [status, status]
    assert ChatModelLLM(client(max_retries=2)).complete(ASKED).text
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [429, 500])
@pytest.mark.parametrize("sync", [True, False])
async def test_what_still_fails_keeps_that_document_and_names_the_error(server, client, status, sync):
    server.faults = [status]
    ours = compressor(client(), max_concurrency=1)
    if sync:
        out = await asyncio.to_thread(ours.compress_documents, documents(2), "q")
    else:
        out = await ours.acompress_documents(documents(2), "q")
    assert [d.page_content for d in out] == [d.page_content for d in documents(2)]
    assert f"Error code: {status} - fault {status}" in out[0].metadata["denoise"]["fallback"]


@pytest.mark.parametrize("sync", [True, False])
async def test_a_time_out_ends_the_call_and_keeps_the_document(server, client, sync):
    server.faults = ["hang"]
    ours = compressor(client(timeout=0.3), max_concurrency=1)
    if sync:
        out = await asyncio.to_thread(ours.compress_documents, documents(1), "q")
    else:
        out = await ours.acompress_documents(documents(1), "q")
    assert "Timeout" in out[0].metadata["denoise"]["fallback"]


@pytest.mark.parametrize("sync", [True, False])
async def test_a_connection_that_breaks_in_the_middle_of_a_stream(server, client, sync):
    server.faults = ["break"]
    ours = compressor(client(streaming=True), max_concurrency=1)
    if sync:
        out = await asyncio.to_thread(ours.compress_documents, documents(2), "q")
    else:
        out = await ours.acompress_documents(documents(2), "q")
    assert [d.id for d in out] == ["0", "1"]
    fallback = out[0].metadata["denoise"]["fallback"]
    assert "Error" in fallback.split("'0' kept")[1].split(";")[0]


def test_nobody_listens(client, server):
    model = ChatOpenAI(model="tiny", base_url="http://127.0.0.1:9/v1", api_key="none", max_retries=0)
    out = compressor(model).compress_documents(documents(1), "q")
    assert "Connection error" in out[0].metadata["denoise"]["fallback"]


async def test_cancelling_leaves_nothing_running(server, client):
    server.faults = ["hang"]
    ours = compressor(client())
    task = asyncio.create_task(ours.acompress_documents(documents(1), "q"))
    await asyncio.to_thread(server.arrived.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
