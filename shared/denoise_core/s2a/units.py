"""Cut a passage into the pieces a model may keep or leave: spans that tile it.

A piece is a sentence, a table row, a list item, a code block or a dialogue turn, with the white space after
it. Nothing is cut inside one, so that a kept piece can be read on its own.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from denoise_core.spans import tile_passage
from denoise_core.text.chunk import sentences
from denoise_core.types import Passage, Span

_FENCE = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})")
ROW = re.compile(r"[ \t]{0,9}\|.*\|[ \t]{0,9}$|[^\t\n]*\t[^\n]*$")
ITEM = re.compile(r"[ \t]{0,9}(?:[-*+•‣◦]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])[ \t]{1,9}\S")
_INITIAL = re.compile(r"[ \t]{0,9}[A-Z]\.[ \t]")  # an item of a list; alone in a text, a person's initial
_TURN = re.compile(r"[ \t]{0,9}(?:\*\*|\[)?([^\W\d_][\w.'’ -]{0,29})(?:\*\*|\])?[:：](?:\*\*)?[ \t]{1,9}\S")
_ASKED = re.compile(r"[?？؟][\"'”’»)\]]{0,3}\s{1,9}(?=[\"'“‘«(\[]?[^\W\d_a-z])")
_ENDS_SENTENCE = re.compile(r"[.!?…。！？؟।:;][\"'”’»)\]]*$")


def units(passage: Passage, *, language: str = "en") -> tuple[Span, ...]:
    """The pieces of ``passage`` in order; none for an empty text. ``language`` as in `chunk.sentences`."""
    text = passage.text
    cuts: list[int] = []
    prose_from: int | None = None
    for start, end, is_prose in _blocks(text):
        if is_prose:
            prose_from = start if prose_from is None else prose_from
            prose_to = end
            continue
        if prose_from is not None:
            cuts += _prose(text, prose_from, prose_to, language)
            prose_from = None
        cuts.append(end)
    if prose_from is not None:
        cuts += _prose(text, prose_from, prose_to, language)
    return _with_blanks(text, tile_passage(passage.id, len(text), cuts))


def _with_blanks(text: str, spans: Sequence[Span]) -> tuple[Span, ...]:
    """White space alone goes with what stands before it, or after it at the very beginning."""
    out: list[Span] = []
    for span in spans:
        if out and (not text[span.start : span.end].strip() or not text[out[-1].start : out[-1].end].strip()):
            out[-1] = replace(out[-1], end=span.end)
        else:
            out.append(span)
    return tuple(out)


def _blocks(text: str) -> list[tuple[int, int, bool]]:
    """``(start, end, is_prose)`` line by line, lines of one code block, item or turn joined."""
    lines = text.splitlines(keepends=True)
    dialogue = _speakers(lines)
    named = sum(bool(_INITIAL.match(line)) for line in lines) == 1
    out: list[tuple[int, int, bool]] = []
    fence: str | None = None
    goes_on = item = False  # the last block takes further lines, until a blank line or the next item or turn
    at = 0
    for line in lines:
        start, at = at, at + len(line)
        opening = _FENCE.match(line)
        if fence is not None:
            out[-1] = (out[-1][0], at, False)
            if opening and opening[1].startswith(fence) and not line[opening.end() :].strip():
                fence = None
            continue
        kind = "fence" if opening else _kind_of(line, dialogue, named)
        if kind == "text" and goes_on and (not item or line[0].isspace() or line[0].islower()):
            out[-1] = (out[-1][0], at, False)
            continue
        fence = opening[1] if opening else None
        goes_on, item = kind in ("item", "turn"), kind == "item"
        out.append((start, at, kind in ("text", "blank")))
    return out


def _speakers(lines: list[str]) -> frozenset[str]:
    """Who speaks in a dialogue: names that stand before a colon twice, or all where every other line has one."""
    speakers = [m[1].strip() for line in lines if (m := _TURN.match(line))]
    if len(speakers) >= 2 and len(speakers) >= sum(bool(line.strip()) for line in lines) / 2:
        return frozenset(speakers)
    return frozenset(s for s, n in Counter(speakers).items() if n > 1)


def _kind_of(line: str, dialogue: frozenset[str], named: bool) -> str:
    if ROW.match(line.rstrip("\r\n")):
        return "row"
    turn = _TURN.match(line)
    if turn and turn[1].strip() in dialogue:
        return "turn"
    if ITEM.match(line) and not (named and _INITIAL.match(line)):
        return "item"
    return "text" if line.strip() else "blank"


def _prose(text: str, start: int, end: int, language: str) -> list[int]:
    """Ends of the sentences in ``text[start:end]``; a sentence that a line break cuts in two is joined."""
    spans = sentences(Passage(text[start:end], id=""), language=language)
    # A question mark ends a sentence also after an abbreviation ("in the U.S.? I think ...").
    cuts = [start + m.end() for m in _ASKED.finditer(text[start:end])]
    for here, following in itertools.pairwise(spans):
        before = text[start + here.start : start + here.end]
        after = text[start + following.start : start + following.end]
        wrapped = (
            before.endswith("\n")
            and not before.rstrip(" \t").endswith("\n\n")
            and not _ENDS_SENTENCE.search(before.rstrip())
            and after[:1].islower()
        )
        if not wrapped:
            cuts.append(start + here.end)
    return [*cuts, end]
