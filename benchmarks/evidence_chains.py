"""Chains against plain retrieval: does the evidence that bears the answer fit into a budget of tokens?

OTT-QA (table rows and the pages their cells link to) and MuSiQue (paragraphs). Each question searches its own
20 or so passages, and, in a second part, the passages of all questions together. Found: a gold passage that
holds the answer is within the budget; complete: all gold passages are. Tokens are counted by length, four
characters each, and a passage that does not fit is passed over, for both methods alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import Benchmark, arguments, read_data_set

from denoise_core import Passage
from denoise_core.augmenter.knowledge import BM25Retriever, ChainRetriever
from denoise_core.augmenter.knowledge.chain import Chain, pack_chains
from denoise_core.text.words import split_words

BUDGETS = (150, 250, 400, 600)
TARGET = 0.10  # OTT-QA, each question in its own passages
ALL = 1_000_000


@dataclass
class Question:
    text: str
    passages: tuple[Passage, ...]
    gold: frozenset[str]
    bearing: frozenset[str]


def questions(rows: Sequence[dict[str, Any]]) -> list[Question]:
    found = []
    for row in rows:
        answers = [
            f" {' '.join(split_words(a))} " for a in row["answers"] if split_words(a)
        ]
        passages, gold, bearing = [], set(), set()
        for p in row["passages"]:
            metadata = {"title": p["title"], "kind": p.get("kind", "passage")}
            passages.append(
                Passage(p["text"], f"{row['id']}/{p['id']}", metadata=metadata)
            )
            if p["is_gold"]:
                gold.add(passages[-1].id)
                said = f" {' '.join(split_words(p['title'] + ' ' + p['text']))} "
                if any(a in said for a in answers):
                    bearing.add(passages[-1].id)
        if bearing:
            found.append(
                Question(
                    row["question"],
                    tuple(passages),
                    frozenset(gold),
                    frozenset(bearing),
                )
            )
    return found


def plain(found: Sequence[Passage], tokens: int) -> set[str]:
    """The passages in their order, packed as the chains are."""
    return {p.id for p, _ in pack_chains([Chain((p,), (), 0.0) for p in found], tokens)}


def within_own(asked: list[Question]) -> dict[tuple[str, int], list[tuple[bool, bool]]]:
    found: dict[tuple[str, int], list[tuple[bool, bool]]] = {}
    for q in asked:
        bm25 = BM25Retriever(q.passages, k=ALL).retrieve(q.text)
        chains = ChainRetriever(q.passages, start_count=ALL).chains(q.text)
        _note(found, q, bm25, chains)
    return found


def within_all(asked: list[Question]) -> dict[tuple[str, int], list[tuple[bool, bool]]]:
    """One index of all passages; a text that several questions share stands once, with all its ids."""
    first: dict[tuple[str, str], str] = {}
    pool: list[Passage] = []
    same: dict[str, str] = {}
    for q in asked:
        for p in q.passages:
            key = (p.metadata["title"], p.text)
            if key not in first:
                first[key] = p.id
                pool.append(p)
            same[p.id] = first[key]
    bm25 = BM25Retriever(pool, k=200)
    linked = ChainRetriever(pool)
    found: dict[tuple[str, int], list[tuple[bool, bool]]] = {}
    for q in asked:
        gold, bearing = (frozenset(same[i] for i in ids) for ids in (q.gold, q.bearing))
        here = Question(q.text, (), gold, bearing)
        _note(found, here, bm25.retrieve(q.text), linked.chains(q.text))
    return found


def _note(
    found: dict[Any, Any], q: Question, bm25: Sequence[Passage], chains: Sequence[Chain]
) -> None:
    for tokens in BUDGETS:
        for name, kept in (
            ("BM25", plain(bm25, tokens)),
            ("chains", {p.id for p, _ in pack_chains(chains, tokens)}),
        ):
            found.setdefault((name, tokens), []).append(
                (bool(q.bearing & kept), q.gold <= kept)
            )


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__.splitlines()[0], argv)
    bench = Benchmark("evidence_chains", options)
    rng = np.random.default_rng(options.seed)
    if options.quick:
        _report(bench, "made up", within_own(questions(_made_up())), rng, None)
        return bench.finish()
    for name, file, target in (
        ("OTT-QA", "ottqa", TARGET),
        ("MuSiQue", "musique", None),
    ):
        asked = questions(read_data_set(options.data, file))
        bench.row(f"{name}: questions with answer-bearing gold", len(asked), "count")
        _report(bench, f"{name}, own passages", within_own(asked), rng, target)
        _report(bench, f"{name}, all passages together", within_all(asked), rng, None)
    return bench.finish()


def _report(
    bench: Benchmark,
    name: str,
    found: Any,
    rng: np.random.Generator,
    target: float | None,
) -> None:
    for tokens in BUDGETS:
        values = {
            m: np.array(found[m, tokens], dtype=float) for m in ("BM25", "chains")
        }
        for at, what in enumerate(("found", "complete")):
            for method, value in values.items():
                bench.row(
                    f"{name}, {tokens} tokens: {what}, {method}",
                    value[:, at].mean(),
                    "share",
                )
        gain = values["chains"][:, 0] - values["BM25"][:, 0]
        draws = [
            gain[rng.integers(0, len(gain), len(gain))].mean() for _ in range(1000)
        ]
        ends = (float(np.percentile(draws, 2.5)), float(np.percentile(draws, 97.5)))
        row = f"{name}, {tokens} tokens: found, chains less BM25"
        bench.row(
            row,
            gain.mean(),
            "share",
            at_least=target,
            interval=ends,
        )


def _made_up() -> list[dict[str, Any]]:
    towns = ["Arden", "Belmor", "Corvik", "Dunwel", "Esker", "Farlow"]
    rows = []
    for n, town in enumerate(towns):
        passages = [
            {
                "id": "row",
                "title": "Rovers - Players",
                "kind": "row",
                "is_gold": True,
                "text": f"Cap is {n} ; Home is {town}",
            },
            {
                "id": "page",
                "title": town,
                "is_gold": True,
                "text": f"{town} is a place whose river is the Water{n}.",
            },
        ]
        for m in range(12):
            text = f"The rovers club {m} has players with a cap and a home near a lake and a mill."
            passages.append(
                {
                    "id": f"other{m}",
                    "title": f"Club {m}",
                    "is_gold": False,
                    "text": text,
                }
            )
        rows.append(
            {
                "id": str(n),
                "question": f"Which river has the home of the rovers player with cap {n}?",
                "answers": [f"Water{n}"],
                "passages": passages,
            }
        )
    return rows


if __name__ == "__main__":
    main()
