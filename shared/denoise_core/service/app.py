"""The ASGI application: paths, statuses and shapes; what is computed stands in `work`."""

from __future__ import annotations

import json
import logging
import math
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from denoise_core import __version__
from denoise_core.errors import InputError, said
from denoise_core.service.batching import Batcher, Busy
from denoise_core.service.bodies import CheckAnswer, Denoise, Rerank, passages_of
from denoise_core.service.metrics import Metrics
from denoise_core.service.outside import Outside, token_of
from denoise_core.service.settings import Service
from denoise_core.service.work import ToCheck, ToDenoise, ToScore, Worker
from denoise_core.types import Passage

log = logging.getLogger("denoise")

_ABOUT = "Denoises passages before a language model reads them, ranks them, and holds answers against them."


def make_app(service: Service) -> FastAPI:
    """The application for `service`, for uvicorn or any other ASGI server. Raises `InputError` for a token's
    variable that is not set. Needs the extra ``serve``."""
    token = token_of(service)
    batcher = Batcher(Worker(service), service.limits, lambda size: metrics.batch.observe(size))
    metrics = Metrics(lambda: batcher.length)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        batcher.start()
        yield
        await batcher.stop()

    app = FastAPI(title="rag-denoise", version=__version__, description=_ABOUT, lifespan=lifespan)
    app.add_middleware(Outside, service=service, token=token)

    @app.middleware("http")
    async def counted(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        began = time.perf_counter()
        status = 500
        try:
            response = await call_next(request)
            status = response.status_code
            return response
        finally:
            route = request.scope.get("route")
            path = getattr(route, "path", "other")  # paths that nobody serves would be a label each
            metrics.requests.labels(path, str(status)).inc()
            metrics.seconds.labels(path).observe(time.perf_counter() - began)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        log.error("%s: %s", request.url.path, said(error))
        return JSONResponse({"detail": f"{type(error).__name__}; see the service's own output"}, 500)

    async def ask(asked: Any, texts: list[str]) -> Any:
        limits, characters = service.limits, sum(map(len, texts))
        if len(texts) > limits.passages:
            raise HTTPException(413, f"{len(texts)} passages; at most {limits.passages} are taken at once")
        if characters > limits.characters:
            raise HTTPException(413, f"{characters:,} characters; at most {limits.characters:,} are taken at once")
        try:
            return await batcher.ask(asked, len(texts))
        except Busy as error:
            raise HTTPException(503, "too many requests wait", {"Retry-After": "1"}) from error
        except TimeoutError as error:
            raise HTTPException(504, f"no answer within {limits.seconds:g} s") from error
        except InputError as error:
            raise HTTPException(422, str(error)) from error

    @app.post("/v1/denoise")
    async def denoise(body: Denoise) -> Response:
        """What is kept of the passages for the query and what is dropped: texts, ranges, scores and reasons."""
        passages = _passages(body.passages)
        texts = [p.text for p in passages]
        result = await ask(ToDenoise(body.query, passages), texts)
        metrics.denoised(sum(map(len, texts)), result)
        return _json(result.as_json())

    @app.post("/v1/check")
    async def check(body: CheckAnswer) -> Response:
        """Whether the passages support the answer, claim by claim, and whether it answers the question."""
        passages = _passages(body.passages)
        found = await ask(ToCheck(body.question, body.answer, passages), [p.text for p in passages])
        return _json({"passed": found.passed, **found.as_json()})

    async def rerank(body: Rerank) -> Response:
        """Documents by relevance, best first. ``relevance_score`` is the scorer's own number through a sigmoid, 0
        to 1; ``texts`` in the place of ``documents`` is answered in the shape of text-embeddings-inference."""
        if service.scorer is None:
            raise HTTPException(501, f"{service.name} gives no scores, so it cannot rank")
        given = body.texts if body.documents is None else body.documents
        if given is None:
            raise HTTPException(422, "documents is missing: expected a list of texts")
        texts = [d if isinstance(d, str) else d.text for d in given]
        scores = await ask(ToScore(body.query, tuple(texts)), texts)
        order = sorted(range(len(texts)), key=lambda i: -scores[i])
        if body.documents is None:
            raw = body.raw_scores
            told = [{"index": i, "score": scores[i] if raw else _sigmoid(scores[i])} for i in order]
            return _json([r | {"text": texts[i]} for i, r in zip(order, told)] if body.return_text else told)
        rows = [
            {"index": i, "relevance_score": _sigmoid(scores[i])}
            | ({"document": {"text": texts[i]}} if body.return_documents else {})
            for i in order[: len(order) if body.top_n is None else body.top_n]
        ]
        about = {"id": f"rerank-{uuid.uuid4().hex}", "model": service.name}
        return _json(about | {"results": rows, "meta": {"api_version": {"version": "1"}}})

    app.post("/v1/rerank")(rerank)
    for path in ("/v2/rerank", "/rerank"):  # Cohere's second version; text-embeddings-inference
        app.post(path, include_in_schema=False)(rerank)

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        """The one that is served."""
        return {"object": "list", "data": [{"id": service.name, "object": "model", "owned_by": "local"}]}

    @app.get("/healthz")
    async def health() -> dict[str, Any]:
        """That it is there, how many requests wait, and how many are worked on."""
        known = {"status": "ok", "model": service.name, "version": __version__}
        return known | {"waiting": batcher.length, "working": batcher.under_way}

    @app.get("/metrics", response_class=PlainTextResponse)
    async def figures() -> Response:
        """For Prometheus."""
        return Response(metrics.page(), media_type=CONTENT_TYPE_LATEST)

    return app


def _passages(given: Any) -> tuple[Passage, ...]:
    try:
        return passages_of(given)
    except (InputError, TypeError) as error:
        raise HTTPException(422, str(error)) from error


def _json(found: Any) -> Response:
    """In ASCII, so that whatever stands in metadata can be written."""
    return Response(json.dumps(found), media_type="application/json")


def _sigmoid(score: float) -> float:
    return 1 / (1 + math.exp(-score)) if score > -700 else 0.0
