"""For your tests and ours: fakes that are functions, the laws every denoiser and scorer keeps, and faults.

Nothing here needs a network, a model or a test framework; a broken law is an `AssertionError` that says
which law and where. A part of your own is held to what ours are: `check_faults` and `check_hang` for what it works
with, `check_remote` for the server it asks, `check_store` for where a cache keeps replies. Under pytest,
parametrise with `faults_of` and `MISBEHAVIOURS`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from denoise_core.errors import is_mistake
from denoise_core.protocols import Denoiser, Scorer
from denoise_core.result import DenoiseResult, Trace
from denoise_core.running.caches.stores import Store
from denoise_core.running.guard import Guard
from denoise_core.types import Message, Passage, Reply, Span


class FunctionLLM:
    """An LLM that is a function of the messages; ``seen`` keeps every call's messages, in order.

    ``reply`` may return a string or a `Reply`, or raise. ``seconds`` is how long each call takes; the
    async form waits without blocking.
    """

    def __init__(self, reply: Callable[[Sequence[Message]], str | Reply], *, seconds: float = 0.0) -> None:
        self.reply = reply
        self.seconds = seconds
        self.seen: list[tuple[Message, ...]] = []

    def complete(self, messages: Sequence[Message]) -> Reply:
        if self.seconds:
            time.sleep(self.seconds)
        return self._answer(messages)

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        if self.seconds:
            await asyncio.sleep(self.seconds)
        return self._answer(messages)

    def _answer(self, messages: Sequence[Message]) -> Reply:
        self.seen.append(tuple(messages))
        answer = self.reply(messages)
        return Reply(answer) if isinstance(answer, str) else answer


class RecordedLLM(FunctionLLM):
    """A model that says what was recorded for a prompt: ``replies`` by `key`.

    Raises ``KeyError`` for a prompt without a reply, and keeps it in ``unanswered``: a line of JSON each, as
    'rag-denoise record' reads them. ``structured``: asked through ``complete_json``.
    """

    def __init__(self, replies: Mapping[str, str], structured: bool = False) -> None:
        super().__init__(lambda messages: self.replies[self.key(messages)])
        self.replies, self.structured = replies, structured

    @classmethod
    def of(cls, path: str | Path) -> Self:
        """What 'rag-denoise record' wrote: lines of JSON with ``prompt``, a `key`, and ``reply``."""
        rows = map(json.loads, Path(path).read_text("utf-8").splitlines())
        return cls({row["prompt"]: row["reply"] for row in rows})

    @staticmethod
    def key(messages: Sequence[Message]) -> str:
        """The SHA-256 of a prompt's roles and texts."""
        return hashlib.sha256(json.dumps([[m.role, m.content] for m in messages]).encode()).hexdigest()

    @property
    def unanswered(self) -> list[str]:
        """Prompts that had no reply, each once, as lines of JSON with ``messages``."""
        unknown = (messages for messages in self.seen if self.key(messages) not in self.replies)
        return [json.dumps({"messages": [asdict(m) for m in messages]}) for messages in dict.fromkeys(unknown)]

    def complete_json(self, messages: Sequence[Message], schema: Any) -> Reply:
        """`complete`: the prompt alone tells which reply it is."""
        return self.complete(messages)

    async def acomplete_json(self, messages: Sequence[Message], schema: Any) -> Reply:
        """`complete_json` for async."""
        return self.complete(messages)


