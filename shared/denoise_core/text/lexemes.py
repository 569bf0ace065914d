"""A text as words, numbers and marks with their positions, for every fact reader."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

LexemeKind = Literal["word", "number", "ideograph", "mark"]

_IDEOGRAPHS = "\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
# Marks written over and under letters: part of a word, but no letters themselves.
_VOWEL_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u0610-\u061a\u064b-\u065f"
    "\u0670\u06d6-\u06dc\u0900-\u0903\u093a-\u094f\u0962\u0963\u0981-\u0983\u09bc-\u09cd"
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u200d"
)
_APOSTROPHES = "'’ʼ‘`´"
_HYPHENS = "-‐‑\u00ad"
_LEXEME = re.compile(
    r"(?P<number>\d+(?:[.,:/'’\u00a0\u202f]\d+)*)"
    rf"|(?P<ideograph>[{_IDEOGRAPHS}])"
    rf"|(?P<word>[^\W\d_{_IDEOGRAPHS}]+"
    rf"(?:(?:[{_APOSTROPHES}]|[{_HYPHENS}](?:\n[ \t]{{0,9}})?|_)?"
    rf"(?:[^\W_{_IDEOGRAPHS}]|[{_VOWEL_MARKS}])+)*)"
    r"|(?P<mark>[^\w\s]|_)"
)
_PLAIN_MARKS = str.maketrans(
    dict.fromkeys(_APOSTROPHES, "'") | dict.fromkeys(_HYPHENS, "-")
)
_BROKEN_WORD = re.compile(rf"[{_HYPHENS}]\n[ \t]{{0,9}}|\u00ad")
# 1,234.5 and 12,34,567; 1.234,5 and 3,5. Anything else with a comma is a row of cells.
_COMMA_NUMBER = re.compile(
    r"\d+(?:,\d{2,3})*,\d{3}(?:\.\d+)?|\d+(?:[.'’\u00a0\u202f]\d{3})*,\d+|.*[:/].*"
)
_ROW_PART = re.compile(r"[^,]+|,")
_SPACED_NUMBER = re.compile(r"\d{1,3}(?: \d{3})+(?![\d.,:/]*\d)")
_PADDING = 5


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A word, number, ideograph or mark.

    Attributes:
        text: The raw characters ``[start, end)``.
        folded_text: For comparison: see `fold_case`.
        kind: Which of the four it is.
        start: First character.
        end: Character after the last one.
        starts_line: True if a line begins with it.
    """

    text: str
    folded_text: str
    kind: LexemeKind
    start: int
    end: int
    starts_line: bool = False

    @property
    def is_capitalized(self) -> bool:
        """Whether the first character is upper case."""
        return self.text[:1].isupper() or self.text[:1].istitle()


Lexemes: TypeAlias = Sequence[Lexeme]

OUTSIDE = Lexeme("", "", "mark", -9, -9)
"""What is before the first and after the last lexeme: adjacent to nothing."""


def pad_lexemes(lexemes: Lexemes) -> list[Lexeme]:
    """Append copies of `OUTSIDE`, so a reader may look a few positions around each.

    Negative indices reach them too, so they also precede the first lexeme.
    """
    return [*lexemes, *[OUTSIDE] * _PADDING]


def tokenize_text(text: str) -> list[Lexeme]:
    """Return the lexemes of a text in order, without white space.

    Linear in the length of the text. Numbers in the cells of a row without spaces are
    one lexeme each.

    >>> [lexeme.text for lexeme in tokenize_text("10.9,1590,9 or 1,234.5")]
    ['10.9', ',', '1590', ',', '9', 'or', '1,234.5']
    """
    lexemes: list[Lexeme] = []
    previous_end = 0
    while match := _LEXEME.search(text, previous_end):
        kind: LexemeKind = match.lastgroup  # type: ignore[assignment]
        start, end = match.span()
        starts_line = not lexemes or "\n" in text[previous_end:start]
        is_row = kind == "number" and "," in match[0]
        if is_row and not _COMMA_NUMBER.fullmatch(match[0]):
            lexemes += _split_row(match[0], start, starts_line=starts_line)
            previous_end = end
            continue
        if kind == "number" and end - start <= 3:
            spaced_number = _SPACED_NUMBER.match(text, start)
            if spaced_number is not None:
                end = spaced_number.end()
        raw_text = text[start:end]
        folded_text = raw_text if kind == "mark" else fold_case(raw_text)
        lexemes.append(Lexeme(raw_text, folded_text, kind, start, end, starts_line))
        previous_end = end
    return lexemes


def _split_row(row_text: str, start: int, *, starts_line: bool) -> list[Lexeme]:
    """Return the numbers and commas of a row of cells that begins at ``start``."""
    lexemes = []
    for cell in _ROW_PART.finditer(row_text):
        kind: LexemeKind = "mark" if cell[0] == "," else "number"
        first, last = start + cell.start(), start + cell.end()
        lexemes.append(Lexeme(cell[0], cell[0], kind, first, last, starts_line))
        starts_line = False
    return lexemes


def fold_case(raw_text: str) -> str:
    r"""Return a word for comparison.

    Lower case, without compatibility forms, with one kind of apostrophe and hyphen,
    and joined if a line break hyphenates it.

    >>> fold_case("O’Brien"), fold_case("luke-\nwarm")
    ("o'brien", 'lukewarm')
    """
    if raw_text.isascii() and "\n" not in raw_text:
        return raw_text.lower().replace("`", "'")
    joined_word = _BROKEN_WORD.sub("", raw_text)
    folded_word = unicodedata.normalize("NFKC", joined_word).casefold()
    return folded_word.translate(_PLAIN_MARKS)
