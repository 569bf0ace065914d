"""A local server that reranks by shared words and goes wrong on demand: what tests of remote scorers talk to."""

import time

from local_server import FaultyServer, JSONHandler, listening


def words(query, text):
    return float(len(set(query.lower().split()) & set(text.lower().split())))


class Reranker(FaultyServer):
    """A fault is a status, "cut" (the connection), "hang", "drip" (a byte every .1 s) or "garbage".

    ``seen`` are the texts of each request.
    """

    def __init__(self, pause=0.0):
        super().__init__(Handler)
        self.pause = pause
        self.seen, self.headers = [], []
        # A text, and the status of every request that holds it.
        self.refuses = (None, 0)
        self.retry_after = "0"  # what a refusal asks for
        self.arrivals = []  # when each request came


class Handler(JSONHandler):
    def do_POST(self):
        asked = self.read_json()
        served = self.server
        texts = asked.get("documents") or asked.get("texts") or []
        with served.taken(asked) as fault:
            served.seen.append(texts)
            served.arrivals.append(time.monotonic())
            served.headers.append(dict(self.headers))
            time.sleep(served.pause)
            if fault == "hang":
                served.release.wait(60)
            if fault in ("hang", "cut"):
                self.close_connection = True
                self.connection.close()
                return
            if fault == "drip":
                self._drip()
                return
            if served.refuses[0] in texts:
                fault = served.refuses[1]
            status = fault if isinstance(fault, int) else 200
            body = self._scores(asked, texts)
            if fault == "garbage":
                body = "no scores"
            if status != 200:
                body = {"error": f"fault {fault}, api_key=sk-verysecret1"}
        headers = {}
        if status in (429, 503):
            headers["retry_after"] = served.retry_after
        self.send_json(status, body, **headers)

    def _drip(self):
        self.send_response(200)
        self.send_header("content-length", "1000")
        self.end_headers()
        self.close_connection = True
        for _ in range(1000):
            if self.server.release.wait(0.1):
                return
            self.wfile.write(b" ")

    def _scores(self, asked, texts):
        scores = [words(asked["query"], text) for text in texts]
        name = "score" if "texts" in asked else "relevance_score"
        rows = [{"index": i, name: score} for i, score in enumerate(scores)]
        return rows if "texts" in asked else {"results": rows[::-1]}


def reranking(**settings):
    return listening(Reranker(**settings))
