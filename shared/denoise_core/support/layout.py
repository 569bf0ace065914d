"""How an answer is laid out: where Markdown's inline text, a table's cells and the values of JSON stand in it.

Parsers give what was written without its markup; these functions find it again, one piece behind the other, so
that each character has its place. All are linear.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


def one_for_one(text: str) -> str:
    """Line breaks of one kind, and no character that a parser would take away; as long as it was."""
    return text.replace("\r\n", " \n").replace("\r", "\n").replace("\x00", "\ufffd")


def blanked(text: str, ranges: Sequence[tuple[int, int]]) -> str:
    """The text with blanks in these ranges; its line breaks stay."""
    out, at = [], 0
    for start, end in ranges:
        out += [text[at:start], *("\n" if c == "\n" else " " for c in text[start:end])]
        at = end
    return "".join(out) + text[at:]


def tokens_of(text: str) -> list[Token]:
    """Markdown's tokens; HTML is text, and so are lines that begin with blanks."""
    return _parser().parse(text)


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 40})
    return parser.enable(["table", "strikethrough"]).disable(["code", "text_join"])


@dataclass(frozen=True, slots=True)
class Inline:
    """The text of one block, as long as its lines, from ``start``; ``inside`` are what markup encloses."""

    text: str
    start: int
    inside: tuple[tuple[int, int], ...]

    def whole(self, cut: tuple[int, int] | None, clean: str) -> tuple[int, int] | None:
        """``cut`` with the markup that opens it and without that which opens what follows; None where it would
        part markup from its other half."""
        if cut is None:
            return None
        start, end = cut
        while end > start and not clean[end - 1].isspace() and self.text[end - 1 - self.start].isspace():
            end -= 1
        while (
            start > self.start and not clean[start - 1].isspace() and self.text[start - 1 - self.start].isspace()
        ):
            start -= 1
        for a, b in self.inside:
            if a < end and start < b and not (start <= a and b <= end):
                return None
        return start, end


def inline(clean: str, token: Token, start: int, end: int) -> Inline:
    """What an inline token says, by the places of its children, found one behind the other."""
    out = ["\n" if c == "\n" else " " for c in clean[start:end]]
    inside: list[tuple[int, int]] = []
    opened: list[int] = []
    limits = iter(_content_lines(clean, token.content, start, end))
    at, stop = next(limits, (start, end))
    for child in token.children or ():
        raw = child.markup if child.type == "text_special" else child.content
        if child.type in ("softbreak", "hardbreak"):
            at, stop = next(limits, (stop, end))
        elif child.nesting > 0:
            found = clean.find(child.markup or "[", at, stop)
            opened.append(max(found, at))
            at = max(found, at)
        elif child.nesting < 0:
            first = opened.pop() if opened else at
            last = _closed(clean, at, stop, child)
            inside.append((first, last))
            at = last
        elif raw:
            found = clean.find(raw, at, stop)
            if found < 0:
                continue
            shown = child.content if child.type == "text_special" else raw
            last = found + len(raw)
            out[found - start : last - start] = shown[: len(raw)].ljust(len(raw))
            if child.type == "code_inline":
                inside.append((max(start, found - len(child.markup)), last + len(child.markup)))
            at = last
    return Inline("".join(out), start, tuple(inside))


def _closed(clean: str, at: int, stop: int, child: Token) -> int:
    if child.type == "link_close":
        found = clean.find(")", at, stop) if clean[at : at + 2] == "](" else clean.find("]", at, stop)
        return found + 1 if found >= 0 else at
    found = clean.find(child.markup, at, stop) if child.markup else -1
    return found + len(child.markup) if found >= 0 else at


def _content_lines(clean: str, content: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where each line of an inline token's content stands among the lines of its block: at their ends."""
    at = start
    for line in content.split("\n"):
        stop = clean.find("\n", at, end)
        stop = end if stop < 0 else stop
        bare = line.strip()
        found = clean.rfind(bare, at, stop) if bare else -1
        yield (found, found + len(bare)) if found >= 0 else (at, stop)
        at = stop + 1


def cells(clean: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The cells of a table's row, between bars that no backslash escapes."""
    end = start + len(clean[start:end].rstrip())
    bars = [n for n in range(start, end) if clean[n] == "|" and clean[n - 1 : n] != "\\"]
    edges = [start - 1, *bars, end]
    if bars and not clean[start : bars[0]].strip():
        edges = edges[1:]
    if bars and bars[-1] == end - 1:
        edges = edges[:-1]
    for first, last in itertools.pairwise(edges):
        yield trimmed(clean, first + 1, last)


def json_at(text: str, at: int) -> tuple[object, int] | None:
    """A JSON object or list that begins there, and where it ends."""
    try:
        return json.JSONDecoder().raw_decode(text, at)
    except (ValueError, RecursionError):
        return None


def leaves(text: str, at: int) -> Iterator[tuple[tuple[str | int, ...], int, int]]:
    """The path and the characters of each value of the JSON that begins at ``at``, which is known to be whole."""
    decoder = json.JSONDecoder()
    path: list[str | int] = []
    while True:
        at = _over(text, at)
        if text[at] in "{[":
            opened, at = text[at], _over(text, at + 1)
            if text[at] not in "}]":
                path.append(0 if opened == "[" else "")
                if opened == "{":
                    path[-1], at = _key(decoder, text, at)
                continue
            at += 1
        else:
            _, end = decoder.raw_decode(text, at)
            yield tuple(path), at, end
            at = end
        while path:  # what stands behind a value: another one, or the end of what holds it
            at = _over(text, at)
            last = path[-1]
            if text[at] == ",":
                at = _over(text, at + 1)
                if isinstance(last, int):
                    path[-1] = last + 1
                else:
                    path[-1], at = _key(decoder, text, at)
                break
            at += 1
            path.pop()
        if not path:
            return


def _key(decoder: json.JSONDecoder, text: str, at: int) -> tuple[str, int]:
    name, at = decoder.raw_decode(text, at)
    return name, text.index(":", at) + 1


def _over(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\n\r":
        at += 1
    return at


def unescaped(raw: str, start: int) -> tuple[str, list[int]]:
    """A JSON string's text, and the place of each of its characters."""
    out, offsets, at = [], [], 1
    while at < len(raw) - 1:
        size = 1
        if raw[at] == "\\":
            size = 6 if raw[at + 1] == "u" else 2
            if raw[at + 2 : at + 4].lower() in ("d8", "d9", "da", "db") and raw[at + 6 : at + 8] == "\\u":
                size = 12
        said = json.loads(f'"{raw[at : at + size]}"', strict=False) if size > 1 else raw[at]
        out += list(said)
        offsets += [start + at] * len(said)
        at += size
    return "".join(out), offsets


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def line_starts(text: str) -> list[int]:
    return [0, *(m.end() for m in re.finditer("\n", text)), len(text)]


def in_words(key: str) -> str:
    """``completedIn`` and ``completed_in`` are "completed in"."""
    return " ".join(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\-.]+", " ", key).split())
