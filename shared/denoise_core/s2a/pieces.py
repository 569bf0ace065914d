"""The pieces a model may keep or drop: how a passage is cut, shown with numbers, and completed after the choice.

A piece is a sentence, a table row, a list item, a code block or a dialogue turn, with the white space after it.
The pieces of a passage tile it. A kept piece may need others to be understood: a table row needs the table's
header, a list item the line that opens the list, a sentence that begins with a pronoun or a connective the
sentence before it, an indented line the lines that it belongs to.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from denoise_core.s2a.options import Options
from denoise_core.text.chunk import sentence_spans
from denoise_core.types import Passage, Span

_FENCE = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})")
_ROW = re.compile(r"[ \t]{0,9}\|.*\|[ \t]{0,9}$|[^\t\n]*\t[^\n]*$")
_ITEM = re.compile(r"[ \t]{0,9}(?:[-*+•‣◦]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])[ \t]{1,9}\S")
_INITIAL = re.compile(
    r"[ \t]{0,9}[A-Z]\.[ \t]"
)  # an item of a list; alone in a text, a person's initial
_TURN = re.compile(
    r"[ \t]{0,9}(?:\*\*|\[)?([^\W\d_][\w.'’ -]{0,29})(?:\*\*|\])?[:：](?:\*\*)?[ \t]{1,9}\S"
)
_QUESTION_END = re.compile(r"[?？؟][\"'”’»)\]]{0,3}\s{1,9}(?=[\"'“‘«(\[]?[^\W\d_a-z])")
_SENTENCE_END = re.compile(r"[.!?…。！？؟।:;][\"'”’»)\]]*$")
_TABLE_RULE = re.compile(r"[\s|:+=-]+$")

_LOOK_BACK = (
    200  # pieces looked back over for a header, the opening of a list or of a block
)
_CHAIN = 2  # sentences brought by pronouns, one after the other
_POINTS_BACK = re.compile(
    r"[\s\"'“”‘’«»(\[*_-]{0,6}(?:"
    # English pronouns and connectives, then German, French, Spanish, Portuguese, Italian, Dutch, Russian.
    r"(?:he|she|it|they|him|her|his|hers|its|their|theirs|this|these|those|that|such|both|neither"
    r"|the latter|the former"
    r"|one of (?:them|these|those)|there|then|here|however|therefore|thus|hence|moreover|furthermore"
    r"|instead|otherwise"
    r"|nevertheless|nonetheless|consequently|accordingly|similarly|likewise|also|but|and|or|so|yet"
    r"|still|in contrast"
    r"|by contrast|as a result|in addition|after that|before that|for this reason|on the other hand"
    r"|er|sie|es|ihr|ihre|ihren|sein|seine|dieser|diese|dieses|diesem|dies|jener|jene|dort|dabei|daher|deshalb|jedoch"
    r"|dennoch|allerdings|außerdem|danach|davor|dann|aber|doch|stattdessen|dagegen"
    r"|il|elle|ils|elles|son|sa|ses|leur|leurs|ce|cet|cette|ces|celui-ci|celle-ci|cela|mais|donc|ainsi|cependant"
    r"|toutefois|ensuite|puis|en revanche|de plus"
    r"|él|ella|ellos|ellas|su|sus|este|esta|estos|estas|ese|esa|eso|aquel|pero|sin embargo|por eso|además|luego"
    r"|después|entonces|así"
    r"|ele|ela|eles|elas|seu|sua|seus|suas|isso|isto|esse|essa|mas|porém|portanto|além disso|depois"
    r"|lui|lei|loro|suo|sua|questo|questa|questi|queste|quello|quella|ciò|ma|però|quindi|tuttavia|inoltre|poi"
    r"|hij|zij|ze|hun|dit|deze|maar|daarom|echter|daarna"
    r"|он|она|оно|они|его|её|их|этот|эта|это|эти|но|однако|поэтому|затем|потом"
    r")\b(?!['’])"
    r"|(?:他|她|它|这|那|此|其|但|然而|因此|所以|不过|另外|それ|これ|その|この|彼|しかし|そのため|また|だから)"
    r"|(?:هو|هي|هم|هذا|هذه|لكن|ولكن|لذلك|ومع ذلك|كما)(?=\s))",
    re.IGNORECASE,
)


def split_pieces(passage: Passage, *, language: str = "en") -> tuple[Span, ...]:
    """The pieces of ``passage`` in order; none for an empty text. ``language`` as in `chunk.sentences`."""
    text = passage.text
    ends: list[int] = []
    for start, end, is_prose in _blocks(text):
        ends += _sentence_ends(text, start, end, language) if is_prose else [end]
    pieces: list[Span] = []
    # White space alone goes with what is before it, or after it at the very beginning.
    has_text = True
    for start, end in itertools.pairwise(sorted({0, *ends, len(text)})):
        is_blank = text[start:end].isspace()
        if pieces and (is_blank or not has_text):
            pieces[-1] = Span(passage.id, pieces[-1].start, end)
            has_text = has_text or not is_blank
        else:
            pieces.append(Span(passage.id, start, end))
            has_text = not is_blank
    return tuple(pieces)


def _blocks(text: str) -> list[tuple[int, int, bool]]:
    """``(start, end, is_prose)``: neighbouring lines of prose, or the lines of one code block, item or turn."""
    lines = text.splitlines(keepends=True)
    dialogue, has_one_initial = _speakers(lines)
    blocks: list[tuple[int, int, bool]] = []
    fence = ""
    block_kind = ""  # an item or a turn takes further lines, until a blank line or the next item or turn
    end = 0
    for line in lines:
        start, end = end, end + len(line)
        opening = _FENCE.match(line)
        if fence:
            blocks[-1] = (blocks[-1][0], end, False)
            if (
                opening
                and opening[1].startswith(fence)
                and not line[opening.end() :].strip()
            ):
                fence = ""
            continue
        kind = "fence" if opening else _line_kind(line, dialogue, has_one_initial)
        continues_turn = kind == "text" and block_kind == "turn"
        continues_item = (
            kind == "text"
            and block_kind == "item"
            and (line[0].isspace() or line[0].islower())
        )
        is_prose = kind in ("text", "blank")
        if continues_turn or continues_item:
            blocks[-1] = (blocks[-1][0], end, False)
            continue
        block_kind = kind
        fence = opening[1] if opening else ""
        if is_prose and blocks and blocks[-1][2]:
            blocks[-1] = (blocks[-1][0], end, True)
        else:
            blocks.append((start, end, is_prose))
    return blocks


def _speakers(lines: list[str]) -> tuple[set[str], bool]:
    """Who speaks in a dialogue: names before a colon twice, or all of them where every other line has one; and
    whether one line alone begins as a person's initial does."""
    names: list[str] = []
    written_lines = initials = 0
    for line in lines:
        turn = _TURN.match(line)
        if turn:
            names.append(turn[1].strip())
        written_lines += not line.isspace()
        initials += _INITIAL.match(line) is not None
    counts = Counter(names)
    if len(names) < 2 or len(names) < written_lines / 2:
        for name in names:
            if counts[name] == 1:
                del counts[name]
    return set(counts), initials == 1


