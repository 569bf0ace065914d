"""An answer, parsed before it is judged: what it claims, each claim with its exact place, and what claims nothing.

Models answer in Markdown, tables, JSON, steps and lists, behind their reasoning and in front of an offer to help.
Markdown is read by markdown-it-py, JSON by the standard library; what either leaves is prose, cut into sentences.
Nothing is moved: what does not count is overwritten with blanks, so every place is one of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from denoise_core.support.layout import (
    blanked,
    cells,
    in_words,
    inline,
    line_starts,
    one_for_one,
    tokens_of,
    trimmed,
    whole,
)
from denoise_core.text.chunk import sentence_spans
from denoise_core.text.json_spans import json_leaves, parse_json_at
from denoise_core.text.language import detect_language
from denoise_core.text.lexemes import tokenize_text
from denoise_core.text.wordlists import FUNCTION_WORDS, word_set
from denoise_core.types import Passage

if TYPE_CHECKING:
    from markdown_it.token import Token

UnitKind = Literal[
    "sentence", "item", "cell", "field", "polarity", "code", "lead", "question", "talk", "reasoning"
]  # fmt: skip
CLAIM_KINDS = frozenset(("sentence", "item", "cell", "field", "polarity", "code"))
"""Kinds of pieces that claim something; the others assert nothing of the world."""

_THOUGHT = re.compile(
    r"<(think|thinking|thought|reasoning|scratchpad|analysis|reflection)>.*?(?:</\1>|\Z)"
    r"|</(think|thinking|thought|reasoning|scratchpad|analysis|reflection)>",
    re.DOTALL | re.IGNORECASE,
)
_TEXTS = frozenset(
    ("markdown", "md", "text", "txt", "plaintext")
)  # fences that hold an answer, not code
_EMPHASIS = str.maketrans("*`", "  ")
_TAGS = re.compile(r"</?[a-zA-Z][^<>\n]{0,60}>")
_BRACKETS = re.compile(r"\[[^\[\]\n]{1,80}\]|【[^】\n]{1,40}】")
_NUMBERED = re.compile(
    r"[\[【]\s{0,3}(?:\^|\w{1,9}\s)?\d{1,3}(?:\s{0,3}[,;–-]\s{0,3}\d{1,3}){0,40}[^\w\[\]]{0,9}[\]】]"
)

# Closed classes of words: how one says yes, asks, names what was read, is polite. What is claimed is never told by
# them; they only say where a claim begins.
_YES_NO = word_set(
    "yes yep ja sí si oui true correct 是 是的 对 はい no nope nein non false incorrect 不 不是 いいえ"
)
_OPEN = word_set(
    """
    who whom whose what which when where why how wer wen wem wessen welche welcher welches welchen welchem wann
    wo warum wieso wie qui que quoi quel quelle quels quelles quand où pourquoi comment combien quién quiénes qué
    cuál cuáles cuándo dónde cómo cuánto cuánta cuántos cuántas 谁 什 哪 几 何
    """
)
_MEANT = word_set(
    """
    answer answers based according provided given above following context passage passages document documents
    source sources text texts excerpt excerpts information evidence final short summary conclusion step result
    retrieved search results material details explanation
    """
)
_OF_REPLY = word_set(
    """
    source sources citation citations reference references confidence confident score reasoning rationale thought
    thoughts answered status language
    """
)
_POLITE = word_set(
    """
    sure certainly course absolutely great good excellent question happy glad help helps helped assist assistance
    thank thanks welcome let know hope free feel please ask anything else need questions clarification best kind
    regards dear hello hi hey greetings sorry more want like further details elaborate think work through
    """
)
_LONGEST = 30  # words of a polite sentence, at most


@dataclass(frozen=True, slots=True)
class AnswerUnit:
    """Characters ``[start, end)`` of an answer that belong together.

    ``text`` is what they say, without markup and citations. ``label`` says of what: the row and the column of a
    table's cell, the path of a JSON field, the line before a list, the question before a yes or no. ``citations``
    are the brackets that stand in it or right behind it. ``cut`` is what must go when the claim goes (the whole
    list item, the table's row), None where nothing can go.
    """

    kind: UnitKind
    text: str
    start: int
    end: int
    label: tuple[str, ...] = ()
    citations: tuple[tuple[int, int], ...] = ()
    cut: tuple[int, int] | None = None

    @property
    def is_claim(self) -> bool:
        """It says something of the world, so it can be right or wrong."""
        return self.kind in CLAIM_KINDS

    @property
    def standalone_text(self) -> str:
        """What it claims, readable by itself: behind its label."""
        if self.kind == "cell":
            return f"{', '.join(self.label)}: {self.text}" if self.label else self.text
        return " ".join(
            (*(x if x[-1] in ":?：？" else f"{x}:" for x in self.label), self.text)
        )


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """An answer as pieces, in order; they do not overlap."""

    answer: str
    units: tuple[AnswerUnit, ...]

    @property
    def claims(self) -> tuple[AnswerUnit, ...]:
        return tuple(p for p in self.units if p.is_claim)

    @property
    def text_without_reasoning(self) -> str:
        """The answer without the model's reasoning: what is sent."""
        out, at = "", 0
        for piece in self.units:
            if piece.kind == "reasoning":
                out, at = out + self.answer[at : piece.start], piece.end
        return (out + self.answer[at:]).strip() if at else self.answer


def parse_answer(
    answer: str, question: str = "", *, ids: Sequence[str] = ()
) -> ParsedAnswer:
    """The pieces of an answer to ``question``. Total and linear: any text is read, broken markup as prose.

    ``ids`` are names that count as citations in brackets beside numbers.

    >>> parsed = parse_answer("Based on the context, it was **1889** [1].")
    >>> [(unit.kind, unit.standalone_text) for unit in parsed.units]
    [('sentence', 'it was 1889.')]
    """
    return _parsed(answer, question, tuple(ids))


@lru_cache(maxsize=256)
def _parsed(answer: str, question: str, ids: tuple[str, ...]) -> ParsedAnswer:
    clean = one_for_one(answer)
    found = [AnswerUnit("reasoning", answer[a:b], a, b) for a, b in _reasoning(clean)]
    shown = list(blanked(clean, [(p.start, p.end) for p in found]))
    for piece in found:  # no sentence goes on behind reasoning: pieces do not overlap
        shown[piece.start : piece.start + 2] = "\n\n"
    found += _Reader(answer, question, ids, [p.start for p in found]).read(
        "".join(shown)
    )
    return ParsedAnswer(answer, tuple(sorted(found, key=lambda p: (p.start, p.end))))


def _reasoning(text: str) -> list[tuple[int, int]]:
    """Between <think> and </think>, with the tags; up to a closing tag that nothing opened; and to the end behind
    one that nothing closes: a reply that was cut off."""
    out, at = [], 0
    for found in _THOUGHT.finditer(text):
        out.append((at if found[2] else found.start(), found.end()))
        at = found.end()
    return out


class _Reader:
    """One answer read; ``lead`` is the line that names what follows it."""

    def __init__(
        self, answer: str, question: str, ids: tuple[str, ...], thoughts: Sequence[int]
    ) -> None:
        self.answer = answer
        self.thoughts = thoughts  # where reasoning begins, which is blank here
        self.question = " ".join(question.split())
        self.ids = frozenset(ids)
        self.language = detect_language(answer, detect_language(question, "en"))
        self.lead: tuple[str, ...] = ()
        self.opened = False

    def read(self, clean: str) -> Iterator[AnswerUnit]:
        start = len(clean) - len(clean.lstrip())
        if (
            clean[start : start + 1] in ("{", "[")
            and (tree := parse_json_at(clean, start))
            and not clean[tree[1] :].strip()
        ):
            yield from self._fields(clean, start)
            return
        found = list(self._blocks(clean))
        for n, piece in enumerate(found):
            if piece.kind == "lead" and not any(
                p.is_claim for p in found[n + 1 :]
            ):  # it announces nothing that came
                piece = replace(
                    piece,
                    kind="talk" if _talk(piece.text, self.question) else "sentence",
                )
            yield piece

    def _blocks(self, clean: str) -> Iterator[AnswerUnit]:
        tokens, lines = tokens_of(clean), line_starts(clean)
        items = 0  # how deep in list items
        item: tuple[int, int] | None = None
        head: list[str] | None = None  # of the open table
        for n, token in enumerate(tokens):
            at = token.map
            lined = (lines[at[0]], lines[min(at[1], len(lines) - 1)]) if at else None
            if token.type == "list_item_open":
                items += 1
                item = lined or item
            elif token.type == "list_item_close":
                items -= 1
                item = item if items else None
            elif (
                token.type in ("bullet_list_close", "ordered_list_close") and not items
            ):
                self.lead = ()
            elif token.type == "fence" and lined:
                yield from self._fence(clean, token, *lined)
            elif token.type == "tr_open" and lined:
                head = yield from self._row(clean, lined, head)
            elif token.type == "table_close":
                head = None
            elif token.type == "inline" and lined and head is None:
                heading = tokens[n - 1].type == "heading_open"
                if not items:
                    self.lead = self.lead if heading else ()
                yield from self._prose(
                    clean, inline(clean, token, *lined), lined[0], item, heading=heading
                )

    def _fence(
        self, clean: str, token: Token, start: int, end: int
    ) -> Iterator[AnswerUnit]:
        first = clean.find("\n", start, end) + 1 or end
        last = max(first, clean.rfind("\n", first, end - 1) + 1)
        if not clean[last:end].strip().startswith(token.markup[:3]):
            last = end  # nothing closes it
        start, end = trimmed(clean, first, last)
        start, end = trimmed(
            clean,
            start,
            min((a for a in self.thoughts if start < a < end), default=end),
        )
        tree = (
            parse_json_at(clean, start) if clean[start:end][:1] in ("{", "[") else None
        )
        if tree and not clean[tree[1] : end].strip():
            yield from self._fields(clean, start)
        elif token.info.strip().lower() in _TEXTS:
            yield from self._blocks(blanked(clean, [(0, first), (last, len(clean))]))
        elif start < end:
            yield AnswerUnit("code", self.answer[start:end], start, end, self.lead)

    def _row(
        self, clean: str, row: tuple[int, int], head: list[str] | None
    ) -> Generator[AnswerUnit, None, list[str]]:
        """The claims of a table's row; gives the names of the columns, which the first row has."""
        places = list(cells(clean, *row))
        texts = [_TAGS.sub(" ", clean[a:b]).strip(" *_`~") for a, b in places]
        if head is None:
            return texts
        for n, (start, end) in enumerate(places):
            if texts[n] and (n or len(places) == 1):
                label = tuple(x for x in (texts[0] if n else "", *head[n : n + 1]) if x)
                for piece in self._cut_up(
                    clean[start:end].translate(_EMPHASIS), start, "cell"
                ):
                    yield replace(piece, label=(*self.lead, *label), cut=row)
        return head

    def _fields(self, clean: str, at: int) -> Iterator[AnswerUnit]:
        for path, start, end in json_leaves(clean, at):
            label = tuple(in_words(p) for p in path if isinstance(p, str))
            raw = clean[start:end]
            if any(map(_of_the_reply, label)) or raw in ("null", '""'):
                continue
            if raw in ("true", "false"):
                yield AnswerUnit("polarity", raw, start, end, label)
                continue
            quoted = raw.startswith('"')
            for piece in self._cut_up(
                clean[start + quoted : end - quoted], start + quoted, "field"
            ):
                said = (
                    parse_json_at(f'"{piece.text}"', 0) if quoted else None
                )  # None for half of an escape
                text = str(said[0]) if said else piece.text
                yield replace(
                    piece, text=text, label=label if piece.is_claim else (), cut=None
                )

    def _prose(
        self,
        clean: str,
        shown: str,
        start: int,
        item: tuple[int, int] | None,
        *,
        heading: bool,
    ) -> Iterator[AnswerUnit]:
        found = list(self._cut_up(shown, start, "item" if item else "sentence"))
        alone = item is not None and sum(p.is_claim for p in found) == 1
        for piece in found:
            if not piece.is_claim:
                yield piece
            elif piece.kind != "polarity" and (
                heading or piece.text[-1:] in (":", "：")
            ):
                self.lead = (
                    () if _announces(piece.text) else (piece.text.rstrip(" :："),)
                )
                yield replace(piece, kind="lead")
            else:
                cut = (
                    item
                    if alone or piece.cut is None
                    else whole(clean, shown, start, *piece.cut)
                )
                yield replace(piece, label=(*self.lead, *piece.label), cut=cut)

    def _cut_up(self, buffer: str, start: int, kind: UnitKind) -> Iterator[AnswerUnit]:
        """Sentences of ``buffer``, which stands in the answer from ``start``."""
        cites = [m.span() for m in _BRACKETS.finditer(buffer) if self._cites(m[0])]
        shown = _TAGS.sub(lambda m: " " * len(m[0]), blanked(buffer, cites))
        for first, last in sentence_ranges(join_folded_lines(shown), self.language):
            mine = tuple((start + a, start + b) for a, b in cites if first <= a < last)
            for what, a, b in self._sentence(shown, *trimmed(shown, first, last), kind):
                a, b = trimmed(shown, a, b)
                text = re.sub(r" (?=[.,;:!?)])", "", " ".join(shown[a:b].split()))
                label = (self.question,) if what == "polarity" else ()
                yield AnswerUnit(
                    what,
                    text,
                    start + a,
                    start + b,
                    label,
                    mine,
                    (start + first, start + last),
                )

    def _sentence(
        self, shown: str, a: int, b: int, kind: UnitKind
    ) -> Iterator[tuple[UnitKind, int, int]]:
        """A sentence by its parts: a yes or no that it opens with, and what is claimed."""
        if not any(map(str.isalnum, shown[a:b])):
            return
        if shown[b - 1] in "?？؟":
            yield "question", a, b
            return
        end = 0 if self.opened else _opening(shown[a:b])
        self.opened = True
        if end:
            yield (
                (
                    "polarity"
                    if is_yes_no_question(self.question) and kind != "cell"
                    else "talk"
                ),
                a,
                a + end,
            )
        a, b = trimmed(shown, a + end, b)
        if any(map(str.isalnum, shown[a:b])):
            spoken = _talk(shown[a:b], self.question)
            yield ("talk", a, b) if spoken else (kind, a + _preamble(shown[a:b]), b)

    def _cites(self, bracket: str) -> bool:
        names = [n.strip() for n in re.split(r"[,;]", bracket[1:-1])]
        return _NUMBERED.fullmatch(bracket) is not None or (
            bool(names) and all(n in self.ids for n in names)
        )


# --- What speaks to the reader, not of the world


def _opening(text: str) -> int:
    """Characters of the yes or no that a text opens with, and of the mark behind it; 0 for none."""
    first, *behind = [*tokenize_text(text[:40]), None][:2]
    if first is None or first.folded_text not in _YES_NO:
        return 0
    if behind[0] is None:
        return len(text)
    return behind[0].end if behind[0].text in ",.:;!，。！—–-" else 0


def is_yes_no_question(question: str) -> bool:
    """The question can be answered by yes or no: it asks for no thing, place, time or reason."""
    words = [x for x in tokenize_text(question) if x.kind != "mark"]
    what = _OPEN | {"was"} if detect_language(question) == "de" else _OPEN
    return bool(words) and not any(
        x.folded_text in what and (not n or x.text.islower())
        for n, x in enumerate(words)
    )


def _talk(text: str, question: str) -> bool:
    """Every word of it that carries content is one of politeness, of the question or of the sources' names, and
    half are of politeness: it says nothing of the world."""
    said = _content(text)
    polite = sum(w in _POLITE for w in said)
    known = _POLITE | _MEANT | {x.folded_text for x in tokenize_text(question)}
    return 0 < polite <= len(said) <= min(_LONGEST, 2 * polite) and all(
        w in known for w in said
    )


def _preamble(text: str) -> int:
    """Characters of a beginning that only names what was read, with its comma or colon: "By the context,"."""
    mark = next((x for x in tokenize_text(text[:300]) if x.text in ",:：，"), None)
    if (
        mark is None
        or not _content(text[: mark.start])
        or not _announces(text[: mark.start])
    ):
        return 0
    return len(text) - len(text[mark.end :].lstrip())


def _announces(text: str) -> bool:
    """It only names what was read, or that an answer comes."""
    return all(w in _MEANT for w in _content(text))


def _of_the_reply(key: str) -> bool:
    """A key of JSON whose value is about the reply: sources, confidence."""
    return any(w.lower() in _OF_REPLY for w in key.split())


def _content(text: str) -> list[str]:
    """Its words that carry content, and its numbers."""
    words = (
        x.folded_text.split("'")[0] for x in tokenize_text(text) if x.kind != "mark"
    )
    return [w for w in words if w not in FUNCTION_WORDS]


# --- Sentences, of answers and of passages


def sentence_ranges(text: str, language: str) -> list[tuple[int, int]]:
    """Sentences as characters."""
    known = language if language in ("de", "fr", "es", "zh") else "en"
    return [
        (s.start, s.end) for s in sentence_spans(Passage(text, "e"), language=known)
    ]


def join_folded_lines(text: str) -> str:
    """The text with a blank for each line break inside a sentence, all places as they were."""
    lines = text.split("\n")
    return (
        "".join(
            line + (" " if _folds(line, after) else "\n")
            for line, after in pairwise(lines)
        )
        + lines[-1]
    )


def _folds(line: str, after: str) -> bool:
    """The break between two lines is inside a word or a sentence."""
    last = line[-1:]
    return bool(last) and (
        last in "-‐\u00ad" or ((last.isalpha() or last == ",") and after[:1].islower())
    )
