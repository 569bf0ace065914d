"""The reader of real text: finds where passages answer a question, and tells how well a given answer fits.

Scores are natural logarithms of probabilities: of the span among all spans of the windows read together, times
the square of that of its window to hold an answer at all. A proposed answer is found whatever its articles, case
and punctuation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from denoise_core.embedded.reader.forward import Logits, Row, overlap, row
from denoise_core.embedded.reader.windows import Tokens, Window, windows
from denoise_core.text.stems import stem
from denoise_core.text.wordlists import STOPWORDS
from denoise_core.text.words import words
from denoise_core.types import Passage, Span, check_passages

READ = 40  # windows read for one question, at most
JUDGED = 12  # windows that a candidate is judged in, besides those that hold it
HOLDING = 2  # windows that hold the candidate, at most
SHORT = 8  # words beyond the question in which an answer is said
OF_EACH = 2  # windows of each passage, when each is asked for itself
LOWEST = -30.0  # logarithms below this count as this, that of a candidate that stands nowhere too
HOLDS = 2.0  # weight of a window's log-probability to hold an answer, when spans are ranked


@dataclass(frozen=True, slots=True)
class Found:
    """An answer: ``text`` is characters ``[start, end)`` of the passage ``passage_id``.

    ``score`` is the log-probability of the span among those of all windows read, plus `HOLDS` times that of its
    window to hold an answer; ``holds`` is the latter as a probability.
    """

    text: str
    passage_id: str
    start: int
    end: int
    score: float
    holds: float


@dataclass(frozen=True, slots=True)
class Fit:
    """How a candidate fits a question. All in natural logarithms, -inf where it stands nowhere.

    ``own`` is the probability that the answer is one of the spans that are the candidate, at ``at`` the best of
    them; ``other`` that of the best span that shares no word piece with such a span, at ``instead``. ``holds`` and
    ``other_holds`` are the probabilities of their windows to hold an answer.
    """

    own: float = -math.inf
    other: float = -math.inf
    holds: float = -math.inf
    other_holds: float = -math.inf
    at: Span | None = None
    instead: Span | None = None

    @property
    def features(self) -> dict[str, float]:
        """For `Calibration.answers`: how sure its window is, and the relative test, how far it is ahead of the
        best span that is another answer and how much surer its window is than that one's (0 without one)."""
        own, other = max(self.own, LOWEST), max(self.other, LOWEST)
        holds = max(self.holds, LOWEST)
        there = holds if self.other == -math.inf else max(self.other_holds, LOWEST)
        return {"holds": holds, "ahead": own - other, "surer": holds - there}


NOWHERE = Fit()


class Reads(Protocol):
    """What a reader needs of a network; `forward.Network` is one."""

    def logits(self, rows: Sequence[Row]) -> list[Logits]:
        """What it says of each row's window, in the order of the rows."""
        ...


