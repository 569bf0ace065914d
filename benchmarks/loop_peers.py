"""Three verify-and-retry loops on the same scripted generators: ours, LlamaIndex's, a LangGraph graph.

Each generator plays a list of answers whose quality is known (the last one for ever); the same table judges
for all three, and 0.9 passes. A loop does well when it returns the best answer that was generated, makes no
needless call, and leaves the event loop free. LlamaIndex: `RetryQueryEngine` with its default three retries.
LangGraph: the usual generate, grade, back-edge graph, given a recursion limit of 50 (its own default is far
higher). Ours has its defaults, three attempts, and a time limit for each call.
"""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from harness import Benchmark, arguments

from denoise_core import Message, Passage, Reply
from denoise_core.augmenter import (
    AnswerVerdict,
    Augmenter,
    ClaimVerdict,
    LoopLimits,
    WorkingMemory,
)
from denoise_core.augmenter.utility import without_effects
from denoise_core.runtime.effects import Flow
from denoise_core.testing import ListRetriever

PASS = 0.9
HANG = 1.0  # seconds that a hanging call takes
LIMIT = 0.2  # seconds that ours allows a call
QUESTION = "When was the tower completed?"
EVIDENCE = "The tower was completed in 1889."

SCENARIOS: dict[str, list[float | str]] = {
    "gets worse": [0.8, 0.5, 0.3, 0.1],
    "repeats itself": [0.4],
    "hangs once": ["hang", 0.95],
    "raises once": ["raise", 0.95],
    "never passes": [round(0.1 + n / 1000, 3) for n in range(60)],
}


@dataclass
class Script:
    """A generator: each call takes the next outcome; an answer says its own quality."""

    outcomes: list[float | str]
    seconds: float = 0.0
    calls: int = 0
    said: list[float] = field(default_factory=list)

    def next(self) -> tuple[str, float]:
        """The answer, and how long it takes."""
        outcome = self.outcomes[min(self.calls, len(self.outcomes) - 1)]
        self.calls += 1
        if outcome == "raise":
            raise ConnectionError("the scripted generator is down")
        if outcome == "hang":
            return "too late", HANG
        self.said.append(float(outcome))
        return f"answer of quality {outcome}", self.seconds


def quality(answer: str) -> float:
    word = answer.rsplit(" ", 1)[-1]
    return float(word) if word.replace(".", "", 1).isdigit() else 0.0


@dataclass
class Outcome:
    answer: str
    script: Script
    seconds: float
    ticks: int = 0
    error: str = ""

    @property
    def best(self) -> bool:
        """The answer returned is as good as the best one generated."""
        return bool(self.script.said) and quality(self.answer) == max(self.script.said)


class Table:
    """Our utility: the answer's quality."""

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[AnswerVerdict]:
        score = quality(candidate)
        if score >= PASS:
            return without_effects(AnswerVerdict(True, score))
        failed = ClaimVerdict(
            candidate, 0, len(candidate), False, kind="other", reason="not good enough"
        )
        return without_effects(
            AnswerVerdict(False, score, (failed,), None, failed.kind, failed.reason)
        )


class OurLLM:
    def __init__(self, script: Script) -> None:
        self.script = script

    def complete(self, messages: Sequence[Message]) -> Reply:
        text, seconds = self.script.next()
        time.sleep(seconds)
        return Reply(text)

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        text, seconds = self.script.next()
        await asyncio.sleep(seconds)
        return Reply(text)


def ours(script: Script, call_seconds: float = LIMIT) -> Coroutine[Any, Any, str]:
    loop = Augmenter(
        OurLLM(script),
        ListRetriever([Passage(EVIDENCE, "a")]),
        judge=Table(),
        limits=LoopLimits(call_seconds=call_seconds),
    )

    async def ask() -> str:
        return (await loop.aanswer(QUESTION)).text

    return ask()


