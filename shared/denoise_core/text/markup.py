"""HTML by its blocks, with exact ranges in the raw text: headings, paragraphs, list items, rows under their
header.

Tags are found by one scan: `html.parser` gives positions too, and takes six times the time a cut may take.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field

from denoise_core.spans import Range
from denoise_core.text.text_chunk import (
    MAX_CHUNK_CHARACTERS,
    TextChunk,
    fill_gaps,
    with_title,
)

UNSEEN = frozenset(
    ("script", "style", "template", "noscript", "svg", "head", "nav")
)  # no part of what is read
_INLINE = frozenset(
    ("a", "abbr", "b", "bdi", "bdo", "br", "button", "cite", "code", "data", "del", "dfn", "em", "font", "i",
     "img", "input", "ins", "kbd", "label", "mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup",
     "td", "th", "time", "tt", "u", "var", "wbr")
)  # fmt: skip
_CELLS = frozenset(("td", "th"))
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_BLOCKS = frozenset(
    ("p", "div", "li", "td", "body", "section", "article", "h1", "h2", "h3")
)
_TOKEN = re.compile(r"<(?:(/?)([a-zA-Z][\w:-]*+)[^<>]*+>|(!--)|[!?][^<>]*>)")


def detect_markup(text: str) -> str:
    """``"html"`` for a text that begins with a tag and closes a block somewhere, else ``""``."""
    start = text.lstrip()[:200].lower()
    if not start.startswith("<"):
        return ""
    if start.startswith(("<!doctype html", "<html")):
        return "html"
    closed = {m[2].lower() for m in _TOKEN.finditer(text[:20_000]) if m[1]}
    return "html" if closed & _BLOCKS else ""


def strip_tags(raw: str) -> str:
    """HTML without tags and unseen parts, a line for each row or block."""
    out: list[str] = []
    at = 0
    for tag, closing, start, end in _tags(raw):
        out += (raw[at:start], _gap(tag, closing))
        at = end
    return _tidy([*out, raw[at:]])


def _gap(tag: str, closing: bool) -> str:
    """What stands in the place of a tag."""
    if tag in _CELLS:
        return "" if closing else " | "
    return "" if tag in _INLINE and tag != "br" else "\n"


def _tidy(parts: list[str]) -> str:
    lines = (
        " ".join(line.split()).removeprefix("| ")
        for line in html.unescape("".join(parts)).split("\n")
    )
    return "\n".join(line for line in lines if line)


def html_chunks(text: str) -> list[TextChunk]:
    """The blocks of a page. What is markup alone is frame, and so are scripts, styles and navigation."""
    reader = _Reader(text)
    at = 0
    for tag, closing, start, end in _tags(text):
        reader.text_between(at, start)
        reader.tag(tag, closing, start, end)
        at = end
    reader.text_between(at, len(text))
    reader.flush(len(text))
    if len(reader.titles) == 1:
        title = reader.titles[0]
        reader.made = with_title(
            title.display_text, (title.start, title.end), reader.made
        )
    return fill_gaps(text, reader.made)


def _tags(text: str) -> list[tuple[str, bool, int, int]]:
    """Name, whether it closes, and range of each tag; an unseen element and a comment are one, named ``"!"``."""
    out: list[tuple[str, bool, int, int]] = []
    seen = 0  # up to where an unseen element or a comment reaches
    for found in _TOKEN.finditer(text):
        start, end = found.span()
        if start < seen:
            continue
        closing, name, comment = found.groups()
        tag = name.lower() if name else "!"
        if comment:
            stop = text.find("-->", end)
            seen = end = len(text) if stop < 0 else stop + 3
        elif tag in UNSEEN and not closing:
            stop_at = re.compile(rf"</{tag}\s*>", re.IGNORECASE).search(text, end)
            seen, tag = (stop_at.end() if stop_at else end), "!"
            end = seen
        out.append((tag, bool(closing), start, end))
    return out


@dataclass(slots=True)
class _Reader:
    """One walk over the tags. ``begun`` is where the open block starts, ``words`` what it says so far."""

    text: str
    made: list[TextChunk] = field(default_factory=list)
    begun: int | None = None
    has_text: bool = False
    words: list[str] = field(default_factory=list)
    inside: str = ""  # "tr" or "pre", in which blocks are not told apart
    level: int = 0  # of the open heading
    cells: frozenset[str] = frozenset()  # kinds of cells in the open row
    headings: list[tuple[int, int]] = field(
        default_factory=list
    )  # level, number of the piece
    titles: list[TextChunk] = field(default_factory=list)  # headings of the first level
    lead: tuple[Range, ...] = ()
    head: tuple[Range, ...] = ()  # of the open table

    def text_between(self, start: int, end: int) -> None:
        between = self.text[start:end]
        if between.strip() and not self.has_text:
            self.has_text = True
            self.begun = start if self.begun is None else self.begun
        if self.begun is not None:
            self.words.append(between)

    def tag(self, tag: str, closing: bool, start: int, end: int) -> None:
        if tag == "table":
            self.inside, self.head = "", ()
        if tag in _CELLS and self.inside == "tr" and not closing:
            self.cells |= {tag}
        is_hidden = self.inside and tag != "tr" and not (closing and tag == self.inside)
        if tag in _INLINE or is_hidden:
            if self.begun is None and tag in _INLINE and tag not in _CELLS:
                self.begun = start
            if self.begun is not None:
                self.words.append(_gap(tag, closing))
        elif closing:
            self.flush(end if self.has_text else start)
            self.inside = ""
            if tag in ("ul", "ol", "dl"):
                self.lead = ()
        else:
            self.flush(start)
            self.begun = None if tag == "!" else start
            if tag in ("tr", "pre"):
                self.inside, self.cells = tag, frozenset()
            self.level = int(tag[1]) if tag in _HEADINGS else 0

    def flush(self, end: int) -> None:
        """The open block, if it has text, is a piece up to ``end``."""
        start, level, cells, own = self.begun, self.level, self.cells, _tidy(self.words)
        self.begun, self.level, self.cells, self.words = None, 0, frozenset(), []
        has_text, self.has_text = self.has_text, False
        if start is None or not has_text or not own:
            return
        while level and self.headings and self.headings[-1][0] >= level:
            self.headings.pop()
        piece = TextChunk(start, end, self.over(), "", own)
        place = ((start, end),)
        if level:
            self.headings.append((level, len(self.made)))
            self.titles += [piece] if level == 1 else []
            self.lead = self.head = ()
        elif cells == {"th"}:
            piece = piece._replace(
                context_spans=piece.context_spans + self.lead, is_structural=True
            )
            self.head = place
        else:
            piece = piece._replace(
                context_spans=piece.context_spans
                + self.lead
                + (self.head if cells else ())
            )
            if not cells and own.endswith(":") and len(own) <= MAX_CHUNK_CHARACTERS:
                self.lead = place
        self.made.append(piece)

    def over(self) -> tuple[Range, ...]:
        """Ranges of the open headings; those under which something comes are frame from now on."""
        for _, n in self.headings:
            self.made[n] = self.made[n]._replace(is_structural=True)
        return tuple((self.made[n].start, self.made[n].end) for _, n in self.headings)
