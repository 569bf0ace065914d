"""Judges by model name, as score functions for `FunctionUtility`. Nothing is loaded before the first call.

Each splits a long evidence over its passages and takes the best of them, because such models read a few
hundred tokens and cut the rest silently.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from denoise_core._optional import require
from denoise_core.augmenter.utilities.function import Score
from denoise_core.errors import InputError
from denoise_core.text.delimit import envelope

GROUNDED = "Is every statement of the answer said by the evidence? Judge by the evidence alone."


def nli(model: str, *, entailment: str | None = None, device: str = "cpu") -> Score:
    """Probability that the best passage entails the answer, by a sequence classification model.

    ``entailment`` is the label to read; by default the one of that name, in any case. Raises `InputError` at
    the first call when there is no such label.
    """

    def load() -> Callable[[list[tuple[str, str]]], list[float]]:
        torch = require("torch", extra="end")
        transformers = require("transformers", extra="end")
        tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        network = transformers.AutoModelForSequenceClassification.from_pretrained(model).to(device).eval()
        index = _label(dict(network.config.id2label), entailment)

        def probabilities(pairs: list[tuple[str, str]]) -> list[float]:
            inputs = tokenizer(pairs, padding=True, truncation="only_first", return_tensors="pt").to(device)
            with torch.inference_mode():
                found: list[float] = network(**inputs).logits.softmax(-1)[:, index].tolist()
            return found

        return probabilities

    return _best_passage(load)


def cross_encoder(model: str, *, device: str = "cpu") -> Score:
    """Score of the best passage for "question answer" by a sentence-transformers cross-encoder, as a
    probability (a sigmoid where the model gives logits)."""

    def load() -> Callable[[list[tuple[str, str]]], list[float]]:
        torch = require("torch", extra="end")
        network = require("sentence_transformers", extra="dense").CrossEncoder(model, device=device)

        def probabilities(pairs: list[tuple[str, str]]) -> list[float]:
            found: list[float] = network.predict(pairs, activation_fn=torch.nn.Sigmoid()).tolist()
            return found

        return probabilities

    return _best_passage(load)


def decision(decide: Any) -> Score:
    """The probability of yes to "is every statement said by the evidence?", from one forward pass.

    ``decide`` is a model name for the ``decision`` pipeline of transformers, such a pipeline, or any callable
    that takes ``{"state": text, "questions": {name: {"type": "noul", "instructions": text}}}`` and returns
    ``{name: {"noul": probability}}``.
    """
    named = _OneAtATime(lambda: require("transformers", extra="end").pipeline("decision", model=decide))

    def score(question: str, evidence: Sequence[str], candidate: str) -> float:
        shown = "\n".join(envelope(e, f"evidence {n}") for n, e in enumerate(evidence, 1))
        state = f"{shown}\n{envelope(question, 'question')}\n{envelope(candidate, 'draft')}"
        asked = {"state": state, "questions": {"grounded": {"type": "noul", "instructions": GROUNDED}}}
        found = named(asked) if isinstance(decide, str) else decide(asked)
        return float(found["grounded"]["noul"])

    return score


def _best_passage(load: Callable[[], Callable[[list[tuple[str, str]]], list[float]]]) -> Score:
    judge = _OneAtATime(load)

    def score(question: str, evidence: Sequence[str], candidate: str) -> float:
        found: list[float] = judge([(text, f"{question} {candidate}".strip()) for text in evidence])
        return max(found)

    return score


class _OneAtATime:
    """A model loaded at the first call; tokenizers and pipelines are not safe in two threads at once."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._model: Any = None

    def __call__(self, asked: Any) -> Any:
        with self._lock:
            if self._model is None:
                self._model = self._load()
            return self._model(asked)


def _label(names: dict[int, str], wanted: str | None) -> int:
    sought = (wanted or "entailment").casefold()
    for index, name in names.items():
        if str(name).casefold() == sought:
            return int(index)
    raise InputError(
        f"the model has no label {sought!r}; pass entailment= one of {', '.join(map(str, names.values()))}"
    )