def llamaindex(script: Script) -> Coroutine[Any, Any, str]:
    from llama_index.core import Settings
    from llama_index.core.evaluation import BaseEvaluator, EvaluationResult
    from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
    from llama_index.core.query_engine import RetrieverQueryEngine, RetryQueryEngine
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

    class Generator(CustomLLM):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata()

        def complete(
            self, prompt: str, formatted: bool = False, **kwargs: Any
        ) -> CompletionResponse:
            text, seconds = script.next()
            time.sleep(seconds)
            return CompletionResponse(text=text)

        async def acomplete(
            self, prompt: str, formatted: bool = False, **kwargs: Any
        ) -> CompletionResponse:
            text, seconds = script.next()
            await asyncio.sleep(seconds)
            return CompletionResponse(text=text)

        def stream_complete(
            self, prompt: str, formatted: bool = False, **kwargs: Any
        ) -> Any:
            raise NotImplementedError

    class One(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return [NodeWithScore(node=TextNode(text=EVIDENCE), score=1.0)]

    class Judge(BaseEvaluator):
        def _get_prompts(self) -> Any:
            return {}

        def _update_prompts(self, prompts: Any) -> None:
            return

        def evaluate(
            self,
            query: Any = None,
            response: Any = None,
            contexts: Any = None,
            **kw: Any,
        ) -> Any:
            score = quality(str(response))
            return EvaluationResult(
                response=str(response),
                passing=score >= PASS,
                score=score,
                feedback="no",
            )

        async def aevaluate(
            self,
            query: Any = None,
            response: Any = None,
            contexts: Any = None,
            **kw: Any,
        ) -> Any:
            return self.evaluate(query, response, contexts)

    llm = Generator()
    Settings.llm = llm
    inner = RetrieverQueryEngine.from_args(One(), llm=llm)
    engine = RetryQueryEngine(inner, Judge())

    async def ask() -> str:
        return str(await engine.aquery(QUESTION))

    return ask()


class State(TypedDict):
    answer: str


def langgraph(script: Script) -> Coroutine[Any, Any, str]:
    from langgraph.graph import END, START, StateGraph

    async def generate(state: State) -> State:
        text, seconds = script.next()
        await asyncio.sleep(seconds)
        return {"answer": text}

    graph = StateGraph(State)
    graph.add_node("generate", generate)
    graph.add_edge(START, "generate")
    graph.add_conditional_edges(
        "generate",
        lambda s: END if quality(s["answer"]) >= PASS else "generate",
        {END: END, "generate": "generate"},
    )
    compiled = graph.compile()

    async def ask() -> str:
        found = await compiled.ainvoke({"answer": ""}, {"recursion_limit": 50})
        return str(found["answer"])

    return ask()


PEERS: dict[str, Callable[[Script], Coroutine[Any, Any, str]]] = {
    "ours": ours,
    "LlamaIndex": llamaindex,
    "LangGraph": langgraph,
}


async def play(
    make: Callable[[Script], Coroutine[Any, Any, str]], script: Script
) -> Outcome:
    """One run, with a ticker beside it that counts how often the event loop came round."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    started = time.perf_counter()
    ticker = asyncio.create_task(tick())
    await asyncio.sleep(0)
    answer, error = "", ""
    try:
        answer = await make(script)
    except Exception as failure:
        error = type(failure).__name__
    seconds = time.perf_counter() - started
    ticker.cancel()
    return Outcome(answer, script, seconds, ticks, error)


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__.splitlines()[0], argv)
    bench = Benchmark("loop_peers", options)
    scenarios = dict(list(SCENARIOS.items())[:2]) if options.quick else SCENARIOS
    for name, outcomes in scenarios.items():
        for peer, make in PEERS.items():
            found = asyncio.run(play(make, Script(list(outcomes))))
            at_least = 1 if peer == "ours" else None
            bench.row(
                f"{name}: {peer}: best answer returned",
                float(found.best),
                "yes or no",
                at_least=at_least,
            )
            bench.row(f"{name}: {peer}: generator calls", found.script.calls, "calls")
            if found.error:
                bench.row(f"{name}: {peer}: raised {found.error}", 1, "yes or no")
            if name == "hangs once":
                most = 2 * LIMIT if peer == "ours" else None
                bench.row(f"{name}: {peer}: time", found.seconds, "s", at_most=most)
    for peer, make in PEERS.items():
        found = asyncio.run(play(make, Script([0.5, 0.95], seconds=0.1)))
        least = 20 if peer == "ours" else None
        bench.row(
            f"event loop came round while waiting 0.2 s: {peer}",
            found.ticks,
            "times",
            at_least=least,
        )
    loops = 50 if options.quick else 1000
    seconds, peak = crowd(loops)
    bench.row(
        f"{loops} loops at once on one event loop, calls of 0.05 s: time", seconds, "s"
    )
    bench.row(
        f"{loops} loops at once on one event loop: peak of new memory",
        peak,
        "MiB",
        at_most=100,
    )
    return bench.finish()


def crowd(loops: int) -> tuple[float, float]:
    """Seconds and peak MiB (as Python counts it) of many loops that each draft twice."""

    async def all_of_them() -> float:
        started = time.perf_counter()
        answers = await asyncio.gather(
            *(
                ours(Script([0.5, 0.95], seconds=0.05), call_seconds=60)
                for _ in range(loops)
            )
        )
        assert set(answers) == {"answer of quality 0.95"}
        return time.perf_counter() - started

    seconds = asyncio.run(
        all_of_them()
    )  # apart from the measurement of memory, which slows everything
    tracemalloc.start()
    asyncio.run(all_of_them())
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return seconds, peak


if __name__ == "__main__":
    main()