class ListRetriever:
    """A retriever that always finds the same passages; ``queries`` keeps what it was asked."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = tuple(passages)
        self.queries: list[str] = []

    def retrieve(self, query: str) -> Sequence[Passage]:
        self.queries.append(query)
        return self.passages

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        return self.retrieve(query)


class FunctionScorer:
    """A scorer that is a function of the query and one text."""

    def __init__(self, score_one: Callable[[str, str], float]) -> None:
        self.score_one = score_one

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([self.score_one(query, t) for t in texts], dtype=np.float32)


def check_denoiser(
    make: Callable[[], Denoiser], query: str, passages: Sequence[Passage], *, drops_listed: bool = True
) -> DenoiseResult:
    """Run a denoiser on the passages and check every law; returns the result for further checks.

    Kept text is the source's own at its spans (unless marked ``rewritten``); kept and dropped spans tile
    each input; order and ids are the input's; the input is unchanged; sync equals async; no passages
    give none. ``make`` builds a fresh denoiser each time, so that scripted replies start anew.
    ``drops_listed=False`` leaves out tiling, for denoisers that do not list what they drop.
    """
    before = [(p.text, p.id, p.score, dict(p.metadata), p.spans) for p in passages]
    result = make().denoise(query, passages)
    check_result(passages, result, drops_listed=drops_listed)
    after = [(p.text, p.id, p.score, dict(p.metadata), p.spans) for p in passages]
    assert before == after, "the input passages were changed"
    other = asyncio.run(make().adenoise(query, passages))
    same = replace(other, trace=Trace()) == replace(result, trace=Trace())
    assert same, f"sync and async differ:\n{result}\n{other}"
    for empty in (make().denoise(query, []), asyncio.run(make().adenoise(query, []))):
        assert empty.passages == (), "no passages in, some passages out"
    return result


def check_result(passages: Sequence[Passage], result: DenoiseResult, *, drops_listed: bool = True) -> None:
    """The laws that can be read off one result: see `check_denoiser`."""
    source = {p.id: p for p in passages}
    order = [p.id for p in passages]
    kept_ids = [p.id for p in result.passages]
    if not any(p.rewritten for p in result.passages):
        stay = set(kept_ids)
        assert kept_ids == [i for i in order if i in stay], f"order changed: {order} became {kept_ids}"
    for p in result.passages:
        if not p.rewritten:
            own = "".join(source[s.passage_id].text[s.start : s.end] for s in p.covered)
            assert p.text == own, f"passage {p.id!r}: kept text {p.text!r} is not its source's {own!r}"
    named = [s for p in result.passages for s in p.covered]
    named += [d.span for d in result.dropped] + [k.span for k in result.kept]
    unknown = sorted({s.passage_id for s in named} - set(source))
    assert not unknown, f"spans name passages that were not given: {unknown}"
    told: dict[str, list[Span]] = {i: [] for i in order}
    for s in [*(s for p in result.passages for s in p.covered), *(d.span for d in result.dropped)]:
        told[s.passage_id].append(s)
    for p in passages if drops_listed else ():
        check_tiling(p, told[p.id])


def check_tiling(passage: Passage, spans: Sequence[Span]) -> None:
    """The spans cover every character of the passage once, without gap or overlap."""
    at = 0
    for span in sorted(spans, key=lambda s: (s.start, s.end)):
        assert span.start == at, f"passage {passage.id!r}: gap or overlap at {at}, next span is {span}"
        at = span.end
    assert at == len(passage.text), f"passage {passage.id!r}: spans end at {at} of {len(passage.text)}"


def check_scorer(
    scorer: Scorer, query: str, texts: Sequence[str], *, tolerance: float = 1e-5, listwise: bool = False
) -> NDArray[np.float32]:
    """Shape and type are right, and scores do not depend on order or (unless listwise) on the neighbours."""
    scores = scorer.score(query, texts)
    assert scores.shape == (len(texts),), f"expected shape {(len(texts),)}, got {scores.shape}"
    assert scores.dtype == np.float32, f"expected float32, got {scores.dtype}"
    backwards = scorer.score(query, texts[::-1])[::-1]
    assert np.allclose(scores, backwards, atol=tolerance), "scores depend on the order of the texts"
    if not listwise:
        alone = np.array([scorer.score(query, [t])[0] for t in texts], dtype=np.float32)
        assert np.allclose(scores, alone, atol=tolerance), "scores depend on the other texts of the batch"
    return scores


# -- what a part may meet --------------------------------------------------------------------------------------


class Unreadable(Exception):
    """An error of a library whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


RAISED: Mapping[str, Callable[[], BaseException]] = {
    "a time-out": lambda: TimeoutError("late"),
    "a lost connection": lambda: ConnectionResetError("gone"),
    "a full disk": lambda: OSError(28, "no space"),
    "StopIteration": lambda: StopIteration(1),
    "StopAsyncIteration": StopAsyncIteration,
    "a missing key": lambda: KeyError("score"),
    "a missing place": lambda: IndexError(3),
    "an assertion": lambda: AssertionError("held before"),
    "a division": lambda: ZeroDivisionError("by zero"),
    "too deep": lambda: RecursionError("too deep"),
    "out of memory": MemoryError,
    "half a character": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
    "several at once": lambda: ExceptionGroup("two", [TimeoutError("late"), OSError("gone")]),
    "an error without a text": Unreadable,
}
"""Failures of the world, by name. None is a mistake, so under `Guard` none may come through."""

