"""Rows of the default's benchmark on passages that answer differently: what `WithConflicts` names and keeps.

PoisonedNQ and RAMDocs have passages with a wrong answer; in NQ and XQuAD one passage holds the answer, so that any
conflict named there is a false one. The reader was trained on none of these questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from _bench_reader import bench_reader
from harness import Benchmark, Options, read

from denoise_core.embedded import WithConflicts, default_denoiser
from denoise_core.evaluate.metrics import bootstrap
from denoise_lab.experiments.default_choices import Scored
from denoise_lab.span_reader.measure import contained

QUESTIONS = 40  # of a set
FILES = {"PoisonedNQ": "poisoned_nq", "RAMDocs": "ramdocs"}


def conflicts(bench: Benchmark, options: Options, sets: Mapping[str, Sequence[Scored]]) -> None:
    reader, kept = bench_reader()
    inner = default_denoiser()
    both = WithConflicts(inner, reader=reader)
    for name in ("PoisonedNQ", "RAMDocs", "NQ", "XQuAD"):
        if name not in sets:
            continue
        wrong = {}
        if name in FILES:
            wrong = {r["id"]: r["wrong_answers"] for r in read(options.data, FILES[name])}
        named, together, before, after, share = [], [], [], [], []
        for q in [s.question for s in sets[name]][:QUESTIONS]:
            alone, result = inner.denoise(q.text, q.passages), both.denoise(q.text, q.passages)
            kept.forget()
            named.append(bool(result.conflicts))
            said = [c.answer for c in result.conflicts]
            if wrong.get(q.id):
                right = any(contained(a, q.answers) for a in said)
                together.append(right and any(contained(a, wrong[q.id]) for a in said))
            before.append(np.mean([g in {p.id for p in alone.passages} for g in q.gold]))
            after.append(np.mean([g in {p.id for p in result.passages} for g in q.gold]))
            length = sum(len(p.text) for p in q.passages)
            share.append(sum(len(p.text) for p in result.passages) / max(1, length))
        lead = f"{name}, conflicts:"
        values = np.array(named, dtype=np.float64)
        bench.row(f"{lead} questions with answers that differ", values.mean(), "share", interval=bootstrap(values))
        if together:
            values = np.array(together, dtype=np.float64)
            bench.row(
                f"{lead} a right and a wrong answer both named", values.mean(), "share", interval=bootstrap(values)
            )
        bench.row(f"{lead} gold kept, default alone", np.mean(before), "share")
        bench.row(f"{lead} gold kept", np.mean(after), "share")
        bench.row(f"{lead} text kept", np.mean(share), "share")
