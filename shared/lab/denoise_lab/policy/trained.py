"""A policy that was trained: named numbers of the memory -> linear softmax (LLM-Augmenter, section 2.2).

`LinearPolicy.load` reads what training (`denoise_lab.policy.fit`) wrote. The paper's policy is a T5 model, this
one is linear.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.augmenter.actions import Action, Draft, Readmit, Search, Send
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.prompts import with_title_line
from denoise_core.errors import InputError
from denoise_core.text.words import content_words, split_words

VERSION = 1  # of what is saved

_ASKS = re.compile(
    r"^(?:and |so |but |ok(?:ay)?,? |great,? |also,? |thanks?,? )*(?:do|does|did|is|are|was|were|can|could|would|"
    r"will|has|have|what|which|who|when|where|why|how|any)\b",
    re.IGNORECASE,
)
_POINTS = re.compile(
    r"\b(?:they|them|their|it|its|there|this|that|those|these)\b", re.IGNORECASE
)
_FIRST = re.compile(r"\b(?:i|i'm|i'd|my|me|we|our)\b", re.IGNORECASE)

# Every action a trained policy may take, in the order of its outputs.
_ACTIONS: dict[str, Action] = {
    "search": Search(),
    "search wide": Search(wide=True),
    "readmit": Readmit(),
    "draft": Draft(),
    "send": Send(),
}
ACTIONS = tuple(_ACTIONS)


def _did(memory: WorkingMemory, *, wide: bool) -> bool:
    return any(isinstance(a, Search) and a.wide == wide for a in memory.actions)


def numbers_of(memory: WorkingMemory) -> dict[str, float]:
    """What a trained policy sees of the memory, each number under its name."""
    last, best, question = memory.last, memory.best, memory.question
    asked = set(content_words(question))
    seen = {w for p in memory.evidence for w in split_words(with_title_line(p))}
    kinds = last.verdict.kinds if last else frozenset()
    return {
        "always": 1.0,
        "searched": _did(memory, wide=False),
        "searched wide": _did(memory, wide=True),
        "no evidence": not memory.evidence,
        "words of the question that the evidence has": len(asked & seen) / len(asked)
        if asked
        else 0.0,
        "attempts / 3": min(1.0, len(memory.attempts) / 3),
        "last score": last.verdict.score if last else 0.0,
        "best score": best.verdict.score if best else 0.0,
        "last verdict unknown": last is not None and last.verdict.outcome == "unknown",
        "last abstained or empty": bool(kinds & {"abstention", "empty"}),
        "failures / 2": min(1.0, len(memory.failures) / 2),
        "dropped chunks left": bool(memory.dropped),
        "question mark": "?" in question,
        "begins like a question": _ASKS.match(question) is not None,
        "asks about someone or something named before": _POINTS.search(question)
        is not None,
        "first person": _FIRST.search(question) is not None,
        "length of the question / 30 words": min(1.0, len(question.split()) / 30),
        "turns before / 10": min(1.0, len(memory.history) / 10),
    }


NAMES = tuple(numbers_of(WorkingMemory("?")))


def memory_features(memory: WorkingMemory) -> NDArray[np.float64]:
    """The numbers named in `NAMES`; shape ``(18,)``."""
    return np.array(list(numbers_of(memory).values()), dtype=np.float64)


def allowed(memory: WorkingMemory, *, attempts: int) -> NDArray[np.bool_]:
    """Which of `ACTIONS` make sense now; never none."""
    searched, wide = _did(memory, wide=False), _did(memory, wide=True)
    drafts = len(memory.attempts) < attempts
    may = np.array(
        [
            not searched,
            searched and not wide,
            bool(memory.dropped),
            drafts,
            bool(memory.attempts),
        ]
    )
    if not may.any():
        may[3] = True
    return may


def action_of(index: int, probability: float) -> Action:
    return replace(_ACTIONS[ACTIONS[index]], probability=probability)


class LinearPolicy:
    """Chooses the likeliest allowed action or, with ``rng``, draws one; the probability is on the action
    (LLM-Augmenter, section 2.2; the paper's policy is a T5 model, this one is linear).

    ``weights`` has shape ``(actions, features)``; zeros (the default) are the random policy when drawn from.
    ``attempts`` is the number of drafts after which no further one is chosen. One policy with an ``rng`` is for
    one loop at a time. Raises `InputError` for weights of another shape.
    """

    def __init__(
        self,
        weights: NDArray[np.float64] | None = None,
        *,
        rng: random.Random | None = None,
        attempts: int = 3,
    ) -> None:
        shape = (len(ACTIONS), len(NAMES))
        if weights is None:
            weights = np.zeros(shape)
        self.weights = np.asarray(weights, np.float64)
        if self.weights.shape != shape or not np.isfinite(self.weights).all():
            raise InputError(
                f"weights: expected finite numbers of shape {shape}, got {self.weights.shape}"
            )
        self.rng = rng
        self.attempts = attempts

    def choose(self, memory: WorkingMemory) -> Action:
        chances = self.chances(memory)
        index = int(chances.argmax())
        if self.rng is not None:
            index = self.rng.choices(range(len(chances)), weights=chances.tolist())[0]
        return action_of(index, float(chances[index]) if self.rng is not None else 1.0)

    def chances(self, memory: WorkingMemory) -> NDArray[np.float64]:
        """Probability of each of `ACTIONS`, 0 for those that make no sense now; shape ``(5,)``."""
        scores = self.weights @ memory_features(memory)
        return softmax(scores, allowed(memory, attempts=self.attempts))

    def save(self, path: str | Path) -> None:
        """Write it to ``path`` as JSON, which ``load`` reads."""
        Path(path).write_text(
            json.dumps(self.as_json(), indent=1) + "\n", encoding="utf-8"
        )

    @staticmethod
    def load(path: str | Path) -> LinearPolicy:
        """The saved policy, choosing the likeliest. Raises `InputError` for a file that is none."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: not a saved policy: {error}") from error
        return LinearPolicy.from_json(data)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON: version, features, and by action one weight for each feature."""
        return {
            "version": VERSION,
            "attempts": self.attempts,
            "features": list(NAMES),
            "weights": {
                a: row.tolist() for a, row in zip(ACTIONS, self.weights, strict=True)
            },
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> LinearPolicy:
        """The policy that ``as_json`` wrote; `InputError` for another version's or another shape."""
        try:
            if data["version"] != VERSION or data["features"] != list(NAMES):
                raise InputError(
                    "policy: saved by another version, whose features have another meaning; train again"
                )
            weights = np.array([data["weights"][a] for a in ACTIONS], dtype=np.float64)
            return LinearPolicy(weights, attempts=int(data["attempts"]))
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"policy: not as as_json() writes it: {type(error).__name__}: {error}"
            ) from error


def softmax(scores: NDArray[np.float64], may: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Probabilities over the allowed places; the others get 0."""
    masked = np.where(may, scores, -np.inf)
    powers = np.exp(masked - masked.max())
    found: NDArray[np.float64] = powers / powers.sum()
    return found
