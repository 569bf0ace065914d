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
    path = None if bench.options.data is None else bench.options.data / "twostep.jsonl"
    known = dict(sets)
    if path is not None and not bench.options.quick:
        known["twostep"] = scored(
            two_steps(
                [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            ),
            read,
        )
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
        kept = [rule.choose(scores, t) for scores, t in zip(second, texts, strict=True)]
        gold = float(np.mean([s.gold(k) for s, k in zip(rows, kept, strict=True)]))
        bench.row(f"{name}: gold kept, default with a second look", gold, "share")
        text = float(np.mean([s.share(k) for s, k in zip(rows, kept, strict=True)]))
        bench.row(f"{name}: text kept, default with a second look", text, "share")


def two_steps(records: Sequence[Mapping[str, Any]]) -> tuple[Question, ...]:
    """Those of ``twostep.jsonl`` that nothing was chosen on."""
    made = [
        {
            **r,
            "passages": [
                {**p, "is_gold": p["id"] in r["needed"]} for p in r["passages"]
            ],
        }
        for r in records
    ]
    questions = parse_cases(enumerate(made, 1), labelled=True, skip_bad=False).questions
    return tuple(q for q in questions if place(q.id) >= FITTING)


def in_text(of: Scored, scores: NDArray[np.float32], share: float) -> float:
    """Gold kept in the best passages that fill ``share`` of the text, the last of them in part."""
    order = np.argsort(-scores, kind="stable")
    sizes = of.lengths[order]
    before = np.cumsum(sizes) - sizes
    part = np.clip((share * sizes.sum() - before) / np.maximum(sizes, 1), 0, 1)
    return float(part[of.labels[order]].mean())
