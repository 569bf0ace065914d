"""The ASGI application: paths, statuses and shapes."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from fastapi import FastAPI, HTTPException, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi.security import HTTPBearer
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Gauge,
    Histogram,
    generate_latest,
)
from starlette.middleware.trustedhost import TrustedHostMiddleware

from denoise_core import __version__
from denoise_core.errors import BadScores, ContractViolation, InputError
from denoise_core.protocols import Scorer
from denoise_core.runtime import fallbacks
from denoise_core.service import LOCAL_HOSTS, Service, bodies
from denoise_core.service.access import AccessMiddleware
from denoise_core.service.body_limits import make_route_class
from denoise_core.service.keys import ApiKeys
from denoise_core.service.request_queue import RequestQueue
from denoise_core.support.check import check as checked
from denoise_core.types import replace_surrogates

_ABOUT = "Denoises passages before a language model reads them, ranks them, and holds answers against them."


def make_app(service: Service) -> FastAPI:
    """The application for `service`, for uvicorn or any other ASGI server. Raises `InputError` for keys that
    cannot be read. Needs the extra ``serve``."""
    limits, desk, keys, registry = (
        service.limits,
        RequestQueue(service.limits),
        ApiKeys(service.keys),
        CollectorRegistry(),
    )
    seconds = Histogram(
        "denoise_request_seconds", "Seconds.", ["path", "status"], registry=registry
    )
    fell_back = Gauge(
        "denoise_fallbacks", "Logged by now.", ["part", "error"], registry=registry
    )
    Gauge("denoise_waiting_requests", "Requests.", registry=registry).set_function(
        lambda: desk.waiting
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        desk.close()

    app = FastAPI(
        title="rag-denoise", version=__version__, description=_ABOUT, lifespan=lifespan
    )
    app.router.route_class = make_route_class(limits, desk, keys)
    app.add_middleware(
        TrustedHostMiddleware,
        allowed_hosts=list(service.hosts or LOCAL_HOSTS),
        www_redirect=False,
    )
    app.add_middleware(AccessMiddleware, keys=keys, seconds=seconds)
    asked: dict[str, Any] = {
        "dependencies": [Security(HTTPBearer(auto_error=False))],
        "responses": {"default": {"model": bodies.Problem}},
    }

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"detail": _said(error)}, 422)

    async def ask(
        call: Callable[[], Any], texts: Sequence[str], *asked: str
    ) -> Response:
        """The plain values that it returns."""
        characters = sum(map(len, (*texts, *asked)))
        if len(texts) > limits.max_passages:
            raise HTTPException(
                413,
                f"{len(texts)} passages; at most {limits.max_passages} are taken at once",
            )
        if characters > limits.max_characters:
            raise HTTPException(
                413,
                f"{characters:,} characters; at most {limits.max_characters:,} are taken at once",
            )
        try:  # in ASCII, so that whatever stands in metadata can be written
            found = await desk.ask(
                lambda: json.dumps(call(), allow_nan=False), characters
            )
        except TimeoutError:
            raise HTTPException(504, f"no answer within {limits.timeout:g} s") from None
        except InputError as error:  # its message may quote the request
            if isinstance(error, ContractViolation):
                raise
            raise HTTPException(
                422, f"it cannot be worked on as it is: {type(error).__name__}"
            ) from None
        return Response(
            found, media_type="application/json"
        )  # a model of it is for the page, and not applied

    @app.post("/v1/denoise", response_model=bodies.Denoised, **asked)
    async def denoise(body: bodies.Denoise) -> Response:
        """What is kept of the passages for the query and what is dropped: texts, ranges, scores and reasons."""
        given = bodies.passages_of(body.passages)
        return await ask(
            lambda: service.denoiser.denoise(body.query, given).as_json(),
            [p.text for p in given],
            body.query,
        )

    @app.post("/v1/check", response_model=bodies.Checked, **asked)
    async def check(body: bodies.CheckAnswer) -> Response:
        """Whether the passages support the answer, claim by claim, and whether it answers the question."""
        given = bodies.passages_of(body.passages)

        def call() -> Any:
            found = checked(body.question, body.answer, given, judge=service.judge)
            return {"passed": found.passed, **found.as_json()}

        return await ask(call, [p.text for p in given], body.question, body.answer)

    async def rerank(body: bodies.Rerank) -> Response:
        """Documents by relevance, best first. ``relevance_score`` is the scorer's own number through a sigmoid, 0
        to 1; ``texts`` in the place of ``documents`` is answered in the shape of text-embeddings-inference."""
        scorer, given = (
            service.scorer,
            body.texts if body.documents is None else body.documents,
        )
        if scorer is None:
            raise HTTPException(
                501, f"{service.name} gives no scores, so it cannot rank"
            )
        if given is None:
            raise HTTPException(422, "documents is missing: expected a list of texts")
        texts = [d if isinstance(d, str) else d.text for d in given]
        return await ask(
            lambda: _ranked(scorer, service.name, body, texts), texts, body.query
        )

    app.post(
        "/v1/rerank", response_model=bodies.Reranked | list[bodies.RankedText], **asked
    )(rerank)
    for path in (
        "/v2/rerank",
        "/rerank",
    ):  # Cohere's second version; text-embeddings-inference
        app.post(path, include_in_schema=False)(rerank)

    async def health(request: Request) -> Response:
        """``/livez``: the process answers. ``/readyz``: work gets done; 503 when some is under way and none was
        done for ``stalled`` seconds."""
        ready = desk.ready or request.url.path == "/livez"
        told = {
            "status": "ok" if ready else "stalled",
            "model": service.name,
            "version": __version__,
        }
        return JSONResponse(
            told | {"waiting": desk.waiting, "working": desk.working},
            200 if ready else 503,
        )

    app.get("/livez", name="livez", response_model=bodies.Health)(health)
    app.get(
        "/readyz",
        name="readyz",
        response_model=bodies.Health,
        responses={503: {"model": bodies.Health}},
    )(health)

    @app.get("/metrics", response_class=PlainTextResponse, **asked)
    async def figures() -> Response:
        """For Prometheus."""
        for kind, count in fallbacks.fallback_counts().items():
            fell_back.labels(*kind).set(count)
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return app


def _ranked(
    scorer: Scorer, name: str, body: bodies.Rerank, texts: Sequence[str]
) -> Any:
    """Texts by their scores, best first, as plain values in the shape that was asked in. Raises `BadScores`."""
    found: Any = (
        scorer.score(body.query, [replace_surrogates(t) for t in texts])
        if texts
        else []
    )
    scores = np.asarray(found, dtype=np.float64)
    if scores.shape != (len(texts),) or not np.isfinite(scores).all():
        raise BadScores(
            f"expected {len(texts)} finite scores, got an array of shape {scores.shape}"
        )
    order, shares = (
        np.argsort(-scores, kind="stable").tolist(),
        1 / (1 + np.exp(np.minimum(-scores, 700))),
    )
    if body.documents is None:
        told = (scores if body.raw_scores else shares).tolist()
        return [
            {"index": i, "score": told[i]}
            | ({"text": texts[i]} if body.return_text else {})
            for i in order
        ]
    rows: list[dict[str, Any]] = [
        {"index": i, "relevance_score": float(shares[i])} for i in order[: body.top_n]
    ]
    if body.return_documents:
        rows = [row | {"document": {"text": texts[row["index"]]}} for row in rows]
    return {"id": f"rerank-{uuid.uuid4().hex}", "model": name, "results": rows}


def _said(error: RequestValidationError) -> str:
    """Where the first one is wrong and how, without what was sent."""
    first = error.errors()[0]
    place = [*map(str, first["loc"][1:])]
    if first["type"] == "extra_forbidden":
        place[-1] = "?"  # a name that the client made
    return f"{'.'.join(place)}: {first['type'].replace('_', ' ')}"
