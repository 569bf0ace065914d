"""LangChain's own compressors and ours, on the same model, documents and machine.

Each of theirs runs at its own defaults beside the one line that takes its place. The model is the scripted one of
`s2a_cost`: it finds the same sentences needed whoever asks, so the figures say what each way of asking costs and
what becomes of a reply, not how well a model chooses. Embeddings and cross-encoder run on real MiniLM weights.
Twenty real documents a question (HotpotQA: ten of its own, ten of another question).

Beside that: what the adapter costs over the core, what it costs to import, how long twenty calls of 0.1 s take,
and how many of twenty documents come through when one reply is bad.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
import warnings
from collections.abc import Sequence
from typing import Any

from _langchain_costs import as_documents, ask, concurrency, imports, overhead, records
from _peers import Part, quality, run_of
from harness import Benchmark, arguments
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from s2a_cost import Work, work

from denoise_core import Passage
from denoise_core.embedded import embedding_scorer
from denoise_core.s2a import Options, S2ADenoiser
from denoise_lab.experiments.scripted_server import Server, tokenizer
from langchain_denoise import ChatModelLLM, DenoiseCompressor, EmbeddedEmbeddings
from langchain_denoise.testing import FunctionChatModel


class Timed:
    """The scripted model behind a clock: 5,000 tokens read a second, 60 written, 50 ms a call; for threads too."""

    def __init__(self, speed: float) -> None:
        self.server = Server(tokenizer())
        self.speed = speed
        self.lock = threading.Lock()

    def answer(self, prompt: str) -> tuple[str, int, int, float]:
        """The reply, tokens read and written, and how long it takes."""
        with self.lock:
            read, written = self.server.read, self.server.written
            text = self.server.answer(prompt)
            read, written = self.server.read - read, self.server.written - written
        return text, read, written, (0.05 + read / 5000 + written / 60) / self.speed


class Scripted(BaseChatModel):
    """The same server as a LangChain chat model, for theirs and ours."""

    server: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _result(self, messages: Sequence[Any]) -> tuple[ChatResult, float]:
        prompt = "\n".join(str(m.text) for m in messages)
        text, read, written, seconds = self.server.answer(prompt)
        usage = UsageMetadata(
            input_tokens=read, output_tokens=written, total_tokens=read + written
        )
        return ChatResult(
            generations=[ChatGeneration(message=AIMessage(text, usage_metadata=usage))]
        ), seconds

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        result, seconds = self._result(messages)
        time.sleep(seconds)
        return result

    async def _agenerate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        result, seconds = self._result(messages)
        await asyncio.sleep(seconds)
        return result


class CosinePairs(BaseCrossEncoder):
    """The cosine that ships in the place of a cross-encoder, the same for theirs and ours."""

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        return [
            float(embedding_scorer().score(query, [text])[0])
            for query, text in text_pairs
        ]


def moves(
    model: BaseChatModel,
) -> dict[str, tuple[BaseDocumentCompressor, BaseDocumentCompressor]]:
    """LangChain's compressors at their own defaults, and the one line that takes the place of each."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # one of them imports langchain-community, which warns
        from langchain_classic.retrievers.document_compressors import (
            CrossEncoderReranker,
            EmbeddingsFilter,
            LLMChainExtractor,
            LLMChainFilter,
        )

        embeddings, encoder = EmbeddedEmbeddings(), CosinePairs()
        return {
            "LLMChainExtractor": (
                LLMChainExtractor.from_llm(model),
                DenoiseCompressor.from_llm(model, context=False),
            ),
            "LLMChainFilter": (
                LLMChainFilter.from_llm(model),
                DenoiseCompressor.from_llm(model),
            ),
            "EmbeddingsFilter": (
                EmbeddingsFilter(embeddings=embeddings),
                DenoiseCompressor.from_embeddings(embeddings),
            ),
            "CrossEncoderReranker": (
                CrossEncoderReranker(model=encoder),
                DenoiseCompressor.from_cross_encoder(encoder),
            ),
        }


