"""Tell what a question asks for: one fact, a list or count, a comparison, a summary, two steps.

A logistic regression over the encoder's reading of the question. `denoise_lab.question_kinds`
makes ``data/kinds.safetensors``; ``data/kinds_card.json`` says of what, and how well it does
on questions that it has not seen. An unsure answer is "lookup", which changes nothing.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.resources import files
from typing import cast, get_args

import numpy as np

from denoise_core._optional import require
from denoise_core.embedded.encoder import SentenceEncoder
from denoise_core.embedded.minilm import Floats
from denoise_core.end.question_kinds import QuestionKind
from denoise_core.text.language import identify_language

KINDS: tuple[QuestionKind, ...] = get_args(QuestionKind)
MIN_PROBABILITY = 0.5
WEIGHTS_FILE = "kinds.safetensors"


@lru_cache(maxsize=1024)
def classify_question(encoder: SentenceEncoder, query: str) -> QuestionKind:
    """Name the kind of a question.

    Returns:
        "lookup" if no other kind has a probability of `MIN_PROBABILITY`, and for a question
        that is not in English.

    Raises:
        MissingExtra: The extra ``embedded`` is not installed.
    """
    if identify_language(query) not in ("", "en"):
        return "lookup"
    question_vector = encoder.embed_question(query)
    probabilities = kind_probabilities(question_vector, *_load_weights())
    best_kind = int(probabilities.argmax())
    if probabilities[best_kind] < MIN_PROBABILITY:
        return "lookup"
    return KINDS[best_kind]


def kind_probabilities(
    question_vector: Floats, weights: Floats, intercepts: Floats
) -> Floats:
    """The probability of each of `KINDS`, by softmax.

    Args:
        question_vector: What `SentenceEncoder.embed_question` returns, ``(2 * width,)``.
        weights: ``(2 * width, kinds)``.
        intercepts: ``(kinds,)``.
    """
    logits = question_vector @ weights + intercepts
    relative_logits = logits - logits.max()
    exponentials = np.exp(relative_logits)
    probabilities = exponentials / exponentials.sum()
    return cast(Floats, probabilities)


@cache
def _load_weights() -> tuple[Floats, Floats]:
    safetensors = require("safetensors.numpy", extra="embedded")
    data_file = files("denoise_core.embedded") / "data" / WEIGHTS_FILE
    stored_bytes = data_file.read_bytes()
    tensors = safetensors.load(stored_bytes)
    kind_weights = tensors["weights"].astype(np.float32)
    return kind_weights, tensors["intercepts"]
