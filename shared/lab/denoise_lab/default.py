"""Make the data of the embedded default from real questions: weights of the stack, margins, sample, card.

    python -m denoise_lab.default --data FOLDER [--keep FOLDER] [--limit N]

``FOLDER`` holds the files of `split.SETS`. Everything is fitted on one half of the questions of seven sets
(`split.read_halves`) and measured on the other half by ``make bench ONLY=default``. A signal stays in the stack
only if sets that the fit has not seen gain by it. Every fit prints its controls: the same without the question,
and with a network of random weights. ``--keep`` caches the passages' embeddings for another run. The margins for
pieces of files are those of `denoise_lab.file_margins`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from denoise_lab.controls import remove_question
from denoise_lab.file_margins import calibrate_pieces
from denoise_lab.shipped_data import make_parser, write_record
from denoise_lab.split import NQ, SETS, read_halves, write_sample

SIGNAL_NAMES = (*SentenceEncoder.names, "bm25")
KEPT_SHARES = (0.3, 0.5)  # at which signals are compared
QUESTION_LIMIT = 80
SAMPLE_SIZE = 40
RANDOM_WEIGHTS_LIMIT = 15  # questions of each set for the control with random weights

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class QuestionSignals:
    """One question's signals ``(passages, signals)`` and labels ``(passages,)``."""

    signals: Floats
    labels: NDArray[np.bool_]


SignalSets = Mapping[str, Sequence[QuestionSignals]]


@dataclass(frozen=True, slots=True)
class FittedDefault:
    """What a fit makes: the stack of signals, the margins of its scores, and a record of the fit."""

    stack: Stack
    scale: ScoreCalibration
    card: dict[str, Any]


def main(argv: Sequence[str] | None = None) -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--keep", type=Path, help="folder for what is read of passages")
    parser.add_argument(
        "--limit",
        type=int,
        default=QUESTION_LIMIT,
        help="at most so many questions of each set",
    )
    options = parser.parse_args(argv)
    fitting_sets = {}
    for name in SETS:
        fitting_sets[name], _ = read_halves(options.data, name, options.limit)
    encoder = SentenceEncoder(minilm_folder(), name=HUB_NAME, cache_folder=options.keep)
    fitted_default = fit_default(fitting_sets, encoder)
    piece_calibration = calibrate_pieces(options.data)
    scale = replace(fitted_default.scale, piece_calibration=piece_calibration)
    write_record(options.out / "stack.json", fitted_default.stack.to_dict())
    write_record(options.out / "scale.json", scale.to_dict())
    write_record(options.out / "card.json", fitted_default.card)
    sample_path = options.out / "nq_sample.jsonl.xz"
    if not sample_path.exists():
        _, reported_half = read_halves(options.data, NQ)
        write_sample(reported_half[:SAMPLE_SIZE], sample_path)


def fit_default(
    fitting_sets: Mapping[str, Sequence[Question]], encoder: SentenceEncoder
) -> FittedDefault:
    """Fit stack and margins on questions by set. Prints each step, the controls among them."""
    from rich.console import Console

    report = Console().print
    signal_sets = {}
    for set_name, questions in fitting_sets.items():
        signal_sets[set_name] = read_signals(encoder, questions)
    names, signal_study = choose_signals(signal_sets, report)
    chosen_sets = select_signals(signal_sets, names)
    controls = measure_controls(fitting_sets, encoder, chosen_sets, names)
    for control_name, gold_kept in controls.items():
        report(f"gold kept, {control_name}: {gold_kept:.3f}")
    stack = expand_stack(fit_signal_stack(chosen_sets, names), names)
    scale = calibrate_left_out(chosen_sets, names)
    card = {
        "fitted on": {name: len(rows) for name, rows in fitting_sets.items()},
        "parting": "denoise_lab.split: places below 0.5 of a hash of the id",
        "signals, gold kept on sets left out of the fit (mean of 30 % and 50 % kept)": signal_study,
        "controls": {
            name: round(gold_share, 4) for name, gold_share in controls.items()
        },
    }
    report(stack.to_dict())
    report(scale.to_dict())
    return FittedDefault(stack, scale, card)


