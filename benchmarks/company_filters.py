"""Company files in a retriever's pieces: what each way of filtering keeps, in how many tokens and milliseconds.

Peers run at their own defaults: LangChain's retrievers return four pieces, LlamaIndex's two. ``cosine`` is the
encoder that ships. ``at as much text`` gives a peer as many characters as the default keeps of each question.
Times are those of a second call, when the passages are known. A cross-encoder is measured where ``CROSS_ENCODER``
names a folder with one. Needed text and its title as in ``company.py``; the unseen set was written before anything
was measured on it.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from company import (
    DEVELOPMENT,
    UNSEEN,
    CompanyQuestion,
    QuestionOutcome,
    file_pieces,
    measure_outcome,
    only_answerable,
    read_questions,
    report_kept,
    split_files,
)
from harness import Benchmark

from denoise_core.embedded import default_denoiser, embedding_scorer
from denoise_core.end import ENDDenoiser
from denoise_core.end.selection import TokenLimit, TopK
from denoise_core.protocols import Scorer
from denoise_core.result import DenoiseResult
from denoise_core.scorers import BM25Scorer, CrossEncoderScorer
from denoise_core.text.token_budget import estimate_tokens
from denoise_core.types import Passage

WITH_TITLE = "needed text with its title"
LANGCHAIN_K = 4
LLAMAINDEX_K = 2

Filter: TypeAlias = Callable[[str, Sequence[Passage]], DenoiseResult]


def main() -> None:
    bench = Benchmark("company_filters", __doc__)
    limit = 6 if bench.quick else None
    sets = {"unseen set": read_questions(UNSEEN, limit)}
    if bench.data is not None:
        development = read_questions(bench.data / "company", limit)
        sets = {DEVELOPMENT: development, **sets}
    for set_name, questions in sets.items():
        answerable = only_answerable(questions)
        bench.row(f"{set_name}: questions", len(answerable), "questions")
        rows = bench.under(f"{set_name}, ")
        for filter_name, filter_passages in build_filters().items():
            report_filter(rows.under(f"{filter_name}: "), answerable, filter_passages)
        report_equal_text(rows, answerable)
    bench.about["cross-encoder"] = os.environ.get("CROSS_ENCODER", "not measured")
    bench.about["tuned on"] = "the development half; nothing on the unseen set"
    bench.finish()


def build_filters() -> Mapping[str, Filter]:
    denoisers = {
        "no filter": ENDDenoiser(BM25Scorer(), threshold=-math.inf),
        f"BM25, top {LANGCHAIN_K}": keep_top(BM25Scorer(), LANGCHAIN_K),
        f"cosine, top {LLAMAINDEX_K}": keep_top(embedding_scorer(), LLAMAINDEX_K),
        f"cosine, top {LANGCHAIN_K}": keep_top(embedding_scorer(), LANGCHAIN_K),
    }
    if folder := os.environ.get("CROSS_ENCODER"):
        reranker = CrossEncoderScorer(folder)
        name = f"cross-encoder, top {LANGCHAIN_K}"
        denoisers[name] = keep_top(reranker, LANGCHAIN_K)
    denoisers["the default"] = default_denoiser()
    return {name: denoiser.denoise for name, denoiser in denoisers.items()}


def keep_top(scorer: Scorer, count: int) -> ENDDenoiser:
    return ENDDenoiser(scorer, keep=TopK(count))


def report_filter(
    bench: Benchmark,
    questions: Sequence[CompanyQuestion],
    filter_passages: Filter,
) -> None:
    outcomes = []
    milliseconds = []
    tokens = []
    for question in questions:
        passages = split_files(question.files, file_pieces)
        result = filter_passages(question.text, passages)
        start_time = time.perf_counter()
        filter_passages(question.text, passages)
        milliseconds.append(1000 * (time.perf_counter() - start_time))
        outcomes.append(measure_outcome(question, result))
        kept_texts = [passage.text_with_header for passage in result.passages]
        tokens.append(sum(map(estimate_tokens, kept_texts)))
    report_kept(bench, outcomes, both_name=WITH_TITLE)
    bench.mean("tokens", tokens, "tokens a question")
    bench.row("time", float(np.median(milliseconds)), "ms a question")


def report_equal_text(bench: Benchmark, questions: Sequence[CompanyQuestion]) -> None:
    """Give BM25 and cosine as many characters of each question as the default keeps."""
    default = default_denoiser()
    scorers: dict[str, Scorer] = {"BM25": BM25Scorer(), "cosine": embedding_scorer()}
    outcomes: dict[str, list[QuestionOutcome]] = {name: [] for name in scorers}
    for question in questions:
        passages = split_files(question.files, file_pieces)
        kept = default.denoise(question.text, passages)
        kept_characters = sum(len(passage.text) for passage in kept.passages)
        limit = TokenLimit(kept_characters, count=len)
        for name, scorer in scorers.items():
            result = ENDDenoiser(scorer, keep=limit).denoise(question.text, passages)
            outcomes[name].append(measure_outcome(question, result))
    for name, of_scorer in outcomes.items():
        rows = bench.under(f"{name} at as much text: ")
        report_kept(rows, of_scorer, both_name=WITH_TITLE)


if __name__ == "__main__":
    main()
