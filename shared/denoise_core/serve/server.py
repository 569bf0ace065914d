"""The HTTP server: one local model, the standard library, nothing to install.

It is for one's own machine: no passwords, no encryption, one generation at a time. On a loopback address it
answers only requests that name such an address as their host, and only bodies that say they are JSON: so no web
page that a browser has open can talk to it.
"""

from __future__ import annotations

import ipaddress
import json
import selectors
import socket
import socketserver
import threading
import time
import uuid
from collections.abc import Callable, Generator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

from denoise_core.errors import InputError, said
from denoise_core.local.generation.llm import Ended, LocalLLM
from denoise_core.serve.protocol import Answering, Asked, Refused, listed, read_request

_CHAT, _MODELS = "/v1/chat/completions", "/v1/models"
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """``body`` is in bytes, ``tokens`` the most a request may ask to be generated, ``idle`` the seconds that a
    connection may stay silent; more than ``connections`` at once are sent away with the status 503.
    """

    body: int = 4 << 20
    tokens: int = 4096
    connections: int = 64
    idle: float = 60.0


class LLMServer:
    """``llm`` at ``http://host:port/v1`` for any client of the OpenAI chat protocol, streaming or not.

    Settings of ``llm`` hold where a request has none of its own. Port 0 takes a free one. Requests take turns;
    one whose client goes away is given up at the next token. `start` serves from a thread of its own.
    ``report`` is called with one line a request, without any text of it.
    """

    def __init__(
        self,
        llm: LocalLLM,
        *,
        name: str = "local",
        host: str = "127.0.0.1",
        port: int = 0,
        limits: ServerLimits | None = None,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        if not name.strip():
            raise InputError("name is empty: it is what clients give as their model")
        self.llm = llm
        self.name = name
        self.host = host
        self.port = port
        self.limits = limits or ServerLimits()
        self.report = report
        self.began = int(time.time())
        self.closing = threading.Event()
        self._listener: _Listener | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """What clients call ``base_url``. Raises `InputError` before `start`."""
        if self._listener is None:
            raise InputError("the server is not started: call start(), or use it in a with block")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self._listener.server_address[1]}/v1"

    def start(self) -> None:
        """Load the model, listen, and serve. Raises `InputError` for a model or an address that cannot be had."""
        if self._listener is not None:
            raise InputError("the server is started already")
        self.llm = self.llm.with_settings()
        try:
            self._listener = _Listener(self)
        except (OSError, OverflowError) as error:
            raise InputError(
                f"cannot listen on {self.host} port {self.port}: {error}; take another --port, or 0 for a free one"
            ) from error
        self.closing.clear()
        self._thread = threading.Thread(target=self._listener.serve_forever, name="denoise-serve", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until it is closed, from another thread or by an interrupt."""
        while not self.closing.wait(0.5):  # a wait without end would not let an interrupt through everywhere
            pass

    def close(self) -> None:
        """Stop listening; replies under way end at the next token."""
        self.closing.set()
        if self._listener is not None and self._thread is not None:
            self._listener.shutdown()
            self._thread.join()
            self._listener.server_close()
        self._listener = self._thread = None

    def __enter__(self) -> LLMServer:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        return _loopback(self.host)


class _Listener(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, server: LLMServer) -> None:
        self.owner = server
        self.address_family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
        self._room = threading.BoundedSemaphore(server.limits.connections)
        super().__init__((server.host, server.port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        request.settimeout(1.0)
        try:
            request.sendall(_BUSY)
        except OSError:  # it did not wait for the answer
            self.owner.report("503 (the client had gone)")
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away in the middle: nothing is left to be told to it."""
        self.owner.report("a connection broke off")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "rag-denoise"
    sys_version = ""
    server: _Listener

    def setup(self) -> None:
        super().setup()
        self.owner = self.server.owner
        self.connection.settimeout(self.owner.limits.idle)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: `report` has a line for each request."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class finds wrong with a request, in the protocol's form."""
        self.close_connection = True
        self.request_version = self.protocol_version  # what is not understood is answered with headers too
        self._refuse(Refused(code, message or "the request could not be read"))

    def do_GET(self) -> None:
        self._handle()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = do_GET

    def _handle(self) -> None:
        self.began, self.streaming = time.monotonic(), False
        try:
            body = self._body()
            self._check_host()
            self._route(body)
        except Refused as refused:
            self._refuse(refused)
        except InputError as error:  # a prompt that is too long, a template that refuses the roles
            self._refuse(Refused(400, str(error), "context_length_exceeded" if "window" in str(error) else None))
        except OSError:
            raise
        except Exception as error:  # whatever a model raises: this request fails, the server goes on
            self.owner.report(f"500 {said(error)}")
            self._refuse(Refused(500, f"{type(error).__name__} while generating; see the server's own output"))

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding"):
            self.close_connection = True
            raise Refused(411, "send the body whole, with a Content-Length")
        length = self.headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or len(length) > 18:
            self.close_connection = True
            raise Refused(400, f"Content-Length is {length[:40]!r}")
        if int(length) > self.owner.limits.body:
            self.close_connection = True
            raise Refused(413, f"the body has {int(length):,} bytes; at most {self.owner.limits.body:,} are read")
        return self.rfile.read(int(length))

    def _check_host(self) -> None:
        name = self.headers.get("host", "").rsplit("@")[-1]
        bare = name[1 : name.find("]")] if name.startswith("[") else name.partition(":")[0]
        if self.owner.local and not _loopback(bare):
            raise Refused(403, "this server answers on its own machine only: call it localhost or 127.0.0.1")

    def _route(self, body: bytes) -> None:
        path = self.path.partition("?")[0].rstrip("/")
        one = f"{_MODELS}/{self.owner.name}"
        allowed = {_CHAT: "POST", _MODELS: "GET", one: "GET"}.get(path)
        if allowed is None:
            raise Refused(404, f"there is no {path[:80]!r} here, only POST {_CHAT} and GET {_MODELS}")
        if self.command != allowed:
            raise Refused(405, f"{self.command} does not go with {path}: use {allowed}", allowed)
        if path == _CHAT:
            if self.headers.get_content_type() != "application/json":
                raise Refused(415, "send the body with Content-Type: application/json")
            return self._chat(read_request(body, self.owner.name, self.owner.limits.tokens))
        model = listed(self.owner.name, self.owner.began)
        return self._send(200, model if path == one else {"object": "list", "data": [model]})

    def _chat(self, asked: Asked) -> None:
        llm = self.owner.llm.with_settings(
            max_new_tokens=asked.max_tokens,
            temperature=asked.temperature,
            seed=asked.seed,
            stop=asked.stop or None,
        )
        answering = Answering(f"chatcmpl-{uuid.uuid4().hex}", int(time.time()), self.owner.name)
        pieces = llm.stream(
            asked.messages, abandoned=lambda: self.owner.closing.is_set() or _gone(self.connection)
        )
        if asked.stream:
            self._stream(asked, answering, pieces)
            return
        said: list[str] = []
        ended = _read(pieces, said.append)
        self._check_open()
        self._send(200, answering.whole("".join(said), ended), ended)

    def _stream(self, asked: Asked, answering: Answering, pieces: Generator[str, None, Ended]) -> None:
        """Server-sent events. What is wrong with the request shows before the first piece, as a status."""

        def send(text: str) -> None:
            if not self.streaming:
                self._head(200, "text/event-stream", {"Cache-Control": "no-store", "Transfer-Encoding": "chunked"})
            self._event(answering.piece(text, first=not self.streaming))
            self.streaming = True

        try:
            ended = _read(pieces, send)
            self._check_open()
            if not self.streaming:
                send("")
            self._event(answering.last(ended))
            if asked.usage:
                self._event(answering.tokens(ended))
            self._event("[DONE]")
            self.wfile.write(b"0\r\n\r\n")
            self._reported(200, ended)
        finally:
            pieces.close()

    def _check_open(self) -> None:
        """Raises where generation was given up: what there is of the reply is not one."""
        if self.owner.closing.is_set():
            raise Refused(503, "the server is closing")
        if _gone(self.connection):
            raise ConnectionAbortedError("the client went away")

    def _event(self, data: dict[str, Any] | str) -> None:
        line = b"data: " + (data.encode() if isinstance(data, str) else _json(data)) + b"\n\n"
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")

    def _send(self, status: int, body: dict[str, Any], ended: Ended | None = None) -> None:
        data = _json(body)
        more = {"Content-Length": str(len(data))}
        if status == 405:
            more["Allow"] = str(body["error"]["code"])
        self._head(status, "application/json", more)
        if self.command != "HEAD":
            self.wfile.write(data)
        self._reported(status, ended)

    def _head(self, status: int, kind: str, more: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "X-Content-Type-Options": "nosniff", **more}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def _refuse(self, refused: Refused) -> None:
        if not getattr(self, "streaming", False):
            self._send(refused.status, refused.body())
            return
        # The status is out already: an event says it, and the stream ends without [DONE].
        self._event(refused.body())
        self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True
        self._reported(refused.status)

    def _reported(self, status: int, ended: Ended | None = None) -> None:
        tokens = f", {ended.usage.input_tokens} + {ended.usage.output_tokens} tokens" if ended else ""
        seconds = time.monotonic() - getattr(self, "began", time.monotonic())
        self.owner.report(f"{status} {self.command or '-'} {seconds:.2f} s{tokens}")


def _read(pieces: Generator[str, None, Ended], use: Callable[[str], None]) -> Ended:
    """Every piece to ``use``; how it ended."""
    while True:
        try:
            piece = next(pieces)
        except StopIteration as ended:
            found: Ended = ended.value
            return found
        use(piece)


def _gone(connection: socket.socket) -> bool:
    """Whether the other side has closed. Bytes that wait to be read are its next request."""
    with selectors.DefaultSelector() as selector:
        try:
            selector.register(connection, selectors.EVENT_READ)
            return bool(selector.select(0)) and not connection.recv(1, socket.MSG_PEEK)
        except (OSError, ValueError):
            return True


def _loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _json(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