_GIVEN: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "score": {
        "None": lambda query, texts: None,
        "nothing": lambda query, texts: [],
        "one too few": lambda query, texts: np.ones(len(texts) - 1),
        "one too many": lambda query, texts: np.ones(len(texts) + 1),
        "NaN": lambda query, texts: np.full(len(texts), np.nan),
        "infinity": lambda query, texts: np.full(len(texts), np.inf),
        "a table": lambda query, texts: np.ones((len(texts), 2)),
        "words": lambda query, texts: ["high"] * len(texts),
        "a dict": lambda query, texts: dict.fromkeys(texts, 1.0),
    },
    "complete": {
        "None": lambda messages: None,
        "a number": lambda messages: 3,
        "a Reply of None": lambda messages: Reply(None),  # type: ignore[arg-type]
        "nothing": lambda messages: Reply(""),
        "spaces": lambda messages: Reply(" \n "),
        "HTML": lambda messages: Reply("<html>502 Bad Gateway</html>"),
        "half a JSON": lambda messages: Reply('{"keep": [1,'),
        "another JSON": lambda messages: Reply('{"keep": {"a": [null]}, "claims": 3}'),
        "a great number": lambda messages: Reply("[" + "9" * 5000 + "]"),
        "half a character": lambda messages: Reply("\ud83d"),
    },
    "retrieve": {
        "None": lambda query: None,
        "a number": lambda query: 3,
        "texts": lambda query: ["a text"],
        "None among them": lambda query: [None],
        "one id twice": lambda query: [Passage("a", "x"), Passage("b", "x")],
    },
    "get": {
        "a number": lambda *given: 3,
        "bytes": lambda *given: b"1",
        "another reply": lambda *given: "<html>",
        "half a character": lambda *given: "\ud83d",
    },
}


def faults_of(verb: str) -> dict[str, Callable[..., Any]]:
    """What ``score``, ``complete``, ``retrieve``, ``get`` of a store or any other verb may do instead of its work,
    by name: a function of the verb's arguments."""

    def raises(make: Callable[[], BaseException]) -> Callable[..., Any]:
        def fault(*given: Any, **named: Any) -> Any:
            raise make()

        return fault

    return {f"raises {name}": raises(make) for name, make in RAISED.items()} | {
        f"gives {name}": fault for name, fault in _GIVEN.get(verb, {}).items()
    }


class Faulty:
    """A part of any kind whose verbs, sync and async, do ``fault``."""

    def __init__(self, fault: Callable[..., Any]) -> None:
        self.fault = fault

    def score(self, *given: Any) -> Any:
        return self.fault(*given)

    async def acomplete(self, *given: Any) -> Any:
        return self.fault(*given)

    complete = retrieve = get = put = score
    aretrieve = acomplete


class Hanging(Faulty):
    """A part whose verbs do not come back before ``go`` is set, or half a minute has passed."""

    def __init__(self) -> None:
        self.go = threading.Event()
        super().__init__(lambda *given: self.go.wait(30))

    async def acomplete(self, *given: Any) -> Any:
        await asyncio.sleep(30)

    aretrieve = acomplete


def check_hang(call: Callable[[Any], Coroutine[Any, Any, Any]]) -> None:
    """What ``call`` begins around a part that hangs (``lambda part: ENDDenoiser(part).adenoise(query, passages)``)
    holds up no event loop, and ends when it is cancelled."""
    part = Hanging()

    async def run() -> float:
        asked, worst = asyncio.ensure_future(call(part)), 0.0
        for _ in range(20):
            last = time.monotonic()
            await asyncio.sleep(0.01)
            worst = max(worst, time.monotonic() - last)
        assert not asked.done(), f"the part hangs, and yet it has ended: {asked!r}"
        asked.cancel()
        await asyncio.wait([asked], timeout=1)
        assert asked.cancelled(), "it was cancelled, and goes on"
        return worst

    try:
        worst = asyncio.run(run())
    finally:
        part.go.set()
    assert worst < 1, f"the event loop stood still for {worst:.1f} s"


def check_store(store: Store) -> None:
    """What is put is got, whatever the text and from whichever thread; what was not is None."""
    key = uuid.uuid4().hex
    assert store.get(key) is None, "a key that nobody used has a text"
    for text in ("", "one", "\ud83d", "\x00\r\n", "é" * 100_000, "the last"):
        store.put(key, text)
        found = store.get(key)
        assert found == text, f"put {text[:20]!r}, got {found if found is None else found[:20]!r}"
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda n: store.put(f"{key}-{n}", str(n)), range(40)):
            pass
        found_each = list(pool.map(lambda n: store.get(f"{key}-{n}"), range(40)))
    assert found_each == [str(n) for n in range(40)], "a text of another thread is lost, or another's"


def check_faults(
    make: Callable[[Any], Denoiser], verb: str, query: str, passages: Sequence[Passage], names: Iterable[str] = ()
) -> None:
    """Whatever the part that ``make`` builds a denoiser around does, `Guard` hands back a whole result, sync and
    async: nothing raises, and what is left of every passage is its own text. ``names`` of `faults_of` alone."""
    for name, fault in faults_of(verb).items():
        if names and name not in names:
            continue
        for is_async in (False, True):
            guard = Guard(make(Faulty(fault)))
            try:
                result = (
                    asyncio.run(guard.adenoise(query, passages)) if is_async else guard.denoise(query, passages)
                )
            except Exception as error:
                raise AssertionError(
                    f"{verb} {name}: Guard let {type(error).__name__} through: {error}"
                ) from error
            check_result(passages, result)
            assert result.passages or not passages, f"{verb} {name}: the context was lost"


