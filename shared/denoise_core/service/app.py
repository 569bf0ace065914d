"""The ASGI application: paths, statuses and shapes."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from fastapi import FastAPI, HTTPException, Request, Security
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi.security import HTTPBearer
from numpy.typing import NDArray
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Gauge,
    Histogram,
    generate_latest,
)
from starlette.middleware.trustedhost import TrustedHostMiddleware

from denoise_core import __version__
from denoise_core._optional import require
from denoise_core.errors import BadReply, BadScores, ContractViolation, InputError
from denoise_core.protocols import Scorer
from denoise_core.runtime import fallbacks
from denoise_core.runtime.engines import Engine, ReplicaHung
from denoise_core.service import LOCAL_HOSTS, Service, bodies
from denoise_core.service.access import AccessMiddleware, log
from denoise_core.service.body_limits import make_route_class
from denoise_core.service.keys import ApiKeys
from denoise_core.service.request_queue import RequestQueue
from denoise_core.support.check import check as check_answer
from denoise_core.text.text_chunk import FREE_CHUNKS, MIN_MEAN_CHARACTERS
from denoise_core.weighted_cache import cache_fills

_DESCRIPTION = (
    "Denoises passages before a language model reads them, ranks them, and checks "
    "answers with them."
)


_ENCODER = json.JSONEncoder(allow_nan=False)
MAX_REPLY_RATIO = 4  # bytes of a reply for each byte of its request
MIN_REPLY_BYTES = 1 << 20  # that any reply may have besides
RETRY_SECONDS = 2  # after which a request to a server that hung is worth a trial


def make_app(service: Service) -> FastAPI:
    """Build the application of ``service``, for uvicorn or any other ASGI server.

    Needs the extra ``serve``. Raises `InputError` for keys that cannot be read.
    """
    handlers = _Handlers(service)
    keys = ApiKeys(service.keys)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        handlers.queue.close()

    app = FastAPI(
        title="rag-denoise",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=lifespan,
    )
    app.router.route_class = make_route_class(service.limits, handlers.queue)
    app.add_middleware(
        TrustedHostMiddleware,
        allowed_hosts=list(service.hosts or LOCAL_HOSTS),
        www_redirect=False,
    )
    app.add_middleware(AccessMiddleware, keys=keys, seconds=handlers.request_seconds)
    _add_routes(app, handlers)
    return app


def _add_routes(app: FastAPI, handlers: _Handlers) -> None:
    with_key: dict[str, Any] = {
        "dependencies": [Security(HTTPBearer(auto_error=False))],
        "responses": {"default": {"model": bodies.Problem}},
    }
    app.post("/v1/denoise", response_model=bodies.DenoiseResponse, **with_key)(
        handlers.denoise
    )
    app.post("/v1/check", response_model=bodies.CheckResponse, **with_key)(
        handlers.check
    )
    app.post("/v1/rerank", response_model=bodies.RerankResponse, **with_key)(
        handlers.rerank
    )
    for path in ("/v2/rerank", "/rerank"):  # Cohere's second version, vLLM
        app.post(path, include_in_schema=False)(handlers.rerank)
    health: dict[str, Any] = {"response_model": bodies.Health}
    stalled: dict[int | str, dict[str, Any]] = {503: {"model": bodies.Health}}
    app.get("/livez", name="livez", **health)(handlers.health)
    app.get("/readyz", name="readyz", responses=stalled, **health)(handlers.health)
    app.get("/health", include_in_schema=False)(handlers.health)  # of drop-in clients
    app.get("/metrics", response_class=PlainTextResponse, **with_key)(handlers.metrics)


class _Handlers:
    """What the paths answer. FastAPI shows the docstrings on the page of the API."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.engine: Engine | None = None
        self.server_errors: tuple[type[Exception], ...] = (BadReply,)
        engine = getattr(service.scorer, "engine", None)
        if isinstance(engine, Engine):
            self.engine = engine
            self.server_errors += (require("httpx", extra="remote").HTTPError,)
        self.queue = RequestQueue(service.limits)
        self.registry = CollectorRegistry()
        self.request_seconds = Histogram(
            "denoise_request_seconds",
            "Seconds.",
            ["path", "status"],
            registry=self.registry,
        )
        self.fallback_gauge = Gauge(
            "denoise_fallbacks",
            "Logged by now.",
            ["part", "error"],
            registry=self.registry,
        )
        self.cache_gauge = Gauge(
            "denoise_cache_bytes",
            "Held by caches, by estimate, and at most.",
            ["cache", "is_limit"],
            registry=self.registry,
        )
        waiting = Gauge("denoise_waiting_requests", "Requests.", registry=self.registry)
        waiting.set_function(lambda: self.queue.waiting)

    async def denoise(self, request: Request, body: bodies.DenoiseRequest) -> Response:
        """Keep what the query needs: texts, ranges, scores, and reasons of drops."""
        passages = bodies.to_passages(body.passages)

        def compute() -> Any:
            result = self.service.denoiser.denoise(body.query, passages)
            reply = result.as_json()
            characters = sum(len(passage.text) for passage in passages)
            max_rows = FREE_CHUNKS + len(passages)
            max_rows += characters // MIN_MEAN_CHARACTERS
            bodies.merge_small_rows(reply, max_rows)
            return reply

        return await self._compute(request, compute)

    async def check(self, request: Request, body: bodies.CheckRequest) -> Response:
        """Check claim by claim whether the passages support the answer.

        Also whether it answers the question.
        """
        passages = bodies.to_passages(body.passages)

        def compute() -> Any:
            verdict = check_answer(
                body.question, body.answer, passages, judge=self.service.judge
            )
            return {"passed": verdict.passed, **verdict.as_json()}

        return await self._compute(request, compute)

    async def rerank(self, request: Request, body: bodies.RerankRequest) -> Response:
        """Rank documents by relevance, best first.

        ``relevance_score`` is the scorer's number through a sigmoid, 0 to 1.
        """
        scorer = self.service.scorer
        name = self.service.name
        if scorer is None:
            raise HTTPException(501, f"{name} gives no scores, so it cannot rank")
        return await self._compute(request, lambda: _rank(scorer, name, body))

    async def health(self, request: Request) -> Response:
        """``/livez``: the process answers. ``/readyz``: work gets done.

        503 when work is under way and none was done for ``stall_timeout`` seconds, and
        while every replica of a remote scorer hung and none is due for a trial.
        ``replicas`` says of each whether it is alive, down or hung.
        """
        is_ready = self.queue.ready
        states: list[str] = []
        if self.engine is not None:
            states = self.engine.replicas.states
            is_ready = is_ready and self.engine.replicas.can_ask
        if request.url.path == "/livez":
            is_ready = True
        report = {
            "status": "ok" if is_ready else "stalled",
            "replicas": states,
            "model": self.service.name,
            "version": __version__,
            "waiting": self.queue.waiting,
            "working": self.queue.working,
        }
        return JSONResponse(report, 200 if is_ready else 503)

    async def metrics(self) -> Response:
        """Metrics for Prometheus."""
        for kind, count in fallbacks.fallback_counts().items():
            self.fallback_gauge.labels(*kind).set(count)
        for name, (held_bytes, max_bytes) in cache_fills().items():
            self.cache_gauge.labels(name, "no").set(held_bytes)
            self.cache_gauge.labels(name, "yes").set(max_bytes)
        content = generate_latest(self.registry)
        return Response(content, media_type=CONTENT_TYPE_LATEST)

    async def _compute(self, request: Request, compute: Callable[[], Any]) -> Response:
        """Return the plain values of ``compute`` as JSON, in time."""
        body = await request.body()
        max_length = MAX_REPLY_RATIO * len(body) + MIN_REPLY_BYTES

        def compute_json() -> str:
            # In ASCII, so that any text of the metadata can be written; and in parts,
            # since one call would hold all other threads for its whole time.
            parts = []
            length = 0
            for part in _ENCODER.iterencode(compute()):
                parts.append(part)
                length += len(part)
                if length > max_length:  # each row repeats an id, or a quoted sentence
                    raise HTTPException(
                        413,
                        f"the reply would be longer than {max_length:,} bytes: ask about "
                        "less at once, or give shorter ids",
                    )
            return "".join(parts)

        try:
            content = await self._ask_until_disconnect(request, compute_json)
        except ReplicaHung:
            raise HTTPException(
                503,
                "the scorer's server does not answer",
                {"Retry-After": str(RETRY_SECONDS)},
            ) from None
        except self.server_errors as error:
            # Its text may name the server: only its class is logged.
            log.error("a scorer's server failed: %s", type(error).__name__)
            raise HTTPException(
                502,
                "the scorer's server refused, failed, or gave an unusable reply",
                {"Retry-After": str(RETRY_SECONDS)},
            ) from None
        except TimeoutError:
            limit = self.service.limits.timeout
            raise HTTPException(504, f"no answer within {limit:g} s") from None
        except InputError as error:  # its message may quote the request
            if isinstance(error, ContractViolation):
                raise
            raise HTTPException(
                422, f"it cannot be worked on as it is: {type(error).__name__}"
            ) from None
        # A response model would be applied again; it is for the API's page alone.
        return Response(content, media_type="application/json")

    async def _ask_until_disconnect(
        self, request: Request, call: Callable[[], str]
    ) -> str:
        """Return what the queue returns; a client that leaves ends its work."""
        asking = asyncio.ensure_future(self.queue.ask(call, request.state.turn))
        leaving = asyncio.ensure_future(_wait_for_disconnect(request))
        try:
            await asyncio.wait((asking, leaving), return_when="FIRST_COMPLETED")
            if not asking.done():
                raise HTTPException(499, "the client has left")
            return asking.result()
        finally:
            for task in (asking, leaving):
                task.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    message_type = ""
    while message_type != "http.disconnect":
        message = await request.receive()
        message_type = message["type"]


def _score(scorer: Scorer, query: str, texts: Sequence[str]) -> NDArray[np.float64]:
    """Return a finite score for each text; raises `BadScores`."""
    values: Any = []
    if texts:
        values = scorer.score(query, texts)
    scores = np.asarray(values, dtype=np.float64)
    if scores.shape != (len(texts),) or not np.isfinite(scores).all():
        raise BadScores(
            f"expected {len(texts)} finite scores, got an array of shape {scores.shape}"
        )
    return scores


def _rank(scorer: Scorer, name: str, body: bodies.RerankRequest) -> Any:
    """Return the documents by score, best first; raises `BadScores`."""
    texts, _ = body.texts()
    scores = _score(scorer, body.query, texts)
    order = np.argsort(-scores, kind="stable").tolist()
    exponents = np.minimum(-scores, 700)  # of more the exponential overflows
    probabilities = 1 / (1 + np.exp(exponents))
    rows: list[dict[str, Any]] = []
    for i in order[: body.top_n]:
        row = {"index": i, "relevance_score": float(probabilities[i])}
        if body.return_documents:
            row["document"] = {"text": texts[i]}
        rows.append(row)
    return {"id": f"rerank-{uuid.uuid4().hex}", "model": name, "results": rows}
