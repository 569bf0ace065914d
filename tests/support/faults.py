"""Everything that may go wrong around a part, and what it is held to then.

`check_faults` and `check_hang` for what a part works with, `misbehaving` for the server it asks, `check_store`
for where a cache keeps replies. Parametrise with `faults_of` and `MISBEHAVIOURS`.
"""

import asyncio
import json
import threading
import time
import uuid
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
from laws import check_result
from local_server import answering, json_reply

from denoise_core.augmenter import Augmenter
from denoise_core.errors import is_user_error
from denoise_core.result import DenoiseResult
from denoise_core.runtime.guard import Guard
from denoise_core.testing import FunctionLLM
from denoise_core.types import Drop, Keep, Passage, Reply, Span

QUERY = "Where is the tower?"
PASSAGES = (
    Passage("The tower is in Porto. It is old.", "a"),
    Passage("Bread is cheap.", "b"),
)

# -- what a part may meet --------------------------------------------------------------------------------------


class Unreadable(Exception):
    """An error of a library whose text cannot be had."""

    def __str__(self):
        raise RuntimeError("no text")


RAISED = {
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
    "several at once": lambda: ExceptionGroup(
        "two", [TimeoutError("late"), OSError("gone")]
    ),
    "an error without a text": Unreadable,
}
"""Failures of the world, by name. None is a mistake, so under `Guard` none may come through."""


def _dropping(start, end):
    """Keeps the first passage, and drops this range of the last."""
    return lambda q, p: DenoiseResult(
        q, p[:1], (Drop(Span(p[-1].id, start, end), "?"),)
    )


_GIVEN = {
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
    "denoise": {
        "nothing": lambda q, p: None,
        "another type": lambda q, p: list(p),
        "no passages": lambda q, p: DenoiseResult(q, ("one",)),
        "nothing in the place of passages": lambda q, p: DenoiseResult(q, None),
        "an id that is no text": lambda q, p: DenoiseResult(
            q, (Passage("one", ["a"]),)
        ),
        "a score that is none": lambda q, p: DenoiseResult(
            q, (Passage("one", "a", score="high"),)
        ),
        "a drop that is none": lambda q, p: DenoiseResult(q, p, ("b",)),
        "a keep without a span": lambda q, p: DenoiseResult(
            q, p, kept=(Keep(None, 1.0),)
        ),
        "half a character's place": _dropping(0, 1.5),
        "failures that are none": lambda q, p: DenoiseResult(q, p, failures=["b"]),
        "a fallback that is no text": lambda q, p: DenoiseResult(q, p, fallback=7),
        "an id twice": lambda q, p: DenoiseResult(q, (p[0], p[0])),
        "a foreign id": lambda q, p: DenoiseResult(q, (Passage("one", "z"),)),
        "a foreign span": lambda q, p: DenoiseResult(
            q, (Passage("one", "a", spans=(Span("z", 0, 3),)),)
        ),
        "a span too far": _dropping(0, 99),
        "a span backwards": _dropping(2, 1),
        "another text": lambda q, p: DenoiseResult(q, (Passage("ONE", "a"),)),
        "an overlap": lambda q, p: DenoiseResult(q, p, (Drop(Span("a", 0, 1), "?"),)),
        "another order": lambda q, p: DenoiseResult(q, p[::-1]),
    },
    "get": {
        "a number": lambda *given: 3,
        "bytes": lambda *given: b"1",
        "another reply": lambda *given: "<html>",
        "half a character": lambda *given: "\ud83d",
    },
}


def faults_of(verb):
    """What ``score``, ``complete``, ``retrieve``, ``get`` of a store or any other verb may do instead of its work,
    by name: a function of the verb's arguments."""

    def raises(make):
        def fault(*given, **named):
            raise make()

        return fault

    return {f"raises {name}": raises(make) for name, make in RAISED.items()} | {
        f"gives {name}": fault for name, fault in _GIVEN.get(verb, {}).items()
    }


class Faulty:
    """A part of any kind whose verbs, sync and async, do ``fault``."""

    def __init__(self, fault):
        self.fault = fault

    def score(self, *given):
        return self.fault(*given)

    async def acomplete(self, *given):
        return self.fault(*given)

    complete = retrieve = get = put = denoise = score
    assess = choose = write = score
    aretrieve = adenoise = acomplete


class Hanging(Faulty):
    """A part whose verbs do not come back before ``go`` is set, or half a minute has passed."""

    def __init__(self):
        self.go = threading.Event()
        super().__init__(lambda *given: self.go.wait(30))

    async def acomplete(self, *given):
        await asyncio.sleep(30)

    aretrieve = acomplete


def check_hang(call):
    """What ``call`` begins around a part that hangs (``lambda part: ENDDenoiser(part).adenoise(query, passages)``)
    holds up no event loop, and ends when it is cancelled."""
    part = Hanging()

    async def run():
        asked, worst = asyncio.ensure_future(call(part)), 0.0
        for _ in range(20):
            last = time.monotonic()
            await asyncio.sleep(0.01)
            worst = max(worst, time.monotonic() - last)
        assert not asked.done(), f"the part hangs, and yet it has ended: {asked!r}"
        asked.cancel()
        await asyncio.wait([asked], timeout=1)
        has_ended = asked.cancelled()
        # The loop's executor waits for its threads when it closes.
        part.go.set()
        assert has_ended, "it was cancelled, and goes on"
        return worst

    try:
        worst = asyncio.run(run())
    finally:
        part.go.set()
    assert worst < 1, f"the event loop stood still for {worst:.1f} s"


