"""What a service outlives: bodies made to hurt, scorers that fail in every way, keys; and what it tells of it."""

import asyncio
import gc
import json
import logging
import threading
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256

import httpx
import pytest
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from typer.main import get_command
from typer.testing import CliRunner

from denoise_core import InputError
from denoise_core.cli import load_app
from denoise_core.embedded import default_denoiser
from denoise_core.end import ENDDenoiser
from denoise_core.scorers import BM25Scorer
from denoise_core.service import Service, ServiceLimits, bodies, body_limits
from denoise_core.service.app import make_app
from denoise_core.service.body_limits import parse_body
from denoise_core.service.request_queue import estimate_reading_cost
from denoise_core.testing import FunctionScorer

SECRET = "sk-live-5Zq8mYv2LkQ"  # in a text, a name, a key of an object: nowhere may it be told
TEXTS = ["The tower is in Porto.", "Bread is cheap."]
BODY = {"query": "tower", "passages": TEXTS}
BM25 = Service(ENDDenoiser(BM25Scorer(), keep=1))


@asynccontextmanager
async def asking(service, change=lambda app: None):
    """A client of the application, in this process, after a ``change`` of it."""
    app = make_app(service)
    change(app)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost"
    ) as client:
        yield client


async def post(client, body, path="/v1/denoise"):
    content = json.dumps(body).encode() if isinstance(body, dict) else body
    headers = {"content-type": "application/json"}
    return await client.post(path, content=content, headers=headers)


MANY_FIELDS = {f"{SECRET}{i}": 1 for i in range(10_000)}
WRONG_PASSAGES = {
    "a million empty passages": [""] * 1_000_000,
    "wrong items": [{SECRET: SECRET}] * 20_000,
    "numbers": [1] * 1_000_000,
    "empty objects in metadata": [{"text": "a", "metadata": {"a": [{}] * 500_000}}],
    "many fields of a passage": [MANY_FIELDS],
    "one wrong item": [*TEXTS, {"text": 3, "id": SECRET}],
    "one id twice": [{"text": "a", "id": SECRET}] * 2,
}
ATTACKS = {
    **{name: BODY | {"passages": wrong} for name, wrong in WRONG_PASSAGES.items()},
    "many fields": BODY | MANY_FIELDS,
    "an unknown field": BODY | {SECRET: 1},
    "a wrong query": BODY | {"query": [SECRET] * 1000},
    "NaN": b'{"query": NaN, "passages": []}',
    "infinity": b'{"query": "q", "passages": [{"text": "a", "metadata": {"a": 1e999}}]}',
    "NaN in metadata": b'{"query": "q", "passages": [{"text": "a", "metadata": {"a": NaN}}]}',
    "deep": b'{"query": ' + b"[" * 3000 + b"]" * 3000 + b"}",
    "very deep": b"[" * 1_000_000,
    "not UTF-8": b'{"query": "\xff"}',
    "no object": b"[1]",
    "nothing": b"",
}


@pytest.mark.parametrize("name", ATTACKS)
async def test_a_body_made_to_hurt_is_refused_in_few_words(name, capfd):
    async with asking(BM25) as client:
        reply = await post(client, ATTACKS[name])
        assert reply.status_code in (413, 422), reply.text
        assert len(reply.content) < 300
        assert SECRET not in reply.text
        assert (await post(client, BODY)).status_code == 200
    assert SECRET not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    "texts",
    [
        ['a "quoted", [bracketed] {text} \\'] * 1000,
        [", [ {" * 100_000, '"' * 100_000],
    ],
)
def test_texts_may_hold_what_structure_is_made_of(texts):
    body = json.dumps({"query": "q", "passages": texts})
    limits = ServiceLimits(max_passages=len(texts))
    parsed_body, _ = parse_body(body.encode(), bodies.DenoiseRequest, limits)
    assert parsed_body.texts()[0] == texts


class Fails(Exception):
    """Of a library that puts what it was given into its message."""


ERRORS = {
    "stop": StopIteration,
    "input": InputError,
    "own": Fails,
    "exit": SystemExit,
}


def failing(kind):
    def score(query, text):
        if query == "good":
            return 1.0
        if kind == "nan":
            return float("nan")
        raise ERRORS[kind](f"{text} {SECRET}")

    return Service(ENDDenoiser(FunctionScorer(score), keep=1))


