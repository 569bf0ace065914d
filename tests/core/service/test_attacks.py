"""What a service outlives: bodies made to hurt, scorers that fail in every way, keys; and what it tells of it."""

import asyncio
import gc
import json
import logging
import threading
from contextlib import asynccontextmanager

import httpx
import pytest
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from typer.main import get_command
from typer.testing import CliRunner

from denoise_core import InputError, Passage
from denoise_core.cli import load_app
from denoise_core.embedded import default_denoiser
from denoise_core.end import ENDDenoiser
from denoise_core.scorers import BM25Scorer
from denoise_core.service import Service, ServiceLimits, bodies, body_limits
from denoise_core.service.app import make_app
from denoise_core.service.body_limits import parse_body
from denoise_core.testing import FunctionScorer

SECRET = "sk-live-5Zq8mYv2LkQ"  # in a text, a name, a key of an object: nowhere may it be told
TEXTS = ["The tower is in Porto.", "Bread is cheap."]
BM25 = Service(ENDDenoiser(BM25Scorer(), keep=1))


@asynccontextmanager
async def asking(service, **headers):
    """A client of the application, in this process."""
    app = make_app(service)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", headers=headers
    ) as client:
        yield client


async def post(client, body, path="/v1/denoise"):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await client.post(
        path, content=content, headers={"content-type": "application/json"}
    )