def check_store(store):
    """What is put is got, whatever the text and from whichever thread; what was not is None."""
    key = uuid.uuid4().hex
    assert store.get(key) is None, "a key that nobody used has a text"
    for text in ("", "one", "\ud83d", "\x00\r\n", "é" * 100_000, "the last"):
        store.put(key, text)
        found = store.get(key)
        assert found == text, f"put {text[:20]!r}, got {found!r:.20}"
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda n: store.put(f"{key}-{n}", str(n)), range(40)):
            pass
        found_each = list(pool.map(lambda n: store.get(f"{key}-{n}"), range(40)))
    assert found_each == [str(n) for n in range(40)], (
        "a text of another thread is lost, or another's"
    )


def check_faults(make, verb, query, passages, names=()):
    """Whatever the part that ``make`` builds a denoiser around does, `Guard` hands back a whole result, sync and
    async: nothing raises, and what is left of every passage is its own text. ``names`` of `faults_of` alone."""
    for name, fault in faults_of(verb).items():
        if names and name not in names:
            continue
        for is_async in (False, True):
            guard = Guard(make(Faulty(fault)))
            try:
                result = (
                    asyncio.run(guard.adenoise(query, passages))
                    if is_async
                    else guard.denoise(query, passages)
                )
            except Exception as error:
                raise AssertionError(
                    f"{verb} {name}: Guard let {type(error).__name__} through: {error}"
                ) from error
            check_result(passages, result)
            assert result.passages or not passages, (
                f"{verb} {name}: the context was lost"
            )


def check_retriever(retriever):
    """A loop with this retriever ends with an outcome, or says what the user has to change."""
    llm = FunctionLLM(lambda messages: "It is in Porto [1].")
    try:
        assert Augmenter(llm, retriever).answer(QUERY).outcome
    except Exception as error:
        if is_user_error(error):
            raise


# -- what a server may answer ----------------------------------------------------------------------------------


def _status(status, **headers):
    return lambda right: (status, headers, b'{"error": "no"}')


def _json(change):
    return lambda right: json_reply(change(right))


def _changed(**hooks):
    """The right reply as `json.loads` reads it with these hooks."""
    return _json(lambda right: json.loads(json.dumps(right), **hooks))


def _lists(cut):
    """The right reply with each list cut."""

    def change(value):
        if isinstance(value, dict):
            return {name: change(item) for name, item in value.items()}
        return cut(list(map(change, value))) if isinstance(value, list) else value

    return _json(change)


def _silence(right):
    time.sleep(1)


@cache
def _bomb():
    """64 MiB in 64 KiB, never held unpacked."""
    packing = zlib.compressobj(9, wbits=31)
    return b"".join(
        [*(packing.compress(b" " * (1 << 20)) for _ in range(64)), packing.flush()]
    )


MISBEHAVIOURS = {
    **{
        f"status {n}": _status(n)
        for n in (204, 307, 400, 404, 405, 408, 409, 413, 422, 425, 501, 502)
    },
    "status 301 elsewhere": _status(301, location="http://127.0.0.1:9/"),
    "status 429": _status(429, **{"retry-after": "0"}),
    "status 503 until a date": _status(
        503, **{"retry-after": "Mon, 01 Jan 2024 00:00:00 GMT"}
    ),
    "a web page": lambda right: (
        200,
        {"content-type": "text/html"},
        b"<html>sign in</html>",
    ),
    "null": _json(lambda right: None),
    "an empty object": _json(lambda right: {}),
    "one too few": _lists(lambda some: some[:-1]),
    "one too many": _lists(lambda some: [*some, *some[-1:]]),
    "one index twice": _changed(
        object_hook=lambda some: some | ({"index": 0} if "index" in some else {})
    ),
    "NaN": _changed(parse_float=lambda x: float("nan")),
    "words for numbers": _changed(parse_float=lambda x: "high"),
    "half a body": lambda right: (
        200,
        {"content-length": "100000"},
        json.dumps(right).encode()[:20],
    ),
    "too long": lambda right: (200, {}, b" " * (8 << 20)),
    "a gzip bomb": lambda right: (200, {"content-encoding": "gzip"}, _bomb()),
    "no gzip": lambda right: (200, {"content-encoding": "gzip"}, b"not packed"),
    "a cut connection": lambda right: None,
    "silence": _silence,
}
"""What a server may do instead of its work, by name: a function of the right reply. None cuts the connection."""


def misbehaving(answer, name):
    """The address of a server on this machine that does ``MISBEHAVIOURS[name]`` with each right reply: with what
    ``answer`` gives for the JSON of a request's body, plain values."""
    return answering(lambda asked: MISBEHAVIOURS[name](answer(asked)))
