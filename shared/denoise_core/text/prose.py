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
_BOLD_LEVEL = 9  # a line in bold is under a title without a mark
_MAX_QUESTION_CHARACTERS = 200  # of a paragraph that its answer joins
_PAGE_HEADER_LEVEL = 7  # also of a section of settings
_SENTENCE_ENDINGS = ".,;:!?\u3002\uff01\uff1f"  # a heading does not end with these
_TITLE_MARKS = "\u00a7\u00bf"  # a section's sign, and the beginning of a question
_CLAUSE_ENDINGS = (".", ":", ";", "!", "?")  # a list may begin after these
_WITHOUT_PUNCTUATION = str.maketrans(punctuation, " " * len(punctuation))

_LINE = re.compile(
    r"(?P<heading>[ ]{0,3}\#{1,6}[ \t]+\S|={2,}[^=\n]+={2,}\s*$)"
    r"|(?P<fence>\s*(?:`{3,}[^`\n]*$|~~~))"
    r"|(?P<rule>[ ]{0,3}(?:={3,}|-{3,})\s*$)"
    r"|(?P<row>\s*\|.*\|\s*$|[^\s\t][^\t\n]*\t[^\n]*\S)"
    r"|(?P<item>\s*(?:[-*+\u2022\u2013]"
    r"|\(?(?:\d{1,3}|\d{1,2}[a-z]|[A-Z]\d{1,2}|[ivxIVX]{2,4}|\w\w(?=\))|\w)[.)])"
    r"[ \t]+\S)"
    r"|(?P<setting>[\w.-]+[ \t]*=)"
    r"|(?P<field>[\w-]{1,40}:(?:[ \t]+\S|\s*$))"
    r"|(?P<section>\[{1,2}[^\[\]\n]+\]{1,2}\s*$)"
    r"|(?P<divider>_{3,}\s*$|-{3,}+[ ]?\w.*-{3}\s*$)"
)
_QUOTE_MARKS = re.compile(r"\A(?:[ ]?>)+[ ]?")


def line_kind(line: str) -> str:
    """Return what a line looks like; ``""`` for text.

    ``"heading"``, ``"fence"`` (of code), ``"rule"`` (or underline), ``"row"``,
    ``"item"``, ``"setting"`` (``name = value``), ``"field"`` (``Name: value``),
    ``"section"`` (``[name]``) or ``"divider"`` (above a quoted mail).
    """
    match = _LINE.match(line)
    if match is None:
        return ""
    return match.lastgroup or ""