def measure_controls(
    fitting_sets: Mapping[str, Sequence[Question]],
    encoder: SentenceEncoder,
    chosen_sets: SignalSets,
    names: Sequence[str],
) -> dict[str, float]:
    """Mean gold kept on sets left out of the fit: by the signals, and by each control."""
    random_encoder = shuffle_encoder()
    questionless_sets = {}
    shuffled_sets = {}
    for set_name, questions in fitting_sets.items():
        questionless = remove_question(questions)
        questionless_sets[set_name] = read_signals(encoder, questionless)
        few_questions = questions[:RANDOM_WEIGHTS_LIMIT]
        shuffled_sets[set_name] = read_signals(random_encoder, few_questions)
    signal_sets = {
        "as it is": chosen_sets,
        "without the question": select_signals(questionless_sets, names),
        f"random weights ({RANDOM_WEIGHTS_LIMIT} questions a set)": select_signals(
            shuffled_sets, names
        ),
    }
    controls = {}
    for control_name, control_sets in signal_sets.items():
        controls[control_name] = float(left_out_recalls(control_sets, names).mean())
    controls["by chance"] = float(np.mean(KEPT_SHARES))
    return controls


def calibrate_left_out(
    signal_sets: SignalSets, names: Sequence[str]
) -> ScoreCalibration:
    """Calibrate the margins on scores of weights that did not see the question's set."""
    scored_sets = {}
    for left_out_name, rows in signal_sets.items():
        stack = fit_signal_stack(without_set(signal_sets, left_out_name), names)
        scored_questions = []
        for row in rows:
            scores = stack.combine(row.signals)
            scored_questions.append((scores, row.labels.tolist()))
        scored_sets[left_out_name] = scored_questions
    scale = calibrate_margins(scored_sets, miss_rate=FLOOR_MISS_RATE)
    return replace(scale, language="en")


def choose_signals(
    signal_sets: SignalSets, report: Callable[[str], None]
) -> tuple[list[str], dict[str, Any]]:
    """Choose the smallest set of signals that keeps as much gold as the best, but for one question's worth.

    What counts is gold kept on sets left out of the fit. Of equally small sets one without
    BM25 is chosen, which reads the passages a second time. Every set of signals is tried,
    because removing the weakest one by one ends elsewhere when two are nearly as weak.

    Returns:
        The chosen signals, and a record with the mean gold kept by each set and the gain by
        each chosen signal.
    """
    recalls = measure_combinations(signal_sets)
    means = {names: float(gold_kept.mean()) for names, gold_kept in recalls.items()}
    question_count = sum(map(len, signal_sets.values()))
    chosen_names = smallest_good_set(means, 1 / question_count)
    gains = signal_gains(chosen_names, recalls)
    rounded_means = {}
    for names, mean in means.items():
        joined_names = " + ".join(names)
        rounded_means[joined_names] = round(mean, 4)
        report(f"{joined_names}: gold kept {mean:.4f}")
    report(f"the best: {' + '.join(chosen_names)}; gains {gains}")
    signal_study = {"gold kept": rounded_means, "gain by each of the best": gains}
    return list(chosen_names), signal_study


def measure_combinations(
    signal_sets: SignalSets,
) -> dict[tuple[str, ...], NDArray[np.float64]]:
    """By combination of signals the gold kept of each question on sets left out of the fit."""
    recalls = {}
    for size in range(1, len(SIGNAL_NAMES) + 1):
        for names in combinations(SIGNAL_NAMES, size):
            recalls[names] = left_out_recalls(select_signals(signal_sets, names), names)
    return recalls


def smallest_good_set(
    means: Mapping[tuple[str, ...], float], tolerance: float
) -> tuple[str, ...]:
    """The smallest set within ``tolerance`` of the best mean; of equally small ones one without BM25."""
    least_mean = max(means.values()) - tolerance
    good_sets = [names for names in means if means[names] >= least_mean]
    return min(
        good_sets,
        key=lambda names: (len(names), "bm25" in names, -means[names]),
    )


def signal_gains(
    chosen_names: tuple[str, ...],
    recalls: Mapping[tuple[str, ...], NDArray[np.float64]],
) -> dict[str, list[Any]]:
    """By signal the mean gain against the others alone, and the ends of its interval; empty for one signal."""
    gains: dict[str, list[Any]] = {}
    if len(chosen_names) == 1:
        return gains
    for name in chosen_names:
        other_names = tuple(other for other in chosen_names if other != name)
        gain = recalls[chosen_names] - recalls[other_names]
        interval = [round(end, 4) for end in bootstrap_interval(gain)]
        gains[name] = [round(float(gain.mean()), 4), interval]
    return gains


def select_signals(
    signal_sets: SignalSets, names: Sequence[str]
) -> dict[str, list[QuestionSignals]]:
    """The sets with the columns of these signals alone."""
    columns = [SIGNAL_NAMES.index(name) for name in names]
    selected_sets = {}
    for set_name, rows in signal_sets.items():
        selected_rows = []
        for row in rows:
            selected_rows.append(QuestionSignals(row.signals[:, columns], row.labels))
        selected_sets[set_name] = selected_rows
    return selected_sets


