"""The ASGI application: paths, statuses and shapes; what is computed stands in `work`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import anyio
from fastapi import FastAPI, HTTPException, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.middleware.trustedhost import TrustedHostMiddleware

from denoise_core import __version__
from denoise_core.errors import BrokenLaw, InputError
from denoise_core.service import bodies, work
from denoise_core.service.desk import Busy, Desk
from denoise_core.service.keys import Keys
from denoise_core.service.metrics import Metrics
from denoise_core.service.outside import HOSTS, Outside
from denoise_core.service.settings import Service, ServiceLimits

T = TypeVar("T")

_ABOUT = "Denoises passages before a language model reads them, ranks them, and holds answers against them."
_STATUSES: dict[int | str, str] = {401: "the key", 408: "slow body", 413: "too much", 415: "no JSON"}
_STATUSES |= {422: "not as expected", 429: "quota", 500: "failed", 503: "busy: Retry-After", 504: "too late"}
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": bodies.Problem, "description": what} for status, what in _STATUSES.items()
}


def make_app(service: Service) -> FastAPI:
    """The application for `service`, for uvicorn or any other ASGI server. Raises `InputError` for keys that
    cannot be read. Needs the extra ``serve``."""
    limits, desk, keys = service.limits, Desk(service.limits), Keys(service)
    metrics = Metrics(lambda: desk.waiting)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        desk.close()

    app = FastAPI(title="rag-denoise", version=__version__, description=_ABOUT, lifespan=lifespan)
    app.router.route_class = _route(limits, desk)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(service.hosts or HOSTS), www_redirect=False)
    app.add_middleware(Outside, service=service, keys=keys, metrics=metrics)
    asked: dict[str, Any] = {"dependencies": [Security(HTTPBearer(auto_error=False))], "responses": _PROBLEMS}

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"detail": _said(error)}, 422)

    @app.exception_handler(Busy)
    async def busy(request: Request, error: Busy) -> JSONResponse:
        return JSONResponse({"detail": "busy: ask again later"}, 503, {"Retry-After": str(error.after)})

    async def ask(call: Callable[[], T], *texts: str, passages: int) -> T:
        characters = sum(map(len, texts))
        if passages > limits.passages:
            raise HTTPException(413, f"{passages} passages; at most {limits.passages} are taken at once")
        if characters > limits.characters:
            raise HTTPException(413, f"{characters:,} characters; at most {limits.characters:,} are taken at once")
        try:
            return await desk.ask(call, characters)
        except TimeoutError:
            raise HTTPException(504, f"no answer within {limits.seconds:g} s") from None
        except BrokenLaw:
            raise
        except InputError as error:  # its message may quote the request
            raise HTTPException(422, f"it cannot be worked on as it is: {type(error).__name__}") from None

    @app.post("/v1/denoise", response_model=bodies.Denoised, **asked)
    async def denoise(body: bodies.Denoise) -> Response:
        """What is kept of the passages for the query and what is dropped: texts, ranges, scores and reasons."""
        passages = bodies.passages_of(body.passages)
        texts = [p.text for p in passages]
        call = partial(work.denoised, service, body.query, passages)
        result, found = await ask(call, body.query, *texts, passages=len(texts))
        metrics.denoised(sum(map(len, texts)), result)
        return _json(found)

    @app.post("/v1/check", response_model=bodies.Checked, **asked)
    async def check(body: bodies.CheckAnswer) -> Response:
        """Whether the passages support the answer, claim by claim, and whether it answers the question."""
        passages = bodies.passages_of(body.passages)
        call = partial(work.checked, service, body.question, body.answer, passages)
        texts = [p.text for p in passages]
        return _json(await ask(call, body.question, body.answer, *texts, passages=len(texts)))

    async def rerank(body: bodies.Rerank) -> Response:
        """Documents by relevance, best first. ``relevance_score`` is the scorer's own number through a sigmoid, 0
        to 1; ``texts`` in the place of ``documents`` is answered in the shape of text-embeddings-inference."""
        if service.scorer is None:
            raise HTTPException(501, f"{service.name} gives no scores, so it cannot rank")
        given = body.texts if body.documents is None else body.documents
        if given is None:
            raise HTTPException(422, "documents is missing: expected a list of texts")
        texts = [d if isinstance(d, str) else d.text for d in given]
        call = partial(work.reranked, service, body, texts)
        return _json(await ask(call, body.query, *texts, passages=len(texts)))

    ranked = bodies.Reranked | list[bodies.RankedText]
    app.post("/v1/rerank", response_model=ranked, **asked)(rerank)
    for path in ("/v2/rerank", "/rerank"):  # Cohere's second version; text-embeddings-inference
        app.post(path, include_in_schema=False)(rerank)

    def health(status: str) -> dict[str, Any]:
        known = {"status": status, "model": service.name, "version": __version__}
        return known | {"waiting": desk.waiting, "working": desk.working}

    @app.get("/livez", response_model=bodies.Health)
    async def live() -> dict[str, Any]:
        """That the process answers."""
        return health("ok")

    @app.get("/readyz", response_model=bodies.Health, responses={503: {"model": bodies.Health}})
    async def ready() -> Response:
        """That work gets done: 503 when some is under way and none was done for ``stalled`` seconds."""
        status = "ok" if desk.ready else "stalled"
        return JSONResponse(health(status), 200 if desk.ready else 503)

    @app.get("/metrics", response_class=PlainTextResponse, **asked)
    async def figures() -> Response:
        """For Prometheus."""
        return Response(metrics.page(), media_type=CONTENT_TYPE_LATEST)

    return app


def _route(limits: ServiceLimits, desk: Desk) -> type[APIRoute]:
    """Bodies are parsed on a thread, one at a time, so that the loop goes on; where even a short one would be
    refused, none is."""
    one: list[anyio.CapacityLimiter] = []

    class Read(Request):
        async def json(self) -> Any:
            if not one:
                one.append(anyio.CapacityLimiter(1))
            try:
                return await anyio.to_thread.run_sync(bodies.parsed, await self.body(), limits, limiter=one[0])
            except OverflowError:
                most = f"at most {limits.passages} passages of {limits.characters:,} characters in all"
                raise HTTPException(413, f"too much at once: {most}") from None
            except (ValueError, RecursionError):
                raise HTTPException(422, "expected a JSON object in UTF-8 with finite numbers") from None

    class Route(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def read(request: Request) -> Response:
                if request.method == "POST":
                    desk.admit()
                return await handle(Read(request.scope, request.receive))

            return read

    return Route


def _said(error: RequestValidationError) -> str:
    """Where the first few are wrong and how, without what was sent; a field nobody knows is not named either."""
    known = {*bodies.Rerank.model_fields, *bodies.Given.model_fields, *bodies.CheckAnswer.model_fields}
    told = []
    for each in list(error.errors())[:3]:
        place = [str(p) if isinstance(p, int) or p in known else "?" for p in each["loc"][1:]]
        told.append(f"{'.'.join(place)}: {each['type'].replace('_', ' ')}")
    return "; ".join(told)


def _json(found: bytes) -> Response:
    return Response(found, media_type="application/json")
