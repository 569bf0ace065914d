"""Chunk Markdown, plain text and mail.

`_BlockReader` turns lines into blocks (headings, paragraphs, list items, table rows,
code); `_ContextTracker` says what each block cannot be read without.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from string import punctuation

from denoise_core.spans import Range, Ranges, merge_spans
from denoise_core.text.chunk import sentence_ranges
from denoise_core.text.line_groups import MAX_CODE_CHARACTERS, split_long
from denoise_core.text.text_chunk import (
    MAX_CHUNK_CHARACTERS,
    TextChunk,
    line_at,
    line_spans,
)

_MAX_HEADING_CHARACTERS = 100  # of a heading without a mark
_MAX_HEADING_WORDS = 12
_MIN_OPENED_CHARACTERS = 2 * MAX_CHUNK_CHARACTERS  # of a text with an opening
_MAX_OPENING_CHARACTERS = 240  # of a sentence that says what a text is
_UNMARKED_LEVEL = 8  # heading levels: Markdown has 1 to 6
_PAGE_HEADER_LEVEL = 7
_SENTENCE_ENDINGS = ".,;:!?\u3002\uff01\uff1f"  # a heading does not end with these
_WITHOUT_PUNCTUATION = str.maketrans(punctuation, " " * len(punctuation))

_LINE = re.compile(
    r"(?P<heading>[ ]{0,3}\#{1,6}[ \t]+\S|={2,}[^=\n]+={2,}\s*$)"
    r"|(?P<fence>\s*(?:```|~~~))"
    r"|(?P<rule>[ ]{0,3}(?:={3,}|-{3,})\s*$)"
    r"|(?P<row>\s*\|.*\|\s*$|[^\s\t][^\t\n]*\t[^\n]*\S)"
    r"|(?P<item>\s*(?:[-*+\u2022\u2013]|\(?\w{1,3}[.)])[ \t]+\S)"
    r"|(?P<field>[\w-]{1,24}:[ \t]+\S)"
)
_QUOTE_MARKS = re.compile(r"\A(?:[ ]?>)+")


def line_kind(line: str) -> str:
    """Return what a line looks like; ``""`` for text.

    ``"heading"``, ``"fence"`` (of code), ``"rule"`` (or underline), ``"row"``,
    ``"item"`` or ``"field"`` (``Name: value``).
    """
    match = _LINE.match(line)
    if match is None:
        return ""
    return match.lastgroup or ""


def prose_chunks(text: str) -> list[TextChunk]:
    """Chunk a text that has at least one filled line."""
    reader = _ProseBlockReader(text)
    for start, end in line_spans(text):
        reader.read_line(start, end)
    blocks = reader.blocks
    _mark_page_headers(text, blocks)
    _raise_title(blocks)
    opening = _opening_sentence(text, blocks[0])
    tracker = _ContextTracker(text, opening)
    chunks = []
    previous_block = _EDGE
    closed_blocks = [*blocks, _EDGE]
    for block, next_block in pairwise(closed_blocks):
        chunks += _block_chunks(tracker, previous_block, block, next_block)
        previous_block = block
    return chunks


@dataclass(slots=True)
class _Block:
    """Lines that belong together.

    Attributes:
        start: First character.
        end: Character after the last one.
        kind: ``"heading"``, ``"para"``, ``"item"``, ``"row"`` or ``"code"``.
        indent: Characters before the first word.
        quote_depth: Number of quote marks before each line.
        level: Level of a heading.
        ends_blank: True if a blank line, or a rule, ends the block.
        has_fields: True if every line is ``Name: value``.
    """

    start: int
    end: int
    kind: str
    indent: int = 0
    quote_depth: int = 0
    level: int = 0
    ends_blank: bool = False
    has_fields: bool = False

    @property
    def span(self) -> Range:
        return self.start, self.end

    @property
    def is_short(self) -> bool:
        return self.end - self.start <= MAX_CHUNK_CHARACTERS

    def announces_next(self, text: str) -> bool:
        """Whether a short block ends with a colon and so introduces the next one."""
        if not self.is_short:
            return False
        block_text = text[self.start : self.end]
        bare_text = block_text.rstrip(" \t\r\n>")
        return bare_text.endswith(":")


# The block before the first and after the last one; never changed.
_EDGE = _Block(0, 0, "heading", quote_depth=99, ends_blank=True)


@dataclass(slots=True)
class _ProseBlockReader:
    """Turns lines into blocks, looking at each line once and at the one after it."""

    text: str
    blocks: list[_Block] = field(default_factory=list)
    open_fence: str = ""

    @property
    def last_block(self) -> _Block:
        if self.blocks:
            return self.blocks[-1]
        return _EDGE

    def read_line(self, start: int, end: int) -> None:
        line = self.text[start:end]
        last_block = self.last_block
        if self.open_fence:
            last_block.end = end
            bare_line = line.strip()
            if bare_line.startswith(self.open_fence):
                self.open_fence = ""
            return
        content = _QUOTE_MARKS.sub("", line)
        quote_length = len(line) - len(content)
        quote_depth = line.count(">", 0, quote_length)
        if content.strip():
            kind = line_kind(content)
            is_open = not last_block.ends_blank
            is_same_quote = last_block.quote_depth == quote_depth
            if is_open and is_same_quote and self.continues_block(content, kind):
                last_block.end = end
            elif kind == "rule" and is_same_quote and last_block.kind != "heading":
                # A rule between two parts ends the first and is no part of the second.
                last_block.end = end
                last_block.ends_blank = True
            else:
                self.start_block(start, end, content, kind, quote_depth)
        elif self.blocks:
            last_block.end = end
            last_block.ends_blank = True
        else:
            self.blocks.append(_Block(start, end, "para", ends_blank=True))

    def continues_block(self, content: str, kind: str) -> bool:
        """Whether a line continues the block before it, without a blank line."""
        last_block = self.last_block
        if kind == "rule" and last_block.kind == "para":
            self.underline_block(last_block, content)
            return True
        if kind in ("heading", "fence", "row"):
            return False
        if last_block.kind in ("heading", "row"):
            return False
        if kind == "item":
            return last_block.kind == "code"
        if kind != "field":
            last_block.has_fields = False
        return True

    def underline_block(self, block: _Block, content: str) -> None:
        """Make one line over a rule a heading; a rule ends a longer record."""
        line_count = self.text.count("\n", block.start, block.end)
        block.ends_blank = line_count > 1
        if not block.ends_blank:
            block.kind = "heading"
            block.level = 2
            if "=" in content:
                block.level = 1

    def start_block(
        self,
        start: int,
        end: int,
        content: str,
        kind: str,
        quote_depth: int,
    ) -> None:
        """Start a block with this line.

        A code block joins the sentence that announces it, an indented paragraph the
        list item above it.
        """
        bare_content = content.lstrip(" \t")
        indent = len(content) - len(bare_content)
        block = _Block(start, end, kind, indent, quote_depth)
        if kind == "fence":
            block.kind = "code"
            bare_line = content.strip()
            self.open_fence = bare_line[:3]
        elif kind == "heading":
            title_part = bare_content.lstrip("#=")
            mark_length = len(bare_content) - len(title_part)
            block.level = mark_length or 1
        elif kind != "row" and self.is_unmarked_heading(content, end):
            block.kind = "heading"
            block.level = _UNMARKED_LEVEL
        elif kind not in ("row", "item"):
            block.kind = "para"
            block.has_fields = kind == "field"
            block.ends_blank = kind == "rule"
        if self.joins_last_block(block):
            last_block = self.last_block
            last_block.end = end
            last_block.ends_blank = False
        else:
            self.blocks.append(block)

    def joins_last_block(self, block: _Block) -> bool:
        last_block = self.last_block
        if block.kind == "code" and last_block.kind in ("para", "item"):
            return last_block.announces_next(self.text)
        if block.kind != "para" or last_block.kind != "item":
            return False
        is_same_quote = last_block.quote_depth == block.quote_depth
        return is_same_quote and block.indent > last_block.indent

    def is_unmarked_heading(self, content: str, end: int) -> bool:
        """Whether this is a short line by itself, with text under it.

        A list item with another item under it is none.
        """
        line = content.strip()
        is_short = len(line) <= _MAX_HEADING_CHARACTERS
        if not is_short:
            return False
        words = line.split()
        if len(words) > _MAX_HEADING_WORDS:
            return False
        first_character = line[0]
        is_title_case = first_character.isupper() or first_character.isdigit()
        is_sentence = line[-1] in _SENTENCE_ENDINGS
        if is_sentence or not is_title_case:
            return False
        if content[0] in " \t":
            return False
        _, next_end = line_at(self.text, end)
        next_line = self.text[end:next_end]
        if next_line.strip() or not self.last_block.ends_blank:
            return False
        following_text = self.text[next_end : next_end + 400]
        following_text = following_text.lstrip("\n")
        has_text = bool(following_text.strip())
        if not has_text or following_text[0] == ">":
            return False
        is_item = line_kind(line) != ""
        return not (is_item and line_kind(following_text) == "item")


@dataclass(slots=True)
class _ContextTracker:
    """What the next block cannot be read without.

    Attributes:
        text: The whole text.
        opening: Range of the sentence that says what the text is, at most one.
        mail_head: Ranges of the open mail's sender, date and subject.
        mail_field: First field of the text's mail heads, such as ``From``.
        headings: The open headings, outermost first.
        list_items: The items around the next item.
        list_lead: Range of the sentence that introduces a list, at most one.
        quote_authors: Per quote depth the range that says who is quoted.
        table_header: Ranges of the open table's header rows.
    """

    text: str
    opening: Ranges
    mail_head: Ranges = field(default_factory=list)
    mail_field: str = ""
    headings: list[_Block] = field(default_factory=list)
    list_items: list[_Block] = field(default_factory=list)
    list_lead: Ranges = field(default_factory=list)
    quote_authors: dict[int, Range] = field(default_factory=dict)
    table_header: Ranges = field(default_factory=list)

    def open_heading(self, block: _Block) -> Ranges:
        while self.headings and self.headings[-1].level >= block.level:
            self.headings.pop()
        context_spans = [heading.span for heading in self.headings]
        self.headings.append(block)
        self.list_items = []
        self.list_lead = []
        self.table_header = []
        return context_spans

    def is_mail_head(self, block: _Block) -> bool:
        """Whether a block is the head of a mail: fields, as the text begins with."""
        lines = self.text.count("\n", block.start, block.end)
        has_head = block.has_fields and lines > 2
        if not has_head or not block.is_short:
            return False
        is_first = block.start == 0
        return is_first or self._first_field(block) == self.mail_field

    def _first_field(self, block: _Block) -> str:
        block_text = self.text[block.start : block.end]
        field_name, _, _ = block_text.partition(":")
        return field_name

    def open_mail(self, block: _Block) -> None:
        """Start a mail; its head identifies what follows, but for those who get it.

        The first line says who wrote it; other lines with an address do not.
        """
        head_lines = []
        for start, end in line_spans(self.text, *block.span):
            is_first = start == block.start
            has_address = "@" in self.text[start:end]
            if is_first or not has_address:
                head_lines.append((start, end))
        self.mail_head = merge_spans(head_lines)
        self.mail_field = self._first_field(block)
        self.headings = []

    def context_of(self, block: _Block, previous_block: _Block) -> Ranges:
        context_spans = [*self.opening]
        for heading in self.headings:
            context_spans.append(heading.span)
        context_spans += self.quote_context(block, previous_block)
        if block.kind == "item":
            while self.list_items and self.list_items[-1].indent >= block.indent:
                self.list_items.pop()
            for item in self.list_items:
                if item.is_short:
                    context_spans.append(item.span)
            self.list_items.append(block)
        else:
            self.list_items = []
        if block.kind == "para":
            is_lead = block.announces_next(self.text)
            self.list_lead = []
            if is_lead:
                self.list_lead = [block.span]
        else:
            context_spans += self.list_lead
        is_same_table = block.kind == "row" and previous_block.kind == "row"
        if not is_same_table or previous_block.ends_blank:
            self.table_header = []
        return context_spans

    def quote_context(self, block: _Block, previous_block: _Block) -> Ranges:
        """Return who is quoted in this block, or else who wrote the mail."""
        depth = block.quote_depth
        for author_depth in list(self.quote_authors):
            if author_depth > depth:
                del self.quote_authors[author_depth]
        is_deeper = depth > previous_block.quote_depth
        if is_deeper and previous_block.announces_next(self.text):
            self.quote_authors[depth] = previous_block.span
        author_span = self.quote_authors.get(depth)
        if is_deeper and block.announces_next(self.text):
            self.quote_authors[depth] = block.span
        if not depth and self.mail_head:
            return self.mail_head
        if author_span is None:
            return []
        return [author_span]

    def is_table_header(self, block: _Block, next_block: _Block) -> bool:
        """Whether a row is the header of its table, or the line under the header."""
        row_text = self.text[block.start : block.end]
        if _is_header_rule(row_text):
            return True
        if self.table_header or block.ends_blank:
            return False
        if next_block.kind != "row":
            return False
        if "\t" in row_text:
            return True
        next_row = self.text[next_block.start : next_block.end]
        return _is_header_rule(next_row)


def _block_chunks(
    tracker: _ContextTracker,
    previous_block: _Block,
    block: _Block,
    next_block: _Block,
) -> list[TextChunk]:
    if block.kind == "heading":
        is_deeper = next_block.level > block.level
        has_text = next_block.kind != "heading" or is_deeper
        heading_spans = tracker.open_heading(block)
        context_spans = tuple(heading_spans)
        chunk = TextChunk(*block.span, context_spans, is_structural=has_text)
        return [chunk]
    if block.kind == "para" and tracker.is_mail_head(block):
        tracker.open_mail(block)
        return [TextChunk(*block.span)]
    spans = tracker.context_of(block, previous_block)
    is_row = block.kind == "row"
    is_header = is_row and tracker.is_table_header(block, next_block)
    if is_row and not is_header:
        spans += tracker.table_header
    # In order, each once: a lead may also be who is quoted.
    other_spans = dict.fromkeys(spans)
    other_spans.pop(block.span, None)
    context_spans = tuple(other_spans)
    if is_header:
        tracker.table_header.append(block.span)
        return [TextChunk(*block.span, context_spans, is_structural=True)]
    if block.kind == "code":
        return split_long(
            tracker.text,
            block.span,
            context_spans,
            by_lines=True,
            max_characters=MAX_CODE_CHARACTERS,
        )
    return split_long(tracker.text, block.span, context_spans)


def _raise_title(blocks: Sequence[_Block]) -> None:
    """Put a first line without a mark above the heading that follows it at once."""
    if len(blocks) < 2:
        return
    first_block, next_block = blocks[:2]
    if first_block.kind == next_block.kind == "heading":
        first_block.level = min(first_block.level, next_block.level - 1)


def _opening_sentence(text: str, first_block: _Block) -> Ranges:
    """Return the first sentence of a long text without a title, which says what it is.

    Empty if it is long too, or if the text begins in the middle of something.
    """
    is_paragraph = first_block.kind == "para" and not first_block.has_fields
    is_long = len(text) >= _MIN_OPENED_CHARACTERS
    is_fragment = text[0].islower()
    if not is_paragraph or not is_long or is_fragment:
        return []
    sentences = sentence_ranges(text, *first_block.span)
    start, end = sentences[0]
    if end - start > _MAX_OPENING_CHARACTERS:
        return []
    return [(start, end)]


def _mark_page_headers(text: str, blocks: Sequence[_Block]) -> None:
    """Make headings of short paragraphs that differ only in a number that counts up."""
    similar_blocks: dict[str, list[tuple[str, _Block]]] = {}
    for block in blocks:
        block_text = text[block.start : block.end]
        is_short = len(block_text) <= 2 * _MAX_HEADING_CHARACTERS
        if block.kind != "para" or not is_short:
            continue
        bare_text = block_text.translate(_WITHOUT_PUNCTUATION)
        wording = ""
        first_number = ""
        words = bare_text.split()
        for word in words:
            if not word.isdecimal():
                wording += word
            elif not first_number:
                first_number = word
        if words:
            same_wording = similar_blocks.setdefault(wording, [])
            same_wording.append((first_number, block))
    for numbered_blocks in similar_blocks.values():
        numbers = [number for number, _ in numbered_blocks]
        first_count = int(numbers[0] or -1)
        counts = range(first_count, first_count + len(numbers))
        expected_numbers = list(map(str, counts))
        if len(numbers) < 3 or numbers != expected_numbers:
            continue
        for _, block in numbered_blocks:
            block.kind = "heading"
            block.level = _PAGE_HEADER_LEVEL


def _is_header_rule(row_text: str) -> bool:
    """Whether this is the line under a table's header: dashes, colons and bars."""
    symbols = "".join(row_text.split())
    _, _, after_dash = symbols.partition("-")
    if "|" not in after_dash:
        return False
    return not symbols.strip(":|-")