# -- what a server may answer ----------------------------------------------------------------------------------

Sent = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""


def _status(status: int, **headers: str) -> Callable[[Any], Sent]:
    return lambda right: (status, headers, b'{"error": "no"}')


def _json(change: Callable[[Any], Any]) -> Callable[[Any], Sent]:
    return lambda right: (200, {}, json.dumps(change(right)).encode())


def _each(found: Any, name: str, change: Callable[[Any], Any]) -> Any:
    """A copy in which lists ("list"), numbers ("number") or indices ("index") are changed, wherever they stand."""
    if isinstance(found, dict):
        return {k: change(v) if k == name else _each(v, name, change) for k, v in found.items()}
    if isinstance(found, list):
        inner = [_each(v, name, change) for v in found]
        return change(inner) if name == "list" else inner
    is_number = isinstance(found, float) and name == "number"
    return change(found) if is_number else found


def _silence(right: Any) -> None:
    time.sleep(3)


def _bomb() -> bytes:
    """64 MiB in 64 KiB, never held unpacked."""
    packing = zlib.compressobj(9, wbits=31)
    return b"".join([*(packing.compress(b" " * (1 << 20)) for _ in range(64)), packing.flush()])


MISBEHAVIOURS: Mapping[str, Callable[[Any], Sent | None]] = {
    **{f"status {n}": _status(n) for n in (204, 307, 400, 404, 405, 408, 409, 413, 422, 425, 501, 502)},
    "status 301 elsewhere": _status(301, location="http://127.0.0.1:9/"),
    "status 429": _status(429, **{"retry-after": "0"}),
    "status 503 until a date": _status(503, **{"retry-after": "Mon, 01 Jan 2024 00:00:00 GMT"}),
    "a web page": lambda right: (200, {"content-type": "text/html"}, b"<html>sign in</html>"),
    "null": _json(lambda right: None),
    "an empty object": _json(lambda right: {}),
    "one too few": _json(lambda right: _each(right, "list", lambda some: some[:-1])),
    "one too many": _json(lambda right: _each(right, "list", lambda some: [*some, *some[-1:]])),
    "one index twice": _json(lambda right: _each(right, "index", lambda n: 0)),
    "NaN": _json(lambda right: _each(right, "number", lambda x: float("nan"))),
    "words for numbers": _json(lambda right: _each(right, "number", lambda x: "high")),
    "half a body": lambda right: (200, {"content-length": "100000"}, json.dumps(right).encode()[:20]),
    "a gzip bomb": lambda right: (200, {"content-encoding": "gzip"}, _bomb()),
    "no gzip": lambda right: (200, {"content-encoding": "gzip"}, b"not packed"),
    "a cut connection": lambda right: None,
    "silence": _silence,
}
"""What a server may do instead of its work, by name: a function of the right reply. None cuts the connection."""


@contextmanager
def misbehaving(answer: Callable[[Any], Any], name: str | None = None) -> Iterator[str]:
    """The address of a server on this machine that does ``MISBEHAVIOURS[name]`` with each right reply.

    ``answer`` is given a request's path, or its body as JSON, and gives the right reply, plain values. Without a
    name it answers right.
    """
    change = MISBEHAVIOURS[name] if name else _json(lambda right: right)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None: ...

        def do_GET(self) -> None:
            self._send(_json(lambda right: right)(answer(self.path)))

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self._send(change(answer(asked)))

        def _send(self, sent: Sent | None) -> None:
            self.close_connection = True
            if sent is None:
                self.connection.close()
                return
            status, headers, body = sent
            self.send_response(status)
            for key, value in (
                {"content-type": "application/json", "content-length": str(len(body))} | headers
            ).items():
                self.send_header(key, value)
            self.end_headers()
            with suppress(OSError):  # who was asked for too much has hung up
                self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        served.daemon_threads = True
        thread = threading.Thread(target=served.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{served.server_port}"
        finally:
            served.shutdown()
            thread.join()


def check_remote(
    call: Callable[[str], Any], answer: Callable[[Any], Any], names: Iterable[str] = MISBEHAVIOURS
) -> dict[str, str]:
    """Whatever the server does that ``call`` asks at the address it is given, no mistake of the user comes of it:
    it answers, or raises what `denoise_core.errors.is_mistake` calls a failure. What came of each, by name."""
    told: dict[str, str] = {}
    with misbehaving(answer) as url:
        call(url)
    for name in names:
        with misbehaving(answer, name) as url:
            try:
                call(url)
                told[name] = "answered"
            except Exception as error:
                if is_mistake(error):
                    raise AssertionError(f"{name}: {type(error).__name__} is a mistake: {error}") from error
                told[name] = type(error).__name__
    return told