def _line_kind(line: str, dialogue: set[str], has_one_initial: bool) -> str:
    if _ROW.match(line.rstrip("\r\n")):
        return "row"
    turn = _TURN.match(line)
    if turn and turn[1].strip() in dialogue:
        return "turn"
    if _ITEM.match(line) and not (has_one_initial and _INITIAL.match(line)):
        return "item"
    return "text" if line.strip() else "blank"


def _sentence_ends(text: str, start: int, end: int, language: str) -> list[int]:
    """Ends of the sentences in ``text[start:end]``; a sentence that a line break cuts in two is joined."""
    prose = text[start:end]
    ends = [end]
    # A question mark ends a sentence also after an abbreviation ("in the U.S.? I think ...").
    for match in _QUESTION_END.finditer(prose):
        ends.append(start + match.end())
    for sentence, following in itertools.pairwise(
        sentence_spans(Passage(prose, id=""), language=language)
    ):
        before = prose[sentence.start : sentence.end]
        ends_in_one_line_break = before.endswith("\n") and not before.rstrip(
            " \t"
        ).endswith("\n\n")
        goes_on = prose[following.start].islower() and not _SENTENCE_END.search(
            before.rstrip()
        )
        if not (ends_in_one_line_break and goes_on):
            ends.append(start + sentence.end)
    return ends


