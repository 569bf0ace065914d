"""The layout of an answer: where Markdown's inline text and a table's cells are.

Parsers return text without its markup. These functions locate it again, one piece
after the other, so that each character keeps its offset. All take linear time.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from denoise_core.spans import Range
from denoise_core.text.json_spans import parse_json_at

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


def normalize_line_breaks(text: str) -> str:
    """Use one kind of line break, and no character that a parser removes.

    The text keeps its length.
    """
    text = text.replace("\r\n", " \n").replace("\r", "\n")
    return text.replace("\x00", "\ufffd")


def blank_ranges(text: str, ranges: Iterable[Range]) -> str:
    """Overwrite ranges with blanks; line breaks stay."""
    parts = []
    offset = 0
    for start, end in ranges:
        text_before = text[offset:start]
        blanks = re.sub(r"[^\n]", " ", text[start:end])
        parts += [text_before, blanks]
        offset = end
    parts.append(text[offset:])
    return "".join(parts)


def markdown_tokens(text: str) -> list[Token]:
    """Markdown's tokens; HTML is text, and so are indented lines."""
    return _markdown_parser().parse(text)


@lru_cache(maxsize=1)
def _markdown_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 40})
    return parser.enable(["table", "strikethrough"]).disable(["code", "text_join"])


def inline_text(clean_text: str, token: Token, start: int, end: int) -> str:
    """The text of an inline token, blanks for the markup.

    Args:
        clean_text: The whole answer.
        token: The token.
        start: First character of the token's lines.
        end: Character after the last; the result has ``end - start`` characters.
    """
    block_text = clean_text[start:end]
    blank_text = re.sub(r"[^\n]", " ", block_text)
    characters = list(blank_text)
    offset = start
    for child in token.children or ():
        raw_text = child.content
        if child.type == "text_special":
            raw_text = child.markup
        if not raw_text:
            continue
        position = clean_text.find(raw_text, offset, end)
        if position >= 0:
            raw_length = len(raw_text)
            offset = position + raw_length
            visible_text = child.content[:raw_length].ljust(raw_length)
            characters[position - start : offset - start] = visible_text
    return "".join(characters)


def table_cells(clean_text: str, start: int, end: int) -> Iterator[Range]:
    """The cells of a table row, between bars that no backslash escapes."""
    row_text = clean_text[start:end].rstrip()
    end = start + len(row_text)
    bars = [start + bar.start() for bar in re.finditer(r"(?<!\\)\|", row_text)]
    edges = [start - 1, *bars, end]
    if bars and not clean_text[start : bars[0]].strip():
        edges = edges[1:]
    if bars and bars[-1] == end - 1:
        edges = edges[:-1]
    for left_edge, right_edge in itertools.pairwise(edges):
        yield trim_range(clean_text, left_edge + 1, right_edge)


def trim_range(text: str, start: int, end: int) -> Range:
    """The range ``[start, end)`` without white space at its ends."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def line_starts(text: str) -> list[int]:
    """The offset of each line, and the length of the text."""
    line_ends = [line_break.end() for line_break in re.finditer("\n", text)]
    return [0, *line_ends, len(text)]


def split_key_words(key: str) -> str:
    """``completedIn`` and ``completed_in`` are "completed in"."""
    spaced_key = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\-.]+", " ", key)
    return " ".join(spaced_key.split())


def json_start(text: str, start: int = 0, end: int = sys.maxsize) -> int | None:
    """Where the JSON object or list begins that ``text[start:end]`` is; else None."""
    start, end = trim_range(text, start, min(end, len(text)))
    if text[start : min(start + 1, end)] not in ("{", "["):
        return None
    parsed_value = parse_json_at(text, start)
    if parsed_value is None or text[parsed_value[1] : end].strip():
        return None
    return start