@pytest.mark.parametrize("kind", ["nan", *ERRORS])
@pytest.mark.parametrize(
    ("path", "field"), [("/v1/denoise", "passages"), ("/v1/rerank", "documents")]
)
async def test_a_scorer_that_fails_costs_its_request_and_says_no_text(
    kind, path, field, capfd, caplog
):
    caplog.set_level(logging.DEBUG)
    body = {"query": "q", field: [f"my diary {SECRET}"]}
    async with asking(failing(kind)) as client:
        for _ in range(6):
            reply = await post(client, body, path)
            assert reply.status_code in (500, 422)
            assert "diary" not in reply.text
        reply = await post(client, body | {"query": "good"}, path)
        assert reply.status_code == 200
        assert (await client.get("/readyz")).status_code == 200
    told = "".join(capfd.readouterr()) + caplog.text
    assert "diary" not in told
    assert SECRET not in told


def waiting_for(event, **limits):
    """A service whose scorer waits for the event."""
    denoiser = ENDDenoiser(FunctionScorer(lambda query, text: event.wait(30)))
    return Service(denoiser, limits=ServiceLimits(**limits))


async def test_hung_calls_leave_it_alive_and_not_ready(capfd):
    go = threading.Event()
    service = waiting_for(go, workers=2, timeout=0.05, stall_timeout=0.01)
    async with asking(service) as client:
        for _ in range(3):
            posts = [post(client, BODY) for _ in range(30)]
            statuses = {reply.status_code for reply in await asyncio.gather(*posts)}
            assert statuses <= {503, 504}
        assert (await client.get("/livez")).status_code == 200
        assert (await client.get("/readyz")).json()["status"] == "stalled"
        go.set()
        while (await client.get("/livez")).json()["working"]:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert (await client.get("/readyz")).status_code == 200
    assert "Traceback" not in "".join(capfd.readouterr())


async def test_what_is_refused_is_not_parsed_and_does_not_wait_for_others(monkeypatch):
    """Of many requests at once all were parsed, one after the other, and most then refused."""
    parsed = []

    def parse(body, model, limits):
        parsed.append(body)
        return parse_body(body, model, limits)

    monkeypatch.setattr(body_limits, "parse_body", parse)
    go = threading.Event()
    async with asking(waiting_for(go, workers=1, max_waiting=9)) as client:
        posts = [post(client, BODY) for _ in range(40)]
        asked = list(map(asyncio.create_task, posts))
        refused, _ = await asyncio.wait(
            asked, timeout=30, return_when="FIRST_COMPLETED"
        )
        assert {task.result().status_code for task in refused} == {503}
        late = await post(client, b"no JSON")
        assert late.status_code == 503
        assert int(late.headers["retry-after"]) >= 1
        # What would never pass is not told to come back.
        too_long = b" " * (ServiceLimits().max_body_bytes + 1)
        assert (await post(client, too_long)).status_code == 413
        go.set()
        replies = await asyncio.gather(*asked)
        for _ in range(11):  # one that is no request keeps nobody out
            assert (await post(client, {})).status_code == 422
        assert (await post(client, BODY)).status_code == 200
    statuses = [reply.status_code for reply in replies]
    assert statuses.count(200) == 10
    assert statuses.count(503) == 30
    assert len(parsed) == 10 + 11 + 1


async def test_no_text_is_read_on_the_event_loop(monkeypatch):
    """The cost of a megabyte was estimated there: for 10 ms nobody was refused or served."""
    threads = []

    def estimate(texts):
        threads.append(threading.current_thread())
        return estimate_reading_cost(texts)

    monkeypatch.setattr(body_limits, "estimate_reading_cost", estimate)
    async with asking(BM25) as client:
        assert (await post(client, BODY)).status_code == 200
    assert len(threads) == 1
    assert threading.current_thread() not in threads


def limited(**limits):
    return asking(Service(BM25.denoiser, limits=ServiceLimits(**limits)))


async def unfinished(part=b"x" * 100_000):
    """A body of which one part is sent, and then nothing."""
    yield part
    await asyncio.sleep(60)


async def test_unfinished_bodies_are_bounded_together_and_cut():
    async with limited(max_read_bytes=1_000_000, body_timeout=0.2) as client:
        posts = [post(client, unfinished()) for _ in range(60)]
        statuses = [reply.status_code for reply in await asyncio.gather(*posts)]
    assert statuses.count(408) == 10
    assert statuses.count(503) == 50


