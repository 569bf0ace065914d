"""How an answer is laid out: where Markdown's inline text, a table's cells and the values of JSON stand in it.

Parsers give what was written without its markup; these functions find it again, one piece behind the other, so
that each character has its place. All are linear.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
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


def inline(clean: str, token: Token, start: int, end: int) -> str:
    """What an inline token of the lines ``[start, end)`` says, as long as they are: blanks for the markup."""
    out = ["\n" if c == "\n" else " " for c in clean[start:end]]
    at = start
    for child in token.children or ():
        raw = child.markup if child.type == "text_special" else child.content
        found = clean.find(raw, at, end) if raw else -1
        if found >= 0:
            at = found + len(raw)
            out[found - start : at - start] = child.content[: len(raw)].ljust(len(raw))
    return "".join(out)


def whole(
    clean: str, shown: str, offset: int, start: int, end: int
) -> tuple[int, int] | None:
    """The characters ``[start, end)`` with the markup that opens them and without that which opens what follows;
    None where they would part markup from its other half. ``shown`` is what `inline` gave, from ``offset``."""
    while (
        end > start
        and not clean[end - 1].isspace()
        and shown[end - 1 - offset].isspace()
    ):
        end -= 1
    while (
        start > offset
        and not clean[start - 1].isspace()
        and shown[start - 1 - offset].isspace()
    ):
        start -= 1
    alone = (
        (_parser().parseInline(clean[start:end])[0].children or ())
        if start < end
        else ()
    )
    said = "".join(c.content for c in alone if c.type != "softbreak")
    same = "".join(said.split()) == "".join(
        shown[start - offset : end - offset].split()
    )
    return (start, end) if same else None


def cells(clean: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The cells of a table's row, between bars that no backslash escapes."""
    end = start + len(clean[start:end].rstrip())
    bars = [
        n for n in range(start, end) if clean[n] == "|" and clean[n - 1 : n] != "\\"
    ]
    edges = [start - 1, *bars, end]
    if bars and not clean[start : bars[0]].strip():
        edges = edges[1:]
    if bars and bars[-1] == end - 1:
        edges = edges[:-1]
    for first, last in itertools.pairwise(edges):
        yield trimmed(clean, first + 1, last)


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