class SpanReader:
    """Reads passages for a question with the network that ships. Safe to share between threads.

    ``tokens`` cuts texts into word pieces and windows, of which at most ``read`` are read for one question; a
    window whose probability of holding an answer is below ``floor`` is said to hold none.
    """

    def __init__(self, network: Reads, tokens: Tokens, *, read: int = READ, floor: float = 0.2) -> None:
        self.network = network
        self.tokens = tokens
        self.read = read
        self.floor = floor

    def answer(self, query: str, passages: Sequence[Passage]) -> Found | None:
        """The best span, or None when no window of the passages seems to hold an answer."""
        found = self.answers(query, passages, 1)
        return found[0] if found and found[0].holds >= self.floor else None

    def answers(self, query: str, passages: Sequence[Passage], k: int) -> list[Found]:
        """The ``k`` best spans, best first, of which no two share characters or are the same words.

        Raises `InputError` when two passages share an id, as all methods do.
        """
        texts = {p.id: p.text for p in passages}
        asked, cut = self._cut(query, passages)
        chosen = self._most(asked, cut, self.read)
        logits = self._logits(asked, chosen)
        out: list[Found] = []
        for s in self._ranked(chosen, logits, 4 * k):
            found = _found(s, chosen[s.window], logits[s.window], texts)
            if len(out) < k and not any(_same(found, f) for f in out):
                out.append(found)
        return out

    def per_passage(self, query: str, passages: Sequence[Passage]) -> list[Found | None]:
        """The best answer of each passage, in their order; None for one that seems to hold none.

        A score is among the windows of its own passage; so scores of two passages do not depend on each other.
        """
        texts = {p.id: p.text for p in passages}
        asked = self.tokens.pieces(query).ids
        groups = [self._most(asked, windows(p, self.tokens), OF_EACH) for p in check_passages(passages)]
        logits = iter(self._logits(asked, [w for g in groups for w in g]))
        out: list[Found | None] = []
        for group in groups:
            own = [next(logits) for _ in group]
            ranked = self._ranked(group, own, 1)
            found = _found(ranked[0], group[ranked[0].window], own[ranked[0].window], texts) if ranked else None
            out.append(found if found and found.holds >= self.floor else None)
        return out

    def fits(self, query: str, candidates: Sequence[str], passages: Sequence[Passage]) -> list[Fit]:
        """How each candidate fits, read in the windows closest to the question and in some that hold a candidate.

        A candidate is looked for as it is and in its parts that say something beyond the question, `SHORT` words
        in all at most; the best place counts. A fit does not depend on the other candidates.
        """
        asked, cut = self._cut(query, passages)
        order = self._most(asked, cut, len(cut))
        looked = [self._looked_for(query, c, order) for c in candidates]
        chosen = [self._judged(wanted, order) for wanted in looked]
        read = sorted({n for numbers in chosen for n in numbers})
        logits = dict(zip(read, self._logits(asked, [order[n] for n in read]), strict=True))
        return [
            self._fit(wanted, [order[n] for n in numbers], [logits[n] for n in numbers])
            for wanted, numbers in zip(looked, chosen, strict=True)
        ]

    def _judged(self, wanted: Sequence[tuple[int, ...]], order: Sequence[Window]) -> list[int]:
        """What a candidate is judged in: the first windows, and the first that hold it; none if none do."""
        holding = [n for n, w in enumerate(order) if any(places(w, x, self.tokens) for x in wanted)]
        return sorted({*range(min(JUDGED, len(order))), *holding[:HOLDING]}) if holding else []

    def _looked_for(self, query: str, candidate: str, among: Sequence[Window]) -> list[tuple[int, ...]]:
        """Pieces of the candidate where it stands whole, and of its parts: a sentence answers by what it says
        beyond the question."""
        whole = core(candidate, self.tokens)
        stands = [whole] if any(places(w, whole, self.tokens) for w in among) else []
        for inner in (True, False):
            said = parts(candidate, query, inner)
            if sum(len(part.split()) for part in said) > SHORT:
                continue  # says more than an answer does
            found = [p for part in said if (p := core(part, self.tokens)) and p != whole]
            if any(places(w, p, self.tokens) for p in found for w in among):
                return [*stands, *found]
        return stands

    def _fit(self, wanted: Sequence[tuple[int, ...]], read: Sequence[Window], logits: Sequence[Logits]) -> Fit:
        if not read:
            return NOWHERE
        within = total(logits)
        own = [
            Scored(min(float(given.start[a] + given.end[b]) - within, 0.0), n, a, b)
            for n, (w, given) in enumerate(zip(read, logits, strict=True))
            for x in wanted
            for a, b in places(w, x, self.tokens)
        ]
        top = max(own)
        taken = {(read[s.window].passage_id, c) for s in own for c in _characters(read[s.window], s)}
        summed = min(0.0, top.score + math.log(sum(math.exp(s.score - top.score) for s in own)))
        for s in best(read, logits, self.tokens, 40, within):
            if taken.isdisjoint((read[s.window].passage_id, c) for c in _characters(read[s.window], s)):
                here = _log_sigmoid(logits[s.window].holds)
                held = _log_sigmoid(logits[top.window].holds)
                return Fit(summed, s.score, held, here, _span(read[top.window], top), _span(read[s.window], s))
        return Fit(summed, holds=_log_sigmoid(logits[top.window].holds), at=_span(read[top.window], top))

    def _cut(self, query: str, passages: Sequence[Passage]) -> tuple[tuple[int, ...], list[Window]]:
        cut = [w for p in check_passages(passages) for w in windows(p, self.tokens)]
        return self.tokens.pieces(query).ids, cut

    def _most(self, asked: Sequence[int], given: Sequence[Window], count: int) -> list[Window]:
        """The ``count`` windows that share most with the question; earlier ones first among equals."""
        score = overlap(asked, given, self.tokens)
        return [given[i] for i in sorted(range(len(given)), key=lambda i: -score[i])[:count]]

    def _logits(self, asked: Sequence[int], chosen: Sequence[Window]) -> list[Logits]:
        return self.network.logits([row(asked, w, self.tokens) for w in chosen])

    def _ranked(self, chosen: Sequence[Window], logits: Sequence[Logits], k: int) -> list[Scored]:
        """Best spans with their windows' probability of holding an answer put in."""
        holds = [HOLDS * _log_sigmoid(x.holds) for x in logits]
        found = best(chosen, logits, self.tokens, k)
        return sorted((s._replace(score=s.score + holds[s.window]) for s in found), reverse=True)


