"""One random run: a part, passages, a fault somewhere outside it; and what must hold whatever happened.

*lost*: text came in, none came out, and no policy asked for that. *unreported*: a fault was met and neither
raised nor named in the result. *law broken*: spans that do not tile, ids that were not given. *budget over*:
more calls than allowed.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from denoise_core import Budget, DenoiseResult, Drop, Guard, Passage, Pipeline, Reply, Span, Usage
from denoise_core.augmenter import Augmenter, LoopLimits
from denoise_core.end import ENDDenoiser
from denoise_core.errors import is_mistake
from denoise_core.s2a import Cache, Options, S2ADenoiser
from denoise_core.testing import check_result

LINES = (
    "The tower is 330 m tall. ", "I think it is lovely! ", "It opened in 1889.\n\n", "Bananas are yellow. ", "\n",
    "<evidence>END document</evidence> ", "Größe: 330 m… ", "塔高330米。", "\u200b", "x" * 40 + " ",
)  # fmt: skip


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
    "made-up text": lambda q, p: DenoiseResult(q, tuple(Passage("made up " + x.text, x.id) for x in p)),
    "spans too far": lambda q, p: DenoiseResult(q, (), tuple(Drop(Span(x.id, 0, 10**6), "far") for x in p)),
    "overlap": lambda q, p: DenoiseResult(q, tuple(p), tuple(Drop(Span(x.id, 0, len(x.text)), "?") for x in p)),
    "turned round": lambda q, p: DenoiseResult(q, tuple(p)[::-1]),
    "everything dropped": lambda q, p: DenoiseResult(q, ()),
}
STORES = ("store cannot read", "store is full")
WAITS = ("hang", "cancelled")
KINDS = ("none", *RAISED, *REPLIES, *SCORES, *RESULTS, *STORES, *WAITS)
BY_LLM = ("none", *RAISED, *REPLIES, *WAITS, *STORES)
PARTS: dict[str, tuple[str, ...]] = {
    "END": ("none", *RAISED, *SCORES),
    "S2A": BY_LLM,
    "S2A cached": BY_LLM,
    "Augmenter": ("none", *RAISED, *REPLIES, *WAITS),
    "Guard": ("none", *RAISED, *RESULTS, *WAITS),
    "Pipeline": ("none", *RAISED, *REPLIES, *SCORES),
    "LangChain": BY_LLM,
    "LlamaIndex": BY_LLM,
}


@dataclass
class Tally:
    runs: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    parts: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def bad(self, what: str, run: Run, why: object = "") -> None:
        self.wrong[what] += 1
        self.examples.append(f"{what}: {run.part}, {run.fault}: {why}")


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
            if self.run.fault in WAITS:
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
            if self.run.fault in WAITS:
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
        return self.run.passages

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        return self.run.passages

    def get(self, key: str) -> str | None:
        if self.run.fault == "store cannot read":
            raise OSError("corrupt")
        return self.kept.get(key)

    def put(self, key: str, text: str) -> None:
        if self.run.fault == "store is full":
            raise OSError("no space left")
        self.kept[key] = text


@dataclass(frozen=True)
class Run:
    part: str
    fault: str
    at: int
    passages: tuple[Passage, ...]
    reply: str
    calls: int | None

    @staticmethod
    def draw(drawn: random.Random) -> Run:
        part = drawn.choice(list(PARTS))
        fault = drawn.choice(PARTS[part]) if drawn.random() < 0.85 else "none"
        texts = ["".join(drawn.choices(LINES, k=drawn.randint(0, 5))) for _ in range(drawn.randint(0, 5))]
        reply = drawn.choice(["1", "1, 2", "NONE", "2-3", "1-3"])
        if part == "Augmenter":
            reply = drawn.choice(
                ["The tower is 330 m tall [1].", "It is 500 m tall [1].", "I do not know.", "yes"]
            )
        budget = drawn.randint(0, 3) if drawn.random() < 0.15 else None
        passages = tuple(Passage(t, str(n)) for n, t in enumerate(texts))
        return Run(part, fault, drawn.randint(1, 3), passages, reply, budget)

    def made(self, outside: Outside) -> Any:
        budget = None if self.calls is None else Budget(calls=self.calls)
        cache = Cache("m", outside) if self.part == "S2A cached" or self.fault in STORES else None
        options = Options(cache=cache, joint=False)
        s2a = S2ADenoiser(outside, variant="select", budget=budget, options=options)
        end = ENDDenoiser(outside, keep=0.5)
        match self.part:
            case "END":
                return Guard(end)
            case "Guard":
                return Guard(outside)
            case "Pipeline":
                return Guard(Pipeline(end, s2a))
            case "Augmenter":
                return Augmenter(outside, outside, budget=budget, limits=LoopLimits(steps=12))
            case "LangChain":
                from langchain_denoise import DenoiseCompressor

                return DenoiseCompressor(denoiser=s2a)
            case "LlamaIndex":
                from llamaindex_denoise import DenoisePostprocessor

                return DenoisePostprocessor(denoiser=s2a)
            case _:
                return s2a

    def documents(self) -> list[Any]:
        if self.part == "LangChain":
            from langchain_core.documents import Document

            return [Document(page_content=p.text, id=p.id) for p in self.passages]
        from llama_index.core.schema import NodeWithScore, TextNode

        return [NodeWithScore(node=TextNode(text=p.text, id_=p.id)) for p in self.passages]


QUERY = "How tall is the tower?"


def run_sync(run: Run, tally: Tally) -> None:
    outside = Outside(run)
    made = run.made(outside)
    try:
        if run.part == "Augmenter":
            out = made.answer(QUERY)
        elif run.part == "LangChain":
            out = made.compress_documents(run.documents(), QUERY)
        elif run.part == "LlamaIndex":
            out = made.postprocess_nodes(run.documents(), query_str=QUERY)
        else:
            out = made.denoise(QUERY, (p for p in run.passages))
    except Exception as error:
        _raised(run, outside, error, tally)
    else:
        _returned(run, outside, out, tally)
    _counted(run, outside, tally)


async def run_async(run: Run, tally: Tally) -> None:
    outside = Outside(run)
    made = run.made(outside)
    if run.part == "Augmenter":
        waiting = made.aanswer(QUERY)
    elif run.part == "LangChain":
        waiting = made.acompress_documents(run.documents(), QUERY)
    elif run.part == "LlamaIndex":
        waiting = made.apostprocess_nodes(run.documents(), query_str=QUERY)
    else:
        waiting = made.adenoise(QUERY, (p for p in run.passages))
    task = asyncio.create_task(waiting)
    if run.fault == "cancelled":
        asyncio.get_running_loop().call_later(0.005, task.cancel)
    try:
        out = await asyncio.wait_for(task, 60)
    except asyncio.CancelledError:
        if run.fault != "cancelled":
            tally.bad("unreported", run, "cancelled by nobody")
    except TimeoutError as error:
        tally.bad("lost", run, f"hangs for ever: {error}") if task.cancelled() else _raised(
            run, outside, error, tally
        )
    except Exception as error:
        _raised(run, outside, error, tally)
    else:
        _returned(run, outside, out, tally)
    _counted(run, outside, tally)


def _counted(run: Run, outside: Outside, tally: Tally) -> None:
    tally.runs += 1
    tally.parts[run.part] += 1
    if outside.met or run.fault in (*STORES, "cancelled"):
        tally.faults[run.fault] += 1
    if run.calls is not None and outside.calls > run.calls and run.part in ("S2A", "S2A cached", "Augmenter"):
        tally.bad("budget over", run, f"{outside.calls} calls of {run.calls}")


def _raised(run: Run, outside: Outside, error: Exception, tally: Tally) -> None:
    """Only mistakes may come through: every policy here is to keep."""
    if not is_mistake(error):
        tally.bad("lost", run, f"raised {error!r}")
    elif run.fault not in ("no key", "programming"):
        tally.bad("unreported", run, f"raised as a mistake: {error!r}")


def _returned(run: Run, outside: Outside, out: Any, tally: Tally) -> None:
    if run.fault in ("no key", "programming") and outside.met:
        tally.bad("unreported", run, "a mistake was swallowed")
    if run.part == "Augmenter":
        failed = any(what for what, _ in out.memory.failures) or out.stopped_because not in ("passed", "sent")
        if outside.met and run.fault in RAISED and not failed:
            tally.bad("unreported", run, out.stopped_because)
        return
    if run.part in ("LangChain", "LlamaIndex"):
        _documents(run, outside, out, tally)
        return
    try:
        check_result(run.passages, out)
    except AssertionError as error:
        tally.bad("law broken", run, error)
    had = any(p.text.strip() for p in run.passages)
    guarded = run.part in ("END", "Guard", "Pipeline")
    if guarded and had and not any(p.text.strip() for p in out.passages) and out.relevant is not False:
        tally.bad("lost", run, "nothing was kept")
    silent = ("huge numbers", "infinite scores", "cancelled", "hang", "turned round")
    if outside.met and run.fault not in silent and not _told(out) and had:
        tally.bad("unreported", run, out)


def _told(result: DenoiseResult) -> bool:
    reports = getattr(result, "reports", ())
    return bool(result.fallback or result.failures or result.note or any(r.problem or r.notes for r in reports))


def _documents(run: Run, outside: Outside, out: list[Any], tally: Tally) -> None:
    texts = [d.page_content if run.part == "LangChain" else d.node.get_content() for d in out]
    whole = "\n".join(p.text for p in run.passages)
    for text in texts:
        for piece in filter(str.strip, text.split("\n")):
            if piece.strip() not in whole and not all(w in whole for w in piece.split()):
                tally.bad("law broken", run, piece)
    if outside.met and run.fault in RAISED and run.fault not in ("no key", "programming"):
        met = [d.metadata.get("denoise", {}) if run.part == "LangChain" else _record(d.node) for d in out]
        told = [m.get("fallback") for m in met]
        if not any(told) and any(p.text.strip() for p in run.passages):
            tally.bad("unreported", run, met[:1])
        if any("s3cr3tvalue" in str(m) for m in met):
            tally.bad("unreported", run, "a secret stands in metadata")


def _record(node: Any) -> Any:
    from llamaindex_denoise import record

    return record(node) or {}
