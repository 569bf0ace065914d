"""A trained policy: a linear softmax over named features of the memory (LLM-Augmenter, section 2.2).

`LinearPolicy.from_json` reads what ``as_json`` of a trained policy returned. The paper's policy is a T5 model,
this one is linear.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.augmenter.actions import Action, Draft, Readmit, Search, Send
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.prompts import with_title_line
from denoise_core.errors import InputError
from denoise_core.text.words import content_words, split_words

VERSION = 1  # of the JSON

_QUESTION_START = re.compile(
    r"^(?:and |so |but |ok(?:ay)?,? |great,? |also,? |thanks?,? )*(?:do|does|did|is|are|was|were|can|could|would|"
    r"will|has|have|what|which|who|when|where|why|how|any)\b",
    re.IGNORECASE,
)
_REFERENCE_WORDS = re.compile(
    r"\b(?:they|them|their|it|its|there|this|that|those|these)\b", re.IGNORECASE
)
_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i'd|my|me|we|our)\b", re.IGNORECASE)

# Every action a trained policy may take, in the order of its outputs.
_ACTIONS: dict[str, Action] = {
    "search": Search(),
    "search wide": Search(wide=True),
    "readmit": Readmit(),
    "draft": Draft(),
    "send": Send(),
}
ACTIONS = tuple(_ACTIONS)


def _has_searched(memory: WorkingMemory, *, wide: bool) -> bool:
    searches = [action for action in memory.actions if isinstance(action, Search)]
    return any(search.wide == wide for search in searches)


def named_features(memory: WorkingMemory) -> dict[str, float]:
    """The numbers that a trained policy sees, by name."""
    return {
        "always": 1.0,
        **_evidence_features(memory),
        **_attempt_features(memory),
        **_question_features(memory),
    }


def _evidence_features(memory: WorkingMemory) -> dict[str, float]:
    question_words = set(content_words(memory.question))
    evidence_words: set[str] = set()
    for passage in memory.evidence:
        evidence_words.update(split_words(with_title_line(passage)))
    covered_share = 0.0
    if question_words:
        covered_share = len(question_words & evidence_words) / len(question_words)
    return {
        "searched": _has_searched(memory, wide=False),
        "searched wide": _has_searched(memory, wide=True),
        "no evidence": not memory.evidence,
        "words of the question that the evidence has": covered_share,
    }


def _attempt_features(memory: WorkingMemory) -> dict[str, float]:
    last_score = 0.0
    is_unknown = False
    is_abstention = False
    if memory.last is not None:
        verdict = memory.last.verdict
        last_score = verdict.score
        is_unknown = verdict.outcome == "unknown"
        is_abstention = not verdict.kinds.isdisjoint(("abstention", "empty"))
    best_score = 0.0
    if memory.best is not None:
        best_score = memory.best.verdict.score
    return {
        "attempts / 3": min(1.0, len(memory.attempts) / 3),
        "last score": last_score,
        "best score": best_score,
        "last verdict unknown": is_unknown,
        "last abstained or empty": is_abstention,
        "failures / 2": min(1.0, len(memory.failures) / 2),
        "dropped chunks left": bool(memory.dropped),
    }


def _question_features(memory: WorkingMemory) -> dict[str, float]:
    question = memory.question
    refers_back = _REFERENCE_WORDS.search(question) is not None
    return {
        "question mark": "?" in question,
        "begins like a question": _QUESTION_START.match(question) is not None,
        "asks about someone or something named before": refers_back,
        "first person": _FIRST_PERSON.search(question) is not None,
        "length of the question / 30 words": min(1.0, len(question.split()) / 30),
        "turns before / 10": min(1.0, len(memory.history) / 10),
    }


FEATURE_NAMES = tuple(named_features(WorkingMemory("?")))


def memory_features(memory: WorkingMemory) -> NDArray[np.float64]:
    """The numbers named in `FEATURE_NAMES`; shape ``(18,)``."""
    return np.array(list(named_features(memory).values()), dtype=np.float64)


def allowed_actions(memory: WorkingMemory, *, attempts: int) -> NDArray[np.bool_]:
    """Which of `ACTIONS` make sense now, at least one; shape ``(5,)``."""
    has_searched = _has_searched(memory, wide=False)
    has_searched_wide = _has_searched(memory, wide=True)
    is_allowed = np.array(
        [
            not has_searched,
            has_searched and not has_searched_wide,
            bool(memory.dropped),
            len(memory.attempts) < attempts,
            bool(memory.attempts),
        ]
    )
    if not is_allowed.any():
        is_allowed[ACTIONS.index("draft")] = True
    return is_allowed


class LinearPolicy:
    """Chooses the most probable allowed action or, with ``rng``, draws one; the action has its probability.

    Args:
        weights: Shape ``(actions, features)``; zeros (the default) make all allowed actions
            equally probable.
        rng: Draws the actions. A policy with one is for one loop at a time.
        attempts: Number of drafts after which no further one is chosen.

    Raises:
        InputError: Weights of another shape, or not finite.
    """

    def __init__(
        self,
        weights: NDArray[np.float64] | None = None,
        *,
        rng: random.Random | None = None,
        attempts: int = 3,
    ) -> None:
        shape = (len(ACTIONS), len(FEATURE_NAMES))
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
        probabilities = self.action_probabilities(memory).tolist()
        index = int(np.argmax(probabilities))
        probability = 1.0
        if self.rng is not None:
            (index,) = self.rng.choices(range(len(ACTIONS)), weights=probabilities)
            probability = probabilities[index]
        return replace(_ACTIONS[ACTIONS[index]], probability=probability)

    def action_probabilities(self, memory: WorkingMemory) -> NDArray[np.float64]:
        """Probability of each of `ACTIONS`, 0 for those that make no sense now; shape ``(5,)``."""
        scores = self.weights @ memory_features(memory)
        return softmax(scores, allowed_actions(memory, attempts=self.attempts))

    def as_json(self) -> dict[str, Any]:
        """Plain JSON, to save it: version, attempts, features, and by action one weight for each feature."""
        weights = {}
        for action_name, action_weights in zip(ACTIONS, self.weights, strict=True):
            weights[action_name] = action_weights.tolist()
        return {
            "version": VERSION,
            "attempts": self.attempts,
            "features": list(FEATURE_NAMES),
            "weights": weights,
        }

    @staticmethod
    def from_json(policy_record: Mapping[str, Any]) -> LinearPolicy:
        """Return the policy that ``as_json`` wrote.

        Raises:
            InputError: It is of another version, has other features, or is no policy.
        """
        try:
            is_same_version = policy_record["version"] == VERSION
            if not is_same_version or policy_record["features"] != list(FEATURE_NAMES):
                raise InputError(
                    "policy: saved by another version, whose features have another meaning; train again"
                )
            action_weights = policy_record["weights"]
            weights = np.array(
                [action_weights[action_name] for action_name in ACTIONS],
                dtype=np.float64,
            )
            return LinearPolicy(weights, attempts=int(policy_record["attempts"]))
        except InputError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"policy: not as as_json() writes it: {type(error).__name__}: {error}"
            ) from error


def softmax(
    scores: NDArray[np.float64], is_allowed: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Probabilities over the allowed actions, 0 for the others; both ``(..., actions)``."""
    allowed_scores = np.where(is_allowed, scores, -np.inf)
    powers = np.exp(allowed_scores - allowed_scores.max(-1, keepdims=True))
    probabilities: NDArray[np.float64] = powers / powers.sum(-1, keepdims=True)
    return probabilities
