"""A local server that is killed, hangs or flaps for a while, and is then well again on the same port."""

import socket
import threading
import time
from contextlib import suppress

from local_server import JSONHandler, LocalServer

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
        self.listener = _Listener(self.port, self)
        self.port = self.listener.server_port
        self.listener.start()

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


class _Listener(LocalServer):
    block_on_close = False

    def __init__(self, port, outage_server):
        super().__init__(_Handler, port)
        self.outage_server = outage_server
        self.connections = set()


class _Handler(JSONHandler):
    def setup(self):
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self):
        self.server.connections.discard(self.connection)
        super().finish()

    def do_POST(self):
        body = self.read_json()
        self.server.outage_server.is_well.wait(60)
        self.send_json(200, self.server.outage_server.reply(body))
