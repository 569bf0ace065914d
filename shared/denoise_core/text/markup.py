"""Chunk HTML by its blocks: headings, paragraphs, list items, table rows.

Ranges are exact in the raw text. One scan finds the tags: `html.parser` gives
positions too, but takes six times as long as all of chunking may take.
"""

from __future__ import annotations

import html
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.etree.ElementTree import HTML_EMPTY

from denoise_core.spans import Ranges, RangeTuple
from denoise_core.text.text_chunk import (
    MAX_CHUNK_CHARACTERS,
    TextChunk,
    fill_gaps,
)
from denoise_core.text.wordlists import word_set

_INVISIBLE_TAGS = word_set("script style template noscript svg nav")
INLINE_TAGS = word_set(
    """
    a abbr b bdi bdo br button cite code data del dfn em font i img input ins kbd
    label mark q s samp small span strong sub sup td th time tt u var wbr
    """
)
_CELL_TAGS = word_set("td th")
_LIST_TAGS = word_set("ul ol dl")
_TERM_LEVEL = 7  # of what names a definition or details
_HEADING_LEVELS = {
    "title": 1,  # of a page without h1
    "h1": 1,
    "h2": 2,
    "h3": 3,
    "h4": 4,
    "h5": 5,
    "h6": 6,
    "dt": _TERM_LEVEL,
    "summary": _TERM_LEVEL,
}
_BLOCK_TAGS = word_set("p div li td body section article h1 h2 h3")
_TAG = re.compile(r"<(?:(/?)([a-zA-Z][\w:-]*+)[^<>]*+>|(!--)|[!?][^<>]*>)")
_HIDDEN = "!"  # name of a comment, a declaration or an invisible element


class _Tag(NamedTuple):
    """A tag with its range; an invisible element is one tag named `_HIDDEN`."""

    name: str
    is_closing: bool
    start: int
    end: int


def detect_markup(text: str) -> str:
    """Return ``"html"`` for a text that starts with a tag and closes a block."""
    text_head = text.lstrip()[:200].lower()
    if not text_head.startswith("<"):
        return ""
    if text_head.startswith(("<!doctype html", "<html")):
        return "html"
    if _BLOCK_TAGS.isdisjoint(_last_closings(text[:20_000])):
        return ""
    return "html"


def strip_tags(raw_html: str) -> str:
    """Return the visible text of HTML, one line for each row or block."""
    text_parts: list[str] = []
    position = 0
    for tag in _find_tags(raw_html):
        text_parts += (raw_html[position : tag.start], _tag_text(tag))
        position = tag.end
    return _normalize_space([*text_parts, raw_html[position:]])


def unmatched_tags(text: str, start: int, end: int) -> Ranges:
    """Return the tags in ``text[start:end]`` without their counterpart in it.

    Without them a page would have more closing than opening tags, or fewer.
    """
    open_tags = []
    unmatched_tags = []
    for tag in _find_tags(text[start:end]):
        if tag.name == _HIDDEN or tag.name in HTML_EMPTY:
            continue
        if not tag.is_closing:
            open_tags.append(tag)
        elif any(open_tag.name == tag.name for open_tag in open_tags):
            while open_tags.pop().name != tag.name:
                pass  # an element whose closing tag may be missing
        else:
            unmatched_tags.append(tag)
    for tag in open_tags:
        if text[start : start + tag.end][-2:] != "/>":
            unmatched_tags.append(tag)
    return sorted((start + tag.start, start + tag.end) for tag in unmatched_tags)


def html_chunks(text: str) -> list[TextChunk]:
    """Chunk a page by its blocks.

    Markup without text is structural, and so are scripts, styles and navigation.
    """
    reader = _HtmlBlockReader(text)
    position = 0
    for tag in _find_tags(text):
        reader.read_text(position, tag.start)
        reader.read_tag(tag)
        position = tag.end
    reader.read_text(position, len(text))
    reader.close_block(len(text))
    return fill_gaps(text, reader.chunks)


def _tag_text(tag: _Tag) -> str:
    """Return what replaces a tag in the visible text."""
    if tag.name in _CELL_TAGS:
        if tag.is_closing:
            return ""
        return " | "
    is_line_break = tag.name not in INLINE_TAGS or tag.name == "br"
    if is_line_break:
        return "\n"
    return ""


def _normalize_space(text_parts: list[str]) -> str:
    raw_lines = html.unescape("".join(text_parts)).split("\n")
    lines = [" ".join(line.split()).removeprefix("| ") for line in raw_lines]
    return "\n".join(filter(None, lines))


def _last_closings(text: str) -> dict[str, int]:
    """Return where each element is closed last: looking ahead each time is quadratic."""
    last_closings = {}
    for match in _TAG.finditer(text):
        if match[1]:
            last_closings[match[2].lower()] = match.start()
    return last_closings


def _invisible_tags(names: Container[str]) -> frozenset[str]:
    """Names of elements that a page with these does not show."""
    if "h1" in names:  # says what <title> says
        return _INVISIBLE_TAGS | {"head"}
    return _INVISIBLE_TAGS


