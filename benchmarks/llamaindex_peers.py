"""Our LlamaIndex parts beside LlamaIndex's own, in one run on the same scripted model and the same real passages.

The model is a function with a fixed time per call, of the kind most local models are in LlamaIndex: its async
form is its sync form. So control flow is compared, not language ability: calls, waiting, the event loop, ids,
streams, what one bad reply costs. All judge with one rule. Peers at their own defaults: `LLMRerank` (ten
nodes a call; ``top_n`` alone is set, so that nodes left can be compared), `SentenceEmbeddingOptimizer`,
`RetryQueryEngine`, which builds parts on ``Settings``, which is therefore set.

``--data`` names the folder of real questions: then the one-line moves are counted over them (`_llamaindex_moves`).
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from _llamaindex_moves import moves
from _peers import import_rows, paired_ms
from harness import Benchmark, arguments
from llama_index.core import MockEmbedding, Settings
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.evaluation.base import BaseEvaluator, EvaluationResult
from llama_index.core.llms import CustomLLM
from llama_index.core.postprocessor import LLMRerank, SentenceEmbeddingOptimizer
from llama_index.core.query_engine import (
    RetrieverQueryEngine,
    RetryQueryEngine,
)
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from s2a_cost import work

from denoise_core import DenoiseResult, Guard, Passage, arun
from denoise_core.augmenter import Groundedness, TemplateFeedback, WorkingMemory
from denoise_core.embedded import sample_questions
from denoise_core.end import ENDDenoiser
from denoise_core.s2a import S2ADenoiser
from denoise_core.scorers import BM25Scorer
from denoise_core.text.chunk import sentence_spans
from llamaindex_denoise import (
    Checked,
    DenoisePostprocessor,
    LlamaLLM,
    record,
)
from llamaindex_denoise.nodes.convert import to_passages

QUESTION = "Where is the red tower?"
RIGHT, WRONG = "The red tower is in Porto.", "The red tower was built in 1755."
FACTS = (
    "The red tower is in Porto. Bread is cheap there.",
    "The blue bridge crosses the river.",
)


class Model(CustomLLM):
    """A function of the prompt; each call blocks for ``seconds``."""

    reply: Any
    seconds: float = 0.0
    calls: int = 0

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted")

    def complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponse:
        self.calls += 1
        time.sleep(self.seconds)
        return CompletionResponse(text=self.reply(prompt))

    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> Any:
        text = self.complete(prompt).text
        pieces = re.findall(r"\S+\s*", text)
        return (
            CompletionResponse(text="".join(pieces[: i + 1]), delta=p)
            for i, p in enumerate(pieces)
        )


class Found(BaseRetriever):
    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return [
            NodeWithScore(node=TextNode(text=t, id_=f"n{i}"), score=0.9)
            for i, t in enumerate(FACTS)
        ]


def passages() -> list[NodeWithScore]:
    found = sample_questions()[0].passages
    return [
        NodeWithScore(
            node=TextNode(
                text=p.text, id_=f"p{i}", metadata={"title": p.metadata["title"]}
            ),
            score=0.5,
        )
        for i, p in enumerate(found)
    ]


def selects(bad: str | None = None) -> Callable[[str], str]:
    """Keeps everything, in the form each asks for; what holds ``bad`` gets a useless reply."""

    def reply(prompt: str) -> str:
        if bad is not None and bad in prompt:
            return "I would rather not say."
        return "1-99" if "BEGIN " in prompt else "Doc: 1, Relevance: 9"

    return reply


def mends(prompt: str) -> str:
    """Right as soon as the prompt says what was wrong before."""
    return RIGHT if "1755" in prompt else WRONG


async def stall_while(work: Awaitable[Any]) -> tuple[float, float]:
    """The longest time the event loop was held up while it waited, and the time waited; both in seconds."""
    longest, last = 0.0, time.perf_counter()

    async def tick() -> None:
        nonlocal longest, last
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    started = last = time.perf_counter()
    await work
    seconds = time.perf_counter() - started
    longest = max(longest, time.perf_counter() - last)
    ticking.cancel()
    return longest, seconds


def held_to_targets(bench: Benchmark, name: str) -> Benchmark:
    """Ours has targets; peers are only reported."""
    return bench.under(has_targets=name == "ours")


def postprocessors(bench: Benchmark, seconds: float) -> None:
    nodes = passages()
    count = len(nodes)
    query = sample_questions()[0].text
    target = 3 * seconds + 0.2

    def build(name: str, model: Model) -> Any:
        if name == "ours":
            return DenoisePostprocessor.from_llm(model)
        return LLMRerank(llm=model, top_n=count)

    for name in ("ours", "LLMRerank"):
        rows = held_to_targets(bench, name)
        unhurried = build(name, Model(reply=selects()))
        unhurried.postprocess_nodes(nodes, query_str=query)  # imports and first calls
        model = Model(reply=selects(), seconds=seconds)
        started = time.perf_counter()
        build(name, model).postprocess_nodes(nodes, query_str=query)
        took = time.perf_counter() - started
        timed = rows.under(f"{count} nodes, {seconds:g} s a call: {name}, ")
        timed.row(
            "sync",
            took,
            "s",
            at_most=target,
        )
        timed.row("calls", model.calls, "calls")
        part = build(name, Model(reply=selects(), seconds=seconds))
        stall, took = asyncio.run(
            stall_while(part.apostprocess_nodes(nodes, query_str=query))
        )
        timed.row(
            "async",
            took,
            "s",
            at_most=target,
        )
        timed.row(
            "event loop held up at most",
            stall,
            "s",
            at_most=seconds,
        )
        bad = Model(reply=selects(bad=nodes[3].node.text[-60:]))
        kept = build(name, bad).postprocess_nodes(nodes, query_str=query)
        rows.row(
            f"one bad reply of {count}: {name}, nodes left",
            len(kept),
            "nodes",
            at_least=count,
        )
        kept = build(name, Model(reply=selects())).postprocess_nodes(
            nodes, query_str=query
        )
        same = sum(node.score == 0.5 for node in kept)
        rows.row(
            f"retrieval score kept: {name}",
            same,
            "nodes",
            at_least=count,
        )


def inputs(bench: Benchmark) -> None:
    query = sample_questions()[0].text
    parts = {
        "ours": DenoisePostprocessor(
            denoiser=S2ADenoiser(LlamaLLM(Model(reply=lambda p: "1")), variant="select")
        ),
        "SentenceEmbeddingOptimizer": SentenceEmbeddingOptimizer(
            embed_model=MockEmbedding(embed_dim=4), percentile_cutoff=0.5
        ),
    }
    for name, part in parts.items():
        nodes = passages()
        before = copy.deepcopy(nodes)
        out = part.postprocess_nodes(nodes, query_str=query)
        changed = sum(a.model_dump() != b.model_dump() for a, b in zip(nodes, before))
        rows = held_to_targets(bench, name)
        rows.row(
            f"inputs changed: {name}",
            changed,
            "nodes",
            at_most=0,
        )
        texts = {n.node.node_id: n.node.text for n in before}
        ours = sum(n.node.text in texts.get(n.node.node_id, "") for n in out)
        measure = f"id kept and text verbatim from it: {name}"
        share = ours / max(1, len(out))
        rows.row(
            measure,
            share,
            "share of nodes kept",
            at_least=1,
        )


class GroundednessEvaluator(BaseEvaluator):
    """Judges for `RetryQueryEngine` by the rule that judges our loop."""

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None:
        return

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Any = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        evidence = [Passage(text, f"c{i}") for i, text in enumerate(contexts or ())]
        memory = WorkingMemory(query or "", evidence=tuple(evidence))
        verdict, _ = await arun(Groundedness().assess(memory, response or ""))
        feedback, _ = await arun(
            TemplateFeedback().write(memory, response or "", verdict)
        )
        return EvaluationResult(passing=verdict.passed, feedback=feedback)


def engine(name: str, model: Model, *, streaming: bool = False) -> Any:
    inner = RetrieverQueryEngine.from_args(Found(), llm=model, streaming=streaming)
    if name == "ours":
        ours = Checked(inner, judge=Groundedness())
        ours.streaming = streaming
        return ours
    return RetryQueryEngine(inner, GroundednessEvaluator())


def loops(bench: Benchmark, seconds: float) -> None:
    for name in ("ours", "RetryQueryEngine"):
        rows = held_to_targets(bench, name)

        def ask(model: Model, name: str = name, **options: Any) -> Any:
            """The response, or the error."""
            Settings.llm = model
            try:
                return engine(name, model, **options).query(QUESTION)
            except Exception as error:
                return error

        model = Model(reply=mends, seconds=seconds)
        response = ask(model)
        right = RIGHT in str(response) and not isinstance(response, Exception)
        rows.row(
            f"repaired after feedback: {name}",
            right,
            "1 = right answer",
            at_least=1,
        )
        rows.row(f"repaired after feedback: {name}, calls", model.calls, "calls")
        ids = [
            n.node.node_id in ("n0", "n1")
            for n in getattr(response, "source_nodes", [])
        ]
        share = sum(ids) / len(ids) if ids else 0.0
        rows.row(
            f"sources with the user's ids: {name}",
            share,
            "share",
            at_least=1,
        )

        never = Model(reply=lambda p: WRONG)
        metadata = getattr(ask(never), "metadata", None) or {}
        told = metadata.get("denoise", {}).get("outcome") == "unsupported"
        rows.row(
            f"says that no answer passed: {name}",
            told,
            "1 = yes",
            at_least=1,
        )
        rows.row(f"never right: {name}, calls", never.calls, "calls")

        Settings.llm = waits = Model(reply=mends, seconds=seconds)
        stall, _ = asyncio.run(stall_while(_atry(engine(name, waits).aquery(QUESTION))))
        rows.row(
            f"aquery, event loop held up at most: {name}",
            stall,
            "s",
            at_most=seconds,
        )

        response = ask(Model(reply=mends), streaming=True)
        delivered = "".join(getattr(response, "response_gen", ()))
        rows.row(
            f"stream delivers the answer: {name}",
            RIGHT in delivered,
            "1 = yes",
            at_least=1,
        )

        failed = isinstance(ask(Model(reply=_raises_once())), Exception)
        rows.row(
            f"survives a call that raises: {name}",
            not failed,
            "1 = yes",
            at_least=1,
        )
    Settings.llm = None


def _raises_once() -> Callable[[str], str]:
    left = [1]

    def reply(prompt: str) -> str:
        if left:
            left.pop()
            raise ConnectionError("scripted")
        return RIGHT

    return reply


async def _atry(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except Exception as error:
        return error


class Untouched:
    def denoise(self, query: str, given: Any) -> DenoiseResult:
        return DenoiseResult(query, tuple(given))

    async def adenoise(self, query: str, given: Any) -> DenoiseResult:
        return self.denoise(query, given)


def costs(bench: Benchmark, rounds: int) -> None:
    """Our postprocessor over the core's guard around the same denoiser, and what it costs to import."""
    nodes = passages()
    part, core = DenoisePostprocessor(denoiser=Untouched()), Guard(Untouched())
    given = to_passages(nodes)
    alone, more = paired_ms(
        lambda: core.denoise("q", given),
        lambda: part.postprocess_nodes(nodes, query_str="q"),
        rounds,
    )
    bench.row(f"core alone behind its guard, {len(nodes)} nodes", alone, "CPU ms")
    bench.row(
        f"adapter over the core, {len(nodes)} nodes",
        more,
        "CPU ms",
        at_most=0.5,
    )
    ours = {
        "llamaindex_denoise": "import llamaindex_denoise",
        "its DenoisePostprocessor": "from llamaindex_denoise import DenoisePostprocessor",
    }
    import_rows(
        bench, "import numpy, llama_index.core", "llama_index.core and numpy", ours
    )


def records(bench: Benchmark) -> None:
    """What is noted on a node, at its longest."""
    found = passages()
    for n in found:
        n.node.text = n.node.text * 20  # type: ignore[attr-defined]
    part = DenoisePostprocessor(
        denoiser=ENDDenoiser(BM25Scorer(), keep=0.5, chunker=sentence_spans)
    )
    out = part.postprocess_nodes(found, query_str=sample_questions()[0].text)
    most = max(
        len(json.dumps(record(n.node), ensure_ascii=False).encode()) for n in out
    )
    bench.row(
        f"largest record of {len(out)} long nodes",
        most,
        "bytes",
        at_most=2048,
    )


def main(argv: list[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("llamaindex_peers", options)
    costs(
        bench, 5 if options.quick else 1000
    )  # first: what the others leave in memory slows every call
    postprocessors(bench, 0.01 if options.quick else 0.1)
    inputs(bench)
    loops(bench, 0.01 if options.quick else 0.1)
    records(bench)
    if options.quick or options.data is not None:
        moves(bench, work(bench, limit=60))
    return bench.finish()


if __name__ == "__main__":
    main()
