"""Read a judge's reply: one line a unit, and a last line on the whole answer.

    1 supported 1.2 3.1
    2 contradicted 1.4 "in 1899"
    answers

A scanner reads it, so a broken or truncated reply keeps what is readable. What is not
understood in full is left out and asked for again: "1 supported, but not the date" is
no line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal, TypeAlias, get_args

from denoise_core.errors import UnparsableReply
from denoise_core.support.judging import AnswerKind
from denoise_core.text.lexemes import tokenize_text
from denoise_core.text.replies import strip_reasoning

UnitVerdict: TypeAlias = Literal[
    "contradicted", "not_stated", "unclear", "no_claim", "inferred", "supported"
]
"""What a judge may say of a unit, the worst first: of two lines the worse one counts."""
_VERDICTS: tuple[UnitVerdict, ...] = get_args(UnitVerdict)
_ANSWER_KINDS: tuple[AnswerKind, ...] = (
    "wrongly_abstains",
    "abstains",
    "off_question",
    "answers",
)
_SYNONYMS: Mapping[str, UnitVerdict] = {
    "not_supported": "not_stated",
    "unsupported": "not_stated",
    "noclaim": "no_claim",
}
_LABEL_KINDS = frozenset(("label", "range", "number"))
# What may follow a verdict that lets a unit or an answer pass: words could take it back.
_DETAIL_KINDS: Mapping[str, frozenset[str]] = {
    "supported": _LABEL_KINDS,
    "inferred": _LABEL_KINDS,
    "no_claim": _LABEL_KINDS | {"words"},
    "answers": _LABEL_KINDS | {"words"},
}
_QUOTATION_MARKS = {'"': '"', "“": "”", "„": "“", "«": "»"}
_FILLERS = frozenset(("unit", "evidence", "verdict", "label", "labels"))
# Marks that a number or a word may have inside: blanks, or a dash between two tokens.
_SEPARATORS = str.maketrans(",:/'’`_-‐‑", "       –––")
_MAX_LINES = 2000
_MAX_DIGITS = 12
_MAX_RANGE = 60  # labels of one range


@dataclass(frozen=True, slots=True)
class UnitLine:
    """One line of a reply: the verdict, the labels and the words it names."""

    verdict: UnitVerdict
    labels: tuple[str, ...] = ()
    words: str = ""


@dataclass(slots=True)
class UnitReplies:
    """What is readable of a reply.

    Attributes:
        lines: The line of each unit that has one.
        answer_kind: What the answer does with the question; "" where the reply does not
            say.
        labels: Evidence that answers what the answer wrongly declines.
    """

    lines: dict[int, UnitLine] = field(default_factory=dict)
    answer_kind: AnswerKind = ""
    labels: tuple[str, ...] = ()

    def add_line(self, number: int, line: UnitLine) -> None:
        """Add the line of a unit; of two lines the worse one counts."""
        lines = (line, self.lines.get(number, line))
        self.lines[number] = min(lines, key=lambda x: _VERDICTS.index(x.verdict))

    def add_answer_kind(self, kind: AnswerKind, labels: tuple[str, ...]) -> None:
        """Note what the answer does; of two the worse one counts."""
        known_kinds = filter(None, (self.answer_kind, kind))
        worst_kind = min(known_kinds, key=_ANSWER_KINDS.index)
        if worst_kind == kind:
            self.answer_kind = kind
            self.labels = labels


def read_unit_replies(reply_text: str, numbers: Sequence[int]) -> UnitReplies:
    """Read a reply about the units with these numbers; never raises.

    Lines about other units are left out.
    """
    replies = UnitReplies()
    try:
        text = strip_reasoning(reply_text)
    except UnparsableReply:
        return replies  # it ends inside its reasoning
    lines = text.split("\n", _MAX_LINES)
    for line in lines[:_MAX_LINES]:
        scanned = _scan_line(line)
        if scanned is None:
            continue
        unit_numbers, name, labels, words = scanned
        if name in _VERDICTS:
            for number in unit_numbers:
                if number in numbers:
                    unit_line = UnitLine(name, labels, words)
                    replies.add_line(number, unit_line)
        elif name in _ANSWER_KINDS and not unit_numbers:
            replies.add_answer_kind(name, labels)
    return replies


@dataclass(slots=True)
class _Token:
    """A piece of a line: a number, a label, a word or quoted words."""

    kind: Literal["number", "label", "word", "words", "range"]
    text: str


# A question mark is a word: a verdict that is asked is none.
_SIGN_KINDS: Mapping[str, Literal["range", "word"]] = {
    **dict.fromkeys("-–—", "range"),
    **dict.fromkeys("?？؟", "word"),
}


def _scan_line(
    line: str,
) -> tuple[list[int], UnitVerdict | AnswerKind, tuple[str, ...], str] | None:
    """Read a line as unit numbers, a verdict, labels and words; None if it is none."""
    tokens = []
    for token in _tokenize_line(line):
        if token.text not in _FILLERS:
            tokens.append(token)
    number_tokens = list(takewhile(lambda x: x.kind in ("number", "range"), tokens))
    after_numbers = tokens[len(number_tokens) :]
    name_tokens = list(takewhile(lambda x: x.kind in ("word", "range"), after_numbers))
    details = after_numbers[len(name_tokens) :]
    name = "_".join(token.text for token in name_tokens if token.kind == "word")
    name = _SYNONYMS.get(name, name)
    is_known = name in _VERDICTS or name in _ANSWER_KINDS
    if not is_known:
        return None
    detail_kinds = {token.kind for token in details}
    if name in _DETAIL_KINDS and not detail_kinds <= _DETAIL_KINDS[name]:
        return None
    number_texts = _expand_ranges(number_tokens)
    numbers = list(map(int, number_texts))
    labels = tuple(label for label in _expand_ranges(details) if "." in label)
    quoted_words = [token.text for token in details if token.kind == "words"]
    words = ""
    if quoted_words:
        words = quoted_words[0]
    return numbers, name, labels, words  # type: ignore[return-value]


def _expand_ranges(tokens: Sequence[_Token]) -> Iterator[str]:
    """The numbers and labels among tokens; "1.2-1.4" is three of them, as "2-4" is."""
    first_part: str | None = None  # a dash before the first number opens a list item
    first_number = 0
    is_range = False
    for token in tokens:
        if token.kind in ("label", "number"):
            part, point, number = token.text.rpartition(".")
            if is_range and part == first_part:
                highest_number = first_number + _MAX_RANGE
                last = min(int(number), highest_number)
                for n in range(first_number + 1, last + 1):
                    yield f"{part}{point}{n}"
            else:
                yield token.text
            first_part = part
            first_number = int(number)
        is_range = token.kind == "range"


def _tokenize_line(line: str) -> Iterator[_Token]:
    """Yield the tokens of a line, in lower case; other marks only separate them."""
    quoted_end = 0
    for lexeme in tokenize_text(line.translate(_SEPARATORS)):
        if lexeme.start < quoted_end:
            continue
        closing_mark = _QUOTATION_MARKS.get(lexeme.text)
        if closing_mark is not None:
            quoted_words, _, _ = line[lexeme.end :].partition(closing_mark)
            yield _Token("words", quoted_words)
            quoted_end = lexeme.end + len(quoted_words) + 1
        elif lexeme.kind == "number":
            for number_text in lexeme.text.split():
                yield _Token(_number_kind(number_text), number_text)
        elif lexeme.kind != "mark":
            yield _Token("word", lexeme.folded_text)
        elif lexeme.text in _SIGN_KINDS:
            yield _Token(_SIGN_KINDS[lexeme.text], lexeme.text)


def _number_kind(number_text: str) -> Literal["label", "number", "word"]:
    """A label has one point; digits that name no unit and no sentence are a word."""
    points = number_text.count(".")
    if points > 1 or not number_text.isascii() or len(number_text) >= _MAX_DIGITS:
        return "word"
    return "label" if points else "number"
