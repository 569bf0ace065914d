"""LlamaIndex's own parts and ours, in one run on the same scripted model and the same real passages.

The scripted model is a function with a fixed time per call, as most local models are in LlamaIndex: its async
form is its sync form. So control flow is compared, not language ability: calls, waiting, the event loop, ids,
what one bad reply costs. All judge by one rule. Peers run at their defaults: `LLMRerank` (ten nodes a call;
only ``top_n`` is set, so that the nodes left can be compared), `SentenceEmbeddingOptimizer` (with a share, since
it keeps all without one), and `RetryQueryEngine`, which builds parts on ``Settings``.

``--data`` names the folder of real questions. With it each filter is compared with the line that replaces it, on
HotpotQA questions of twenty passages, scored by the encoder that ships; the model is that of `s2a_cost`.
"""

from __future__ import annotations

import asyncio
import copy
import json
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from _peers import PassageFilter, measure_overhead, report_filters
from _s2a_shared import scripted_questions
from harness import Benchmark
from llama_index.core import MockEmbedding, Settings
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.evaluation.base import BaseEvaluator, EvaluationResult
from llama_index.core.llms import CustomLLM
from llama_index.core.postprocessor import LLMRerank, SentenceEmbeddingOptimizer
from llama_index.core.query_engine import RetrieverQueryEngine, RetryQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode

from denoise_core import Guard, Passage, arun
from denoise_core.augmenter import Groundedness, TemplateFeedback, WorkingMemory
from denoise_core.embedded import embedding_scorer, sample_questions
from denoise_core.end import ENDDenoiser
from denoise_core.s2a import S2ADenoiser
from denoise_core.scorers import BM25Scorer
from denoise_core.support.judges import FunctionJudge
from denoise_core.testing import FunctionScorer
from denoise_core.text.chunk import sentence_spans
from denoise_lab.experiments.scripted_server import (
    ScriptedServer,
    cl100k_encoder,
    llamaindex_model,
)
from llamaindex_denoise import (
    Checked,
    DenoisePostprocessor,
    EmbeddedEmbedding,
    LlamaLLM,
    record,
)
from llamaindex_denoise.nodes.convert import to_passages

QUESTION = "Where is the red tower?"
RIGHT_ANSWER = "The red tower is in Porto."
WRONG_ANSWER = "The red tower was built in 1755."
FACTS = (
    "The red tower is in Porto. Bread is cheap there.",
    "The blue bridge crosses the river.",
)


def main() -> None:
    bench = Benchmark("llamaindex_peers", __doc__)
    seconds = 0.01 if bench.quick else 0.1
    # First, since objects that the others leave in memory slow every call.
    report_overhead(bench)
    report_rerankers(bench, seconds)
    report_inputs(bench)
    report_engines(bench)
    report_record_size(bench)
    if bench.quick or bench.data is not None:
        server = ScriptedServer(cl100k_encoder())
        questions = scripted_questions(bench, limit=60)
        report_filters(bench, server, build_pairs(server), questions)
    bench.finish()


# -- the scripted model and its passages -----------------------------------------------


class ScriptedModel(CustomLLM):
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
        raise NotImplementedError("no benchmark streams")


class FactRetriever(BaseRetriever):
    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return [scored_node(fact, f"n{n}", 0.9) for n, fact in enumerate(FACTS)]


def scored_node(text: str, node_id: str, score: float, **metadata: str) -> Any:
    node = TextNode(text=text, id_=node_id, metadata=metadata)
    return NodeWithScore(node=node, score=score)


def sample_nodes() -> list[NodeWithScore]:
    nodes = []
    for number, passage in enumerate(sample_questions()[0].passages):
        title = passage.metadata["title"]
        nodes.append(scored_node(passage.text, f"p{number}", 0.5, title=title))
    return nodes


def keep_all(unreadable_for: str | None = None) -> Callable[[str], str]:
    """Return a reply function that keeps everything, in the form each part asks for.

    A prompt that has ``unreadable_for`` gets a useless reply.
    """

    def reply(prompt: str) -> str:
        if unreadable_for is not None and unreadable_for in prompt:
            return "I would rather not say."
        if "BEGIN " in prompt:
            return "1-99"
        return "Doc: 1, Relevance: 9"

    return reply


def answer_after_feedback(prompt: str) -> str:
    """Answer right as soon as the prompt has the wrong answer."""
    if "1755" in prompt:
        return RIGHT_ANSWER
    return WRONG_ANSWER


