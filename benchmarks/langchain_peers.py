"""LangChain's own compressors and ours, on the same model, documents and machine.

Each of theirs runs at its own defaults beside the one line that takes its place. The model is the scripted one of
`s2a_cost`: it finds the same sentences needed whoever asks, so the figures say what each way of asking costs, not
how well a model chooses. Twenty real documents a question (HotpotQA: ten of its own, ten of
another question). Also measured: what the adapter costs over the core, and to import.
"""

from __future__ import annotations

import asyncio
import math
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from _peers import Part, import_rows, paired_ms, quality
from harness import Benchmark, arguments
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from s2a_cost import work

from denoise_core import Guard, Passage
from denoise_core.end import ENDDenoiser
from denoise_core.s2a import Options, S2ADenoiser
from denoise_core.testing import FunctionScorer
from denoise_lab.experiments.scripted_server import ScriptedServer, cl100k_encoder
from langchain_denoise import ChatModelLLM, DenoiseCompressor

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from function_chat_model import FunctionChatModel

THEIRS = (
    "import numpy; from langchain_core.documents import BaseDocumentCompressor; "
    "from langchain_core.callbacks import Callbacks; from langchain_core.messages import AIMessage; "
    "from langchain_core.runnables import RunnableSerializable"
)
EVERY_NAME = "every name it has"
OURS = {
    "langchain_denoise": "import langchain_denoise",
    "its DenoiseCompressor": "from langchain_denoise import DenoiseCompressor",
    EVERY_NAME: "from langchain_denoise import *",
}


def moves(
    model: BaseChatModel,
) -> dict[str, tuple[BaseDocumentCompressor, BaseDocumentCompressor]]:
    """LangChain's compressors at their own defaults, and the one line that takes the place of each."""
    with warnings.catch_warnings():
        # One of them imports langchain-community, which warns.
        warnings.simplefilter("ignore")
        from langchain_classic.retrievers.document_compressors import (
            LLMChainExtractor,
            LLMChainFilter,
        )

    own_words = Options(keep_context=False)
    extractor = DenoiseCompressor(
        denoiser=S2ADenoiser(ChatModelLLM(model), options=own_words)
    )
    return {
        "LLMChainExtractor": (LLMChainExtractor.from_llm(model), extractor),
        "LLMChainFilter": (
            LLMChainFilter.from_llm(model),
            DenoiseCompressor(model=model),
        ),
    }


def as_part(compressor: BaseDocumentCompressor) -> Part:
    """A compressor as what `_peers` asks."""

    def asked(question: str, passages: Sequence[Passage]) -> list[tuple[str, str]]:
        documents = [
            Document(
                page_content=p.text,
                id=p.id,
                metadata={"title": p.metadata.get("title", "")},
            )
            for p in passages
        ]
        kept = compressor.compress_documents(documents, question)
        return [(str(document.id), document.page_content) for document in kept]

    return asked


def overhead(bench: Benchmark) -> None:
    """The adapter over the core behind its guard: 20 documents of 2,000 characters, a scorer without cost."""
    text = ("word " * 400)[:2000]
    documents = [
        Document(page_content=text, id=str(i), metadata={"source": "x", "page": i})
        for i in range(20)
    ]
    passages = [
        Passage(d.page_content, str(d.id), metadata=d.metadata) for d in documents
    ]
    denoiser = Guard(
        ENDDenoiser(FunctionScorer(lambda query, text: 1.0), threshold=-math.inf)
    )
    compressor = DenoiseCompressor(denoiser=denoiser.denoiser)

    async def adapter() -> None:
        await compressor.acompress_documents(documents, "q")

    async def core() -> None:
        await denoiser.adenoise("q", passages)

    rounds = 20 if bench.options.quick else 500
    alone, more = paired_ms(
        lambda: denoiser.denoise("q", passages),
        lambda: compressor.compress_documents(documents, "q"),
        rounds,
    )
    bench.row(
        "core alone behind its guard, 20 documents of 2,000 characters", alone, "CPU ms"
    )
    bench.row(
        "adapter over the core, sync",
        more,
        "CPU ms",
        at_most=0.5,
    )
    with asyncio.Runner() as runner:
        _, more = paired_ms(
            lambda: runner.run(core()), lambda: runner.run(adapter()), rounds
        )
    bench.row(
        "adapter over the core, async",
        more,
        "CPU ms",
        at_most=0.5,
    )


def main(argv: list[str] | None = None) -> Benchmark:
    bench = Benchmark("langchain_peers", arguments(__doc__ or "", argv))
    overhead(bench)
    import_rows(bench, THEIRS, "langchain_core and numpy", OURS, free=EVERY_NAME)
    server = ScriptedServer(cl100k_encoder())

    def reply(messages: Sequence[BaseMessage]) -> str:
        return server.reply("\n".join(message.text for message in messages))

    pairs = {}
    for name, (theirs, ours) in moves(FunctionChatModel(reply=reply)).items():
        pairs[name] = (as_part(theirs), as_part(ours))
    quality(bench, server, pairs, work(bench, limit=60))
    return bench.finish()


if __name__ == "__main__":
    main()
