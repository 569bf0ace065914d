"""The layout of an answer: where Markdown's inline text and a table's cells are.

Parsers return text without its markup. These functions locate it again, one piece
after the other, so that each character keeps its offset. All take linear time.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    text = text.replace("\r\n", " \n")
    text = text.replace("\r", "\n")
    return text.replace("\x00", "\ufffd")


def blank_ranges(text: str, ranges: Iterable[Range]) -> str:
    """Overwrite ranges with blanks; line breaks stay."""
    parts = []
    offset = 0
    for start, end in ranges:
        text_before = text[offset:start]
        covered_text = text[start:end]
        blanks = re.sub(r"[^\n]", " ", covered_text)
        parts += [text_before, blanks]
        offset = end
    text_behind = text[offset:]
    parts.append(text_behind)
    return "".join(parts)


def markdown_tokens(text: str) -> list[Token]:
    """Markdown's tokens; HTML is text, and so are indented lines."""
    parser = _markdown_parser()
    return parser.parse(text)


@lru_cache(maxsize=1)
def _markdown_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser_options = {"html": False, "maxNesting": 40}
    parser = MarkdownIt("commonmark", parser_options)
    parser.enable(["table", "strikethrough"])
    parser.disable(["code", "text_join"])
    return parser


def token_range(token: Token, line_ranges: Sequence[Range]) -> Range | None:
    """The characters of a token's lines; None for a token without lines.

    Args:
        token: The token.
        line_ranges: The ranges of all lines of the text.
    """
    if not token.map:
        return None
    first_line, last_line = token.map
    own_ranges = line_ranges[first_line:last_line]
    start, _ = own_ranges[0]
    _, end = own_ranges[-1]
    return start, end


def inline_text(
    clean_text: str,
    token: Token,
    start: int,
    end: int,
    is_citation: Callable[[str], bool],
) -> str:
    """The text of an inline token, blanks for the markup.

    Args:
        clean_text: The whole answer.
        token: The token.
        start: First character of the token's lines.
        end: Character after the last; the result has ``end - start`` characters.
        is_citation: Whether a bracket cites something: such a link keeps its brackets.
    """
    block_text = clean_text[start:end]
    blank_text = re.sub(r"[^\n]", " ", block_text)
    characters = list(blank_text)
    # The parser gives code over a line break with a blank there.
    unbroken_text = block_text.replace("\n", " ")
    offset = link_start = start
    for child in token.children or ():
        if child.type == "link_open" and not child.markup:
            offset = link_start = clean_text.find("[", offset, end)
        elif child.type == "link_close" and child.markup != "autolink":
            link_end = clean_text.find("]", offset, end) + 1
            bracket = clean_text[link_start:link_end]
            if is_citation(bracket):
                characters[link_start - start] = "["
                characters[link_end - 1 - start] = "]"
            offset = _skip_destination(clean_text, link_end, end)
        raw_text = child.content
        if child.type == "text_special":
            raw_text = child.markup
        if not raw_text:
            continue
        unbroken_raw_text = raw_text.replace("\n", " ")
        first = unbroken_text.find(unbroken_raw_text, offset - start)
        if first >= 0:
            raw_length = len(raw_text)
            last = first + raw_length
            offset = start + last
            cut_text = child.content[:raw_length]
            visible_text = cut_text.ljust(raw_length)
            characters[first:last] = visible_text
    return "".join(characters)


def _skip_destination(text: str, position: int, end: int) -> int:
    """The position behind a link's destination, if it is at ``position``.

    Text behind the link must not be found in its address.
    """
    from markdown_it.helpers import parseLinkDestination

    if not text.startswith("(", position):
        return position
    destination = parseLinkDestination(text, position + 1, end)
    return max(position, destination.pos)  # 0 of an empty one


def table_cells(clean_text: str, start: int, end: int) -> Iterator[Range]:
    """The cells of a table row, between bars that no backslash escapes."""
    row_text = clean_text[start:end].rstrip()
    end = start + len(row_text)
    bars = []
    for match in re.finditer(r"(?<!\\)\|", row_text):
        row_position = match.start()
        bar_position = start + row_position
        bars.append(bar_position)
    edges = [start - 1, *bars, end]
    if bars:
        first_bar = bars[0]
        last_bar = bars[-1]
        text_before = clean_text[start:first_bar]
        if not text_before.strip():
            edges = edges[1:]
        if last_bar == end - 1:
            edges = edges[:-1]
    for left_edge, right_edge in itertools.pairwise(edges):
        cell_start = left_edge + 1
        yield trim_range(clean_text, cell_start, right_edge)


def trim_range(text: str, start: int, end: int) -> Range:
    """The range ``[start, end)`` without white space at its ends."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def trim_to_words(text: str, start: int, end: int) -> Range:
    """The range without what is no letter or digit at its ends, within the text."""
    start = max(start, 0)
    end = min(end, len(text))
    while start < end and not text[start].isalnum():
        start += 1
    while start < end and not text[end - 1].isalnum():
        end -= 1
    return start, max(start, end)


def split_key_words(key: str) -> str:
    """``completedIn`` and ``completed_in`` are "completed in"."""
    spaced_key = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\-.]+", " ", key)
    key_words = spaced_key.split()
    return " ".join(key_words)


def json_start(text: str, start: int = 0, end: int = sys.maxsize) -> int | None:
    """Where the JSON object or list begins that ``text[start:end]`` is; else None."""
    text_end = min(end, len(text))
    start, end = trim_range(text, start, text_end)
    if start >= end:
        return None
    first_character = text[start]
    if first_character not in "{[":
        return None
    parsed_value = parse_json_at(text, start)
    if parsed_value is None:
        return None
    _, value_end = parsed_value
    text_behind = text[value_end:end]
    if text_behind.strip():
        return None
    return start
