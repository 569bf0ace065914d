"""The second look of the default: gold kept with and without it, in as much text, and by ``keep="auto"``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.embedded import default_scale
from denoise_core.embedded.encoder import SentenceEncoder
from denoise_core.evaluate.datasets import parse_cases
from denoise_core.evaluate.metrics import bootstrap_interval
from denoise_core.question import Question
from denoise_lab.experiments import Bench
from denoise_lab.experiments.default_choices import Scored, scored
from denoise_lab.split import FITTING, place

TWO_STEPS = ("MuSiQue", "HotpotQA", "2Wiki", "twostep")
SHARES = (0.3, 0.5)
GAIN, LOSS = 0.03, 0.01  # asked of questions of two steps, and allowed elsewhere


def with_second_look(
    bench: Bench, sets: Mapping[str, Sequence[Scored]], read: SentenceEncoder
) -> None:
    """Rows of each set, and of ``twostep`` where there is data: the half on which nothing was chosen."""
    data_folder = bench.options.data
    known = dict(sets)
    if data_folder is not None and not bench.options.quick:
        file_text = (data_folder / "twostep.jsonl").read_text("utf-8")
        records = [json.loads(line) for line in file_text.splitlines()]
        questions = two_steps(records)
        known["twostep"] = scored(questions, read)
    for name, rows in known.items():
        texts = [[p.text_with_header for p in s.question.passages] for s in rows]
        first = [s.by["default"] for s in rows]
        second = [
            read.boost_multi_hop(s.question.text, t, f)
            for s, t, f in zip(rows, texts, first, strict=True)
        ]
        for share in SHARES:
            without, withs = (
                np.array(
                    [
                        in_text(s, scores, share)
                        for s, scores in zip(rows, by, strict=True)
                    ]
                )
                for by in (first, second)
            )
            of = f"{name}: gold in {share:g} of the text"
            bench.row(
                f"{of}, without a second look",
                float(without.mean()),
                "share",
                interval=bootstrap_interval(without),
            )
            least = GAIN if name in TWO_STEPS else -LOSS
            gain = withs - without
            bench.row(
                f"{of}, gain by it",
                float(gain.mean()),
                "share",
                interval=bootstrap_interval(gain),
                at_least=least,
            )
        rule = default_scale().rule()
        gold_shares = []
        text_shares = []
        for row, scores, row_texts in zip(rows, second, texts, strict=True):
            kept = rule.choose(scores, row_texts)
            gold_shares.append(row.gold(kept))
            text_shares.append(row.share(kept))
        gold = float(np.mean(gold_shares))
        bench.row(f"{name}: gold kept, default with a second look", gold, "share")
        text = float(np.mean(text_shares))
        bench.row(f"{name}: text kept, default with a second look", text, "share")


def two_steps(records: Sequence[Mapping[str, Any]]) -> tuple[Question, ...]:
    """Those of ``twostep.jsonl`` that nothing was chosen on."""
    made = []
    for record in records:
        passages = []
        for passage in record["passages"]:
            is_gold = passage["id"] in record["needed"]
            passages.append({**passage, "is_gold": is_gold})
        made.append({**record, "passages": passages})
    numbered_records = enumerate(made, 1)
    cases = parse_cases(numbered_records, labelled=True, skip_bad=False)
    held_out_questions = []
    for question in cases.questions:
        if place(question.id) >= FITTING:
            held_out_questions.append(question)
    return tuple(held_out_questions)


def in_text(of: Scored, scores: NDArray[np.float32], share: float) -> float:
    """Gold kept in the best passages that fill ``share`` of the text, the last of them in part."""
    order = np.argsort(-scores, kind="stable")
    sizes = of.lengths[order]
    before = np.cumsum(sizes) - sizes
    text_left = share * sizes.sum() - before
    part = np.clip(text_left / np.maximum(sizes, 1), 0, 1)
    gold_parts = part[of.labels[order]]
    return float(gold_parts.mean())