def without_set(signal_sets: SignalSets, left_out_name: str) -> SignalSets:
    """All sets but one."""
    other_sets = dict(signal_sets)
    del other_sets[left_out_name]
    return other_sets


def left_out_recalls(
    signal_sets: SignalSets, names: Sequence[str]
) -> NDArray[np.float64]:
    """For each question the gold kept (mean over `KEPT_SHARES`) by weights fitted on the other sets.

    Smaller sets are repeated, so that each set counts the same.
    """
    all_recalls = []
    largest_size = max(map(len, signal_sets.values()))
    for left_out_name, rows in signal_sets.items():
        stack = fit_signal_stack(without_set(signal_sets, left_out_name), names)
        scores = np.concatenate([stack.combine(row.signals) for row in rows])
        labels = np.concatenate([row.labels for row in rows])
        question_index = index_questions(rows)
        share_recalls = []
        for kept_share in KEPT_SHARES:
            recall = recall_at(scores, labels, question_index, kept_share)
            share_recalls.append(recall)
        mean_recalls = np.mean(share_recalls, axis=0)
        all_recalls.append(np.resize(mean_recalls, largest_size))
    return np.concatenate(all_recalls)


def fit_signal_stack(signal_sets: SignalSets, names: Sequence[str]) -> Stack:
    """Fit the weights of these signals on all questions of all sets."""
    rows: list[QuestionSignals] = []
    for set_rows in signal_sets.values():
        rows += set_rows
    signals = np.concatenate([row.signals for row in rows])
    labels = np.concatenate([row.labels for row in rows])
    return fit_stack(names, signals, labels, index_questions(rows).tolist())


def index_questions(rows: Sequence[QuestionSignals]) -> NDArray[np.intp]:
    """The number of the question of each passage; shape ``(passages,)``."""
    passage_counts = [len(row.labels) for row in rows]
    question_numbers = np.arange(len(rows))
    return np.repeat(question_numbers, passage_counts)


def expand_stack(stack: Stack, names: Sequence[str]) -> Stack:
    """The stack over all signals of the encoder; signals that were not chosen have the weight 0."""
    all_names: list[str] = list(SentenceEncoder.names)
    for name in names:
        if name not in all_names:
            all_names.append(name)
    weights = []
    means = []
    deviations = []
    for name in all_names:
        weight = 0.0
        mean = 0.0
        deviation = 1.0
        if name in names:
            column = names.index(name)
            weight = stack.weight[column]
            mean = stack.mean[column]
            deviation = stack.deviation[column]
        weights.append(weight)
        means.append(mean)
        deviations.append(deviation)
    return Stack(tuple(all_names), tuple(weights), tuple(means), tuple(deviations))


def read_signals(
    encoder: SignalSource, questions: Sequence[Question]
) -> list[QuestionSignals]:
    """The signals of the encoder and of BM25 for each question's passages."""
    sources: list[SignalSource | Scorer] = [encoder, BM25Scorer()]
    rows = []
    for question in questions:
        passage_texts = [passage.text_with_header for passage in question.passages]
        signals = collect_signals(sources, question.text, passage_texts)
        rows.append(QuestionSignals(signals, np.array(question.labels)))
    return rows


def shuffle_encoder(seed: int = 0) -> SentenceEncoder:
    """The encoder with the weights of each layer shuffled, which removes its training; embeddings stay."""
    network, tokenizer = load_encoder(minilm_folder())
    rng = np.random.default_rng(seed)
    shuffled_network = copy(network)
    shuffled_network.layers = []
    for layer in network.layers:
        shuffled_parts = {}
        for part in ("qkv", "out", "up", "down"):
            weight, bias = getattr(layer, part)
            shuffled_weight = rng.permutation(weight.ravel())
            shuffled_parts[part] = (shuffled_weight.reshape(weight.shape), bias)
        shuffled_network.layers.append(replace(layer, **shuffled_parts))
    return _LoadedEncoder(shuffled_network, tokenizer)


class _LoadedEncoder(SentenceEncoder):
    """An encoder of a network in memory."""

    def __init__(self, network: MiniLM, tokenizer: Any) -> None:
        super().__init__(minilm_folder(), name="random weights")
        self._loaded_parts = network, tokenizer

    def _load(self) -> tuple[MiniLM, Any]:
        return self._loaded_parts


if __name__ == "__main__":
    main()
