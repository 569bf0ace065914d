"""What a trained policy sees of the memory: a fixed list of numbers, all between 0 and 1, each with a name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from denoise_core.augmenter.actions import Action, Draft, Readmit, Search, Send
from denoise_core.augmenter.engine import titled
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.vectors import Embed, KeptVectors
from denoise_core.text.words import content_words, words

Features: TypeAlias = Callable[[WorkingMemory], NDArray[np.float64]]

NAMES = (
    "always",
    "searched",
    "searched wide",
    "no evidence",
    "words of the question that the evidence has",
    "attempts / 3",
    "last score",
    "best score",
    "last verdict unknown",
    "last abstained or empty",
    "failures / 2",
    "dropped chunks left",
    "question mark",
    "begins like a question",
    "asks about someone or something named before",
    "first person",
    "length of the question / 30 words",
    "turns before / 10",
)

_ASKS = re.compile(
    r"^(?:and |so |but |ok(?:ay)?,? |great,? |also,? |thanks?,? )*(?:do|does|did|is|are|was|were|can|could|would|"
    r"will|has|have|what|which|who|when|where|why|how|any)\b",
    re.IGNORECASE,
)
_POINTS = re.compile(r"\b(?:they|them|their|it|its|there|this|that|those|these)\b", re.IGNORECASE)
_FIRST = re.compile(r"\b(?:i|i'm|i'd|my|me|we|our)\b", re.IGNORECASE)

# Every action a trained policy may take, in the order of its outputs.
ACTIONS: tuple[str, ...] = ("search", "search wide", "readmit", "draft", "send")


def memory_features(memory: WorkingMemory) -> NDArray[np.float64]:
    """The numbers named in `NAMES`; shape ``(18,)``."""
    last, best, question = memory.last, memory.best, memory.question
    asked = set(content_words(question))
    seen = {w for p in memory.evidence for w in words(titled(p))}
    kinds = {r.kind for r in last.verdict.reasons} if last else set()
    return np.array(
        [
            1.0,
            _did(memory, wide=False),
            _did(memory, wide=True),
            not memory.evidence,
            len(asked & seen) / len(asked) if asked else 0.0,
            min(1.0, len(memory.attempts) / 3),
            last.verdict.score if last else 0.0,
            best.verdict.score if best else 0.0,
            last is not None and last.verdict.outcome == "unknown",
            bool(kinds & {"abstention", "empty"}),
            min(1.0, len(memory.failures) / 2),
            bool(memory.dropped),
            "?" in question,
            _ASKS.match(question) is not None,
            _POINTS.search(question) is not None,
            _FIRST.search(question) is not None,
            min(1.0, len(question.split()) / 30),
            min(1.0, len(memory.history) / 10),
        ],
        dtype=np.float64,
    )


def with_text(embed: Embed) -> Features:
    """`memory_features` and, after them, the embedding of the question by any text encoder, held fixed.

    ``embed`` takes texts and gives an array of shape ``(texts, width)``: a `TextEncoder` for models of
    transformers, a sentence-transformers model's ``encode``, or anything of that form. It is asked once for
    each question, as long as that question is among the 4096 last ones.
    """
    vectors = KeptVectors(embed)

    def features(memory: WorkingMemory) -> NDArray[np.float64]:
        return np.concatenate([memory_features(memory), vectors([memory.question])[0].astype(np.float64)])

    return features


def allowed(memory: WorkingMemory, *, attempts: int) -> NDArray[np.bool_]:
    """Which of `ACTIONS` make sense now; never none."""
    searched, wide = _did(memory, wide=False), _did(memory, wide=True)
    drafts = len(memory.attempts) < attempts
    may = np.array([not searched, searched and not wide, bool(memory.dropped), drafts, bool(memory.attempts)])
    if not may.any():
        may[3] = True
    return may


def action_of(index: int, probability: float) -> Action:
    name = ACTIONS[index]
    if name == "readmit":
        return Readmit(probability=probability)
    if name == "draft":
        return Draft(probability)
    if name == "send":
        return Send(probability)
    return Search(wide=name == "search wide", probability=probability)


def index_of(action: Action) -> int | None:
    """The place of an action in `ACTIONS`; None for one that a trained policy never takes."""
    if isinstance(action, Search):
        return 1 if action.wide else 0
    return next((n for kind, n in ((Readmit, 2), (Draft, 3), (Send, 4)) if isinstance(action, kind)), None)


def _did(memory: WorkingMemory, *, wide: bool) -> bool:
    return any(isinstance(a, Search) and a.wide == wide for a in memory.actions)


def names_of(width: int) -> Sequence[str]:
    """Names for ``width`` numbers: ours, then the coordinates of the embedding."""
    return [*NAMES, *(f"embedding {n}" for n in range(width - len(NAMES)))][:width]