def prose_chunks(text: str) -> list[TextChunk]:
    """Chunk a text that has at least one filled line."""
    reader = _ProseBlockReader(text, has_sections=_begins_with_settings(text))
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
        has_fields: True if every line is ``Name: value``, maybe under a divider.
        is_comment: True if every line is a comment of INI or TOML.
    """

    start: int
    end: int
    kind: str
    indent: int = 0
    quote_depth: int = 0
    level: int = 0
    ends_blank: bool = False
    has_fields: bool = False
    is_comment: bool = False

    @property
    def span(self) -> Range:
        return self.start, self.end

    @property
    def is_short(self) -> bool:
        return self.end - self.start <= MAX_CHUNK_CHARACTERS

    def announces_next(self, text: str, end_marks: str | tuple[str, ...] = ":") -> bool:
        """Whether a short block ends with a mark and so introduces the next one."""
        return self.is_short and self.ends_with(text, end_marks)

    def ends_with(self, text: str, end_marks: str | tuple[str, ...]) -> bool:
        end_text = text[max(self.start, self.end - MAX_CHUNK_CHARACTERS) : self.end]
        return end_text.rstrip(" \t\r\n>*").endswith(end_marks)


# The block before the first and after the last one; never changed.
_EDGE = _Block(0, 0, "heading", quote_depth=99, ends_blank=True)


@dataclass(slots=True)
class _ProseBlockReader:
    """Turns lines into blocks, looking at each line once and at the one after it.

    Attributes:
        text: The whole text.
        has_sections: True for INI or TOML: each ``[name]`` is a heading, with the
            comment above it, and no line with ``#`` is one.
        blocks: The blocks so far.
        open_fence: How the open code block ends; ``""`` outside one.
    """

    text: str
    has_sections: bool
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
            is_comment = self.has_sections and content[0] in "#;"
            if is_comment and self.blocks:
                kind = ""
            if kind == "section" and self.has_sections:
                kind = "heading"
                start = self.take_comment(start)
                last_block = self.last_block
            is_open = not last_block.ends_blank
            if is_comment and not last_block.is_comment:
                is_open = False
            is_same_quote = last_block.quote_depth == quote_depth
            if is_open and is_same_quote and self.continues_block(content, kind):
                last_block.end = end
            elif kind == "rule" and is_same_quote and last_block.kind != "heading":
                # A rule between two parts ends the first and is no part of the second.
                last_block.end = end
                last_block.ends_blank = True
            else:
                self.start_block(start, end, content, kind, quote_depth)
            self.last_block.is_comment = is_comment
        elif self.blocks:
            last_block.end = end
            last_block.ends_blank = True
        else:
            self.blocks.append(_Block(start, end, "para", ends_blank=True))

    def take_comment(self, start: int) -> int:
        """Return where the heading of a section begins: with the comment above it.

        The first comment of a text, over a blank line, is about all of it.
        """
        block = self.last_block
        is_title = len(self.blocks) == 1 and block.ends_blank
        if not block.is_comment or is_title:
            return start
        self.blocks.pop()
        return block.start

    def continues_block(self, content: str, kind: str) -> bool:
        """Whether a line continues the block before it, without a blank line."""
        last_block = self.last_block
        if last_block.kind == "para" and self.is_underline(content, kind):
            self.underline_block(last_block, content)
            return True
        is_new_kind = kind in ("heading", "fence", "row", "divider")
        if is_new_kind or last_block.kind in ("heading", "row"):
            return False
        if kind == "item":
            if last_block.kind == "para":
                return not self.begins_list(content)
            return last_block.kind == "code"
        # A field that begins with a space continues on this line (RFC 5322, 2.2.3).
        is_folded = content[0] in " \t"
        if kind != "field" and not is_folded:
            last_block.has_fields = False
        return True

    def is_underline(self, content: str, kind: str) -> bool:
        """Whether a line is a rule, or tildes under one line that is no longer.

        reStructuredText underlines titles with tildes; Markdown begins code with them,
        on the next line.
        """
        bare_line = content.strip()
        if kind != "fence" or bare_line.strip("~"):
            return kind == "rule"
        start, end = self.last_block.span
        title = self.text[start:end].strip()
        _, line_end = line_at(self.text, end)
        if not self.text.startswith(("\n", "\r\n"), line_end):
            return False
        return "\n" not in title and len(title) <= len(bare_line)

    def begins_list(self, content: str) -> bool:
        """Whether an item begins a list right under a paragraph.

        As in CommonMark a number other than 1 does not: it may belong to the sentence
        ("in room" and, on the next line, "12. It begins at nine"). It does if no
        sentence is open, or if the next number or letter follows.
        """
        mark = content.split()[0]
        number = mark.strip("().")
        if number == "1" or not number.isalnum():
            return True
        if self.last_block.ends_with(self.text, _CLAUSE_ENDINGS):
            return True
        start = self.last_block.end
        following_text = self.text[start : start + MAX_CHUNK_CHARACTERS]
        line_start, _, _ = following_text.partition(number)
        return any(
            f"\n{line_start}{next_number}{mark[-1]} " in following_text
            for next_number in _next_numbers(number)
        )

    def underline_block(self, block: _Block, content: str) -> None:
        """Make one line over a rule a heading; a rule ends a longer record."""
        line_count = self.text.count("\n", block.start, block.end)
        block.ends_blank = line_count > 1
        if not block.ends_blank:
            block.kind = "heading"
            block.level = 1 + "=-~".index(content.strip()[0])

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
        list item above it, any other one the question above it.
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
            block.level = mark_length or _PAGE_HEADER_LEVEL
        elif (
            kind != "row" and not quote_depth and self.is_unmarked_heading(content, end)
        ):
            block.kind = "heading"
            block.level = _UNMARKED_LEVEL
            if content.startswith("**"):
                block.level = _BOLD_LEVEL
        elif kind not in ("row", "item"):
            block.kind = "para"
            block.has_fields = kind in ("field", "divider")
            block.ends_blank = kind == "rule"
        if self.joins_last_block(block):
            last_block = self.last_block
            last_block.end = end
            last_block.ends_blank = last_block.has_fields = False
        else:
            self.blocks.append(block)

    def joins_last_block(self, block: _Block) -> bool:
        last_block = self.last_block
        if block.kind == "code" and last_block.kind in ("para", "item"):
            return last_block.announces_next(self.text)
        if block.kind != "para" or last_block.quote_depth != block.quote_depth:
            return False
        if last_block.kind == "item":
            return block.indent > last_block.indent
        return self.is_answer(block)

    def is_answer(self, block: _Block) -> bool:
        """Whether a short question is above this paragraph, which asks none itself."""
        question = self.last_block
        if question.kind != "para" or question.has_fields or block.has_fields:
            return False
        if question.end - question.start > _MAX_QUESTION_CHARACTERS:
            return False
        is_asked = question.announces_next(self.text, "?")
        return is_asked and not block.announces_next(self.text, "?")

    def is_unmarked_heading(self, content: str, end: int) -> bool:
        """Whether this is a short line by itself, with text under it.

        A list item with another item under it is none.
        """
        line = content.rstrip()
        words = line.split()
        if len(line) > _MAX_HEADING_CHARACTERS or len(words) > _MAX_HEADING_WORDS:
            return False
        title = line
        if line.startswith("**"):  # a line in bold
            title = line.strip("*")
        first_character = title[:1]
        is_title_case = (
            first_character.isupper()
            or first_character.isdigit()
            or first_character in _TITLE_MARKS
        )
        is_sentence = title[-1:] in _SENTENCE_ENDINGS
        if is_sentence or not is_title_case:
            return False
        _, next_end = line_at(self.text, end)
        next_line = self.text[end:next_end]
        if next_line.strip() or not self.last_block.ends_blank:
            return False
        following_text = self.text[next_end : next_end + 400]
        following_text = following_text.lstrip()
        if following_text[:1] in ("", ">"):
            return False
        return line_kind(line) == "" or line_kind(following_text) != "item"


@dataclass(slots=True)
class _ContextTracker:
    """What the next block cannot be read without.

    Attributes:
        text: The whole text.
        opening: Range of the sentence that says what the text is, at most one.
        mail_field: First field of the text's mail heads, such as ``From``.
        headings: The open headings, outermost first.
        outer_blocks: The items around the next item, or the lines that an indented
            paragraph is under, such as a commit and its author.
        list_lead: Range of the sentence or question that introduces a list, at most one.
        authors: Per quote depth the ranges that say who wrote it: the sender, date and
            subject of a mail, or a sentence before a quotation.
        table_header: Ranges of the open table's header rows.
    """

    text: str
    opening: Ranges
    mail_field: str = ""
    headings: list[_Block] = field(default_factory=list)
    outer_blocks: list[_Block] = field(default_factory=list)
    list_lead: Ranges = field(default_factory=list)
    authors: dict[int, Ranges] = field(default_factory=dict)
    table_header: Ranges = field(default_factory=list)

    def heading_spans(self) -> Ranges:
        spans = []
        for heading in self.headings:
            spans.append(heading.span)
        return spans

    def open_heading(self, block: _Block) -> Ranges:
        while self.headings and self.headings[-1].level >= block.level:
            self.headings.pop()
        context_spans = self.heading_spans()
        self.headings.append(block)
        self.outer_blocks = []
        self.list_lead = []
        self.table_header = []
        return context_spans

    def is_mail_head(self, block: _Block) -> bool:
        """Whether a block is the head of a mail: two fields, as the text begins with.

        The front matter of a Markdown file, after a line of dashes, counts as one.
        Three other fields are one under a divider ("--- Forwarded message ---"), unless
        a heading is open, which they would close.
        """
        lines = self.text.count("\n", block.start, block.end)
        if not block.has_fields or not block.is_short or lines < 3:
            return False
        names = self._field_names(block)
        if len(names) < 2:
            return False
        is_front_matter = block.start < 6 and self.text.startswith("---")
        if block.start == 0 or is_front_matter or names[0] == self.mail_field:
            return True
        is_under_heading = self.headings and not self.mail_field
        is_divided = self.text.startswith(("---", "___"), block.start)
        return is_divided and len(names) > 2 and not is_under_heading

    def _field_names(self, block: _Block) -> list[str]:
        block_text = self.text[block.start : block.end]
        names = []
        for line in block_text.split("\n"):
            content = _QUOTE_MARKS.sub("", line)
            if line_kind(content) == "field":
                name, _, _ = content.partition(":")
                names.append(name)
        return names

    def open_mail(self, block: _Block) -> None:
        """Start a mail; its head identifies what follows, but for those who get it.

        The first field says who wrote it; other lines with an address do not. A quoted
        mail stays under the headings of the mail that quotes it.
        """
        self.mail_field = self._field_names(block)[0]
        head_lines = []
        for start, end in line_spans(self.text, *block.span):
            line = self.text[start:end]
            content = _QUOTE_MARKS.sub("", line)
            if content.startswith(self.mail_field) or "@" not in line:
                head_lines.append((start, end))
        self.close_quotes(block.quote_depth)
        self.authors[block.quote_depth] = merge_spans(head_lines)
        if not block.quote_depth:
            self.headings = []

    def close_quotes(self, depth: int) -> None:
        for author_depth in list(self.authors):
            if author_depth > depth:
                del self.authors[author_depth]

    def context_of(self, block: _Block, previous_block: _Block) -> Ranges:
        context_spans = [*self.opening]
        context_spans += self.heading_spans()
        context_spans += self.quote_context(block, previous_block)
        while self.outer_blocks and self.outer_blocks[-1].indent >= block.indent:
            self.outer_blocks.pop()
        for outer in self.outer_blocks:
            is_outer = outer.is_short and outer.quote_depth == block.quote_depth
            if is_outer and block.kind in ("para", outer.kind):
                context_spans.append(outer.span)
        self.outer_blocks.append(block)
        if block.kind == "para":
            self.list_lead = []
            if block.announces_next(self.text, (":", "?")):
                self.list_lead = [block.span]
        else:
            context_spans += self.list_lead
        is_same_table = block.kind == previous_block.kind == "row"
        if not is_same_table or previous_block.ends_blank:
            self.table_header = []
        return context_spans + self.table_header

    def quote_context(self, block: _Block, previous_block: _Block) -> Ranges:
        """Return who is quoted in this block, or else who wrote the mail."""
        depth = block.quote_depth
        self.close_quotes(depth)
        is_deeper = depth > previous_block.quote_depth
        if is_deeper and previous_block.announces_next(self.text):
            self.authors[depth] = [previous_block.span]
        author_spans = self.authors.get(depth, [])
        if is_deeper and block.announces_next(self.text):
            self.authors[depth] = [block.span]
        return author_spans

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
        if not next_block.quote_depth and tracker.is_mail_head(next_block):
            has_text = False  # the last line of a mail: no later chunk would have it
        return [TextChunk(*block.span, tuple(heading_spans), is_structural=has_text)]
    if block.kind == "para" and tracker.is_mail_head(block):
        tracker.open_mail(block)
        return [TextChunk(*block.span, tuple(tracker.heading_spans()))]
    spans = tracker.context_of(block, previous_block)
    is_header = block.kind == "row" and tracker.is_table_header(block, next_block)
    # In order, each once: a lead may also be who is quoted.
    other_spans = dict.fromkeys(spans)
    other_spans.pop(block.span, None)
    context_spans = tuple(other_spans)
    if is_header:
        tracker.table_header.append(block.span)
        return [TextChunk(*block.span, context_spans, is_structural=True)]
    is_code = block.kind == "code"
    return split_long(
        tracker.text,
        block.span,
        context_spans,
        by_lines=is_code,
        max_characters=MAX_CODE_CHARACTERS if is_code else MAX_CHUNK_CHARACTERS,
    )


def _next_numbers(number: str) -> list[str]:
    """Return what follows a number of a list: 10 after 9, 1b after 1a, ii or j after i."""
    if number.isdecimal():
        next_number = int(number) + 1
        return [str(next_number)]
    next_character = chr(ord(number[-1]) + 1)
    return [number[:-1] + next_character, number + "i"]


def _raise_title(blocks: Sequence[_Block]) -> None:
    """Put a first line without a mark above the heading that follows it at once."""
    for first_block, next_block in pairwise(blocks[:2]):
        is_unmarked = first_block.level == _UNMARKED_LEVEL
        if is_unmarked and next_block.level:
            first_block.level = min(first_block.level, next_block.level - 1)


def _begins_with_settings(text: str) -> bool:
    """Whether a text has nothing but comments and values up to a section with a value.

    Markdown has ``[name]`` too, but between other lines.
    """
    has_section = False
    for start, end in line_spans(text):
        line = text[start:end]
        kind = line_kind(line)
        if kind == "setting" and has_section:
            return True
        if kind == "section":
            has_section = True
        elif line.strip() and kind != "setting" and line[0] not in "#;":
            return False
    return False


def _opening_sentence(text: str, first_block: _Block) -> Ranges:
    """Return the first sentence of a long text without a title, which says what it is.

    Empty if it is long too, or if the text begins in the middle of something.
    """
    is_paragraph = first_block.kind == "para" and not first_block.has_fields
    is_long = len(text) >= _MIN_OPENED_CHARACTERS
    is_fragment = text[0].islower()
    if not is_paragraph or not is_long or is_fragment:
        return []
    is_short = first_block.end - first_block.start <= _MAX_OPENING_CHARACTERS
    if is_short and not first_block.ends_with(text, tuple(_SENTENCE_ENDINGS)):
        return [first_block.span]  # a letterhead, or a title of two lines
    read_end = min(first_block.end, first_block.start + 2 * _MAX_OPENING_CHARACTERS)
    sentences = sentence_ranges(text, first_block.start, read_end)
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
        if block.kind != "para" or block.has_fields or not is_short:
            continue
        words = block_text.translate(_WITHOUT_PUNCTUATION).split()
        numbers = list(filter(str.isdecimal, words))
        other_words = []
        for word in words:
            if not word.isdecimal():
                other_words.append(word)
        wording = "".join(other_words)
        if numbers:
            same_wording = similar_blocks.setdefault(wording, [])
            same_wording.append((numbers[0], block))
    for numbered_blocks in similar_blocks.values():
        numbers = [number for number, _ in numbered_blocks]
        first_number = int(numbers[0])
        expected_numbers = range(first_number, first_number + len(numbers))
        if len(numbers) < 3 or numbers != list(map(str, expected_numbers)):
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
