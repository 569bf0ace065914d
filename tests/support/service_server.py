"""A `Service` on a free port of this machine, under uvicorn, while a block runs."""

import socket
import threading
import time
from contextlib import contextmanager

import uvicorn

from denoise_core.embedded import DefaultScorer
from denoise_core.service.app import make_app

START_SECONDS = 60  # on a busy machine, for the start as for the end
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
def serving(service, **settings):
    """The address; ``settings`` are uvicorn's."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    settings = {"log_level": "warning", "timeout_graceful_shutdown": 10} | settings
    server = uvicorn.Server(uvicorn.Config(make_app(service), **settings))

    def run():
        with listener:  # clients of a server that ended are refused, and do not wait
            server.run(sockets=[listener])

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    deadline = time.monotonic() + START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("the service did not start: the log says why")
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(START_SECONDS)
        assert not thread.is_alive(), "the service did not end"
