"""Text by its lines: headings, paragraphs, list items, table rows, code; quoted replies; entries and turns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from string import ascii_letters, digits, punctuation

from denoise_core.spans import Range
from denoise_core.text.chunk import sentence_chunker, sentence_spans
from denoise_core.text.text_chunk import (
    MAX_CHUNK_CHARACTERS,
    TextChunk,
    line_spans,
    with_title,
)
from denoise_core.types import Passage

PLAIN_TEXT, SOURCE_CODE, LOG_ENTRIES = "text", "code", "entries"
HEADING = 100  # characters of a heading without a mark, at most
TURN = 240  # characters of a turn that is read with its answer, at most
CODE_LONG = 1600  # characters of a code block that stays whole
_NO_HEADING = ".,;:!?\u3002\uff01\uff1f"  # what ends no heading
_INSIDE = " \t})]\n"  # what lines begin with that begin no unit
_MARKS = frozenset(":-/.")  # one of which stands in a time
_READ = 8_000  # characters that tell the kind
_ALIKE = (
    0.6  # share of a text's lines that begin alike where it is a log or a transcript
)
_LEAST = 5  # lines that say so

_LINE = re.compile(
    r"(?P<heading>[ ]{0,3}\#{1,6}[ \t]+\S|={2,}[^=\n]+={2,}\s*$)|(?P<fence>\s*(?:```|~~~))"
    r"|(?P<under>[ ]{0,3}(?:={3,}|-{3,})\s*$)|(?P<row>\s*\|.*\|\s*$|[^\s\t][^\t\n]*\t[^\n]*\S)"
    r"|(?P<item>\s*(?:[-*+\u2022\u2013]|\(?\w{1,3}[.)])[ \t]+\S)|(?P<field>[\w-]{1,24}:[ \t]+\S)"
)
_QUOTE = re.compile(r"(?:[ ]?>)+")
_TURN = re.compile(r"(?:[\[(]?[\d:.,]+[\])]?[ ]+)?([^\W\d_][\w .'-]{0,40}):[ \t]")
_PRONOUN = re.compile(
    r"\W*(he|she|it|its|they|them|their|his|her|this|these|those|that|such|the (?:former|latter))\b",
    re.IGNORECASE,
)


def detect_line_format(text: str) -> str:
    """``"entries"`` where most lines begin alike with a time or a speaker, ``"code"`` where many are indented."""
    head = [line for line in text[:_READ].split("\n") if line.strip()]
    if len(head) < _LEAST:
        return PLAIN_TEXT
    if _starts(head):
        return LOG_ENTRIES
    indented = [line for line in head if line[0] in " \t"]
    bare = [
        line
        for line in head
        if line.rstrip().endswith((":", "{", "}", ";", ")", "]", ","))
    ]
    return (
        SOURCE_CODE
        if len(indented) > 0.4 * len(head) and len(bare) > 0.25 * len(head)
        else PLAIN_TEXT
    )


def line_chunks(text: str, kind: str) -> list[TextChunk]:
    """The pieces of a text of this kind."""
    if not text.strip():
        return [TextChunk(0, len(text))]
    if "\n" not in text and len(text) <= MAX_CHUNK_CHARACTERS:
        return [TextChunk(0, len(text))]
    return {LOG_ENTRIES: _entries, SOURCE_CODE: _code}.get(kind, _text)(text)


def antecedent_sentence(text: str, piece: TextChunk, prose: bool) -> tuple[Range, ...]:
    """The sentence before a piece of prose that begins with a pronoun, which says whom "he" and "this" mean."""
    if (
        not prose
        or piece.start == 0
        or not _PRONOUN.match(text, piece.start, piece.start + 40)
    ):
        return ()
    start = max(
        text.rfind("\n\n", 0, len(text[: piece.start].rstrip())),
        piece.start - MAX_CHUNK_CHARACTERS,
        0,
    )
    found = sentence_spans(Passage(text[start : piece.start], ""))
    return ((start + found[-1].start, piece.start),) if found else ()


# --- Entries and turns


def _starts(lines: Sequence[str]) -> frozenset[str]:
    """How lines begin that begin an entry: the shape of a time, or who speaks twice; empty for too few."""
    least = max(_LEAST - 1, _ALIKE * len(lines))
    shapes = _repeated(map(_shape, lines))
    if shapes.total() >= least:
        return frozenset(shapes)
    speakers = _repeated(map(_speaker, lines))
    rules = [
        line for line in lines if (mark := _LINE.match(line)) and mark["under"]
    ]  # between records of fields
    is_talk = speakers.total() >= least and len(speakers) > 1 and len(rules) < 2
    return frozenset(speakers) if is_talk else frozenset()


def _repeated(starts: Iterable[str]) -> Counter[str]:
    """How often each start that is not empty comes, of those that come more than once."""
    counted = Counter(filter(None, starts))
    return Counter({start: times for start, times in counted.items() if times > 1})


def _speaker(line: str) -> str:
    """Who speaks in this line; "" where it is no turn."""
    turn = _TURN.match(line)
    return turn[1] if turn else ""


_AS_SHAPE = str.maketrans(
    digits + ascii_letters, "0" * len(digits) + "a" * len(ascii_letters)
)
_BARE = str.maketrans(punctuation, " " * len(punctuation))


def _shape(line: str) -> str:
    """The first characters of a line with each digit as 0; "" where they hold no time."""
    head = line[:10].translate(_AS_SHAPE)
    return head[:8] if head.count("0") >= 4 and not _MARKS.isdisjoint(head[1:]) else ""


def _units(text: str, begins: Callable[[int, int], bool]) -> list[Range]:
    """The lines in units: each from a line that begins one up to the next."""
    out: list[Range] = []
    for start, end in line_spans(text):
        if out and not begins(start, end):
            out[-1] = out[-1][0], end
        else:
            out.append((start, end))
    return out


def _entries(text: str) -> list[TextChunk]:
    starts = _starts([line for line in text[:_READ].split("\n") if line.strip()])

    def begins(start: int, end: int) -> bool:
        line = text[start:end]
        return _speaker(line) in starts or _shape(line) in starts

    units = _units(text, begins)
    speakers = [
        _speaker(text[start:end]) if begins(start, end) else "" for start, end in units
    ]
    is_talk = len(list(filter(None, speakers))) > 0.5 * len(units)
    out: list[TextChunk] = []
    before, last_speaker = (0, 0), ""
    for (start, end), speaker in zip(units, speakers, strict=True):
        answers = is_talk and speaker and last_speaker not in ("", speaker)
        above = (before,) if answers and before[1] - before[0] <= TURN else ()
        by_lines = (
            "\n" in text[start:end].strip()
        )  # a stack trace, whose lines are no sentences
        out += _long(
            text,
            start,
            end,
            above,
            MAX_CHUNK_CHARACTERS + 1 if by_lines else MAX_CHUNK_CHARACTERS,
        )
        before, last_speaker = (start, end), speaker
    return out


# --- Code


def _code(text: str) -> list[TextChunk]:
    """Units that begin at the margin after a blank line; a long one is cut at its blank lines, under the lines
    that it begins with."""

    def begins(start: int, end: int) -> bool:
        before = text[text.rfind("\n", 0, max(0, start - 1)) + 1 : start]
        return (
            text[start] not in _INSIDE
            and bool(text[start:end].strip())
            and not before.strip()
        )

    out: list[TextChunk] = []
    for start, end in _units(text, begins):
        if end - start <= CODE_LONG:
            out.append(TextChunk(start, end))
            continue
        first = next(
            (a for a, _ in line_spans(text, start, end) if text[a] in _INSIDE), start
        )
        first = (
            first
            if first - start <= MAX_CHUNK_CHARACTERS // 2
            else start + len(text[start:end].split("\n", 1)[0]) + 1
        )
        parts = _packed(text, start, end)
        out += [
            TextChunk(a, b, ((start, first),) if a >= first else ()) for a, b in parts
        ]
    return out


def _packed(text: str, start: int, end: int) -> list[Range]:
    """A long unit in parts of at most `LONG` characters, cut at blank lines where there are any, else at lines."""
    out: list[Range] = []
    inner = False
    for a, b in line_spans(text, start, end):
        last = out[-1] if out else None
        so_far = last[1] - last[0] if last else 0
        full = so_far + b - a > MAX_CHUNK_CHARACTERS or (
            so_far > MAX_CHUNK_CHARACTERS // 2 and text.endswith("\n\n", 0, a)
        )
        full = full or (
            inner and text[a] not in _INSIDE
        )  # "Caused by:" begins another part of a stack trace
        inner = text[a] in _INSIDE
        if last is None or full:
            out.append((a, b))
        else:
            out[-1] = last[0], b
    return out


# --- Markdown, plain text, mail


@dataclass(slots=True)
class _Block:
    start: int
    end: int
    kind: str
    indent: int = 0
    depth: int = 0  # of quoting
    level: int = 0  # of a heading
    blank: bool = False  # blank lines end it
    fields: bool = False  # all its lines are "Name: value"


_EDGE = _Block(
    0, 0, "heading", depth=99, blank=True
)  # before the first block and behind the last; never changed


@dataclass(slots=True)
class _Reader:
    """Turns lines into blocks: each is looked at once, with the line after it."""

    text: str
    blocks: list[_Block] = field(default_factory=list)
    fence: str = ""

    def read(self) -> list[_Block]:
        for start, end in line_spans(self.text):
            self.line(start, end)
        return self.blocks

    @property
    def last(self) -> _Block:
        return self.blocks[-1] if self.blocks else _EDGE

    def line(self, start: int, end: int) -> None:
        line, last = self.text[start:end], self.last
        if self.fence:
            last.end = end
            if line.strip().startswith(self.fence):
                self.fence = ""
            return
        quoted = _QUOTE.match(line) if line[0] in " >" else None
        depth = quoted[0].count(">") if quoted else 0
        said = line[quoted.end() :] if quoted else line
        if said.strip():
            mark = _LINE.match(said)
            what = (mark.lastgroup if mark else None) or ""
            if (
                not last.blank
                and last.depth == depth
                and self._goes_on(last, said, what)
            ):
                last.end = end
            else:
                self.begin(start, end, said, what, depth)
        elif self.blocks:
            last.end, last.blank = end, True
        else:
            self.blocks.append(_Block(start, end, "para", blank=True))

    def begin(self, start: int, end: int, said: str, what: str, depth: int) -> None:
        """A block that begins with this line, or goes on with the one above that announces it or holds it."""
        last, bare = self.last, said.lstrip(" \t")
        kind, level, indent = what, 0, len(said) - len(bare)
        if what == "fence":
            kind, self.fence = "code", said.strip()[:3]
        elif what == "heading":
            level = len(bare) - len(bare.lstrip("#=")) or 1
        elif what != "row" and self._alone(said, end):
            kind, level = "heading", 8
        elif what not in ("row", "item"):
            kind = "para"
        is_led = (
            kind == "code"
            and last.kind in ("para", "item")
            and _ends_as_lead(self.text, last)
        )
        is_inner = (
            kind == "para"
            and last.kind == "item"
            and last.depth == depth
            and indent > last.indent
        )
        if is_led or is_inner:
            last.end, last.blank = (
                end,
                False,
            )  # "On macOS:" and its commands are one; a paragraph of a list item
        else:
            has_fields = what == "field" and kind == "para"
            self.blocks.append(
                _Block(start, end, kind, indent, depth, level, fields=has_fields)
            )

    def _goes_on(self, last: _Block, said: str, what: str) -> bool:
        """Whether a line belongs to the block before it, with no blank line between."""
        if what == "under" and last.kind == "para":
            last.blank = (
                self.text.count("\n", last.start, last.end) > 1
            )  # a rule under a record ends it
            if not last.blank:
                last.kind, last.level = "heading", 1 if "=" in said else 2
            return True
        if what in ("heading", "fence", "row") or last.kind in ("heading", "row"):
            return False
        if what == "item":
            return last.kind == "code"
        last.fields = last.fields and what == "field"
        return True

    def _alone(self, said: str, end: int) -> bool:
        """A heading without a mark: a short line by itself, with something under it that is no list item."""
        line = said.strip()
        if (
            len(line) > HEADING
            or line[-1] in _NO_HEADING
            or said[0] in " \t"
            or len(line.split()) > 12
        ):
            return False
        following = self.text[end : self.text.find("\n", end) + 1 or None]
        if (
            following.strip()
            or not self.last.blank
            or not (line[0].isupper() or line[0].isdigit())
        ):
            return False
        stop = end + len(following)
        under = self.text[stop : stop + 400].lstrip("\n")
        mark = _LINE.match(under)
        is_listed = _LINE.match(line) and mark and mark.lastgroup == "item"
        return bool(under.strip()) and under[0] != ">" and not is_listed


@dataclass(slots=True)
class _Standing:
    """What stands above the next block: headings, a list's lead, items around an item, who is quoted, a table's
    head. ``told`` is the block that names a mail's sender and subject."""

    text: str
    told: _Block | None
    headings: list[_Block] = field(default_factory=list)
    items: list[_Block] = field(default_factory=list)
    lead: list[_Block] = field(default_factory=list)  # one or none
    quotes: dict[int, _Block] = field(default_factory=dict)
    table: list[_Block] = field(default_factory=list)

    def heading(self, block: _Block) -> list[_Block]:
        while self.headings and self.headings[-1].level >= block.level:
            self.headings.pop()
        over = list(self.headings)
        self.headings.append(block)
        self.items, self.lead, self.table = [], [], []
        return over

    def above(self, block: _Block, before: _Block) -> list[_Block]:
        over = [*self.headings, *self._quoted(block, before)]
        if block.kind == "item":
            while self.items and self.items[-1].indent >= block.indent:
                self.items.pop()
            over += [
                item
                for item in self.items
                if item.end - item.start <= MAX_CHUNK_CHARACTERS
            ]
            self.items.append(block)
        else:
            self.items = []
        if block.kind == "para":
            self.lead = [block] if _ends_as_lead(self.text, block) else []
        else:
            over += self.lead
        if block.kind != "row" or before.kind != "row" or before.blank:
            self.table = []
        return over

    def _quoted(self, block: _Block, before: _Block) -> list[_Block]:
        """Who is quoted in this block, or wrote the mail."""
        self.quotes = {
            depth: who for depth, who in self.quotes.items() if depth <= block.depth
        }
        opened = block.depth > before.depth
        if opened and _ends_as_lead(self.text, before):
            self.quotes[block.depth] = before
        over = [self.quotes[block.depth]] if block.depth in self.quotes else []
        if opened and _ends_as_lead(self.text, block):
            self.quotes[block.depth] = block
        return [self.told] if self.told is not None and not block.depth else over