@dataclass(frozen=True, slots=True)
class PassageSlice:
    """Neighbouring pieces of one passage, as one request shows them: all of it, unless it is too long.

    ``heading`` are lines above its text: titles and the like. A piece of more than ``window`` characters shows its
    two ends. ``cache_key`` is where its selection is kept, "" without a cache."""

    passage: Passage
    pieces: tuple[Span, ...]
    heading: tuple[str, ...] = ()
    window: int = 24_000
    cache_key: str = ""

    @property
    def text(self) -> str:
        """All of its pieces."""
        return self.passage.text[self.pieces[0].start : self.pieces[-1].end]

    @property
    def texts(self) -> list[str]:
        """The text of each piece."""
        return [self.passage.text[piece.start : piece.end] for piece in self.pieces]

    def lines(self, first_number: int | None) -> list[str]:
        """What a request shows; without a number it is the text as it is.

        Further lines of a piece or a heading are indented, so that none of them passes for another piece. A line
        break is whatever `envelope` shows as one, not a line feed alone.
        """
        lines: list[str] = []
        for line in self.heading:
            lines.append(f"({_INDENTED.join(line.splitlines())})")
        if first_number is None:
            return [*lines, self.text.strip()]
        for number, text in enumerate(self.texts, first_number):
            text = text.rstrip()
            if len(text) > self.window:
                half = max(1, self.window // 2)
                text = f"{text[:half]} (... {len(text) - 2 * half} characters ...) {text[-half:]}"
            lines.append(f"{number} {_INDENTED.join(text.splitlines())}")
        return lines


_INDENTED = "\n    "


def slice_passage(passage: Passage, options: Options) -> list[PassageSlice]:
    """Slices of at most ``options.pieces`` pieces and ``options.window`` characters; a longer piece is a slice of
    its own. The metadata that is shown above the text is as untrusted as the text itself."""
    heading: list[str] = []
    for key in options.metadata:
        if key in passage.metadata:
            heading.append(f"{key}: {passage.metadata[key]}")
    if passage.header:
        heading.append(passage.header)
    slices: list[PassageSlice] = []
    run: list[Span] = []
    for piece in split_pieces(passage, language=options.language):
        if run and (
            piece.end - run[0].start > options.max_characters
            or len(run) == options.max_pieces
        ):
            slices.append(
                PassageSlice(
                    passage, tuple(run), tuple(heading), options.max_characters
                )
            )
            run = []
        run.append(piece)
    slices.append(
        PassageSlice(passage, tuple(run), tuple(heading), options.max_characters)
    )
    return slices


def group_slices(
    slices: Sequence[PassageSlice], longest_shared: int, options: Options
) -> list[list[PassageSlice]]:
    """The slices of each request: neighbours up to ``longest_shared`` characters share one as far as they fit."""
    groups: list[list[PassageSlice]] = []
    group_size = group_pieces = 0
    for part in slices:
        size, count = len(part.text), len(part.pieces)
        fits = (
            group_size + size <= options.max_characters
            and group_pieces + count <= options.max_pieces
        )
        if not groups or not fits or size > longest_shared:
            groups.append([])
            group_size = group_pieces = 0
        groups[-1].append(part)
        # A slice that shares no request leaves no room for the next one.
        group_size += size if size <= longest_shared else options.max_characters
        group_pieces += count
    return groups


def find_context_pieces(texts: Sequence[str], kept: set[int]) -> set[int]:
    """The indices of further pieces, of which ``texts`` has all of a passage, that the ``kept`` ones need."""
    needed: set[int] = set()
    for index in kept:
        needed.update(_needed_before(index, texts, kept))
    return needed - kept


def points_back(text: str) -> bool:
    """Whether a sentence begins with a pronoun or a connective."""
    return _POINTS_BACK.match(text) is not None


def _needed_before(index: int, texts: Sequence[str], kept: set[int]) -> list[int]:
    text = texts[index]
    if _ROW.match(text.rstrip()):
        return _table_header(index, texts)
    if _ITEM.match(text):
        return _list_opening(index, texts)
    if text[:1] in (" ", "\t") and text.strip():
        return _outer_lines(index, texts)
    if kept.intersection(range(index - _CHAIN, index)):
        return []  # what it points to is most likely in what is kept right before
    needed: list[int] = []
    while index and len(needed) < _CHAIN and points_back(texts[index]):
        before = texts[index - 1]
        if _ends_paragraph(before) or _ROW.match(before.rstrip()) or not before.strip():
            break
        index -= 1
        needed.append(index)
    return needed


def _table_header(row: int, texts: Sequence[str]) -> list[int]:
    """The first row of the table that ``row`` is in, and the rule beneath it."""
    first = row
    while first and row - first < _LOOK_BACK:
        before = texts[first - 1]
        blank_line_follows = before.count("\n") - before.rstrip().count("\n") > 1
        if blank_line_follows or not _ROW.match(before.rstrip()):
            break
        first -= 1
    if first == row or row - first >= _LOOK_BACK:
        return []
    if first + 1 < row and _TABLE_RULE.match(texts[first + 1].strip()):
        return [first, first + 1]
    return [first]


def _list_opening(item: int, texts: Sequence[str]) -> list[int]:
    """The line that opens the list, and the items that this one is part of."""
    outer = _outer_lines(item, texts, _ITEM)
    first = next(
        (
            n
            for n in range(item - 1, max(-1, item - _LOOK_BACK), -1)
            if not _ITEM.match(texts[n])
        ),
        None,
    )
    if first is not None and texts[first].rstrip().endswith((":", "：", "؛", ";")):
        outer.append(first)
    return outer


def _outer_lines(
    line: int, texts: Sequence[str], kind: re.Pattern[str] | None = None
) -> list[int]:
    """The less indented lines that an indented line belongs to, as far as they are of the ``kind``."""
    needed: list[int] = []
    indent = _indent(texts[line])
    for before in range(line - 1, max(-1, line - _LOOK_BACK), -1):
        text = texts[before]
        if kind is not None and not kind.match(text):
            break
        if text.strip() and _indent(text) < indent:
            needed.append(before)
            indent = _indent(text)
    return needed


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" \t"))


def _ends_paragraph(text: str) -> bool:
    return text.endswith("\n") and text.rstrip(" \t")[:-1].rstrip(" \t").endswith("\n")
