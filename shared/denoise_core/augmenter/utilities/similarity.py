"""Does any sentence of the evidence mean what the candidate says? By the embedded sentence encoder, or another.

A sentence encoder sees a paraphrase that no word shares, and hardly sees a changed number, name or negation.
Alone it is a poor judge; beside `Groundedness`, in a `LinearCombination`, it adds what words miss.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from denoise_core.augmenter.vectors import Embed, KeptVectors
from denoise_core.support.abstention import abstains
from denoise_core.support.answers import parse
from denoise_core.support.citing import uncited
from denoise_core.text.chunk import sentences
from denoise_core.text.words import words
from denoise_core.types import Passage

_LONGEST = 20_000  # characters of a candidate that are read, as in `Groundedness`


class Similarity:
    """A score for `FunctionUtility`: the mean over the candidate's sentences of the best cosine to a sentence of
    the evidence, 0 where it is negative.

    ``embed`` is MiniLM from the extra ``embedded`` unless another is given (texts to ``(texts, width)``); it is
    loaded at the first call. The vectors of the last ``keep`` texts are kept, so a loop embeds its evidence once.
    """

    def __init__(self, embed: Embed | None = None, *, keep: int = 4096) -> None:
        self.vectors = KeptVectors(embed or _embedded, keep=keep)

    def __call__(self, question: str, evidence: Sequence[str], candidate: str) -> float | None:
        """0 to 1; 0 for a candidate without words or of more than 20,000 characters; None for an abstention and
        for evidence without text."""
        if len(candidate) > _LONGEST or not words(candidate):
            return 0.0
        told = told_by(evidence)
        if abstains(candidate) or not told:
            return None
        said = said_by(candidate)
        found = self.vectors([*said, *told])
        best = (found[: len(said)] @ found[len(said) :].T).max(1)
        return float(best.clip(0.0, 1.0).mean())

    def read(self, cases: Iterable[tuple[Sequence[str], str]]) -> None:
        """Embed the texts of many (evidence, candidate) in one call, for a later call to find; as far as they
        fit into ``keep``."""
        texts = dict.fromkeys(
            t for evidence, candidate in cases for t in (*said_by(candidate), *told_by(evidence))
        )
        if texts:
            self.vectors(list(texts))


def said_by(candidate: str) -> list[str]:
    """The sentences of a candidate that say something, without citations."""
    text = uncited(candidate)
    return [claim.said for claim in parse(text).claims] or [text.strip()]


def told_by(evidence: Sequence[str]) -> list[str]:
    """The sentences of the evidence."""
    found = []
    for text in evidence:
        spans = sentences(Passage(text, "evidence"))
        found += [t for t in (text[s.start : s.end].strip() for s in spans) if t]
    return found


def _embedded(texts: list[str]) -> Any:
    from denoise_core.embedded import encoder

    return encoder().vectors(texts)
