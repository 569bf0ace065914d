"""Chains and plain retrieval: does the passage that has the answer fit into a budget of tokens?

OTT-QA (table rows and the pages that their cells link to) and MuSiQue (paragraphs). Each question searches its own
20 or so passages, and, in a second part, the passages of all questions together. Found: a gold passage that has
the answer is within the budget. Tokens are counted by length, four characters each, and a passage that does not
fit is passed over, for both methods alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from harness import Benchmark, read_data_set

from denoise_core import Passage
from denoise_core.augmenter.knowledge import BM25Retriever, ChainRetriever
from denoise_core.augmenter.knowledge.chain import Chain, pack_chains
from denoise_core.evaluate.metrics import contains_answer
from denoise_lab.experiments.real_sets import quick_questions

BUDGETS = (150, 250, 400, 600)
# File, and least gain in a question's own passages.
SETS = {"OTT-QA": ("ottqa", 0.10), "MuSiQue": ("musique", None)}
NO_LIMIT = 1_000_000
POOL_COUNT = 200  # passages that BM25 returns from all questions' passages

FoundByBudget: TypeAlias = dict[tuple[str, int], list[float]]
"""By method and budget, one value a question: 1 when a passage with the answer is found."""


@dataclass(frozen=True)
class AnswerQuestion:
    """A question; ``answer_ids`` names the gold passages that have the answer."""

    text: str
    passages: Sequence[Passage]
    answer_ids: set[str]


def main() -> None:
    bench = Benchmark("evidence_chains", __doc__)
    if bench.quick:
        questions = []
        for question in quick_questions():
            shown = AnswerQuestion(question.text, question.passages, set(question.gold))
            questions.append(shown)
        report_found(bench, "shipped questions", search_own_passages(questions))
    else:
        for name, (file_name, least) in SETS.items():
            questions = read_questions(bench.data, file_name)
            own = search_own_passages(questions)
            report_found(bench, f"{name}, own passages", own, least)
            together = search_all_passages(questions)
            report_found(bench, f"{name}, all passages together", together)
    bench.finish()


def read_questions(data: Path | None, file_name: str) -> list[AnswerQuestion]:
    """Read the questions that have a gold passage with the answer."""
    questions = []
    for record in read_data_set(data, file_name):
        passages = []
        gold_ids = set()
        for row in record["passages"]:
            metadata = {"title": row["title"], "kind": row.get("kind", "passage")}
            passage_id = f"{record['id']}/{row['id']}"
            passages.append(Passage(row["text"], passage_id, metadata=metadata))
            text = f"{row['title']} {row['text']}"
            if row["is_gold"] and contains_answer(text, record["answers"]):
                gold_ids.add(passage_id)
        if gold_ids:
            question = AnswerQuestion(record["question"], passages, gold_ids)
            questions.append(question)
    return questions


def search_own_passages(questions: Sequence[AnswerQuestion]) -> FoundByBudget:
    found_by_budget = empty_found()
    for question in questions:
        bm25 = BM25Retriever(question.passages, k=NO_LIMIT)
        chains = ChainRetriever(question.passages, start_count=NO_LIMIT)
        passages = bm25.retrieve(question.text)
        note_found(
            found_by_budget, question.answer_ids, passages, chains.chains(question.text)
        )
    return found_by_budget


def search_all_passages(questions: Sequence[AnswerQuestion]) -> FoundByBudget:
    """Search one index of all passages; a passage that several questions share is there once."""
    pool: dict[tuple[str, str], Passage] = {}
    shared_ids = {}
    for question in questions:
        for passage in question.passages:
            key = (passage.metadata["title"], passage.text)
            pool.setdefault(key, passage)
            shared_ids[passage.id] = pool[key].id
    bm25 = BM25Retriever(list(pool.values()), k=POOL_COUNT)
    chains = ChainRetriever(list(pool.values()))
    found_by_budget = empty_found()
    for question in questions:
        answer_ids = {shared_ids[passage_id] for passage_id in question.answer_ids}
        passages = bm25.retrieve(question.text)
        note_found(found_by_budget, answer_ids, passages, chains.chains(question.text))
    return found_by_budget


def empty_found() -> FoundByBudget:
    found_by_budget: FoundByBudget = {}
    for budget in BUDGETS:
        found_by_budget["BM25", budget] = []
        found_by_budget["chains", budget] = []
    return found_by_budget


def note_found(
    found_by_budget: FoundByBudget,
    answer_ids: set[str],
    passages: Sequence[Passage],
    chains: Sequence[Chain],
) -> None:
    """Note whether the best passages, and the best chains, within each budget have the answer."""
    single_passages = [Chain((passage,), (), 0.0) for passage in passages]
    for budget in BUDGETS:
        for method, ranked in (("BM25", single_passages), ("chains", chains)):
            packed_ids = {passage.id for passage, _ in pack_chains(ranked, budget)}
            is_found = not answer_ids.isdisjoint(packed_ids)
            found_by_budget[method, budget].append(float(is_found))


def report_found(
    bench: Benchmark,
    name: str,
    found_by_budget: FoundByBudget,
    least_gain: float | None = None,
) -> None:
    for budget in BUDGETS:
        rows = bench.under(f"{name}, {budget} tokens: found, ")
        bm25 = found_by_budget["BM25", budget]
        chains = found_by_budget["chains", budget]
        rows.mean("BM25", bm25)
        rows.mean("chains", chains)
        gain = np.subtract(chains, bm25)
        rows.mean("chains less BM25", gain, at_least=least_gain)


if __name__ == "__main__":
    main()
