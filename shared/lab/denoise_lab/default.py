"""Make what the embedded default ships: weights of the stack, the scale, the sample; of real questions.

    python -m denoise_lab.default --data FOLDER [--keep FOLDER] [--limit N]

``FOLDER`` holds the files of `split.SETS`. Everything is fitted on one half of the questions of seven sets
(`split.halves`) and printed for the other half by ``make bench ONLY=default``. A signal stays in the stack only if
sets that the fit has not seen gain by it. Controls run with every fit: the same with the question taken away, and
with a network of random weights. ``--keep`` keeps what is read of passages for another run. The margins for pieces
of files are those of `denoise_lab.file_margins`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core import embedded as shipped
from denoise_core._files import write_whole
from denoise_core.embedded.encoder import SentenceEncoder, load_encoder
from denoise_core.embedded.minilm import HUB_NAME, MiniLM, minilm_folder
from denoise_core.end.calibration import FLOOR_MISS_RATE, calibrate_margins
from denoise_core.end.fit.stack import fit_stack
from denoise_core.end.selection import ScoreCalibration
from denoise_core.evaluate.metrics import bootstrap_interval, recall_at
from denoise_core.protocols import Scorer
from denoise_core.question import Question
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.scorers.stack import SignalSource, Stack, collect_signals
from denoise_lab import file_margins
from denoise_lab.split import NQ, SETS, halves, write_sample

HERE = Path(shipped.__file__).parent / "data"
NAMES = (*SentenceEncoder.names, "bm25")
SHARES = (0.3, 0.5)  # at which signals are compared
LIMIT = 80
SAMPLE = 40
NO_QUESTION = "What is this about?"

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """One question's signals ``(n, k)`` and labels ``(n,)``."""

    signals: Floats
    labels: NDArray[np.bool_]

    def only(self, columns: Sequence[int]) -> Read:
        return Read(self.signals[:, columns], self.labels)


Mix = Mapping[str, Sequence[Read]]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with the sets' files"
    )
    parser.add_argument("--keep", type=Path, help="folder for what is read of passages")
    parser.add_argument(
        "--limit", type=int, default=LIMIT, help="at most so many questions of each set"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=HERE,
        help="folder to write stack, scale and card to",
    )
    given = parser.parse_args(argv)
    fitting = {}
    for name in SETS:
        fitting_half, _ = halves(given.data, name, given.limit)
        fitting[name] = fitting_half
    given.out.mkdir(parents=True, exist_ok=True)
    encoder = SentenceEncoder(minilm_folder(), name=HUB_NAME, cache_folder=given.keep)
    made = fit(fitting, encoder)
    scale = replace(
        made.scale, piece_calibration=file_margins.piece_calibration(given.data)
    )
    records = {
        "stack.json": made.stack.to_dict(),
        "scale.json": scale.to_dict(),
        "card.json": made.card,
    }
    for file_name, record in records.items():
        record_text = json.dumps(record, indent=1)
        write_whole(given.out / file_name, record_text + "\n")
    sample_path = given.out / "nq_sample.jsonl.xz"
    if not sample_path.exists():
        _, reported_half = halves(given.data, NQ)
        write_sample(reported_half[:SAMPLE], sample_path)


@dataclass(frozen=True, slots=True)
class Made:
    stack: Stack
    scale: ScoreCalibration
    card: dict[str, Any]


