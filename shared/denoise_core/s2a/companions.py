"""What a kept piece cannot be read without: pieces of the same passage that are kept as its context.

A table row brings the table's header, a list item the line that opens the list, a sentence that begins with a
pronoun or a connective the sentence before it, an indented line the lines it stands under.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from denoise_core.s2a.units import ITEM, ROW
from denoise_core.types import Passage, Span

_Text: TypeAlias = Callable[[int], str]

_FURTHEST = 200  # pieces looked back over for a header, a stem or a block's first line
_CHAIN = 2  # sentences brought by pronouns, one after the other
_RULE = re.compile(r"[\s|:+=-]+$")
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


def companions(passage: Passage, pieces: Sequence[Span], kept: Iterable[Span]) -> tuple[Span, ...]:
    """The further ``pieces`` of ``passage``, in order, that the ``kept`` ones are not read well without.

    ``pieces`` tile the passage and hold the kept ones.
    """
    place = {span: n for n, span in enumerate(pieces)}
    chosen = {place[span] for span in kept}
    texts: dict[int, str] = {}

    def text(n: int) -> str:
        if n not in texts:
            texts[n] = passage.text[pieces[n].start : pieces[n].end]
        return texts[n]

    found: set[int] = set()
    for n in sorted(chosen):
        found.update(_needed(n, text, chosen))
    return tuple(pieces[n] for n in sorted(found - chosen))


def points_back(text: str) -> bool:
    """Whether a sentence begins with a pronoun or a connective."""
    return _POINTS_BACK.match(text) is not None


def _needed(n: int, text: _Text, chosen: set[int]) -> list[int]:
    if ROW.match(text(n).rstrip()):
        return _header(n, text)
    if ITEM.match(text(n)):
        return _stem(n, text)
    if text(n)[:1] in (" ", "\t") and text(n).strip():
        return _blocks_lines(n, text)
    if chosen.intersection(range(n - _CHAIN, n)):
        return []  # what it points to is most likely in what is kept right before
    out: list[int] = []
    while n and len(out) < _CHAIN and points_back(text(n)) and not _ends_paragraph(text(n - 1)):
        if ROW.match(text(n - 1).rstrip()) or not text(n - 1).strip():
            break
        n -= 1
        out.append(n)
    return out


def _header(n: int, text: _Text) -> list[int]:
    """The first row of the table that row ``n`` is in, and the rule beneath it."""
    first = n
    while (
        first
        and n - first < _FURTHEST
        and ROW.match(text(first - 1).rstrip())
        and not _blank_after(text(first - 1))
    ):
        first -= 1
    if first == n or n - first >= _FURTHEST:
        return []
    ruled = first + 1 < n and _RULE.match(text(first + 1).strip()) is not None
    return [first, first + 1] if ruled else [first]


def _stem(n: int, text: _Text) -> list[int]:
    """The line that opens the list, and the items that this one is part of."""
    out: list[int] = []
    indent = _indent(text(n))
    for before in range(n - 1, max(-1, n - _FURTHEST), -1):
        piece = text(before)
        if ITEM.match(piece):
            if _indent(piece) < indent:
                out.append(before)
                indent = _indent(piece)
        else:
            return [*out, before] if piece.rstrip().endswith((":", "：", "؛", ";")) else out
    return out


def _blocks_lines(n: int, text: _Text) -> list[int]:
    """The lines that an indented line stands under, up to the one at the margin."""
    out: list[int] = []
    indent = _indent(text(n))
    for before in range(n - 1, max(-1, n - _FURTHEST), -1):
        piece = text(before)
        if piece.strip() and _indent(piece) < indent:
            out.append(before)
            indent = _indent(piece)
            if not indent:
                break
    return out


def _indent(piece: str) -> int:
    return len(piece) - len(piece.lstrip(" \t"))


def _ends_paragraph(piece: str) -> bool:
    return piece.endswith("\n") and "\n" in piece.rstrip(" \t")[:-1].rstrip(" \t")[-1:]


def _blank_after(piece: str) -> bool:
    return piece.count("\n") - piece.rstrip().count("\n") > 1
