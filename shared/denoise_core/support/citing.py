"""What an answer takes from its passages: the citations in it, and how much of it is one unbroken quotation.

One resolver for all that reads citations: a number counts the passages as they were shown, from 1; only what is no
such number is looked up among their ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from denoise_core.text.words import split_words
from denoise_core.types import Passage

_BRACKETS = re.compile(r"\[([^\[\]\n]{1,80})\]|【([^】\n]{1,40})】")
_ORDINALS = re.compile(
    r"\^?(?:[^\W\d]{1,9}\.?\s)?(\d{1,3})(?:\s{0,3}[–-]\s{0,3}(\d{1,3}))?(?:†[^,;]*)?$"
)
_LONGEST_RANGE = 50
_STARTS = 50  # places of a word where a quotation may begin that are tried
SHORT = 40  # words; a shorter quotation is a fine answer


@dataclass(frozen=True, slots=True)
class Citation:
    """``[start, end)`` of the answer names the passages ``ids``; ``unknown`` are names of none."""

    start: int
    end: int
    ids: tuple[str, ...]
    unknown: tuple[str, ...]


def find_citations(answer: str, passages: Sequence[Passage]) -> list[Citation]:
    """``[1]``, ``[2, 4-6]``, ``[doc 3]``, ``【1†source】`` count the passages; ``[id]`` names one by its id.
    Brackets with anything else, and those in code, cite nothing. A year of four digits counts none."""
    ids = {p.id for p in passages}
    code = [m.span() for m in re.finditer(r"`[^`\n]*`", answer)]
    out: list[Citation] = []
    for match in _BRACKETS.finditer(answer):
        if any(a <= match.start() < b for a, b in code):
            continue
        known: list[str] = []
        unknown: list[str] = []
        for name in (part.strip() for part in re.split(r"[,;]", match[1] or match[2])):
            numbers = _ordinals(name)
            if numbers and (
                (numbers[0] and numbers[-1] <= len(passages)) or name not in ids
            ):
                known += [
                    passages[n - 1].id for n in numbers if 1 <= n <= len(passages)
                ]
                unknown += [f"[{n}]" for n in numbers if not 1 <= n <= len(passages)]
            elif name in ids:
                known.append(name)
            else:
                break  # words in brackets
        else:
            out.append(
                Citation(*match.span(), tuple(dict.fromkeys(known)), tuple(unknown))
            )
    return out


def cited_numbers(answer: str, count: int) -> tuple[int, ...]:
    """The numbers in brackets that name one of ``count`` passages, each once, in order of first mention."""
    shown = [Passage("", f"\0{n}") for n in range(1, count + 1)]
    return tuple(
        dict.fromkeys(int(i[1:]) for c in find_citations(answer, shown) for i in c.ids)
    )


def remove_citations(answer: str) -> str:
    """The answer without numbers in brackets."""
    return re.sub(r"\s?\[\d{1,3}(?:\s{0,9}[,;–-]\s{0,9}\d{1,3})*\]", "", answer)


def _ordinals(name: str) -> range:
    match = _ORDINALS.match(name)
    if match is None:
        return range(0)
    low = int(match[1])
    return range(low, min(int(match[2] or low), low + _LONGEST_RANGE) + 1)


def copied_passage_id(
    answer: str, passages: Sequence[Passage], share: float
) -> str | None:
    """The id of a passage of which one stretch makes up more than ``share`` of a long answer's words."""
    said = split_words(answer)
    if len(said) <= SHORT or share >= 1.0:
        return None
    for passage in passages:
        run = max(
            (b - a for a, b in matching_runs(said, split_words(passage.text))),
            default=0,
        )
        if run > SHORT and run > share * len(said):
            return passage.id
    return None


def matching_runs(
    said: Sequence[str], told: Sequence[str]
) -> Iterator[tuple[int, int]]:
    """Half-open ranges of ``said`` that stand in ``told`` word for word; greedy, linear in use."""
    starts: dict[str, list[int]] = {}
    for i, w in enumerate(told):
        starts.setdefault(w, []).append(i)
    at = 0
    while at < len(said):
        run = max(
            (
                _same(said, at, told, start)
                for start in starts.get(said[at], ())[:_STARTS]
            ),
            default=0,
        )
        if run:
            yield at, at + run
        at += max(run, 1)


def _same(said: Sequence[str], at: int, told: Sequence[str], start: int) -> int:
    n = 0
    while (
        at + n < len(said) and start + n < len(told) and said[at + n] == told[start + n]
    ):
        n += 1
    return n