def is_stated(question: str, evidence: Sequence[str], claim: str) -> float:
    """Judge a claim: 1 when a passage states it word for word, else 0."""
    return float(any(claim in text for text in evidence))


RULE = Groundedness(FunctionJudge(is_stated))


def under_part(bench: Benchmark, part_name: str) -> Benchmark:
    """Return the benchmark for the rows of a part: ours has targets, peers are only reported."""
    return bench.under(has_targets=part_name == "ours")


# -- filters ---------------------------------------------------------------------------


def report_rerankers(bench: Benchmark, seconds: float) -> None:
    """Add waiting, calls, the event loop and what one bad reply leaves, over a model of so many seconds a call."""
    nodes = sample_nodes()
    count = len(nodes)
    query = sample_questions()[0].text
    unreadable = keep_all(unreadable_for=nodes[3].node.get_content()[-60:])
    for name in ("ours", "LLMRerank"):
        rows = under_part(bench, name)
        timed = rows.under(f"{count} nodes, {seconds:g} s a call: {name}, ")
        model = ScriptedModel(reply=keep_all())
        reranker: Any = LLMRerank(llm=model, top_n=count)
        if name == "ours":
            reranker = DenoisePostprocessor(llm=model)
        reranker.postprocess_nodes(nodes, query_str=query)  # imports and first calls
        model.seconds = seconds
        model.calls = 0
        start_time = time.perf_counter()
        kept = reranker.postprocess_nodes(nodes, query_str=query)
        timed.row(
            "sync", time.perf_counter() - start_time, "s", at_most=3 * seconds + 0.2
        )
        timed.row("calls", model.calls, "calls")
        same_scores = sum(node.score == 0.5 for node in kept)
        rows.row(f"retrieval score kept: {name}", same_scores, "nodes", at_least=count)
        work = reranker.apostprocess_nodes(nodes, query_str=query)
        stall = asyncio.run(longest_stall(work))
        timed.row("event loop held up at most", stall, "s", at_most=seconds)
        model.seconds = 0.0
        model.reply = unreadable
        kept = reranker.postprocess_nodes(nodes, query_str=query)
        measure = f"one bad reply of {count}: {name}, nodes left"
        rows.row(measure, len(kept), "nodes", at_least=count)


async def longest_stall(work: Awaitable[Any]) -> float:
    """Return the longest time, in seconds, that ``work`` held up the event loop."""
    longest = 0.0
    last_time = time.perf_counter()

    async def tick() -> None:
        nonlocal longest, last_time
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            longest = max(longest, now - last_time)
            last_time = now

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    last_time = time.perf_counter()
    await work
    longest = max(longest, time.perf_counter() - last_time)
    ticking.cancel()
    return longest


def report_inputs(bench: Benchmark) -> None:
    """Add whether a filter changes the nodes it is given, and whether texts are the source's."""
    query = sample_questions()[0].text
    select_first = LlamaLLM(ScriptedModel(reply=lambda prompt: "1"))
    ours = S2ADenoiser(select_first, variant="select")
    parts = {
        "ours": DenoisePostprocessor(denoiser=ours),
        "SentenceEmbeddingOptimizer": SentenceEmbeddingOptimizer(
            embed_model=MockEmbedding(embed_dim=4), percentile_cutoff=0.5
        ),
    }
    for name, part in parts.items():
        nodes = sample_nodes()
        originals = copy.deepcopy(nodes)
        kept = part.postprocess_nodes(nodes, query_str=query)
        pairs = zip(nodes, originals, strict=True)
        changed_count = sum(node != original for node, original in pairs)
        texts = {node.node.node_id: node.node.get_content() for node in originals}
        verbatim_count = 0
        for node in kept:
            source_text = texts.get(node.node.node_id, "")
            verbatim_count += node.node.get_content() in source_text
        share = verbatim_count / max(1, len(kept))
        rows = under_part(bench, name)
        rows.row(f"inputs changed: {name}", changed_count, "nodes", at_most=0)
        measure = f"id kept and text verbatim from it: {name}"
        rows.row(measure, share, "share of nodes kept", at_least=1)


def build_pairs(
    server: ScriptedServer,
) -> dict[str, tuple[PassageFilter, PassageFilter]]:
    """Return each peer with the line that replaces it."""
    llm = llamaindex_model(server)
    embedding = EmbeddedEmbedding()
    halves = SentenceEmbeddingOptimizer(embed_model=embedding, percentile_cutoff=0.5)
    our_halves = DenoisePostprocessor(
        embed_model=embedding, keep=0.5, chunks="sentences"
    )
    return {
        "LLMRerank": (
            as_filter(LLMRerank(llm=llm)),
            as_filter(DenoisePostprocessor(llm=llm, top_n=10)),
        ),
        "SentenceEmbeddingOptimizer (0.5)": (as_filter(halves), as_filter(our_halves)),
    }