async def test_a_refused_body_is_freed_without_a_collection():
    limits = {"max_body_bytes": 1000, "body_timeout": 0.05, "max_passages": 1}
    gc.collect()
    gc.disable()
    try:
        statuses = []
        async with limited(**limits) as client:
            for body in (unfinished(), unfinished(b"x"), b"[", b'{"query": 3}', BODY):
                statuses.append((await post(client, body)).status_code)
        assert statuses == [413, 408, 422, 422, 413]
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        assert not [left for left in gc.garbage if isinstance(left, HTTPException)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


KEYS = f"""
[search]
key = "hush"

[batch]
sha256 = "{sha256(b"x").hexdigest()}"
"""


async def test_keys_of_a_file_have_names(tmp_path, caplog):
    file = tmp_path / "keys.toml"
    file.write_text(KEYS)
    caplog.set_level(logging.INFO, "denoise.access")
    async with asking(Service(BM25.denoiser, keys=file)) as client:
        for header, status in {
            "Bearer hush": 200,
            "Bearer x": 200,
            "Bearer y": 401,
            "Basic hush": 401,
            "": 401,
        }.items():
            client.headers["authorization"] = header
            assert (await post(client, BODY)).status_code == status
        assert (await client.get("/livez")).status_code == 200
        for path in ("/docs", "/metrics"):
            assert (await client.get(path)).status_code == 401
    assert " search POST /v1/denoise 200 " in caplog.text
    assert " batch POST /v1/denoise 200 " in caplog.text
    assert "hush" not in caplog.text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a table for each name"),
        ("[a]\nkey = 3", r"toml \['a'\]: .*a key or its sha256"),
        ("[a]\nkey = ''", "a key or its sha256"),
        ("[a]\nkey = 'a'\nsha256 = 'b'", "a key or its sha256"),
        ("[a]\nkey = 'a'\nquota = '9/minute'", "only a key or its sha256"),
        ("[a]\nsha256 = 'abc'", "64 digits"),
        ("[a]\nkey = 'x'\n[b]\nkey = 'x'", "each key once"),
        ("key = 'hush", "TOML"),
        ("key = 'hush'", "a key or its sha256"),
        (None, r"keys\.toml.*FileNotFoundError"),
    ],
)
def test_a_file_of_keys_that_cannot_be_right_is_refused(tmp_path, text, says):
    if text is not None:
        (tmp_path / "keys.toml").write_text(text)
    with pytest.raises(InputError, match=says) as error:
        make_app(Service(ENDDenoiser(BM25Scorer()), keys=tmp_path / "keys.toml"))
    assert "hush" not in str(error.value)


async def test_replies_are_as_the_page_says_and_the_page_is_valid():
    from openapi_spec_validator import validate

    asked = {"query": "Where is the tower?", "passages": TEXTS}
    answer = "It is in Porto. Bread costs 3 euro."
    checked = {"question": "Where?", "answer": answer, "passages": TEXTS}
    ranked = {"query": "tower", "documents": TEXTS, "return_documents": True}
    async with asking(Service(default_denoiser())) as client:
        page = (await client.get("/openapi.json")).json()
        validate(page)
        for path, body, shape in (
            ("/v1/denoise", asked, bodies.DenoiseResponse),
            ("/v1/denoise", asked | {"passages": []}, bodies.DenoiseResponse),
            ("/v1/check", checked, bodies.CheckResponse),
            ("/v1/rerank", ranked, bodies.RerankResponse),
            ("/v1/denoise", {}, bodies.Problem),
        ):
            reply = await post(client, body, path)
            TypeAdapter(shape).validate_json(reply.content, strict=True)
        for path in ("/livez", "/readyz"):
            reply = await client.get(path)
            bodies.Health.model_validate_json(reply.content, strict=True)
    for path, item in page["paths"].items():
        for about in item.values():
            for reply in about["responses"].values():
                for kind, content in reply.get("content", {}).items():
                    assert kind == "text/plain" or content["schema"], path
            is_open = path in ("/livez", "/readyz")
            assert is_open or about["security"] == [{"HTTPBearer": []}], path


async def test_stock_spans_hold_no_text():
    from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (
        InMemorySpanExporter,
    )

    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    instrument = partial(
        FastAPIInstrumentor.instrument_app,
        tracer_provider=provider,
        exclude_spans=["send", "receive"],
    )
    async with asking(failing("own"), instrument) as client:
        for query in ("good", SECRET):
            await post(client, {"query": query, "passages": [SECRET]})
    found = spans.get_finished_spans()
    assert [(span.name, span.attributes["http.status_code"]) for span in found] == [
        ("POST /v1/denoise", 200),
        ("POST /v1/denoise", 500),
    ]
    assert SECRET not in "".join(span.to_json() for span in found)


def test_flags_come_before_the_environment(monkeypatch):
    monkeypatch.setenv("RAG_DENOISE_MAX_PASSAGES", "20")
    monkeypatch.setenv("RAG_DENOISE_PORT", "10")
    serve = get_command(load_app("serve")).commands["serve"]
    arguments = ["--port", "100", "--name", "a", "--name", "b"]
    options = serve.make_context("serve", arguments).params
    assert (options["port"], options["max_passages"]) == (100, 20)
    assert list(options["name"]) == ["a", "b"]
    monkeypatch.setenv("RAG_DENOISE_MAX_WAITING", "0")
    with pytest.raises(InputError, match="waiting=0"):
        CliRunner().invoke(load_app("serve"), ["serve"], catch_exceptions=False)
