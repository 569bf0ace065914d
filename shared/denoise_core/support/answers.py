"""An answer, parsed before it is judged: what it claims, each claim with its exact place, and what claims nothing.

Models answer in Markdown, tables, JSON, steps and lists, behind their reasoning and in front of an offer to help.
Markdown is read by markdown-it-py, JSON by the standard library; what either leaves is prose, cut into sentences.
Nothing is moved: what does not count is overwritten with blanks, so every place is one of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from denoise_core.support.evidence import sentence_places, unfolded
from denoise_core.support.layout import (
    Inline,
    blanked,
    cells,
    in_words,
    inline,
    json_at,
    leaves,
    line_starts,
    one_for_one,
    tokens_of,
    trimmed,
    unescaped,
)
from denoise_core.support.wording import Wording, asks, opening, wording_of

if TYPE_CHECKING:
    from markdown_it.token import Token

Kind = Literal[
    "sentence", "item", "cell", "field", "polarity", "code", "lead", "question", "talk", "reasoning"
]  # fmt: skip
CLAIMS = frozenset(("sentence", "item", "cell", "field", "polarity", "code"))
"""Kinds of pieces that claim something; the others assert nothing of the world."""

_THOUGHT = re.compile(
    r"<(think|thinking|thought|reasoning|scratchpad|analysis|reflection)>.*?(?:</\1>|\Z)"
    r"|</(think|thinking|thought|reasoning|scratchpad|analysis|reflection)>",
    re.DOTALL | re.IGNORECASE,
)
_TEXTS = frozenset(("", "markdown", "md", "text", "txt", "plaintext"))  # fences that hold an answer, not code
_EMPHASIS = str.maketrans("*`", "  ")
_TAGS = re.compile(r"</?[a-zA-Z][^<>\n]{0,60}>")
_BRACKETS = re.compile(r"\[[^\[\]\n]{1,80}\]|【[^】\n]{1,40}】")
_NUMBERED = re.compile(
    r"[\[【]\s{0,3}(?:\^|\w{1,9}\s)?\d{1,3}(?:\s{0,3}[,;–-]\s{0,3}\d{1,3}){0,40}[^\w\[\]]{0,9}[\]】]"
)


@dataclass(frozen=True, slots=True)
class Piece:
    """Characters ``[start, end)`` of an answer that belong together.

    ``text`` is what they say, without markup and citations. ``label`` says of what: the row and the column of a
    table's cell, the path of a JSON field, the line before a list, the question before a yes or no. ``citations``
    are the brackets that stand in it or right behind it. ``cut`` is what must go when the claim goes (the whole
    list item, the table's row), None where nothing can go.
    """

    kind: Kind
    text: str
    start: int
    end: int
    label: tuple[str, ...] = ()
    citations: tuple[tuple[int, int], ...] = ()
    cut: tuple[int, int] | None = None

    @property
    def claims(self) -> bool:
        """It says something of the world, so it can be right or wrong."""
        return self.kind in CLAIMS

    @property
    def said(self) -> str:
        """What it claims, readable by itself: behind its label."""
        if self.kind == "cell":
            return f"{', '.join(self.label)}: {self.text}" if self.label else self.text
        return " ".join((*(x if x[-1] in ":?：？" else f"{x}:" for x in self.label), self.text))


@dataclass(frozen=True, slots=True)
class Parsed:
    """An answer as pieces, in order; they do not overlap."""

    answer: str
    pieces: tuple[Piece, ...]

    @property
    def claims(self) -> tuple[Piece, ...]:
        return tuple(p for p in self.pieces if p.claims)

    @property
    def reply(self) -> str:
        """The answer without the model's reasoning: what is sent."""
        out, at = "", 0
        for piece in self.pieces:
            if piece.kind == "reasoning":
                out, at = out + self.answer[at : piece.start], piece.end
        return (out + self.answer[at:]).strip() if at else self.answer


def parse(answer: str, question: str = "", *, ids: Sequence[str] = ()) -> Parsed:
    """The pieces of an answer to ``question``. Total and linear: any text is read, broken markup as prose.

    ``ids`` are names that count as citations in brackets beside numbers.

    >>> [(p.kind, p.said) for p in parse("Based on the context, it was **1889** [1].").pieces]
    [('sentence', 'it was 1889.')]
    """
    return _parsed(answer, question, tuple(ids))


@lru_cache(maxsize=256)
def _parsed(answer: str, question: str, ids: tuple[str, ...]) -> Parsed:
    clean = one_for_one(answer)
    found = [Piece("reasoning", answer[a:b], a, b) for a, b in _reasoning(clean)]
    shown = list(blanked(clean, [(p.start, p.end) for p in found]))
    for piece in found:
        shown[piece.start : piece.start + 2] = (
            "\n\n"  # no sentence goes on behind reasoning: pieces do not overlap
        )
    reader = _Reader(answer, question, ids)
    found += list(reader.read("".join(shown)))
    return Parsed(answer, tuple(sorted(found, key=lambda p: (p.start, p.end))))


def _reasoning(text: str) -> list[tuple[int, int]]:
    """Between <think> and </think>, with the tags; up to a closing tag that nothing opened; and to the end behind
    one that nothing closes: a reply that was cut off."""
    out, at = [], 0
    for found in _THOUGHT.finditer(text):
        out.append((at if found[2] else found.start(), found.end()))
        at = found.end()
    return out


class _Reader:
    """One answer read; ``heads`` and ``lead`` are the lines that name what follows them."""

    def __init__(self, answer: str, question: str, ids: tuple[str, ...]) -> None:
        self.answer = answer
        self.question = " ".join(question.split())
        self.ids = frozenset(ids)
        self.wording: Wording = wording_of(answer, question)
        self.lead: tuple[str, ...] = ()
        self.opened = False

    def read(self, clean: str) -> Iterator[Piece]:
        start = len(clean) - len(clean.lstrip())
        body = clean.strip()
        if body[:1] in ("{", "[") and (tree := json_at(clean, start)) and not clean[tree[1] :].strip():
            yield from self._fields(clean, start)
            return
        lines = line_starts(clean)
        tokens = tokens_of(clean)
        found = list(self._blocks(clean, tokens, lines))
        for n, piece in enumerate(found):
            if piece.kind == "lead" and not any(p.claims for p in found[n + 1 :]):
                piece = replace(piece, kind="sentence")  # it announces nothing that came
                if self.wording.talk(piece.text):
                    piece = replace(piece, kind="talk")
            yield piece

    def _blocks(self, clean: str, tokens: Sequence[Token], lines: list[int]) -> Iterator[Piece]:
        items = 0  # how deep in list items
        item: tuple[int, int] | None = None
        n = 0
        while n < len(tokens):
            token = tokens[n]
            at = token.map
            lined = (lines[at[0]], lines[min(at[1], len(lines) - 1)]) if at else None
            if token.type == "list_item_open":
                items += 1
                item = lined or item
            elif token.type == "list_item_close":
                items -= 1
                item = item if items else None
            elif token.type in ("bullet_list_close", "ordered_list_close") and not items:
                self.lead = ()
            elif token.type == "fence" and lined:
                yield from self._fence(clean, token, *lined)
            elif token.type == "table_open" and lined:
                end = next(m for m in range(n, len(tokens)) if tokens[m].type == "table_close")
                yield from self._table(clean, tokens[n:end], lines)
                n = end
            elif token.type == "inline" and lined:
                heading = tokens[n - 1].type == "heading_open"
                if not items:
                    self.lead = self.lead if heading else ()
                yield from self._prose(clean, inline(clean, token, *lined), item, heading=heading)
            n += 1

    def _fence(self, clean: str, token: Token, start: int, end: int) -> Iterator[Piece]:
        first = clean.find("\n", start, end) + 1 or end
        last = max(first, clean.rfind("\n", first, end - 1) + 1)
        if not token.content.strip():
            return
        if not clean[last:end].strip().startswith(token.markup[:3]):
            last = end  # nothing closes it
        kind = token.info.strip().lower().split(" ")[0]
        at = first + len(clean[first:last]) - len(clean[first:last].lstrip())
        tree = json_at(clean, at) if clean[at : at + 1] in ("{", "[") else None
        if tree and not clean[tree[1] : last].strip():
            yield from self._fields(clean, at)
        elif kind in _TEXTS and kind:
            inner = blanked(clean, [(0, first), (last, len(clean))])
            yield from self._blocks(inner, tokens_of(inner), line_starts(inner))
        else:
            stop = at + len(clean[at:last].rstrip())
            if at < stop:
                yield Piece("code", self.answer[at:stop], at, stop, self.lead)

    def _table(self, clean: str, tokens: Sequence[Token], lines: list[int]) -> Iterator[Piece]:
        head: list[str] = []
        for token in tokens:
            if token.type != "tr_open" or not token.map:
                continue
            row = (lines[token.map[0]], lines[min(token.map[1], len(lines) - 1)])
            places = list(cells(clean, *row))
            texts = [_TAGS.sub(" ", clean[a:b]).strip(" *_`~") for a, b in places]
            if not head:
                head = texts or [""]
                continue
            for n, (start, end) in enumerate(places):
                if (n == 0 and len(places) > 1) or not texts[n]:
                    continue
                column = head[n] if n < len(head) else ""
                label = tuple(x for x in (texts[0] if n else "", column) if x)
                buffer = clean[start:end].translate(_EMPHASIS)
                for piece in self._cut_up(buffer, start, "cell"):
                    yield replace(piece, label=(*self.lead, *label), cut=row)

    def _fields(self, clean: str, at: int) -> Iterator[Piece]:
        for path, start, end in leaves(clean, at):
            names = [in_words(p) for p in path if isinstance(p, str)]
            if any(self.wording.of_the_reply(name) for name in names):
                continue
            label = tuple(x for x in names if not self.wording.about_sources(x))
            raw = clean[start:end]
            if raw in ("null", '""'):
                continue
            if raw in ("true", "false"):
                yield Piece("polarity", raw, start, end, label)
                continue
            text, offsets = unescaped(raw, start) if raw.startswith('"') else (raw, list(range(start, end)))
            for piece in self._cut_up(text, start, "field", offsets):
                yield replace(piece, label=label if piece.claims else (), cut=None)

    def _prose(
        self, clean: str, inline: Inline, item: tuple[int, int] | None, *, heading: bool
    ) -> Iterator[Piece]:
        kind: Kind = "item" if item else "sentence"
        found = list(self._cut_up(inline.text, inline.start, kind))
        alone = item is not None and sum(p.claims for p in found) == 1
        for piece in found:
            if piece.claims and piece.kind != "polarity" and (heading or piece.text[-1:] in (":", "：")):
                self.lead = () if self.wording.announces(piece.text) else (piece.text.rstrip(" :："),)
                yield replace(piece, kind="lead")
                continue
            cut = item if alone else inline.whole(piece.cut, clean)
            yield replace(piece, label=(*self.lead, *piece.label), cut=cut) if piece.claims else piece

    def _cut_up(self, buffer: str, start: int, kind: Kind, offsets: list[int] | None = None) -> Iterator[Piece]:
        """Sentences of ``buffer``, whose characters stand in the answer from ``start`` or at ``offsets``."""
        at = offsets or list(range(start, start + len(buffer)))
        at.append(at[-1] + 1 if at else start)
        cites = [m.span() for m in _BRACKETS.finditer(buffer) if self._cites(m[0])]
        shown = _TAGS.sub(lambda m: " " * len(m[0]), blanked(buffer, cites))
        for first, last in sentence_places(unfolded(shown), self.wording.language):
            yield from self._sentence(shown, first, last, at, kind, cites)

    def _sentence(
        self, shown: str, first: int, last: int, at: list[int], kind: Kind, cites: Sequence[tuple[int, int]]
    ) -> Iterator[Piece]:
        cut = (at[first], at[last])

        def piece(what: Kind, a: int, b: int, label: tuple[str, ...] = ()) -> Piece:
            a, b = trimmed(shown, a, b)
            mine = tuple((at[x], at[y - 1] + 1) for x, y in cites if first <= x < last)
            text = re.sub(r" (?=[.,;:!?)])", "", " ".join(shown[a:b].split()))
            return Piece(what, text, at[a], at[b - 1] + 1, label, mine, cut)

        a, b = trimmed(shown, first, last)
        if not any(c.isalnum() for c in shown[a:b]):
            return
        if shown[b - 1] in "?？؟":
            yield piece("question", a, b)
            return
        end = 0 if self.opened else opening(shown[a:b])
        if end:
            yes_no = asks(self.question) and kind != "cell"
            yield piece("polarity" if yes_no else "talk", a, a + end, (self.question,) if yes_no else ())
            a, b = trimmed(shown, a + end, b)
        self.opened = True
        if not any(c.isalnum() for c in shown[a:b]):
            return
        if self.wording.talk(shown[a:b]):
            yield piece("talk", a, b)
            return
        lead = self.wording.preamble(shown[a:b])
        yield piece(kind, a + lead, b)

    def _cites(self, bracket: str) -> bool:
        names = [n.strip() for n in re.split(r"[,;]", bracket[1:-1])]
        return _NUMBERED.fullmatch(bracket) is not None or (bool(names) and all(n in self.ids for n in names))
