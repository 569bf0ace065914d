"""LangChain's own compressors and ours, on the same model, documents and machine.

Each of LangChain's runs at its defaults, next to the one line that replaces it. The scripted model is that of
`s2a_cost`: it finds the same sentences needed for every method, so the figures compare ways of asking, not how
well a model selects. Twenty real documents a question (HotpotQA: ten of its own, ten of another question). Also:
what the adapter costs over the core.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from _peers import PassageFilter, measure_overhead, report_filters
from _s2a_shared import scripted_questions
from harness import Benchmark
from langchain_core.documents import BaseDocumentCompressor, Document

from denoise_core import Guard, Passage
from denoise_core.end import ENDDenoiser
from denoise_core.s2a import Options, S2ADenoiser
from denoise_core.testing import FunctionScorer
from denoise_lab.experiments.scripted_server import (
    ScriptedServer,
    cl100k_encoder,
    langchain_model,
)
from langchain_denoise import ChatModelLLM, DenoiseCompressor


def main() -> None:
    bench = Benchmark("langchain_peers", __doc__)
    report_overhead(bench)
    server = ScriptedServer(cl100k_encoder())
    pairs = build_pairs(langchain_model(server))
    report_filters(bench, server, pairs, scripted_questions(bench, limit=60))
    bench.finish()


def build_pairs(model: Any) -> dict[str, tuple[PassageFilter, PassageFilter]]:
    """Return LangChain's compressors at their defaults, each with the line that replaces it."""
    with warnings.catch_warnings():
        # One of them imports langchain-community, which warns.
        warnings.simplefilter("ignore")
        from langchain_classic.retrievers.document_compressors import (
            LLMChainExtractor,
            LLMChainFilter,
        )

    without_context = S2ADenoiser(
        ChatModelLLM(model), options=Options(keep_context=False)
    )
    return {
        "LLMChainExtractor": (
            as_filter(LLMChainExtractor.from_llm(model)),
            as_filter(DenoiseCompressor(denoiser=without_context)),
        ),
        "LLMChainFilter": (
            as_filter(LLMChainFilter.from_llm(model)),
            as_filter(DenoiseCompressor(model=model)),
        ),
    }


def as_filter(compressor: BaseDocumentCompressor) -> PassageFilter:
    def filter_passages(question: str, passages: Sequence[Passage]) -> list[Passage]:
        documents = []
        for passage in passages:
            metadata = {"title": passage.metadata.get("title", "")}
            documents.append(
                Document(page_content=passage.text, id=passage.id, metadata=metadata)
            )
        kept = compressor.compress_documents(documents, question)
        return [Passage(document.page_content, str(document.id)) for document in kept]

    return filter_passages


def report_overhead(bench: Benchmark) -> None:
    """Add what the adapter costs over the core: 20 documents of 2,000 characters, a scorer without cost."""
    text = ("word " * 400)[:2000]
    documents = []
    passages = []
    for number in range(20):
        metadata = {"source": "x", "page": number}
        documents.append(Document(page_content=text, id=str(number), metadata=metadata))
        passages.append(Passage(text, str(number), metadata=metadata))
    denoiser = ENDDenoiser(FunctionScorer(lambda query, text: 1.0), threshold=-math.inf)
    core = Guard(denoiser)
    compressor = DenoiseCompressor(denoiser=denoiser)
    milliseconds = measure_overhead(
        lambda: core.denoise("q", passages),
        lambda: compressor.compress_documents(documents, "q"),
        rounds=20 if bench.quick else 500,
    )
    bench.row("adapter over the core, sync", milliseconds, "CPU ms", at_most=0.5)


if __name__ == "__main__":
    main()
