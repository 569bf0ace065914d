"""Make the classifier of question kinds that the embedded default ships, and its card.

    python -m denoise_lab.question_kinds --data FOLDER

It is fitted on ``data/question_kinds.tsv``, written for it, and on one half of the questions
of four sets (`split.hash_fraction`), which count less. The card has the confusions on the other half,
and of the written questions by folds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.embedded import shared_encoder
from denoise_core.embedded.kinds import (
    KINDS,
    MIN_PROBABILITY,
    WEIGHTS_FILE,
    kind_probabilities,
)
from denoise_core.evaluate.datasets import read_records
from denoise_lab.shipped_data import make_parser, write_record
from denoise_lab.split import FITTING_BELOW, SETS, hash_fraction

WRITTEN_QUESTIONS = Path(__file__).parent / "data" / "question_kinds.tsv"
WRITTEN_ORIGIN = "written for it (CC0)"
INVERSE_PENALTY = 10.0  # scikit-learn's C
SET_WEIGHT = 0.1  # of a set's question; a written one has 1
SET_LIMIT = 250  # questions of each half of a set
FOLD_COUNT = 5
# The kind of each type that a set names; "None" is the kind of questions with another type or
# none, which are left out if it is missing.
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
        """The kind of each question of ``vectors``; a lookup if no kind is probable enough."""
        kinds: list[str] = []
        for vector in vectors:
            probabilities = kind_probabilities(vector, self.weights, self.intercepts)
            best_kind = int(probabilities.argmax())
            kind = "lookup"
            if probabilities[best_kind] >= MIN_PROBABILITY:
                kind = KINDS[best_kind]
            kinds.append(kind)
        return kinds


def main(argv: Sequence[str] | None = None) -> None:
    from safetensors.numpy import save

    options = make_parser(__doc__).parse_args(argv)
    written_questions = list(read_written())
    fitting, held_out = read_sets(options.data)
    written_vectors = embed_questions(written_questions)
    fitting_vectors = embed_questions(fitting)
    all_vectors = np.concatenate([written_vectors, fitting_vectors])
    kind_weights = fit_kinds([*written_questions, *fitting], all_vectors)
    held_out_kinds = kind_weights.classify(embed_questions(held_out))
    fold_kinds = classify_by_folds(
        written_questions, written_vectors, fitting, fitting_vectors
    )
    card = {
        "fitted on": dict(Counter(q.origin for q in [*written_questions, *fitting])),
        "kinds": list(KINDS),
        "probability below which it is a lookup": MIN_PROBABILITY,
        "held-out questions, by origin and kind": count_outcomes(
            held_out, held_out_kinds
        ),
        "written questions, by folds": count_outcomes(written_questions, fold_kinds),
    }
    tensors: dict[str, Any] = {
        "weights": kind_weights.weights.astype(np.float16),
        "intercepts": kind_weights.intercepts,
    }
    write_record(options.out / "kinds_card.json", card)
    (options.out / WEIGHTS_FILE).write_bytes(save(tensors))


def classify_by_folds(
    written_questions: Sequence[KindQuestion],
    written_vectors: Floats,
    fitting: Sequence[KindQuestion],
    fitting_vectors: Floats,
) -> list[str]:
    """Classify each written question by weights fitted without its fold."""
    folds = np.arange(len(written_questions)) % FOLD_COUNT
    fold_kinds = np.empty(len(written_questions), dtype=object)
    for fold in range(FOLD_COUNT):
        in_fold = folds == fold
        other_questions = [
            written_questions[number] for number in np.flatnonzero(~in_fold).tolist()
        ]
        vectors = np.concatenate([written_vectors[~in_fold], fitting_vectors])
        fold_fit = fit_kinds([*other_questions, *fitting], vectors)
        fold_kinds[in_fold] = fold_fit.classify(written_vectors[in_fold])
    kinds: list[str] = fold_kinds.tolist()
    return kinds


def read_written() -> Iterator[KindQuestion]:
    """Read the questions that were written for the classifier."""
    for line in WRITTEN_QUESTIONS.read_text("utf-8").splitlines():
        kind, _, text = line.partition("\t")
        yield KindQuestion(text, kind, WRITTEN_ORIGIN)


def read_sets(folder: Path) -> tuple[list[KindQuestion], list[KindQuestion]]:
    """The sets' questions for fitting and for the card, at most `SET_LIMIT` of each."""
    fitting: list[KindQuestion] = []
    held_out: list[KindQuestion] = []
    for set_name, kind_of_type in KIND_OF_TYPE.items():
        set_fitting = []
        set_held_out = []
        for _, row in read_records(folder / f"{SETS[set_name]}.jsonl.gz"):
            kind = kind_of_type.get(str(row.get("type")), kind_of_type.get("None"))
            if kind is None:
                continue
            question = KindQuestion(row["question"], kind, set_name)
            if hash_fraction(row["id"]) < FITTING_BELOW:
                set_fitting.append(question)
            else:
                set_held_out.append(question)
        fitting += set_fitting[:SET_LIMIT]
        held_out += set_held_out[:SET_LIMIT]
    return fitting, held_out


def embed_questions(questions: Sequence[KindQuestion]) -> Floats:
    """Embed the questions with the shipped encoder; shape ``(questions, width)``."""
    encoder = shared_encoder()
    question_vectors = []
    for question in questions:
        question_vectors.append(encoder.embed_question(question.text))
    return np.stack(question_vectors)


def fit_kinds(questions: Sequence[KindQuestion], vectors: Floats) -> KindWeights:
    """Fit a logistic regression on the questions' vectors ``(questions, width)``."""
    from sklearn.linear_model import LogisticRegression

    regression: Any = LogisticRegression(C=INVERSE_PENALTY, max_iter=2000)  # type: ignore[no-untyped-call]
    kind_numbers = [KINDS.index(question.kind) for question in questions]
    question_weights = []
    for question in questions:
        question_weight = SET_WEIGHT
        if question.origin == WRITTEN_ORIGIN:
            question_weight = 1.0
        question_weights.append(question_weight)
    regression.fit(vectors, kind_numbers, sample_weight=question_weights)
    return KindWeights(
        regression.coef_.T.astype(np.float32), regression.intercept_.astype(np.float32)
    )


def count_outcomes(
    questions: Sequence[KindQuestion], classified_kinds: Sequence[str]
) -> dict[str, dict[str, int]]:
    """By origin and true kind, how many questions were classified as each kind."""
    outcomes: dict[str, Counter[str]] = {}
    for question, kind in zip(questions, classified_kinds, strict=True):
        key = f"{question.origin}: {question.kind}"
        outcomes.setdefault(key, Counter())[kind] += 1
    sorted_outcomes = {}
    for key, counts in outcomes.items():
        sorted_outcomes[key] = dict(counts.most_common())
    return sorted_outcomes


if __name__ == "__main__":
    main()
