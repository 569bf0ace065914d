"""Read a judge's reply: one line a unit, and a last line on the whole answer.

    1 supported 1.2 3.1
    2 contradicted 1.4 "in 1899"
    answers

A scanner reads it, so a broken or truncated reply keeps what is readable. What is not
understood in full is left out and asked for again: "1 supported, but not the date" is
no line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal, TypeAlias, get_args

from denoise_core.errors import UnparsableReply
from denoise_core.support.judging import AnswerKind
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
_MAX_LINES = 2000
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
    if name in _DETAIL_KINDS and not _have_kinds(details, _DETAIL_KINDS[name]):
        return None
    number_texts = _expand_ranges(number_tokens)
    numbers = list(map(int, number_texts))
    labels = tuple(label for label in _expand_ranges(details) if "." in label)
    quoted_words = [token.text for token in details if token.kind == "words"]
    words = ""
    if quoted_words:
        words = quoted_words[0]
    return numbers, name, labels, words  # type: ignore[return-value]


def _have_kinds(tokens: Sequence[_Token], kinds: Collection[str]) -> bool:
    return all(token.kind in kinds for token in tokens)


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
    """Yield the tokens of a line, in lower case; brackets and commas separate them."""
    position = 0
    while position < len(line):
        character = line[position]
        end = position + 1
        if character in _QUOTATION_MARKS:
            closing_mark = _QUOTATION_MARKS[character]
            closing = line.find(closing_mark, end)
            if closing < 0:
                closing = len(line)
            yield _Token("words", line[end:closing])
            end = closing + 1
        elif character.isdecimal() and character.isascii():
            end = _number_end(line, end)
            number_text = line[position:end]
            kind: Literal["label", "number"] = (
                "label" if "." in number_text else "number"
            )
            if number_text.isascii() and len(number_text) < 12:
                yield _Token(kind, number_text)
            else:
                yield _Token("word", number_text)
        elif character.isalpha():
            while line[end : end + 1].isalnum():
                end += 1
            name = line[position:end].lower()
            for word in name.split("_"):
                yield _Token("word", word)
        elif character in _SIGN_KINDS:
            yield _Token(_SIGN_KINDS[character], character)
        position = end


def _number_end(line: str, position: int) -> int:
    """The end of the digits here, and of digits behind a point that follows."""
    end = _digits_end(line, position)
    fraction_end = _digits_end(line, end + 1)
    has_point = line[end : end + 1] == "."
    if has_point and fraction_end > end + 1:
        return fraction_end
    return end


def _digits_end(line: str, position: int) -> int:
    while line[position : position + 1].isdecimal():
        position += 1
    return position
