"""A `Service` on a free port of this machine, under uvicorn, while a block runs."""

import socket
import threading
from contextlib import contextmanager

import uvicorn

from denoise_core.service.app import make_app


@contextmanager
def serving(service):
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    server = uvicorn.Server(uvicorn.Config(make_app(service), log_level="warning", timeout_graceful_shutdown=10))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
