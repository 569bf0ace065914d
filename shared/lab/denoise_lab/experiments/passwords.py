"""NoisyRetrieval with a model on this machine: everything in, LLM-Discrim, END, the gold chunk alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from denoise_core.end.probe import Probe
from denoise_core.end.scorer import ProbeScorer
from denoise_core.evaluate.metrics import recall_at, wilson
from denoise_core.question import Question
from denoise_core.types import Message, Reply
from denoise_lab.batched import complete_batch
from denoise_lab.experiments.end import Loaded
from denoise_lab.experiments.flows import Batched, together
from denoise_lab.noisy_retrieval import LEVELS, NoisyRetrieval
from denoise_lab.probe_data import CHARACTERS, noisy_questions
from denoise_lab.protocols.noisy import NAMES, SHARE, case_of, said_of, systems

SYSTEMS = ("all in", "LLM-Discrim", "END", "oracle")


LONG = 8_000  # characters


SEED = 100  # apart from the seeds that probes are fitted with


@dataclass(frozen=True)
class Outcome:
    """One question under one system. ``read`` are tokens that went in, ``whole`` the same in passes of all layers.

    ``said`` is "right", "another's" (a distractor's password), "unknown" or "other".
    """

    said: str
    read: int
    whole: float

    @property
    def right(self) -> bool:
        return self.said == "right"


@dataclass(frozen=True)
class Cell:
    """One level of one set: outcomes by system in the questions' order, and the probe's recall for each."""

    level: int
    extended: bool
    outcomes: dict[str, list[Outcome]]
    recall: NDArray[np.float64]

    @property
    def label(self) -> str:
        return f"{NAMES[self.extended]}, level {self.level}"

    def right(self, system: str) -> NDArray[np.float64]:
        return np.array([o.right for o in self.outcomes[system]], dtype=np.float64)

    def share(self, system: str, said: str) -> float:
        return float(np.mean([o.said == said for o in self.outcomes[system]]))


def measure(
    loaded: Loaded, probe: Probe, questions: Sequence[Question], level: int, extended: bool, *, batch: int = 8
) -> Cell:
    """All systems on the same questions."""
    reading = loaded.reading()
    scorer = ProbeScorer(reading, probe)
    cases = [case_of(q, level) for q in questions]
    llm = Batched(_by_length(partial(complete_batch, loaded.llm)), size=batch)
    outcomes = {}
    for name, system in systems({"END": scorer}).items():
        told = together([system(c) for c in cases], [llm] * len(cases))
        read = [trace.usage.input_tokens for _, trace in told]
        outcomes[name] = [
            Outcome(said_of(answer.text, c), n, n) for (answer, _), c, n in zip(told, cases, read, strict=True)
        ]
    recall, early = [], []
    for q in questions:
        texts = [p.text for p in q.passages]
        recall.append(recall_at(scorer.score(q.text, texts), q.labels, [0] * len(texts), SHARE)[0])
        early.append(sum(len(p.ids) for p in reading.prompts([(q.text, t) for t in texts])[0]))
    depth = probe.reading.layer / reading.layers
    outcomes["END"] = [
        Outcome(o.said, o.read + n, o.whole + n * depth) for o, n in zip(outcomes["END"], early, strict=True)
    ]
    return Cell(level, extended, {s: outcomes[s] for s in SYSTEMS}, np.array(recall))


def _by_length(generate: Callable[..., list[Reply]]) -> Callable[..., list[Reply]]:
    """Long conversations one by one: a batch of them would take much memory."""

    def by_length(conversations: Sequence[Sequence[Message]]) -> list[Reply]:
        if max(sum(len(m.content) for m in c) for c in conversations) > LONG:
            return [generate([c])[0] for c in conversations]
        return generate(conversations)

    return by_length


def cells(
    loaded: Loaded, probe: Probe, prose: str, counts: dict[bool, int], *, seed: int, characters: int = CHARACTERS
) -> Iterator[Cell]:
    for extended, n in counts.items():
        for level in LEVELS:
            kind = NoisyRetrieval(level, extended, characters=characters)
            questions = noisy_questions(kind, prose, n, seed=SEED + seed, test=True)
            yield measure(loaded, probe, questions, level, extended)


def table(measured: Sequence[Cell], with_what: str) -> str:
    """Markdown: accuracy with intervals, what was said instead, and tokens."""
    lines = [
        f"NoisyRetrieval, exact match, 95 % intervals (Wilson); {with_what}.",
        "",
        f"| set, level | questions | {' | '.join(SYSTEMS)} | probe recall at {SHARE:.0%} |",
        "|---|---|" + "---|" * (len(SYSTEMS) + 1),
    ]
    for c in measured:
        n = len(c.recall)
        shares = [_share(int(c.right(s).sum()), n) for s in SYSTEMS]
        lines.append(f"| {c.label} | {n} | {' | '.join(shares)} | {_share(int(c.recall.sum()), n)} |")
    lines += [
        "",
        'Wrong answers: a distractor\'s password / "unknown" / anything else. Tokens: read for a question, and '
        "in brackets the same in passes of all layers.",
        "",
        "| set, level | " + " | ".join(f"{s}: wrong | {s}: tokens" for s in SYSTEMS) + " |",
        "|---|" + "---|" * (2 * len(SYSTEMS)),
    ]
    for c in measured:
        row = []
        for s in SYSTEMS:
            row.append(" / ".join(f"{c.share(s, said):.2f}" for said in ("another's", "unknown", "other")))
            read, whole = (np.mean([getattr(o, w) for o in c.outcomes[s]]) for w in ("read", "whole"))
            row.append(f"{read:,.0f}" + (f" ({whole:,.0f})" if whole != read else ""))
        lines.append(f"| {c.label} | {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def _share(hits: int, n: int) -> str:
    low, high = wilson(hits, n)
    return f"{hits / n:.2f} ({low:.2f} to {high:.2f})"


def plot(measured: Sequence[Cell], path: Path, title: str) -> None:
    from matplotlib.figure import Figure

    sets = sorted({c.extended for c in measured})
    figure = Figure(figsize=(4.6 * len(sets), 4.0), layout="constrained")
    for n, extended in enumerate(sets):
        axes = figure.add_subplot(1, len(sets), n + 1)
        of_set = [c for c in measured if c.extended is extended]
        levels = [c.level for c in of_set]
        for k, system in enumerate(SYSTEMS):
            shares = np.array([c.right(system).mean() for c in of_set])
            ends = np.array([wilson(int(c.right(system).sum()), len(c.recall)) for c in of_set]).T
            # Wilson's ends may miss a share of 0 or 1 by rounding.
            bars = np.clip([shares - ends[0], ends[1] - shares], 0, None)
            at = np.array(levels) + 0.06 * (k - 1.5)
            axes.errorbar(at, shares, yerr=bars, marker="o", markersize=4, capsize=2, label=system)
        axes.plot(
            levels, [c.recall.mean() for c in of_set], "k:", marker="x", label=f"probe recall at {SHARE:.0%}"
        )
        axes.set(xlabel="attributes shared with the distractors", ylim=(-0.03, 1.05), xticks=levels)
        axes.set_title(f"{NAMES[extended]}, {len(of_set[0].recall)} questions a level", fontsize=10)
        axes.grid(alpha=0.25)
        if n == 0:
            axes.set_ylabel("exact match")
            figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=150)
