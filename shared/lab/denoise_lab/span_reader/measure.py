"""What figures of a reader are made of: comparing answers, the area under a curve, answers said as sentences."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import numpy as np
from denoise_core.embedded.reader.forward import Logits, Row
from denoise_core.embedded.reader.span_reader import Reads

from denoise_core.text.words import without_articles, words


class Kept:
    """A network that keeps what it said of the rows of one question: figures ask for most of them many times."""

    def __init__(self, network: Reads) -> None:
        self._network = network
        self._known: dict[tuple[int, ...], Logits] = {}

    def forget(self) -> None:
        self._known.clear()

    def logits(self, rows: Sequence[Row]) -> list[Logits]:
        new = list({r.ids: r for r in rows if r.ids not in self._known}.values())
        self._known.update(zip((r.ids for r in new), self._network.logits(new), strict=True))
        return [self._known[r.ids] for r in rows]


def auc(right: Sequence[float], wrong: Sequence[float]) -> float:
    """Chance that a right one scores above a wrong one, ties half."""
    a, b = (np.nan_to_num(np.array(x), nan=-1e9, neginf=-1e9, posinf=1e9) for x in (right, wrong))
    if not len(a) or not len(b):
        return float("nan")
    return float((a[:, None] > b[None, :]).mean() + 0.5 * (a[:, None] == b[None, :]).mean())


def exact(text: str, answers: Sequence[str]) -> bool:
    """Whether the text is an answer, but for case, punctuation and articles."""
    return any(_plain(text) == _plain(a) for a in answers if _plain(a))


def contained(text: str, answers: Sequence[str]) -> bool:
    """Whether an answer stands in the text, in whole words."""
    return any(_stands(text, a) for a in answers)


def sentence(question: str, answer: str, rng: random.Random) -> str:
    """The answer said as a sentence, in one of a few ways."""
    asked = re.sub(r"(?i)^(?:who|what|when|where|which|how many|how much|how|in which|in what)\s+", "", question)
    asked = asked.rstrip(" ?.")
    return rng.choice(
        (
            f"The answer is {answer}.",
            f"It was {answer}.",
            f"{answer} {asked}.",
            f"According to the text, {answer}.",
        )
    )


def _plain(text: str) -> list[str]:
    return without_articles(words(text))


def _stands(text: str, answer: str) -> bool:
    wanted = " ".join(_plain(answer))
    return bool(wanted) and f" {wanted} " in f" {' '.join(_plain(text))} "
