"""A local server that is killed, hangs or flaps for a while, and is then well again on the same port."""

import json
import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FLAP_SECONDS = 0.15  # that a flapping server is down, then well, and so on


class OutageServer:
    """Answers each request with ``reply(body)``, JSON both; ``fail`` is an outage, and returns after it."""

    def __init__(self, reply):
        self.reply = reply
        self.port = 0
        self.is_well = threading.Event()
        self.is_well.set()
        self.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        self.listener = _Listener(("127.0.0.1", self.port), self)
        self.port = self.listener.server_port
        serve = self.listener.serve_forever
        threading.Thread(target=serve, args=(0.01,), daemon=True).start()

    def kill(self):
        """Listen no more and cut what is under way, as the end of a process does."""
        self.listener.shutdown()
        self.listener.server_close()
        for connection in list(self.listener.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def fail(self, kind, seconds):
        if kind == "hang":
            self.is_well.clear()
            time.sleep(seconds)
            self.is_well.set()
        elif kind == "kill":
            self.kill()
            time.sleep(seconds)
            self.start()
        else:
            end_time = time.monotonic() + seconds
            while time.monotonic() < end_time:
                self.fail("kill", FLAP_SECONDS)
                time.sleep(FLAP_SECONDS)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address, outage_server):
        super().__init__(address, _Handler)
        self.outage_server = outage_server
        self.connections = set()

    def handle_error(self, request, client_address):
        """A cut connection is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self):
        self.server.connections.discard(self.connection)
        super().finish()

    def log_message(self, *args):
        pass

    def do_POST(self):
        length = int(self.headers["content-length"])
        body = json.loads(self.rfile.read(length))
        self.server.outage_server.is_well.wait(60)
        data = json.dumps(self.server.outage_server.reply(body)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
