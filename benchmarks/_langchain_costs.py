"""What the LangChain adapter costs: over the core, to import, in its records; and how many calls go at once."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Sequence

from _peers import import_rows, paired_ms
from harness import Benchmark
from langchain_core.documents import BaseDocumentCompressor, Document
from s2a_cost import Work

from denoise_core import Guard, Passage
from denoise_core.end import ENDDenoiser
from denoise_core.runtime.record import RECORD_BYTES
from denoise_core.s2a import S2ADenoiser
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.testing import FunctionScorer
from langchain_denoise import ChatModelLLM, DenoiseCompressor
from langchain_denoise.convert.documents import RECORD_KEYS
from langchain_denoise.testing import FunctionChatModel

THEIRS = (
    "import numpy; from langchain_core.documents import BaseDocumentCompressor; "
    "from langchain_core.callbacks import Callbacks; from langchain_core.messages import AIMessage; "
    "from langchain_core.runnables import RunnableSerializable"
)


def as_documents(passages: Sequence[Passage]) -> list[Document]:
    return [
        Document(
            page_content=p.text,
            id=p.id,
            metadata={"title": p.metadata.get("title", "")},
        )
        for p in passages
    ]


def ask(
    compressor: BaseDocumentCompressor,
    documents: list[Document],
    query: str,
    sync: bool,
) -> list[Document]:
    if sync:
        return list(compressor.compress_documents(documents, query))
    return list(asyncio.run(compressor.acompress_documents(documents, query)))


def overhead(bench: Benchmark) -> None:
    """The adapter over the core behind its guard: 20 documents of 2,000 characters, a scorer that costs nothing.

    See `paired_ms`.
    """
    documents = [
        Document(
            page_content=("word " * 400)[:2000],
            id=str(i),
            metadata={"source": "x", "page": i},
        )
        for i in range(20)
    ]
    denoiser = Guard(
        ENDDenoiser(FunctionScorer(lambda query, text: 1.0), threshold=-math.inf)
    )
    compressor = DenoiseCompressor(denoiser=denoiser.denoiser)
    passages = [
        Passage(d.page_content, str(d.id), metadata=d.metadata) for d in documents
    ]

    async def adapter() -> None:
        await compressor.acompress_documents(documents, "q")

    async def core() -> None:
        await denoiser.adenoise("q", passages)

    rounds = 20 if bench.options.quick else 500
    goal = None if bench.options.quick else 0.5
    alone, more = paired_ms(
        lambda: denoiser.denoise("q", passages),
        lambda: compressor.compress_documents(documents, "q"),
        rounds,
    )
    bench.row(
        "core alone behind its guard, 20 documents of 2,000 characters", alone, "CPU ms"
    )
    bench.row("adapter over the core, sync", more, "CPU ms", at_most=goal)
    with asyncio.Runner() as runner:
        _, more = paired_ms(
            lambda: runner.run(core()), lambda: runner.run(adapter()), rounds
        )
    bench.row("adapter over the core, async", more, "CPU ms", at_most=goal)


def records(bench: Benchmark, all_work: list[Work]) -> None:
    """Bytes of the largest record, sentence by sentence, beside the text it stands for."""
    for detail, goal in (("spans", RECORD_BYTES), ("full", None)):
        compressor = DenoiseCompressor(
            scorer=BM25Scorer(), keep=0.3, chunks="sentences", record=detail
        )
        sizes, texts = [], 0
        for question, passages, _, _ in all_work:
            for document in compressor.compress_documents(
                as_documents(passages), question
            ):
                sizes.append(
                    len(
                        json.dumps(
                            {k: document.metadata.get(k) for k in RECORD_KEYS},
                            ensure_ascii=False,
                        ).encode()
                    )
                )
                texts += len(document.page_content.encode())
        bench.row(f"largest record, {detail}", max(sizes), "bytes", at_most=goal)
        bench.row(f"records over text, {detail}", sum(sizes) / texts, "ratio")


def concurrency(bench: Benchmark) -> None:
    """Twenty documents, 0.1 s a call, ten at once: two calls' time."""
    model = FunctionChatModel(reply=lambda messages: "1", seconds=0.1)
    denoiser = S2ADenoiser(ChatModelLLM(model), variant="select", max_concurrency=20)
    compressor = DenoiseCompressor(denoiser=denoiser, max_concurrency=10)
    documents = [
        Document(page_content=f"Sentence {i}. Another.", id=str(i)) for i in range(20)
    ]
    ask(compressor, documents[:1], "q", True)
    for sync in (True, False):
        started = time.perf_counter()
        ask(compressor, documents, "q", sync)
        seconds = time.perf_counter() - started
        goal = None if bench.options.quick else 0.3
        bench.row(
            f"20 calls of 0.1 s, 10 at once, {'sync' if sync else 'async'}",
            seconds,
            "s",
            at_most=goal,
        )


def imports(bench: Benchmark) -> None:
    """Ours beyond what it uses of langchain-core and numpy."""
    ours = {
        "langchain_denoise": "import langchain_denoise",
        "its DenoiseCompressor": "from langchain_denoise import DenoiseCompressor",
        "every name it has": "from langchain_denoise import *",
    }
    import_rows(
        bench, THEIRS, "langchain_core and numpy", ours, free="every name it has"
    )
