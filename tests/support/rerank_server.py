"""A local server that reranks by shared words and goes wrong on demand: what tests of remote scorers talk to."""

import threading
import time
from contextlib import contextmanager

from local_server import JSONHandler, LocalServer, listening


def words(query, text):
    return float(len(set(query.lower().split()) & set(text.lower().split())))


class Reranker(LocalServer):
    """``faults`` are taken one by one, each by one request: a status, "cut" (the connection), "hang", "drip" (a
    byte every .1 s) or "garbage".

    ``seen`` are the texts of each request, ``peak`` the most requests that were under way at once.
    """

    def __init__(self, pause=0.0):
        super().__init__(Handler)
        self.pause = pause
        self.faults, self.seen, self.headers = [], [], []
        # A text, and the status of every request that holds it.
        self.refuses = (None, 0)
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.arrived = threading.Event()
        self.now = self.peak = 0
        self.retry_after = "0"  # what a refusal asks for
        self.arrivals = []  # when each request came

    @property
    def url(self):
        return f"{super().url}/v1"


class Handler(JSONHandler):
    def do_POST(self):
        asked = self.read_json()
        served = self.server
        with served.lock:
            texts = asked.get("documents") or asked.get("texts") or []
            served.seen.append(texts)
            served.arrivals.append(time.monotonic())
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
        scores = [words(asked["query"], t) for t in texts]
        if "texts" in asked:
            return [{"index": i, "score": s} for i, s in enumerate(scores)]
        return {
            "results": [
                {"index": i, "relevance_score": s} for i, s in enumerate(scores)
            ][::-1]
        }

    def _send(self, status, body):
        headers = {}
        if status in (429, 503):
            headers["retry_after"] = self.server.retry_after
        self.send_json(status, body, **headers)


@contextmanager
def reranking(**settings):
    """A `Reranker` that listens while the block runs."""
    with listening(Reranker(**settings)) as served:
        yield served
        served.over.set()
