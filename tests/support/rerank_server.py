"""A local server that reranks by shared words and goes wrong on demand: what tests of remote scorers talk to."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def words(query, text):
    return float(len(set(query.lower().split()) & set(text.lower().split())))


class Reranker(ThreadingHTTPServer):
    """``faults`` are taken one by one, each by one request: a status, "cut" (the connection), "hang", "drip" (a
    byte every .1 s) or "garbage".

    ``seen`` are the texts of each request, ``peak`` the most requests that were under way at once. With ``keeps``
    so many texts are kept; GET gives the hits and misses of each.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port=0, pause=0.0, score=words, keeps=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.faults, self.seen, self.headers, self.shapes = [], [], [], []
        self.pause, self.score = pause, score
        self.refuses = (
            None,
            0,
        )  # a text, and the status of every request that holds it
        self.lock, self.over, self.arrived = (
            threading.Lock(),
            threading.Event(),
            threading.Event(),
        )
        self.now = self.peak = 0
        self.retry_after, self.arrivals = (
            "0",
            [],
        )  # what a refusal asks for; when each request came
        self.keeps, self.kept, self.counts = keeps, {}, {}

    def keep(self, texts):
        """As a prefix cache: a hit or a miss of each text, the least recently used leaving first."""
        for text in texts:
            count = self.counts.setdefault(text, [0, 0])
            count[self.kept.pop(text, 1)] += 1
            self.kept[text] = 0
            while len(self.kept) > self.keeps:
                del self.kept[next(iter(self.kept))]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request, client_address):
        """A client that went away is part of the tests."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        with self.server.lock:
            found = dict(self.server.counts)
        self._send(200, found)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        served = self.server
        with served.lock:
            texts = asked.get("documents") or asked.get("texts") or []
            served.seen.append(texts)
            served.arrivals.append(time.monotonic())
            if served.keeps:
                served.keep(texts)
            served.headers.append(dict(self.headers))
            served.now += 1
            served.peak = max(served.peak, served.now)
            fault = served.faults.pop(0) if served.faults else None
        served.arrived.set()
        try:
            time.sleep(served.pause)
            status, body = 200, self._scores(asked, texts)
            if fault == "hang":
                served.over.wait(60)
            if fault in ("hang", "cut"):
                self.close_connection = True
                self.connection.close()
                return
            if fault == "drip":
                self._drip()
                return
            if fault == "garbage":
                body = "no scores"
            if served.refuses[0] in texts:
                fault = served.refuses[1]
            if isinstance(fault, int):
                status, body = (
                    fault,
                    {"error": f"fault {fault}, api_key=sk-verysecret1"},
                )
        finally:
            with served.lock:
                served.now -= 1
        self._send(status, body)

    def _drip(self):
        self.send_response(200)
        self.send_header("content-length", "1000")
        self.end_headers()
        self.close_connection = True
        for _ in range(1000):
            if self.server.over.wait(0.1):
                return
            self.wfile.write(b" ")

    def _scores(self, asked, texts):
        scores = [self.server.score(asked["query"], t) for t in texts]
        if "texts" in asked:
            return [{"index": i, "score": s} for i, s in enumerate(scores)]
        return {
            "results": [
                {"index": i, "relevance_score": s} for i, s in enumerate(scores)
            ][::-1]
        }

    def _send(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        if status in (429, 503):
            self.send_header("retry-after", self.server.retry_after)
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def reranking(**settings):
    """A `Reranker` that listens while the block runs."""
    with Reranker(**settings) as served:
        thread = threading.Thread(
            target=served.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        thread.start()
        yield served
        served.over.set()
        served.shutdown()
        thread.join()