def fit(fitting: Mapping[str, Sequence[Question]], encoder: SentenceEncoder) -> Made:
    """Stack, scale and card from questions by set. Prints each step, the controls among them."""
    from rich.console import Console

    say = Console().print
    mix = {}
    for name, questions in fitting.items():
        mix[name] = read(encoder, questions)
    names, study = earning(mix, say)
    chosen = only_signals(mix, names)
    unasked = {}
    shuffled = {}
    for name, questions in fitting.items():
        unasked[name] = read(encoder, asking_the_same(questions))
        shuffled[name] = read(random_encoder(), questions[:15])
    unasked_gold = gold_left_out(only_signals(unasked, names), names)
    shuffled_gold = gold_left_out(only_signals(shuffled, names), names)
    controls = {
        "as it is": gold_left_out(chosen, names).mean(),
        "without the question": unasked_gold.mean(),
        "random weights (15 questions a set)": shuffled_gold.mean(),
        "by chance": float(np.mean(SHARES)),
    }
    for name, kept in controls.items():
        say(f"gold kept, {name}: {kept:.3f}")
    fitted = fitted_on(chosen, names)
    # The margin is calibrated on scores of weights that did not see the question's set.
    scored = {}
    for left_set, rows in chosen.items():
        apart_stack = fitted_on(without_set(chosen, left_set), names)
        scored_rows = []
        for row in rows:
            row_scores = apart_stack.combine(row.signals)
            scored_rows.append((row_scores, row.labels.tolist()))
        scored[left_set] = scored_rows
    unnamed_scale = calibrate_margins(scored, miss_rate=FLOOR_MISS_RATE)
    scale = replace(unnamed_scale, language="en")
    whole = complete(fitted, names)
    question_counts = {}
    for name, questions in fitting.items():
        question_counts[name] = len(questions)
    rounded_controls = {}
    for name, kept in controls.items():
        rounded_controls[name] = round(float(kept), 4)
    card = {
        "fitted on": question_counts,
        "parting": "denoise_lab.split: places below 0.5 of a hash of the id",
        "signals, gold kept on sets left out of the fit (mean of 30 % and 50 % kept)": study,
        "controls": rounded_controls,
    }
    say(whole.to_dict())
    say(scale.to_dict())
    return Made(whole, scale, card)


def earning(mix: Mix, say: Callable[[str], None]) -> tuple[list[str], dict[str, Any]]:
    """The signals that earn their place: the smallest set of them that keeps as much gold as the best, but for one
    question's worth; of equally small ones one without BM25, which reads the passages a second time.

    What counts is gold kept on sets left out of the fit. Every set of signals is tried, since taking the weakest
    away one by one ends elsewhere when two of them are nearly as weak.
    """
    tried: dict[tuple[str, ...], NDArray[np.float64]] = {}
    for size in range(1, len(NAMES) + 1):
        for names in combinations(NAMES, size):
            tried[names] = gold_left_out(only_signals(mix, names), names)
    means = {}
    kept = {}
    for names, gold in tried.items():
        mean_gold = float(gold.mean())
        means[names] = mean_gold
        kept[" + ".join(names)] = round(mean_gold, 4)
    question_count = sum(map(len, mix.values()))
    enough = max(means.values()) - 1 / question_count
    good_sets = [names for names in means if means[names] >= enough]
    best = min(
        good_sets,
        key=lambda names: (len(names), "bm25" in names, -means[names]),
    )
    gains = {}
    if len(best) > 1:
        for name in best:
            other_names = [other for other in best if other != name]
            gain = tried[best] - tried[tuple(other_names)]
            interval_ends = []
            for interval_end in bootstrap_interval(gain):
                interval_ends.append(round(interval_end, 4))
            mean_gain = round(float(gain.mean()), 4)
            gains[name] = [mean_gain, interval_ends]
    for set_name, set_gold in kept.items():
        say(f"{set_name}: gold kept {set_gold:.4f}")
    best_name = " + ".join(best)
    say(f"the best: {best_name}; gains {gains}")
    return list(best), {"gold kept": kept, "gain by each of the best": gains}


def only_signals(mix: Mix, names: Sequence[str]) -> dict[str, list[Read]]:
    """The sets with the columns of these signals."""
    columns = [NAMES.index(name) for name in names]
    narrow_sets = {}
    for set_name, rows in mix.items():
        narrow_sets[set_name] = [row.only(columns) for row in rows]
    return narrow_sets


def without_set(mix: Mix, left_set: str) -> Mix:
    """All sets but one."""
    other_sets = dict(mix)
    del other_sets[left_set]
    return other_sets


