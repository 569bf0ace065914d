"""Make the classifier of question kinds that the embedded default ships, and its card.

    python -m denoise_lab.question_kinds --data FOLDER

It is fitted on ``data/question_kinds.tsv``, written for it, and on one half of the questions
of four sets (`split.place`), which count less. The card has the confusions on the other half,
and of the written questions by folds.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core import embedded as shipped
from denoise_core._files import write_whole
from denoise_core.embedded import shared_encoder
from denoise_core.embedded.kinds import (
    KINDS,
    MIN_PROBABILITY,
    WEIGHTS_FILE,
    kind_probabilities,
)
from denoise_lab.split import FITTING, SETS, place

SHIPPED_DATA = Path(shipped.__file__).parent / "data"
WRITTEN_QUESTIONS = Path(__file__).parent / "data" / "question_kinds.tsv"
WRITTEN = "written for it (CC0)"
PENALTY = 10.0  # scikit-learn's C
SET_WEIGHT = 0.1  # of a set's question; a written one has 1
SET_LIMIT = 250  # questions of each half of a set
FOLDS = 5
# What a set's own type of question is here; None where all are lookups.
KIND_OF_TYPE: dict[str, dict[str, str]] = {
    "NQ": {"None": "lookup"},
    "XQuAD": {"None": "lookup"},
    "HotpotQA": {"bridge": "two_step", "comparison": "compare"},
    "MuSiQue": {"None": "two_step"},
    "2Wiki": {
        "comparison": "compare",
        "bridge_comparison": "compare",
        "compositional": "two_step",
        "inference": "two_step",
    },
}

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class KindQuestion:
    """A question whose kind is known, and where it comes from."""

    text: str
    kind: str
    origin: str


@dataclass(frozen=True, slots=True, eq=False)
class KindWeights:
    """The weights ``(width, kinds)`` and intercepts ``(kinds,)`` that ship."""

    weights: Floats
    intercepts: Floats

    def classify(self, vectors: Floats) -> list[str]:
        names: list[str] = []
        for vector in vectors:
            probabilities = kind_probabilities(vector, self.weights, self.intercepts)
            best_kind = int(probabilities.argmax())
            is_sure = probabilities[best_kind] >= MIN_PROBABILITY
            names.append(KINDS[best_kind] if is_sure else "lookup")
        return names


def main(argv: Sequence[str] | None = None) -> None:
    from safetensors.numpy import save

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the sets' folder")
    parser.add_argument("--out", type=Path, default=SHIPPED_DATA)
    options = parser.parse_args(argv)
    written = list(read_written())
    fitting, held_out = read_sets(options.data)
    written_vectors = embed_questions(written)
    fitting_vectors = embed_questions(fitting)
    held_out_vectors = embed_questions(held_out)
    fitted = fit_kinds(
        [*written, *fitting], np.concatenate([written_vectors, fitting_vectors])
    )
    folds = np.arange(len(written)) % FOLDS
    fold_names = np.empty(len(written), dtype=object)
    for fold in range(FOLDS):
        is_left_out = folds == fold
        rest = [
            q for q, left_out in zip(written, is_left_out, strict=True) if not left_out
        ]
        fold_fit = fit_kinds(
            [*rest, *fitting],
            np.concatenate([written_vectors[~is_left_out], fitting_vectors]),
        )
        fold_names[is_left_out] = fold_fit.classify(written_vectors[is_left_out])
    card = {
        "fitted on": dict(Counter(q.origin for q in [*written, *fitting])),
        "kinds": list(KINDS),
        "probability below which it is a lookup": MIN_PROBABILITY,
        "held-out questions, by origin and kind": count_outcomes(
            held_out, fitted.classify(held_out_vectors)
        ),
        "written questions, by folds": count_outcomes(written, fold_names.tolist()),
    }
    tensors: dict[str, Any] = {
        "weights": fitted.weights.astype(np.float16),
        "intercepts": fitted.intercepts,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / WEIGHTS_FILE).write_bytes(save(tensors))
    card_text = json.dumps(card, indent=1) + "\n"
    write_whole(options.out / "kinds_card.json", card_text)


def read_written() -> Iterator[KindQuestion]:
    for line in WRITTEN_QUESTIONS.read_text("utf-8").splitlines():
        kind, _, text = line.partition("\t")
        yield KindQuestion(text, kind, WRITTEN)


def read_sets(folder: Path) -> tuple[list[KindQuestion], list[KindQuestion]]:
    """The sets' questions for fitting and for the card, at most `SET_LIMIT` of each."""
    fitting: list[KindQuestion] = []
    held_out: list[KindQuestion] = []
    for name, kind_of_type in KIND_OF_TYPE.items():
        halves: tuple[list[KindQuestion], list[KindQuestion]] = ([], [])
        for row in read_rows(folder / f"{SETS[name]}.jsonl.gz"):
            kind = kind_of_type.get(str(row.get("type")))
            if kind is None:
                kind = kind_of_type.get("None")
            if kind is not None:
                question = KindQuestion(row["question"], kind, name)
                halves[place(row["id"]) >= FITTING].append(question)
        fitting += halves[0][:SET_LIMIT]
        held_out += halves[1][:SET_LIMIT]
    return fitting, held_out


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def embed_questions(questions: Sequence[KindQuestion]) -> Floats:
    encoder = shared_encoder()
    question_vectors = []
    for question in questions:
        question_vectors.append(encoder.embed_question(question.text))
    return np.stack(question_vectors)


def fit_kinds(questions: Sequence[KindQuestion], vectors: Floats) -> KindWeights:
    from sklearn.linear_model import LogisticRegression

    regression: Any = LogisticRegression(C=PENALTY, max_iter=2000)  # type: ignore[no-untyped-call]
    kind_numbers = [KINDS.index(question.kind) for question in questions]
    question_weights = []
    for question in questions:
        question_weight = SET_WEIGHT
        if question.origin == WRITTEN:
            question_weight = 1.0
        question_weights.append(question_weight)
    regression.fit(vectors, kind_numbers, sample_weight=question_weights)
    return KindWeights(
        regression.coef_.T.astype(np.float32), regression.intercept_.astype(np.float32)
    )


def count_outcomes(
    questions: Sequence[KindQuestion], names: Sequence[str]
) -> dict[str, dict[str, int]]:
    """By origin and kind, how many were called what."""
    outcomes: dict[str, Counter[str]] = {}
    for question, name in zip(questions, names, strict=True):
        key = f"{question.origin}: {question.kind}"
        outcomes.setdefault(key, Counter())[name] += 1
    sorted_outcomes = {}
    for key, counts in outcomes.items():
        sorted_outcomes[key] = dict(counts.most_common())
    return sorted_outcomes


if __name__ == "__main__":
    main()