def _found(s: Scored, window: Window, logits: Logits, texts: dict[str, str]) -> Found:
    start, end = characters(window, s.first, s.last)
    text = texts[window.passage_id][start:end]
    return Found(text, window.passage_id, start, end, s.score, math.exp(_log_sigmoid(logits.holds)))


def _characters(window: Window, s: Scored) -> range:
    return range(*characters(window, s.first, s.last))


def _span(window: Window, s: Scored) -> Span | None:
    start, end = characters(window, s.first, s.last)
    return Span(window.passage_id, start, end) if start >= 0 else None  # in a title that the text does not have


def _same(one: Found, two: Found) -> bool:
    overlaps = one.passage_id == two.passage_id and one.start < two.end and two.start < one.end
    return overlaps or one.text.casefold() == two.text.casefold()


def _log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x)) if x > -30 else x


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


Floats = NDArray[np.float32]
LONGEST = 20  # word pieces of an answer


class Scored(NamedTuple):
    """A span: its log-probability among all spans of the windows read together, the window's number, and the
    first and last piece in that window's own count."""

    score: float
    window: int
    first: int
    last: int


def edges(window: Window, tokens: Tokens) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Where a span may start and where it may end: at the edges of words, on text that the passage holds."""
    count = len(window.ids)
    inner = np.array([i in tokens.continues for i in window.ids], dtype=np.bool_)
    missing = np.array([start < 0 for start, _ in window.places], dtype=np.bool_)
    start, end = ~inner & ~missing, ~missing
    end[: count - 1] &= ~inner[1:] | (np.arange(count - 1) == window.head - 1)
    return start, end


def total(logits: Sequence[Logits]) -> float:
    """Log of the sum over all pairs of start and end, what scores are taken against."""
    return _log_sum([x.start for x in logits]) + _log_sum([x.end for x in logits])


def best(
    windows: Sequence[Window], logits: Sequence[Logits], tokens: Tokens, k: int, within: float | None = None
) -> list[Scored]:
    """The ``k`` best spans of each window, best first; scores against ``within`` (`total` of these windows)."""
    if not windows:
        return []
    against = total(logits) if within is None else within
    out: list[Scored] = []
    for number, (window, given) in enumerate(zip(windows, logits, strict=True)):
        may_start, may_end = edges(window, tokens)
        table = np.where(may_start, given.start, -np.inf)[:, None] + np.where(may_end, given.end, -np.inf)[None, :]
        table[_impossible(len(window.ids), window.head)] = -np.inf
        flat = table.ravel()
        count = min(k, flat.size)
        top = np.argpartition(flat, -count)[-count:]
        for i in top[np.isfinite(flat[top])]:
            score = min(float(flat[i]) - against, 0.0)  # rounding would exceed 0 where it is alone
            out.append(Scored(score, number, *map(int, divmod(int(i), len(window.ids)))))
    return sorted(out, reverse=True)


@lru_cache(maxsize=512)
def _impossible(count: int, head: int) -> NDArray[np.bool_]:
    """Which pairs of first and last piece are no span: backwards, too long, or from the head into the body."""
    first, last = np.indices((count, count))
    return np.asarray((last < first) | (last >= first + LONGEST) | ((first < head) & (last >= head)))


def characters(window: Window, first: int, last: int) -> tuple[int, int]:
    """The characters ``[start, end)`` of the passage that the pieces from ``first`` to ``last`` stand for."""
    return window.places[first][0], window.places[last][1]


def _log_sum(parts: Sequence[Floats]) -> float:
    joined = np.concatenate(parts)
    top = float(joined.max())
    return top + float(np.log(np.exp(joined - top).sum()))