def gold_left_out(mix: Mix, names: Sequence[str]) -> NDArray[np.float64]:
    """For each question the gold kept (mean of `SHARES`) by weights fitted on the other sets."""
    out = []
    size = max(map(len, mix.values()))
    for left, rows in mix.items():
        stack = fitted_on(without_set(mix, left), names)
        scores = np.concatenate([stack.combine(row.signals) for row in rows])
        labels = np.concatenate([row.labels for row in rows])
        groups = question_groups(rows)
        recalls = []
        for share in SHARES:
            recalls.append(recall_at(scores, labels, groups, share))
        kept = np.mean(recalls, axis=0)
        # A smaller set is repeated, so that each counts the same.
        out.append(np.resize(kept, size))
    return np.concatenate(out)


def fitted_on(mix: Mix, names: Sequence[str]) -> Stack:
    rows: list[Read] = []
    for set_rows in mix.values():
        rows += set_rows
    groups = question_groups(rows).tolist()
    all_signals = np.concatenate([row.signals for row in rows])
    all_labels = np.concatenate([row.labels for row in rows])
    return fit_stack(names, all_signals, all_labels, groups)


def question_groups(rows: Sequence[Read]) -> NDArray[np.intp]:
    """The question of each passage, by number."""
    passage_counts = [len(row.labels) for row in rows]
    question_numbers = np.arange(len(rows))
    return np.repeat(question_numbers, passage_counts)


def complete(stack: Stack, names: Sequence[str]) -> Stack:
    """The stack over all signals of the encoder, those that did not earn a place with weight 0."""
    wanted: list[str] = list(SentenceEncoder.names)
    for name in names:
        if name not in wanted:
            wanted.append(name)
    weights = []
    means = []
    deviations = []
    for name in wanted:
        weight = 0.0
        mean = 0.0
        deviation = 1.0
        if name in names:
            place = names.index(name)
            weight = stack.weight[place]
            mean = stack.mean[place]
            deviation = stack.deviation[place]
        weights.append(weight)
        means.append(mean)
        deviations.append(deviation)
    return Stack(tuple(wanted), tuple(weights), tuple(means), tuple(deviations))


def read(encoder: SignalSource, questions: Sequence[Question]) -> list[Read]:
    question_rows = []
    for question in questions:
        labels = np.array(question.labels)
        question_signals = signals(encoder, question.text, question)
        question_rows.append(Read(question_signals, labels))
    return question_rows


def signals(encoder: SignalSource, query: str, of: Question) -> Floats:
    sources: list[SignalSource | Scorer] = [encoder, BM25Scorer()]
    passage_texts = [passage.text_with_header for passage in of.passages]
    return collect_signals(sources, query, passage_texts)


def asking_the_same(questions: Sequence[Question]) -> list[Question]:
    return [replace(q, text=NO_QUESTION) for q in questions]


def random_encoder(seed: int = 0) -> SentenceEncoder:
    """The encoder with its layers' weights shuffled: the same numbers, none of the training; embeddings stay."""
    network, tokenizer = load_encoder(minilm_folder())
    rng = np.random.default_rng(seed)
    fresh = copy(network)
    fresh.layers = []
    for layer in network.layers:
        shuffled_parts = {}
        for part in ("qkv", "out", "up", "down"):
            weight, bias = getattr(layer, part)
            shuffled_weight = rng.permutation(weight.ravel())
            shuffled_parts[part] = (shuffled_weight.reshape(weight.shape), bias)
        fresh.layers.append(replace(layer, **shuffled_parts))
    return _Given(fresh, tokenizer)


class _Given(SentenceEncoder):
    """An encoder of a network at hand."""

    def __init__(self, network: MiniLM, tokenizer: Any) -> None:
        super().__init__(minilm_folder(), name="random weights")
        self._given = network, tokenizer

    def _load(self) -> tuple[MiniLM, Any]:
        return self._given


if __name__ == "__main__":
    main()
