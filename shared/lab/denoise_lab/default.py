"""Make what the embedded default ships: weights of the stack, the scale, the sample; of real questions.

    python -m denoise_lab.default --data FOLDER [--keep FOLDER] [--limit N]

``FOLDER`` holds the files of `split.SETS`. Everything is fitted on one half of the questions of seven sets
(`split.halves`) and printed for the other half by ``make bench ONLY=default``. A signal stays in the stack only if
sets that the fit has not seen gain by it. Controls run with every fit: the same with the question taken away, and
with a network of random weights. ``--keep`` keeps what is read of passages for another run.
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
from denoise_core.question import Question
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.scorers.stack import SignalSource, Stack, collect_signals
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
    fitting = {name: halves(given.data, name, given.limit)[0] for name in SETS}
    given.out.mkdir(parents=True, exist_ok=True)
    encoder = SentenceEncoder(minilm_folder(), name=HUB_NAME, cache_folder=given.keep)
    made = fit(fitting, encoder)
    write_whole(
        given.out / "stack.json", json.dumps(made.stack.to_dict(), indent=1) + "\n"
    )
    write_whole(
        given.out / "scale.json", json.dumps(made.scale.to_dict(), indent=1) + "\n"
    )
    write_whole(given.out / "card.json", json.dumps(made.card, indent=1) + "\n")
    if not (given.out / "nq_sample.jsonl.xz").exists():
        write_sample(
            halves(given.data, NQ)[1][:SAMPLE], given.out / "nq_sample.jsonl.xz"
        )


@dataclass(frozen=True, slots=True)
class Made:
    stack: Stack
    scale: ScoreCalibration
    card: dict[str, Any]


def fit(fitting: Mapping[str, Sequence[Question]], encoder: SentenceEncoder) -> Made:
    """Stack, scale and card from questions by set. Prints each step, the controls among them."""
    from rich.console import Console

    say = Console().print
    mix = {name: read(encoder, questions) for name, questions in fitting.items()}
    names, study = earning(mix, say)
    columns = [NAMES.index(n) for n in names]
    chosen = {name: [r.only(columns) for r in rows] for name, rows in mix.items()}
    small = {name: questions[:15] for name, questions in fitting.items()}
    controls = {
        "as it is": gold_left_out(chosen, names).mean(),
        "without the question": gold_left_out(
            {
                n: [r.only(columns) for r in read(encoder, asking_the_same(q))]
                for n, q in fitting.items()
            },
            names,
        ).mean(),
        "random weights (15 questions a set)": gold_left_out(
            {
                n: [r.only(columns) for r in read(random_encoder(), q)]
                for n, q in small.items()
            },
            names,
        ).mean(),
        "by chance": float(np.mean(SHARES)),
    }
    for name, kept in controls.items():
        say(f"gold kept, {name}: {kept:.3f}")
    fitted = fitted_on(chosen, names)
    # The margin is calibrated on scores of weights that did not see the question's set.
    apart = {
        left: fitted_on({n: r for n, r in chosen.items() if n != left}, names)
        for left in chosen
    }
    scored = {
        n: [(apart[n].combine(r.signals), r.labels.tolist()) for r in rows]
        for n, rows in chosen.items()
    }
    scale = replace(calibrate_margins(scored, miss_rate=FLOOR_MISS_RATE), language="en")
    whole = complete(fitted, names)
    card = {
        "fitted on": {name: len(questions) for name, questions in fitting.items()},
        "parting": "denoise_lab.split: places below 0.5 of a hash of the id",
        "signals, gold kept on sets left out of the fit (mean of 30 % and 50 % kept)": study,
        "controls": {name: round(float(kept), 4) for name, kept in controls.items()},
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
    tried: dict[tuple[str, ...], NDArray[np.float64]] = {
        names: gold_left_out(
            {
                n: [r.only([NAMES.index(x) for x in names]) for r in rows]
                for n, rows in mix.items()
            },
            names,
        )
        for size in range(1, len(NAMES) + 1)
        for names in combinations(NAMES, size)
    }
    means = {names: float(gold.mean()) for names, gold in tried.items()}
    enough = max(means.values()) - 1 / sum(map(len, mix.values()))
    best = min(
        (n for n in means if means[n] >= enough),
        key=lambda n: (len(n), "bm25" in n, -means[n]),
    )
    gains = {}
    for name in best if len(best) > 1 else ():
        gain = tried[best] - tried[*(x for x in best if x != name)]
        gains[name] = [
            round(float(gain.mean()), 4),
            [round(e, 4) for e in bootstrap_interval(gain)],
        ]
    kept = {
        " + ".join(names): round(float(gold.mean()), 4) for names, gold in tried.items()
    }
    for names, gold in kept.items():
        say(f"{names}: gold kept {gold:.4f}")
    say(f"the best: {' + '.join(best)}; gains {gains}")
    return [*best], {"gold kept": kept, "gain by each of the best": gains}


def gold_left_out(mix: Mix, names: Sequence[str]) -> NDArray[np.float64]:
    """For each question the gold kept (mean of `SHARES`) by weights fitted on the other sets."""
    out = []
    size = max(map(len, mix.values()))
    for left, rows in mix.items():
        stack = fitted_on({n: r for n, r in mix.items() if n != left}, names)
        scores = np.concatenate([stack.combine(r.signals) for r in rows])
        labels, groups = (
            np.concatenate([r.labels for r in rows]),
            np.repeat(np.arange(len(rows)), list(map(_n, rows))),
        )
        kept = np.mean(
            [recall_at(scores, labels, groups, share) for share in SHARES], axis=0
        )
        out.append(
            np.resize(kept, size)
        )  # a smaller set is repeated, so that each counts the same
    return np.concatenate(out)


def fitted_on(mix: Mix, names: Sequence[str]) -> Stack:
    rows = [r for of_set in mix.values() for r in of_set]
    groups = np.repeat(np.arange(len(rows)), list(map(_n, rows))).tolist()
    return fit_stack(
        names,
        np.concatenate([r.signals for r in rows]),
        np.concatenate([r.labels for r in rows]),
        groups,
    )


def complete(stack: Stack, names: Sequence[str]) -> Stack:
    """The stack over all signals of the encoder, those that did not earn a place with weight 0."""
    place_of = {name: i for i, name in enumerate(names)}
    wanted = list(SentenceEncoder.names) + [
        n for n in names if n not in SentenceEncoder.names
    ]
    cells = [place_of.get(n) for n in wanted]
    return Stack(
        tuple(wanted),
        tuple(0.0 if i is None else stack.weight[i] for i in cells),
        tuple(0.0 if i is None else stack.mean[i] for i in cells),
        tuple(1.0 if i is None else stack.deviation[i] for i in cells),
    )


def read(encoder: SignalSource, questions: Sequence[Question]) -> list[Read]:
    return [Read(signals(encoder, q.text, q), np.array(q.labels)) for q in questions]


def signals(encoder: SignalSource, query: str, of: Question) -> Floats:
    return collect_signals(
        [encoder, BM25Scorer()], query, [p.text_with_header for p in of.passages]
    )


def asking_the_same(questions: Sequence[Question]) -> list[Question]:
    return [replace(q, text=NO_QUESTION) for q in questions]


def random_encoder(seed: int = 0) -> SentenceEncoder:
    """The encoder with its layers' weights shuffled: the same numbers, none of the training; embeddings stay."""
    network, tokenizer = load_encoder(minilm_folder())
    rng = np.random.default_rng(seed)
    fresh = copy(network)
    fresh.layers = [
        replace(
            layer,
            **{
                part: (
                    rng.permutation(getattr(layer, part)[0].ravel()).reshape(
                        getattr(layer, part)[0].shape
                    ),
                    bias,
                )
                for part in ("qkv", "out", "up", "down")
                for bias in [getattr(layer, part)[1]]
            },
        )
        for layer in network.layers
    ]
    return _Given(fresh, tokenizer)


class _Given(SentenceEncoder):
    """An encoder of a network at hand."""

    def __init__(self, network: MiniLM, tokenizer: Any) -> None:
        super().__init__(minilm_folder(), name="random weights")
        self._given = network, tokenizer

    def _load(self) -> tuple[MiniLM, Any]:
        return self._given


def _n(row: Read) -> int:
    return len(row.labels)


if __name__ == "__main__":
    main()
