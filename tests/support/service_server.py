"""A `Service` on a free port of this machine, under uvicorn, while a block runs."""

import socket
import threading
from contextlib import contextmanager

import uvicorn

from denoise_core.embedded import DefaultScorer
from denoise_core.service.app import make_app

QUERY = "Where is the tower?"
TEXTS = [
    "Bread is cheap.",
    "The tower is in Porto.",
    "Rain fell all day.",
    "A tower stands in the harbour.",
]


def best():
    """Places in `TEXTS`, as the default ranks them for `QUERY`."""
    scores = DefaultScorer().score(QUERY, TEXTS).tolist()
    return sorted(range(len(TEXTS)), key=lambda i: -scores[i])


@contextmanager
def serving(service):
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    server = uvicorn.Server(
        uvicorn.Config(
            make_app(service), log_level="warning", timeout_graceful_shutdown=10
        )
    )
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, daemon=True
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
