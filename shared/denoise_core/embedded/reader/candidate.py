"""Where a proposed answer stands in a window, whatever its articles, case and punctuation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from denoise_core.embedded.reader.windows import Tokens, Window
from denoise_core.text.stems import stem
from denoise_core.text.wordlists import STOPWORDS
from denoise_core.text.words import words

_TOKEN = re.compile(r"[^\W_]+(?:[.,'’-][^\W_]+)*")
PARTS = 6  # of a sentence, at most
_TALK = frozenset(  # what answers are wrapped in
    words(
        """
        according answer answers answered question passage passages text texts document documents context evidence
        source sources article states stated says said given provided based yes no correct likely probably
        """
    )
)


@cache
def passed_over(tokens: Tokens) -> frozenset[int]:
    """Pieces that do not count when a candidate is looked for: articles and punctuation."""
    marks = ".,;:()[]{}'\"`-–—?!/\\“”‘’«»*_&…"
    return frozenset(i for part in ("a", "an", "the", *marks) for i in tokens.pieces(part).ids)


def core(text: str, tokens: Tokens) -> tuple[int, ...]:
    """The pieces of a candidate that count; all of them if none does ("The The", "A")."""
    found = tokens.pieces(text).ids
    return tuple(i for i in found if i not in passed_over(tokens)) or found


def places(window: Window, wanted: Sequence[int], tokens: Tokens) -> list[tuple[int, int]]:
    """First and last piece, in the window's own count, of each place where the candidate's `core` stands.

    Whole words only, and none that runs from the head into the body.
    """
    if not wanted or wanted[0] not in window.ids:
        return []
    skip = passed_over(tokens) - set(wanted)
    counted = [n for n, i in enumerate(window.ids) if i not in skip]
    ids = [window.ids[n] for n in counted]
    out = []
    for at in range(len(ids) - len(wanted) + 1):
        if ids[at] != wanted[0] or tuple(ids[at : at + len(wanted)]) != tuple(wanted):
            continue
        first, last = counted[at], counted[at + len(wanted) - 1]
        follows = last + 1 < len(window.ids) and window.ids[last + 1] in tokens.continues
        if (follows and last + 1 != window.head) or window.ids[first] in tokens.continues:
            continue
        if not first < window.head <= last:
            out.append((first, last))
    return out


def parts(candidate: str, question: str, inner: bool = False) -> list[str]:
    """What a sentence says beyond the question: its runs of words that are neither the question's nor talk.

    With ``inner`` function words between such words stay in a run ("Bank of England").

    >>> parts("The bridge was finished in 1889 by Otto Brenner.", "When was the bridge finished?")
    ['1889', 'Otto Brenner']
    """
    asked = set(map(stem, words(question)))
    out: list[str] = []
    start = end = -1
    for match in _TOKEN.finditer(candidate):
        said = words(match.group())
        common = all(w in STOPWORDS for w in said)
        if not common and not all(w in STOPWORDS or w in _TALK or stem(w) in asked for w in said):
            start, end = (match.start() if start < 0 else start), match.end()
        elif start >= 0 and not (common and inner):
            out.append(candidate[start:end])
            start = -1
    if start >= 0:
        out.append(candidate[start:end])
    return out[:PARTS]