def as_filter(postprocessor: Any) -> PassageFilter:
    """Return a postprocessor as a filter; nodes have the cosine that a vector store gives them."""

    def filter_passages(question: str, passages: Sequence[Passage]) -> list[Passage]:
        texts = [passage.text for passage in passages]
        scores = embedding_scorer().score(question, texts)
        nodes = []
        for passage, score in zip(passages, scores, strict=True):
            nodes.append(scored_node(passage.text, passage.id, float(score)))
        kept = postprocessor.postprocess_nodes(nodes, query_str=question)
        return [Passage(node.node.get_content(), node.node.node_id) for node in kept]

    return filter_passages


# -- engines ---------------------------------------------------------------------------


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
        numbered = enumerate(contexts or ())
        evidence = [Passage(text, f"c{n}") for n, text in numbered]
        memory = WorkingMemory(query or "", evidence=tuple(evidence))
        verdict, _ = await arun(RULE.assess(memory, response or ""))
        writing = TemplateFeedback().write(memory, response or "", verdict)
        feedback, _ = await arun(writing)
        # The retry engine raises for an evaluation without its response.
        return EvaluationResult(
            passing=verdict.passed, feedback=feedback, response=response
        )


def report_engines(bench: Benchmark) -> None:
    """Add what a second draft costs, and what is said when no draft passes."""
    for name in ("ours", "RetryQueryEngine"):
        rows = under_part(bench, name)
        model = ScriptedModel(reply=answer_after_feedback)
        is_repaired = RIGHT_ANSWER in str(ask_engine(name, model))
        measure = f"repaired after feedback: {name}"
        rows.row(measure, is_repaired, "1 = right answer", at_least=1)
        rows.row(f"{measure}, calls", model.calls, "calls")
        never_right = ScriptedModel(reply=lambda prompt: WRONG_ANSWER)
        metadata = ask_engine(name, never_right).metadata or {}
        outcome = metadata.get("denoise", {}).get("outcome")
        measure = f"says that no answer passed: {name}"
        rows.row(measure, outcome == "unsupported", "1 = yes", at_least=1)


def ask_engine(name: str, model: ScriptedModel) -> Any:
    Settings.llm = model
    engine = RetrieverQueryEngine.from_args(FactRetriever(), llm=model)
    if name == "ours":
        return Checked(engine, judge=RULE).query(QUESTION)
    return RetryQueryEngine(engine, GroundednessEvaluator()).query(QUESTION)


# -- costs -----------------------------------------------------------------------------


def report_overhead(bench: Benchmark) -> None:
    """Add what our postprocessor costs over the core's guard around the same denoiser."""
    nodes = sample_nodes()
    passages = to_passages(nodes)
    denoiser = ENDDenoiser(FunctionScorer(lambda query, text: 1.0), threshold=-math.inf)
    postprocessor = DenoisePostprocessor(denoiser=denoiser)
    core = Guard(denoiser)
    milliseconds = measure_overhead(
        lambda: core.denoise("q", passages),
        lambda: postprocessor.postprocess_nodes(nodes, query_str="q"),
        rounds=5 if bench.quick else 1000,
    )
    measure = f"adapter over the core, {len(nodes)} nodes"
    bench.row(measure, milliseconds, "CPU ms", at_most=0.5)


def report_record_size(bench: Benchmark) -> None:
    """Add the size of the largest record in a node's metadata."""
    nodes = []
    for passage in sample_questions()[0].passages:
        nodes.append(scored_node(passage.text * 20, passage.id, 0.5))
    denoiser = ENDDenoiser(BM25Scorer(), keep=0.5, chunker=sentence_spans)
    postprocessor = DenoisePostprocessor(denoiser=denoiser)
    kept = postprocessor.postprocess_nodes(nodes, query_str=sample_questions()[0].text)
    sizes = []
    for node in kept:
        text = json.dumps(record(node.node), ensure_ascii=False)
        sizes.append(len(text.encode()))
    bench.row(
        f"largest record of {len(kept)} long nodes", max(sizes), "bytes", at_most=2048
    )


if __name__ == "__main__":
    main()