def _text(text: str) -> list[TextChunk]:
    blocks = _Reader(text).read()
    _number(text, blocks)
    first = blocks[0]
    told = (
        first if first.fields and text.count("\n", first.start, first.end) > 2 else None
    )
    standing = _Standing(text, told)
    out: list[TextChunk] = []
    for before, block, after in zip(
        [_EDGE, *blocks], blocks, [*blocks[1:], _EDGE], strict=False
    ):
        if block.kind == "heading":
            over = _ranges(standing.heading(block))
            has_text = after.kind != "heading" or after.level > block.level
            out.append(TextChunk(block.start, block.end, over, is_structural=has_text))
            continue
        above = [over for over in standing.above(block, before) if over is not block]
        if block.kind == "row":
            if _is_head(text, standing.table, block, after):
                standing.table.append(block)
                out.append(
                    TextChunk(
                        block.start, block.end, _ranges(above), is_structural=True
                    )
                )
                continue
            above += standing.table
        out += _long(
            text,
            block.start,
            block.end,
            _ranges(above),
            CODE_LONG if block.kind == "code" else MAX_CHUNK_CHARACTERS,
        )
    levels = [block.level for block in blocks if block.kind == "heading"]
    if (
        told is None
        and first.kind == "heading"
        and first.level == 1 == levels.count(min(levels))
    ):
        told = first
    if told is None:
        return out
    return with_title(text[told.start : told.end].strip(), (told.start, told.end), out)


