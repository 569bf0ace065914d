"""HTML by its blocks, with exact ranges in the raw text: headings, paragraphs, list items, rows under their
header.

Tags are found by one scan: `html.parser` gives positions too, and takes six times the time a cut may take.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field

from denoise_core.spans import Range
from denoise_core.text.piece import LONG, Piece, tiled, titled
from denoise_core.text.wordlists import listed

UNSEEN = listed("script style template noscript svg head nav")  # no part of what is read
_INLINE = listed(
    """
    a abbr b bdi bdo br button cite code data del dfn em font i img input ins kbd label mark q s samp small span
    strong sub sup td th time tt u var wbr
    """
)
_CELLS = listed("td th")
_BLOCKS = listed("p div li td body section article h1 h2 h3")
_TOKEN = re.compile(r"<(?:(/?)([a-zA-Z][\w:-]*+)[^<>]*+>|(!--)|[!?][^<>]*>)")


def kind_of(text: str) -> str:
    """``"html"`` for a text that begins with a tag and closes a block somewhere, else ``""``."""
    start = text.lstrip()[:200].lower()
    if not start.startswith("<"):
        return ""
    if start.startswith(("<!doctype html", "<html")):
        return "html"
    closed = {m[2].lower() for m in _TOKEN.finditer(text[:20_000]) if m[1]}
    return "html" if closed & _BLOCKS else ""


def stripped(raw: str) -> str:
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
    lines = (" ".join(line.split()).removeprefix("| ") for line in html.unescape("".join(parts)).split("\n"))
    return "\n".join(line for line in lines if line)


def pieces(text: str) -> list[Piece]:
    """The blocks of a page. What is markup alone is frame, and so are scripts, styles and navigation."""
    reader = _Reader(text)
    at = 0
    for tag, closing, start, end in _tags(text):
        reader.text_between(at, start)
        reader.tag(tag, closing, start, end)
        at = end
    reader.text_between(at, len(text))
    reader.flush(len(text))
    tops = [n for level, n in reader.every if level == 1]
    if len(tops) == 1:
        title = reader.made[tops[0]]
        reader.made = titled(title.said, (title.start, title.end), reader.made)
    return tiled(text, reader.made)


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
    """One walk over the tags. ``begun`` is where the open block starts, ``said`` whether it has text."""

    text: str
    made: list[Piece] = field(default_factory=list)
    begun: int | None = None
    said: bool = False
    words: list[str] = field(default_factory=list)  # of the open block
    inside: str = ""  # "tr" or "pre", in which blocks are not told apart
    level: int = 0  # of the open heading
    cells: frozenset[str] = frozenset()  # kinds of cells in the open row
    headings: list[tuple[int, int]] = field(default_factory=list)  # level, number of the piece
    every: list[tuple[int, int]] = field(default_factory=list)  # those that are closed, too
    lead: Range | None = None
    head: Range | None = None

    def text_between(self, start: int, end: int) -> None:
        if start == end:
            return
        between = self.text[start:end]
        if not self.said and not between.isspace():
            self.said = True
            if self.begun is None:
                self.begun = start
        if self.begun is not None:
            self.words.append(between)

    def tag(self, tag: str, closing: bool, start: int, end: int) -> None:
        if tag == "table":
            self.inside, self.head = "", None
        if tag in ("td", "th") and self.inside == "tr" and not closing:
            self.cells |= {tag}
        if tag in _INLINE or (self.inside and (not closing or tag != self.inside) and tag != "tr"):
            if self.begun is None and tag in _INLINE and tag not in _CELLS:
                self.begun = start
            if (gap := _gap(tag, closing)) and self.begun is not None:
                self.words.append(gap)
            return
        if closing:
            self.flush(end if self.said else start)
            self.inside = ""
            if tag in ("ul", "ol", "dl"):
                self.lead = None
            return
        self.flush(start)
        self.begun = None if tag == "!" else start
        if tag in ("tr", "pre"):
            self.inside, self.cells = tag, frozenset()
        self.level = int(tag[1]) if len(tag) == 2 and tag[0] == "h" and tag[1] in "123456" else 0

    def flush(self, end: int) -> None:
        """The open block, if it has text, is a piece up to ``end``."""
        start, level, cells = self.begun, self.level, self.cells
        self.begun, self.level, self.cells = None, 0, frozenset()
        words, self.words = self.words, []
        if not self.said:
            return
        self.said = False
        own = _tidy(words)
        if start is None or not own:
            return
        if level:
            while self.headings and self.headings[-1][0] >= level:
                self.headings.pop()
            over = self.over()
            self.headings.append((level, len(self.made)))
            self.every.append(self.headings[-1])
            self.made.append(Piece(start, end, over, "", own))
            self.lead = self.head = None
            return
        above = [*self.over(), *([self.lead] if self.lead else ())]
        if cells:
            if "td" not in cells:
                self.head = (start, end)
                self.made.append(Piece(start, end, tuple(above), "", own, frame=True))
                return
            above += [self.head] if self.head else []
        elif own.endswith(":") and len(own) <= LONG:
            self.lead = (start, end)
        self.made.append(Piece(start, end, tuple(above), "", own))

    def over(self) -> tuple[Range, ...]:
        """Ranges of the open headings; those under which something comes are frame from now on."""
        for _, n in self.headings:
            self.made[n] = self.made[n]._replace(frame=True)
        return tuple((self.made[n].start, self.made[n].end) for _, n in self.headings)