ATTACKS = {
    "a million empty passages": {"query": "q", "passages": [""] * 1_000_000},
    "wrong items": {"query": "q", "passages": [{SECRET: SECRET}] * 20_000},
    "numbers": {"query": "q", "passages": [1] * 1_000_000},
    "empty objects in metadata": {
        "query": "q",
        "passages": [{"text": "a", "metadata": {"a": [{}] * 500_000}}],
    },
    "many fields of a passage": {
        "query": "q",
        "passages": [{f"{SECRET}{i}": 1 for i in range(10_000)}],
    },
    "many fields": {"query": "q", "passages": []}
    | {f"{SECRET}{i}": 1 for i in range(10_000)},
    "an unknown field": {"query": "q", "passages": TEXTS, SECRET: 1},
    "one wrong item": {"query": "q", "passages": [*TEXTS, {"text": 3, "id": SECRET}]},
    "one id twice": {"query": "q", "passages": [{"text": "a", "id": SECRET}] * 2},
    "a wrong query": {"query": [SECRET] * 1000, "passages": TEXTS},
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
        assert (
            await post(client, {"query": "tower", "passages": TEXTS})
        ).status_code == 200
    assert SECRET not in "".join(capfd.readouterr())


async def test_only_a_rerank_request_may_hold_fields_that_nobody_knows():
    async with asking(BM25) as client:
        plain = await post(client, {"query": "q", "documents": TEXTS}, "/v1/rerank")
        more = await post(
            client,
            {"query": "q", "documents": TEXTS, "max_tokens_per_doc": 9},
            "/v1/rerank",
        )
        assert more.json()["results"] == plain.json()["results"]


def parts_of(count, passages=1000):
    body = json.dumps(
        {
            "query": "q",
            "passages": [
                f'a "quoted", [bracketed] {{text}} {i} \\' for i in range(count)
            ],
        }
    )
    return parse_body(body.encode(), ServiceLimits(max_passages=passages))


def test_texts_may_hold_what_structure_is_made_of():
    assert len(parts_of(1000)["passages"]) == 1000
    assert parts_of(3, passages=1)["passages"][0].startswith('a "quoted"'), (
        "how many is said elsewhere"
    )
    body = json.dumps(
        {"query": "q", "passages": [", [ {" * 100_000, '"' * 100_000]}
    ).encode()
    assert parse_body(body, ServiceLimits(max_passages=1))["query"] == "q"


class Fails(Exception):
    """Of a library that puts what it was given into its message."""


def failing(kind):
    def score(query, text):
        if query == "good":
            return 1.0
        if kind == "nan":
            return float("nan")
        raise {
            "stop": StopIteration,
            "input": InputError,
            "own": Fails,
            "exit": SystemExit,
        }[kind](f"{text} {SECRET}")

    return Service(ENDDenoiser(FunctionScorer(score), keep=1))


@pytest.mark.parametrize("kind", ["nan", "stop", "input", "own", "exit"])
@pytest.mark.parametrize("path", ["/v1/denoise", "/v1/rerank"])
async def test_a_scorer_that_fails_costs_its_request_and_says_no_text(
    kind, path, capfd, caplog
):
    caplog.set_level(logging.DEBUG)
    text = f"my diary {SECRET}"
    async with asking(failing(kind)) as client:
        for _ in range(6):
            reply = await post(
                client,
                {
                    "query": "q",
                    "passages" if "denoise" in path else "documents": [text],
                },
                path,
            )
            assert reply.status_code in (500, 422)
            assert "diary" not in reply.text
        good = {
            "query": "good",
            "passages" if "denoise" in path else "documents": [text],
        }
        assert (await post(client, good, path)).status_code == 200
        assert (await client.get("/readyz")).status_code == 200
    told = "".join(capfd.readouterr()) + caplog.text
    assert "diary" not in told
    assert SECRET not in told


async def test_hung_calls_leave_it_alive_and_not_ready(capfd):
    go = threading.Event()

    def score(query, text):
        go.wait(30)
        return 1.0

    limits = ServiceLimits(workers=2, timeout=0.05, stall_timeout=0.01)
    async with asking(
        Service(ENDDenoiser(FunctionScorer(score)), limits=limits)
    ) as client:
        body = {"query": "q", "passages": TEXTS}
        replies = []
        for _ in range(3):
            replies += await asyncio.gather(*(post(client, body) for _ in range(30)))
        assert {r.status_code for r in replies} == {503, 504}
        assert (await client.get("/livez")).status_code == 200
        assert (await client.get("/readyz")).json()["status"] == "stalled"
        go.set()
        while (await client.get("/livez")).json()["working"]:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert (await client.get("/readyz")).status_code == 200
    assert "Traceback" not in "".join(capfd.readouterr())


async def test_a_body_is_not_read_where_nothing_more_would_be_done():
    go = threading.Event()
    limits = ServiceLimits(workers=1, max_waiting=1)
    async with asking(
        Service(ENDDenoiser(FunctionScorer(lambda q, t: go.wait(30))), limits=limits)
    ) as client:
        body = {"query": "q", "passages": TEXTS}
        asked = [asyncio.create_task(post(client, body)) for _ in range(2)]
        while not (await client.get("/livez")).json()["waiting"]:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        refused = await post(client, b"no JSON")
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        go.set()
        assert {r.status_code for r in await asyncio.gather(*asked)} == {200}


async def test_a_refusal_does_not_wait_for_other_bodies_to_be_parsed(monkeypatch):
    """Of many requests at once all were parsed, one after the other, and most then refused."""
    parsed = []

    def parse(body, limits):
        parsed.append(body)
        return parse_body(body, limits)

    monkeypatch.setattr(body_limits, "parse_body", parse)
    go = threading.Event()
    scorer = FunctionScorer(lambda query, text: go.wait(30))
    limits = ServiceLimits(workers=1, max_waiting=9)
    async with asking(Service(ENDDenoiser(scorer), limits=limits)) as client:
        body = {"query": "q", "passages": TEXTS}
        asked = [asyncio.create_task(post(client, body)) for _ in range(40)]
        refused, _ = await asyncio.wait(
            asked, timeout=30, return_when="FIRST_COMPLETED"
        )
        go.set()
        replies = await asyncio.gather(*asked)
    assert {task.result().status_code for task in refused} == {503}
    statuses = [reply.status_code for reply in replies]
    assert (statuses.count(200), statuses.count(503)) == (10, 30)
    assert len(parsed) == 10


async def unfinished(app, held, status, *, part=b"x" * 100_000):
    """A client that sends one part of its body and then waits."""
    scope = {
        "type": "http", "method": "POST", "path": "/v1/denoise", "query_string": b"", "scheme": "http",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")], "http_version": "1.1",
        "server": ("localhost", 80), "client": ("127.0.0.1", 1), "root_path": "",
    }  # fmt: skip
    sent = [{"type": "http.request", "body": part, "more_body": True}]

    async def receive():
        if sent:
            return sent.pop()
        held.set()
        await asyncio.sleep(60)

    async def send(message):
        if message["type"] == "http.response.start":
            status.append(message["status"])

    await app(scope, receive, send)


async def test_unfinished_bodies_are_bounded_together_and_cut():
    app = make_app(
        Service(
            ENDDenoiser(BM25Scorer()),
            limits=ServiceLimits(max_read_bytes=1_000_000, body_timeout=0.2),
        )
    )
    held, status = asyncio.Event(), []
    await asyncio.gather(*(unfinished(app, held, status) for _ in range(60)))
    assert sorted(status) == [408] * 10 + [503] * 50


async def test_a_refused_body_is_freed_without_a_collection():
    app = make_app(
        Service(
            ENDDenoiser(BM25Scorer()),
            limits=ServiceLimits(max_body_bytes=1000, body_timeout=0.05),
        )
    )
    gc.collect()
    gc.disable()
    try:
        await unfinished(app, asyncio.Event(), [])
        await unfinished(app, asyncio.Event(), [], part=b"x")
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        assert not [left for left in gc.garbage if isinstance(left, HTTPException)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


KEYS = """
[search]
key = "hush"

[batch]
sha256 = "4e8f6c7a3e0ed7c5a34eac0cf3e2f2a0a7e4d3a1b7b2ee8b4b0dc0f1f1b7a6d5"
"""


async def test_keys_of_a_file_have_names(tmp_path, caplog):
    from hashlib import sha256

    file = tmp_path / "keys.toml"
    file.write_text(
        KEYS.replace(
            "4e8f6c7a3e0ed7c5a34eac0cf3e2f2a0a7e4d3a1b7b2ee8b4b0dc0f1f1b7a6d5",
            sha256(b"x").hexdigest(),
        )
    )
    caplog.set_level(logging.INFO, "denoise.access")
    async with asking(Service(ENDDenoiser(BM25Scorer()), keys=file)) as client:
        for key, status in (
            ("hush", 200),
            ("x", 200),
            ("y", 401),
            ("", 401),
        ):
            client.headers["authorization"] = f"Bearer {key}"
            reply = await post(client, {"query": "q", "passages": TEXTS})
            assert reply.status_code == status
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
            ("/rerank", {"query": "q", "texts": TEXTS}, list[bodies.RankedText]),
            ("/v1/denoise", {}, bodies.Problem),
        ):
            reply = await post(client, body, path)
            TypeAdapter(shape).validate_json(reply.content, strict=True)
        for path in ("/livez", "/readyz"):
            reply = await client.get(path)
            bodies.Health.model_validate_json(reply.content, strict=True)
    methods = [
        (path, about) for path, item in page["paths"].items() for about in item.values()
    ]
    for path, about in methods:
        for reply in about["responses"].values():
            for kind, content in reply.get("content", {}).items():
                assert kind == "text/plain" or content["schema"], path
        is_open = path in ("/livez", "/readyz")
        assert is_open or about["security"] == [{"HTTPBearer": []}], path
    names = [about["operationId"] for _, about in methods]
    assert len(set(names)) == len(names)


async def test_a_request_has_an_id(caplog):
    async with asking(BM25) as client:
        assert (await client.get("/livez", headers={"x-request-id": "abc-1"})).headers[
            "x-request-id"
        ] == "abc-1"
        for odd in ("a" * 65, "a\tb", "é"):
            given = (
                await client.get("/livez", headers={"x-request-id": odd.encode()})
            ).headers["x-request-id"]
            assert len(given) == 32


async def test_stock_spans_hold_no_text():
    from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (
        InMemorySpanExporter,
    )

    spans, provider, app = (
        InMemorySpanExporter(),
        TracerProvider(),
        make_app(failing("own")),
    )
    provider.add_span_processor(SimpleSpanProcessor(spans))
    FastAPIInstrumentor.instrument_app(
        app, tracer_provider=provider, exclude_spans=["send", "receive"]
    )
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost"
    ) as client:
        await post(client, {"query": "good", "passages": [SECRET]})
        await post(client, {"query": SECRET, "passages": [SECRET]})
    found = spans.get_finished_spans()
    assert [(s.name, s.attributes["http.status_code"]) for s in found] == [
        ("POST /v1/denoise", 200),
        ("POST /v1/denoise", 500),
    ]
    assert SECRET not in "".join(s.to_json() for s in found)


def test_flags_come_before_the_environment(monkeypatch):
    monkeypatch.setenv("RAG_DENOISE_MAX_PASSAGES", "20")
    monkeypatch.setenv("RAG_DENOISE_PORT", "10")
    monkeypatch.setenv("RAG_DENOISE_TIMEOUT", "3.5")
    asked = get_command(load_app("serve")).commands["serve"]
    found = asked.make_context(
        "serve", ["--port", "100", "--name", "a", "--name", "b", "--access-log"]
    ).params
    assert (found["port"], found["max_passages"], found["timeout"]) == (100, 20, 3.5)
    assert (list(found["name"]), found["access_log"], found["workers"]) == (
        ["a", "b"],
        True,
        None,
    )
    monkeypatch.setenv("RAG_DENOISE_MAX_WAITING", "0")
    with pytest.raises(InputError, match="waiting=0"):
        CliRunner().invoke(load_app("serve"), ["serve"], catch_exceptions=False)


def test_a_passage_without_an_id_has_its_number():
    assert bodies.to_passages(["a", bodies.InputPassage(text="b", id="x")]) == (
        Passage("a", "0"),
        Passage("b", "x"),
    )