def _number(text: str, blocks: Sequence[_Block]) -> None:
    """Make headings of short paragraphs that are alike but for a number that counts up: the heads of pages."""
    alike: dict[str, list[tuple[str, _Block]]] = {}
    for block in blocks:
        said = text[block.start : block.end]
        if block.kind == "para" and len(said) <= 2 * HEADING:
            words = said.translate(_BARE).split()
            numbers = [word for word in words if word.isdecimal()]
            if words:
                wording = "".join(word for word in words if not word.isdecimal())
                alike.setdefault(wording, []).append(
                    (numbers[0] if numbers else "", block)
                )
    for numbered in alike.values():
        first = int(numbered[0][0] or -1)
        counted = [str(first + n) for n in range(len(numbered))]
        if len(numbered) > 2 and [number for number, _ in numbered] == counted:
            for _, block in numbered:
                block.kind, block.level = "heading", 7


def _ranges(blocks: Sequence[_Block]) -> tuple[Range, ...]:
    return tuple(dict.fromkeys((b.start, b.end) for b in blocks))


def _is_head(text: str, table: list[_Block], block: _Block, after: _Block) -> bool:
    """Whether a row is the head of its table, or the line under the head."""
    if _is_separator(text[block.start : block.end]):
        return True
    if table or block.blank or after.kind != "row":
        return False
    return "\t" in text[block.start : block.end] or _is_separator(
        text[after.start : after.end]
    )


def _is_separator(row: str) -> bool:
    """Whether it is the line under a table's head: dashes, colons and bars, a bar behind a dash."""
    signs = "".join(row.split())
    return not signs.strip(":|-") and "|" in signs.partition("-")[2]


def _ends_as_lead(text: str, block: _Block) -> bool:
    return block.end - block.start <= MAX_CHUNK_CHARACTERS and text[
        block.start : block.end
    ].rstrip(" \t\r\n>").endswith(":")


def _long(
    text: str, start: int, end: int, above: tuple[Range, ...], limit: int
) -> list[TextChunk]:
    """The range as one piece, or a longer one in parts of whole sentences; of code and entries, of whole lines."""
    if end - start <= limit:
        return [TextChunk(start, end, above)]
    if limit != MAX_CHUNK_CHARACTERS:
        return [TextChunk(a, b, above) for a, b in _packed(text, start, end)]
    spans = sentence_chunker(MAX_CHUNK_CHARACTERS // 2)(Passage(text[start:end], ""))
    return [TextChunk(start + s.start, start + s.end, above) for s in spans]