def as_parts(model: BaseChatModel, sync: bool) -> dict[str, tuple[Part, Part]]:
    """`moves` as what `_peers` asks."""

    def part(compressor: BaseDocumentCompressor) -> Part:
        def asked(question: str, passages: Sequence[Passage]) -> list[tuple[str, str]]:
            return [
                (str(d.id), d.page_content)
                for d in ask(compressor, as_documents(passages), question, sync)
            ]

        return asked

    return {
        name: (part(theirs), part(ours))
        for name, (theirs, ours) in moves(model).items()
    }


def times(bench: Benchmark, all_work: list[Work]) -> None:
    """How long each takes for a question, with the model behind its clock."""
    timed = Timed(speed=50.0 if bench.options.quick else 1.0)
    for how in ("sync", "async"):
        for name, (theirs, ours) in as_parts(
            Scripted(server=timed), how == "sync"
        ).items():
            ours(*all_work[0][:2])  # warm up
            for label, part in ((name, theirs), (f"in place of {name}", ours)):
                seconds = run_of(part, timed.server, all_work).seconds / len(all_work)
                bench.row(
                    f"{label}, {len(all_work)} questions, {how}: time a question",
                    seconds,
                    "s",
                )


Refused = type(
    "Refused", (Exception,), {"status_code": 400}
)  # what a content filter answers
BAD = {
    "a content filter's 400": Refused("content_filter"),
    "an error": TimeoutError("the model is busy"),
    "neither yes nor no": "I would rather not say.",
    "a remark after the answer": "NO_OUTPUT\n\nThe text does not mention it.",
}


def survival(bench: Benchmark) -> None:
    """Twenty documents, one reply of twenty bad: how many of the other nineteen come through, word for word?"""
    documents = [
        Document(page_content=f"Fact {i} is known. So is more.", id=str(i))
        for i in range(20)
    ]
    own = {str(d.id): d.page_content for d in documents}
    for what, bad in BAD.items():

        def reply(messages: Sequence[Any], bad: Any = bad) -> str:
            prompt = "\n".join(str(m.text) for m in messages)
            if "Fact 7 " in prompt and isinstance(bad, Exception):
                raise bad
            if "Fact 7 " in prompt:
                return str(bad)
            if "Relevant (YES / NO)" in prompt:
                return "YES"
            if "Extracted relevant parts:" in prompt:
                return next(
                    f"Fact {i} is known." for i in range(20) if f"Fact {i} " in prompt
                )
            return "ALL"

        model = FunctionChatModel(reply=reply)
        pairs = moves(model)
        theirs = {name: pair[0] for name, pair in pairs.items() if "LLM" in name}
        each = S2ADenoiser(ChatModelLLM(model), options=Options(join_passages=False))
        ours = {"ours, a call a document": DenoiseCompressor(denoiser=each)}
        if isinstance(bad, Refused):
            ours["ours, in place of LLMChainExtractor"] = pairs["LLMChainExtractor"][1]
        for name, compressor in {**theirs, **ours}.items():
            for sync in (True, False):
                out, failed = [], ""
                try:
                    out = ask(compressor, documents, "What is known?", sync)
                except Exception as error:
                    failed = f" ({type(error).__name__})"
                texts = [
                    d.page_content.strip()
                    for d in out
                    if "denoise_fallback" not in d.metadata
                ]
                others = {
                    i
                    for i, text in own.items()
                    if i != "7" and any(t and t in text for t in texts)
                }
                junk = sum(not any(t in text for text in own.values()) for t in texts)
                label = f"one bad reply, {what}: {name}, {'sync' if sync else 'async'}"
                least, most = (19, 0) if name.startswith("ours") else (None, None)
                bench.row(
                    f"{label}: of the other 19 kept{failed}",
                    len(others),
                    "documents",
                    at_least=least,
                )
                bench.row(
                    f"{label}: texts that are not the source's",
                    junk,
                    "documents",
                    at_most=most,
                )


def main(argv: list[str] | None = None) -> Benchmark:
    bench = Benchmark("langchain_peers", arguments(__doc__ or "", argv))
    all_work = work(bench, limit=60)
    overhead(bench)
    concurrency(bench)
    imports(bench)
    survival(bench)
    records(bench, all_work)
    timed = Timed(speed=math.inf)
    quality(bench, timed.server, as_parts(Scripted(server=timed), True), all_work)
    times(bench, all_work[:3])
    return bench.finish()


if __name__ == "__main__":
    main()