def _find_tags(text: str) -> Iterator[_Tag]:
    """Yield the tags; an invisible element that is closed is one hidden tag."""
    last_closings = _last_closings(text)
    invisible_tags = _invisible_tags(last_closings)
    hidden_start = hidden_end = 0
    hidden_name = ""
    for match in _TAG.finditer(text):
        start, end = match.span()
        slash, raw_name, comment_mark = match.groups()
        name = _HIDDEN
        if raw_name:
            name = raw_name.lower()
        if hidden_name:
            if slash and name == hidden_name:
                yield _Tag(_HIDDEN, False, hidden_start, end)
                hidden_name = ""
            continue
        if start < hidden_end:
            continue
        if comment_mark:
            comment_end = text.find("-->", end)
            end = comment_end + 3
            if comment_end < 0:
                end = len(text)
            hidden_end = end
        elif name in invisible_tags and not slash:
            if last_closings.get(name, 0) >= end:
                hidden_start = start
                hidden_name = name
                continue
            name = _HIDDEN
        yield _Tag(name, bool(slash), start, end)


@dataclass(slots=True)
class _HtmlBlockReader:
    """Walks once over tags and texts and collects a chunk for each block.

    Attributes:
        block_start: Start of the open block; None between blocks.
        block_parts: Visible text of the open block so far.
        enclosing_tag: ``"tr"`` or ``"pre"``, inside which blocks do not count.
        heading_level: 1 to 7 if the open block is a heading, else 0.
        row_cells: Cell tags (``td``, ``th``) of the open row.
        open_headings: Level and chunk index of each heading above.
        list_lead: Range of the sentence that introduces a list, at most one.
        table_header: Range of the open table's header row, at most one.
    """

    text: str
    chunks: list[TextChunk] = field(default_factory=list)
    block_start: int | None = None
    has_text: bool = False
    block_parts: list[str] = field(default_factory=list)
    enclosing_tag: str = ""
    heading_level: int = 0
    row_cells: frozenset[str] = frozenset()
    open_headings: list[tuple[int, int]] = field(default_factory=list)
    list_lead: RangeTuple = ()
    table_header: RangeTuple = ()

    def read_text(self, start: int, end: int) -> None:
        part = self.text[start:end]
        if part.strip() and not self.has_text:
            self.has_text = True
            if self.block_start is None:
                self.block_start = start
        if self.block_start is not None:
            self.block_parts.append(part)

    def read_tag(self, tag: _Tag) -> None:
        if tag.name == "table":
            self.enclosing_tag = ""
            self.table_header = ()
        is_cell = tag.name in _CELL_TAGS
        if is_cell and self.enclosing_tag == "tr" and not tag.is_closing:
            self.row_cells |= {tag.name}
        is_inline = tag.name in INLINE_TAGS
        if is_inline or self.ignores_block(tag):
            if self.block_start is None and is_inline and not is_cell:
                self.block_start = tag.start
            if self.block_start is not None:
                self.block_parts.append(_tag_text(tag))
        elif tag.is_closing:
            self.close_block(tag.end if self.has_text else tag.start)
            self.enclosing_tag = ""
            if tag.name in ("dd", "dl", "details"):
                self.close_headings(_TERM_LEVEL)
            if tag.name in _LIST_TAGS:
                self.list_lead = ()
        else:
            self.open_block(tag)

    def ignores_block(self, tag: _Tag) -> bool:
        if not self.enclosing_tag or tag.name == "tr":
            return False
        return not (tag.is_closing and tag.name == self.enclosing_tag)

    def open_block(self, tag: _Tag) -> None:
        self.close_block(tag.start)
        self.block_start = tag.start
        if tag.name == _HIDDEN:
            self.block_start = None
        if tag.name in ("tr", "pre"):
            self.enclosing_tag = tag.name
            self.row_cells = frozenset()
        self.heading_level = _HEADING_LEVELS.get(tag.name, 0)

    def close_block(self, end: int) -> None:
        """Add the open block as a chunk up to ``end`` if it has visible text."""
        start = self.block_start
        level = self.heading_level
        row_cells = self.row_cells
        block_text = ""
        if self.has_text:
            block_text = _normalize_space(self.block_parts)
        self.block_start = None
        self.heading_level = 0
        self.row_cells = frozenset()
        self.block_parts = []
        self.has_text = False
        if start is None or not block_text:
            return
        self.close_headings(level)
        context_spans = self.heading_spans()
        span = ((start, end),)
        is_header_row = not level and row_cells == {"th"}
        is_page_title = self.text.startswith("<title", start)
        if level:
            self.open_headings.append((level, len(self.chunks)))
            if level < _TERM_LEVEL:
                self.list_lead = self.table_header = ()
        else:
            context_spans += self.list_lead
            is_short = len(block_text) <= MAX_CHUNK_CHARACTERS
            if is_header_row:
                self.table_header = span
            elif row_cells:
                context_spans += self.table_header
            elif block_text.endswith(":") and is_short:
                self.list_lead = span
        self.chunks.append(
            TextChunk(
                start,
                end,
                context_spans,
                display_text=block_text,
                is_structural=is_header_row or is_page_title,
            )
        )

    def close_headings(self, level: int) -> None:
        """Close the headings of this level and of deeper ones; none at level 0."""
        while level and self.open_headings and self.open_headings[-1][0] >= level:
            self.open_headings.pop()

    def heading_spans(self) -> RangeTuple:
        """Return the ranges of the open headings, which get text under them now."""
        spans = []
        for _, index in self.open_headings:
            heading = self.chunks[index]._replace(is_structural=True)
            self.chunks[index] = heading
            spans.append(heading.span)
        return tuple(spans)
