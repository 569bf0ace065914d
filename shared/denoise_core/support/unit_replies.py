"""Read a judge's reply: one line a unit, and a last line on the whole answer.

    1 supported 1.2 3.1
    2 contradicted 1.4 "in 1899"
    answers

A scanner reads it, so a broken or truncated reply keeps what is readable. What is not
understood in full is left out and asked for again: "1 supported, but not the date" is
no line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from denoise_core.errors import UnparsableReply
from denoise_core.support.citation_marks import named_labels
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
# What may follow a verdict that lets a unit or an answer pass: words could take it back.
_DETAIL_KINDS: Mapping[str, frozenset[str]] = {
    "supported": frozenset(("labels",)),
    "inferred": frozenset(("labels",)),
    "no_claim": frozenset(("labels", "words")),
    "answers": frozenset(("labels", "words")),
}
_FILLERS = frozenset(("unit", "evidence", "verdict", "label", "labels"))
# Quoted words, a label or number or a range of them, and words; digits that name no unit
# and no sentence are a word, and so is a question mark: a verdict that is asked is none.
_TOKEN = re.compile(
    r'"(?P<straight>[^"]*)"?|[“„](?P<curly>[^”“]*)[”“]?|«(?P<angle>[^»]*)»?'
    r"|(?P<labels>(?a:(?:\d{1,5}\.\d{1,5}|\d{1,3})"
    r"(?:\s?[-–—]\s?(?:\d{1,5}\.\d{1,5}|\d{1,3}))?)(?!\.?\d))"
    r"|(?P<word>[^\W_]+|[?？؟])"
)
_MAX_LINES = 2000


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
        known_line = self.lines.get(number, line)
        self.lines[number] = min(
            line, known_line, key=lambda unit_line: _VERDICTS.index(unit_line.verdict)
        )

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
    all_lines = text.split("\n", _MAX_LINES)
    read_lines = all_lines[:_MAX_LINES]
    for line in read_lines:
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


def _scan_line(
    line: str,
) -> tuple[list[int], UnitVerdict | AnswerKind, tuple[str, ...], str] | None:
    """Read a line as unit numbers, a verdict, labels and words; None if it is none."""
    number_texts: list[str] = []
    name_words: list[str] = []
    details: dict[str, list[str]] = {}  # what follows the name, by kind
    for match in _TOKEN.finditer(line):
        kind = match.lastgroup or ""
        text = match[kind]
        if kind in ("word", "labels"):
            text = text.casefold()
        else:
            kind = "words"
        if text in _FILLERS:
            continue
        if kind == "labels" and not name_words and not details:
            number_texts.append(text)
        elif kind == "word" and not details:
            name_words.append(text)
        else:
            details.setdefault(kind, []).append(text)
    name = "_".join(name_words)
    name = _SYNONYMS.get(name, name)
    if name not in _VERDICTS and name not in _ANSWER_KINDS:
        return None
    detail_kinds = details.keys()
    allowed_kinds = _DETAIL_KINDS.get(name, detail_kinds)
    if not detail_kinds <= allowed_kinds:
        return None
    numbers = _expand_labels(number_texts)
    if not all(map(str.isdecimal, numbers)):
        return None
    detail_labels = _expand_labels(details.get("labels", []))
    labels = tuple(label for label in detail_labels if "." in label)
    quoted_words = details.get("words", [""])
    return list(map(int, numbers)), name, labels, quoted_words[0]


def _expand_labels(texts: Sequence[str]) -> list[str]:
    """The numbers and labels of texts; "1.2-1.4" is three of them, as "2-4" is.

    Of a range with more than three digits these are its ends: no citation is so long.
    """
    labels: list[str] = []
    for text in texts:
        plain_text = text.replace("—", "-")
        labels += named_labels(plain_text) or plain_text.split("-")
    return labels
