"""A text as words, numbers and marks with their places; what every reader of facts walks over."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

LexemeKind = Literal["word", "number", "ideograph", "mark"]

IDEOGRAPHS = "\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
# Marks that are written over and under letters, which are no letters by themselves.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc"
    "\u0900-\u0903\u093a-\u094f\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u200d"
)
_APOSTROPHES = "'’ʼ‘`´"
_HYPHENS = "-‐‑\u00ad"
_LEXEME = re.compile(
    r"(?P<number>\d+(?:[.,:/'’\u00a0\u202f]\d+)*)"
    rf"|(?P<ideograph>[{IDEOGRAPHS}])"
    rf"|(?P<word>[^\W\d_{IDEOGRAPHS}]+"
    rf"(?:(?:[{_APOSTROPHES}]|[{_HYPHENS}](?:\n[ \t]{{0,9}})?|_)?(?:[^\W_{IDEOGRAPHS}]|[{_MARKS}])+)*)"
    r"|(?P<mark>[^\w\s]|_)"
)
_FOLDED = str.maketrans(dict.fromkeys(_APOSTROPHES, "'") | dict.fromkeys(_HYPHENS, "-"))
_BROKEN = re.compile(rf"[{_HYPHENS}]\n[ \t]{{0,9}}|\u00ad")
_SPACED = re.compile(r"\d{1,3}(?: \d{3})+(?![\d.,:/]*\d)")


@dataclass(frozen=True, slots=True)
class Lexeme:
    """``lower`` is the folded form: case, compatibility forms, one kind of apostrophe and hyphen, words that a
    line break hyphenates in one piece. The characters are ``[start, end)``; ``line`` tells that a line begins."""

    text: str
    folded_text: str
    kind: LexemeKind
    start: int
    end: int
    starts_line: bool = False

    @property
    def is_capitalized(self) -> bool:
        return self.text[:1].isupper() or self.text[:1].istitle()


OUTSIDE = Lexeme("", "", "mark", -9, -9)
"""Stands before the first and behind the last lexeme: no word, and near nothing."""


def pad_lexemes(found: Sequence[Lexeme]) -> list[Lexeme]:
    """The lexemes with `OUTSIDE` behind them often enough to look at some places before and behind each."""
    return [*found, *[OUTSIDE] * 5]


def tokenize_text(text: str) -> list[Lexeme]:
    """In order; white space is left out. Linear in the length of the text."""
    found: list[Lexeme] = []
    at = 0
    while match := _LEXEME.search(text, at):
        shape: LexemeKind = match.lastgroup  # type: ignore[assignment]
        start, end = match.span()
        if (
            shape == "number"
            and end - start <= 3
            and (spaced := _SPACED.match(text, start))
        ):
            end = spaced.end()
        raw = text[start:end]
        line = not found or "\n" in text[found[-1].end : start]
        found.append(
            Lexeme(
                raw, fold_case(raw) if shape != "mark" else raw, shape, start, end, line
            )
        )
        at = end
    return found


def fold_case(raw: str) -> str:
    """
    >>> fold_case("O’Brien"), fold_case("luke-\\nwarm")
    ("o'brien", 'lukewarm')
    """
    if raw.isascii() and "\n" not in raw:
        return raw.lower().replace("`", "'")
    joined = _BROKEN.sub("", raw)
    return unicodedata.normalize("NFKC", joined).casefold().translate(_FOLDED)
