"""The faults of random runs, and the outside that has one: a model, a scorer, a retriever, a denoiser, a store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from denoise_core import DenoiseResult, Drop, Passage, Reply, Span, Usage

if TYPE_CHECKING:
    from stress_runs import Run


class RateLimitError(Exception):
    status_code = 429


class ServerError(Exception):
    status_code = 503


class AuthenticationError(Exception):
    status_code = 401


RAISED: dict[str, Any] = {
    "time-out": lambda: TimeoutError("late"),
    "connection": lambda: ConnectionError("gone"),
    "rate limit": lambda: RateLimitError("429 api_key=s3cr3tvalue"),
    "server error": lambda: ServerError("503"),
    "key error": lambda: KeyError("choices"),
    "recursion": lambda: RecursionError("deep"),
    "memory": lambda: MemoryError("full"),
    "stop iteration": lambda: StopIteration(),
    "no key": lambda: AuthenticationError("401"),
    "programming": lambda: AttributeError("'NoneType' object has no attribute 'x'"),
}
REPLIES: dict[str, Any] = {
    "unreadable reply": Reply("I would rather talk about the weather"),
    "empty reply": Reply(""),
    "huge numbers": Reply("1-99999999999999999999, -5"),
    "no text": Reply(None),
    "bare text": "1",
    "nothing": None,
}
SCORES: dict[str, Any] = {
    "NaN scores": lambda n: np.full(n, np.nan, np.float32),
    "too few scores": lambda n: np.zeros(max(0, n - 1), np.float32),
    "scores of two axes": lambda n: np.zeros((n, 2), np.float32),
    "infinite scores": lambda n: np.full(n, -np.inf, np.float32),
}
RESULTS: dict[str, Any] = {
    "no result": lambda q, p: None,
    "foreign id": lambda q, p: DenoiseResult(q, (Passage("made up", "nobody"),)),
    "made-up text": lambda q, p: DenoiseResult(
        q, tuple(Passage("made up " + x.text, x.id) for x in p)
    ),
    "spans too far": lambda q, p: DenoiseResult(
        q, (), tuple(Drop(Span(x.id, 0, 10**6), "far") for x in p)
    ),
    "overlap": lambda q, p: DenoiseResult(
        q, tuple(p), tuple(Drop(Span(x.id, 0, len(x.text)), "?") for x in p)
    ),
    "turned round": lambda q, p: DenoiseResult(q, tuple(p)[::-1]),
    "everything dropped": lambda q, p: DenoiseResult(q, ()),
}
STORES = ("store cannot read", "store is full")
NEVER = "never replies"
WAITS = ("hang", NEVER, "cancelled")
BROKEN = "broken document"
MISTAKES = ("no key", "programming")
KINDS = ("none", *RAISED, *REPLIES, *SCORES, *RESULTS, *STORES, *WAITS, BROKEN)
BY_LLM = ("none", *RAISED, *REPLIES, *WAITS, *STORES)
SECONDS = 0.05  # how long one waits for what never replies
PARTS: dict[str, tuple[str, ...]] = {
    "END": ("none", *RAISED, *SCORES),
    "S2A": BY_LLM,
    "S2A cached": BY_LLM,
    "Augmenter": ("none", *RAISED, *REPLIES, *WAITS),
    "Guard": ("none", *RAISED, *RESULTS, "hang", "cancelled"),
    "Pipeline": ("none", *RAISED, *REPLIES, *SCORES),
    "LangChain": (*BY_LLM, BROKEN),
    "LlamaIndex": (*BY_LLM, BROKEN),
}


class Outside:
    """The model, the scorer, the retriever, the denoiser and the store of one run, with its fault at the nth
    call.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.calls = 0
        self.met = 0
        self.kept: dict[str, str] = {}

    def _turn(self) -> bool:
        self.calls += 1
        hit = self.calls >= self.run.at and self.run.fault != "none"
        if not hit:
            return False
        if self.run.fault in RAISED:
            self.met += 1
            raise RAISED[self.run.fault]()
        return True

    def complete(self, messages: Sequence[Any]) -> Any:
        if self._turn():
            if (
                self.run.fault == NEVER and self.run.part == "Augmenter"
            ):  # the others have no time-out of a call
                self.met += 1
                time.sleep(3 * SECONDS)
            elif self.run.fault in WAITS:
                self.met += self.run.fault == "hang"
                time.sleep(0.03)
                if self.run.fault == "hang":
                    raise TimeoutError("hung")
            if self.run.fault in REPLIES:
                self.met += 1
                return REPLIES[self.run.fault]
        return Reply(self.run.reply, Usage(10, 2))

    async def acomplete(self, messages: Sequence[Any]) -> Any:
        if self._turn():
            if self.run.fault == NEVER:
                self.met += 1
                await asyncio.sleep(3600)
            elif self.run.fault in WAITS:
                self.met += self.run.fault == "hang"
                await asyncio.sleep(0.02 if self.run.fault == "cancelled" else 0.05)
                if self.run.fault == "hang":
                    raise TimeoutError("hung")
            if self.run.fault in REPLIES:
                self.met += 1
                return REPLIES[self.run.fault]
        await asyncio.sleep(0)
        return Reply(self.run.reply, Usage(10, 2))

    def score(self, query: str, texts: Sequence[str]) -> Any:
        if self._turn() and self.run.fault in SCORES:
            self.met += 1
            return SCORES[self.run.fault](len(texts))
        return np.arange(len(texts), dtype=np.float32)

    def denoise(self, query: str, passages: Sequence[Passage]) -> Any:
        if self._turn() and self.run.fault in RESULTS:
            self.met += 1
            return RESULTS[self.run.fault](query, passages)
        return DenoiseResult(query, tuple(passages)[:1])

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> Any:
        if self.run.fault in WAITS:
            await asyncio.sleep(0.02)
        return self.denoise(query, passages)

    def retrieve(self, query: str) -> Sequence[Passage]:
        self._turn()
        return self.run.passages

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        return self.retrieve(query)

    def get(self, key: str) -> str | None:
        if self.run.fault == "store cannot read":
            raise OSError("corrupt")
        return self.kept.get(key)

    def put(self, key: str, text: str) -> None:
        if self.run.fault == "store is full":
            raise OSError("no space left")
        self.kept[key] = text
