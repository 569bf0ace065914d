"""How much of an answer is one unbroken quotation of a passage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from denoise_core.text.words import words
from denoise_core.types import Passage

_STARTS = 50  # places of a word where a quotation may begin that are tried
SHORT = 40  # words; a shorter quotation is a fine answer


def copied_from(answer: str, passages: Sequence[Passage], share: float) -> str | None:
    """The id of a passage of which one stretch makes up more than ``share`` of a long answer's words."""
    said = words(answer)
    if len(said) <= SHORT or share >= 1.0:
        return None
    for passage in passages:
        run = max((b - a for a, b in runs(said, words(passage.text))), default=0)
        if run > SHORT and run > share * len(said):
            return passage.id
    return None


def runs(said: Sequence[str], told: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Half-open ranges of ``said`` that stand in ``told`` word for word; greedy, linear in use."""
    starts: dict[str, list[int]] = {}
    for i, w in enumerate(told):
        starts.setdefault(w, []).append(i)
    at = 0
    while at < len(said):
        run = max((_same(said, at, told, start) for start in starts.get(said[at], ())[:_STARTS]), default=0)
        if run:
            yield at, at + run
        at += max(run, 1)


def _same(said: Sequence[str], at: int, told: Sequence[str], start: int) -> int:
    n = 0
    while at + n < len(said) and start + n < len(told) and said[at + n] == told[start + n]:
        n += 1
    return n
