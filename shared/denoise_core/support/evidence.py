"""Passages as sentences that claims are held against, and the windows of one to three of them that fit best.

Everything that is done for all of the evidence costs time that grows with its length; facts are read in the few
windows only that a claim is held against.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from denoise_core.text.chunk import sentences
from denoise_core.text.facts.kinds.dates import MONTHS
from denoise_core.text.facts.kinds.numerals import cardinal
from denoise_core.text.language import language_of
from denoise_core.text.lexemes import Lexeme, lexemes
from denoise_core.text.stems import content
from denoise_core.text.wordlists import listed
from denoise_core.types import Passage, Span

_PREFIX = 4  # characters of a stem by which other forms of it are looked for
_ALIKE = 0.8  # worth of a word that stands there in another form
_ANAPHORS = listed(
    """
    he she it they his her its their him them this these that those there here both such er sie es ihr ihre ihren
    sein seine dies diese dieser dieses dort dabei él ella ellos su sus lo esto esta este allí il elle ils elles sa
    ses leur cela ce cette ceci 他 她 它 其 这 该
    """
)
_DAY = re.compile(r"(?:^|[ (])(?:\d{1,2}|[IVX]+)\.[ \u00a0]*$")
_KEPT = 20_000  # characters of a passage whose sentences are kept


@dataclass(frozen=True, slots=True)
class Sentence:
    """Characters ``[start, end)`` of a passage's text; ``terms`` are its stems and numbers; ``anaphor`` tells that
    it refers to what was said before."""

    passage: int
    start: int
    end: int
    text: str
    terms: frozenset[str]
    anaphor: bool


@dataclass(frozen=True, slots=True)
class Window:
    """Sentences in a row of one passage, or of two passages; ``text`` is what is read, behind the passage's
    header, and ``places`` are for each sentence where it begins there."""

    sentences: tuple[Sentence, ...]
    text: str
    places: tuple[int, ...]
    terms: frozenset[str]

    def spans(self, ids: Sequence[str]) -> tuple[Span, ...]:
        return tuple(Span(ids[s.passage], s.start, s.end) for s in self.sentences)

    def takes_up(self, n: int) -> bool:
        """The sentence refers to one before it."""
        return self.sentences[n].anaphor

    def place(self, at: int) -> tuple[Sentence, int] | None:
        """The sentence that the character of the text is in, and its place in the passage; None in the header."""
        for sentence, start in zip(self.sentences, self.places, strict=True):
            if start <= at < start + len(sentence.text):
                return sentence, sentence.start + at - start
        return None


class Evidence:
    """Passages ready to have claims held against them."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = tuple(p for p in passages if p.text.strip() or p.header.strip())
        self.ids = tuple(p.id for p in self.passages)
        self.heads = tuple(head_of(p) for p in self.passages)
        self.language = language_of("\n".join(p.text[:400] for p in self.passages)[:4000])
        self.head_terms = [_terms_of(h, self.language) for h in self.heads]
        self.sentences: list[Sentence] = []
        self.first: list[int] = []  # of each passage, the number of its first sentence
        for n, passage in enumerate(self.passages):
            self.first.append(len(self.sentences))
            cut = _cut if len(passage.text) <= _KEPT else _cut.__wrapped__
            for start, end, own, anaphor in cut(passage.text, self.language):
                self.sentences.append(Sentence(n, start, end, passage.text[start:end], own, anaphor))
        self.first.append(len(self.sentences))
        self.having: dict[str, list[int]] = {}
        for i, sentence in enumerate(self.sentences):
            for term in sentence.terms:
                self.having.setdefault(term, []).append(i)
        self.heads_having: Counter[str] = Counter(t for terms in self.head_terms for t in terms)
        self._by_prefix: dict[str, list[str]] = {}
        for term in self.having:
            if len(term) >= _PREFIX:
                self._by_prefix.setdefault(term[:_PREFIX], []).append(term)

    def rarity(self, term: str) -> float:
        """How much a term tells: more, the fewer sentences have it; 1 for one that none has."""
        n = len(self.sentences)
        return math.log(1 + n / max(1, len(self.having.get(term, ())))) / math.log(1 + n) if n > 1 else 1.0

    def forms(self, term: str) -> tuple[str, ...]:
        """The term and others that are another form of it."""
        if len(term) < _PREFIX + 1 or not term[0].isalpha():
            return (term,)
        near = [t for t in self._by_prefix.get(term[:_PREFIX], ()) if t != term and _same_word(term, t)]
        return (term, *near[:6])

    def best(self, weights: dict[str, float], among: frozenset[int] | None, count: int) -> list[int]:
        """The sentences that hold most of the weight, best first."""
        score: dict[int, float] = {}
        for term, weight in weights.items():
            told = weight * self.rarity(term)
            seen: set[int] = set()
            for n, form in enumerate(self.forms(term)):
                for i in self.having.get(form, ()):
                    if i not in seen:
                        seen.add(i)
                        score[i] = score.get(i, 0.0) + told * (_ALIKE if n else 1.0)
        if among is not None:
            score = {i: s for i, s in score.items() if self.sentences[i].passage in among}
        return sorted(score, key=lambda i: (-score[i], i))[:count]

    def windows(self, around: Sequence[int]) -> list[Window]:
        """One to three sentences in a row with each of these among them, and pairs of the best two passages'."""
        rows: dict[tuple[int, ...], None] = {}
        for i in around:
            first, end = self._bounds(i)
            for a, b in ((i, i), (i - 1, i), (i, i + 1), (i - 1, i + 1), (i - 2, i), (i, i + 2)):
                if first <= a and b < end:
                    rows[tuple(range(a, b + 1))] = None
        tops = list({self.sentences[i].passage: i for i in reversed(around)}.values())[::-1][:3]
        for n, i in enumerate(tops):
            for j in tops[n + 1 :]:
                rows[tuple(sorted((i, j)))] = None
        if len(tops) == 3:
            rows[tuple(sorted(tops))] = None
        return [self._window(row) for row in rows]

    def pairs(self) -> Iterator[Window]:
        """Each sentence, and each with the one behind it, in order."""
        for i in range(len(self.sentences)):
            yield self._window((i,))
            if i + 1 < self._bounds(i)[1]:
                yield self._window((i, i + 1))

    def _bounds(self, i: int) -> tuple[int, int]:
        n = self.sentences[i].passage
        return self.first[n], self.first[n + 1]

    def _window(self, row: Sequence[int]) -> Window:
        found = tuple(self.sentences[i] for i in row)
        text, places, last = "", [], -1
        terms: set[str] = set()
        for sentence in found:
            if sentence.passage != last:
                head = self.heads[sentence.passage]
                text += ("\n" if text else "") + (f"{head}\n" if head else "")
                terms |= self.head_terms[sentence.passage]
                last = sentence.passage
            text += " " if text and not text.endswith("\n") else ""
            places.append(len(text))
            text += sentence.text
            terms |= sentence.terms
        return Window(found, text, tuple(places), frozenset(terms))


def head_of(passage: Passage) -> str:
    """What is read with a passage: its header, or its title when the text does not begin with it."""
    if passage.header:
        return passage.header
    title = passage.metadata.get("title")
    return title if isinstance(title, str) and title and not passage.text.startswith(title) else ""


def terms(found: Sequence[Lexeme], language: str) -> list[tuple[str, int, int]]:
    """Stems of content words, and numbers without their marks, each with its characters."""
    out = [(w.stem, w.start, w.end) for w in content(found, language)]
    for x in found:
        if x.shape == "number":
            out.append((x.text.replace(",", "").replace(".", ""), x.start, x.end))
        elif x.shape == "word" and (value := cardinal(x.lower, language)) is not None:
            out.append((str(value), x.start, x.end))
    return out


def _terms_of(text: str, language: str) -> frozenset[str]:
    return frozenset(t for t, _, _ in terms(lexemes(text), language)) if text else frozenset()


@lru_cache(maxsize=512)
def _cut(text: str, language: str) -> tuple[tuple[int, int, frozenset[str], bool], ...]:
    """The sentences of a passage with their terms. A line break that only folds a long line is none."""
    found = []
    for start, end in sentence_places(unfolded(text), language):
        part = text[start:end]
        if part.strip():
            read = lexemes(part)
            own = frozenset(t for t, _, _ in terms(read, language))
            anaphor = any(x.lower in _ANAPHORS for x in read[:8])
            found.append((start, start + len(part.rstrip()), own, anaphor))
    return tuple(found)


def sentence_places(text: str, language: str) -> list[tuple[int, int]]:
    """Sentences as characters; a day or an ordinal with its point ("am 9. Oktober") ends none."""
    known = language if language in ("de", "fr", "es", "zh") else "en"
    out: list[tuple[int, int]] = []
    for span in sentences(Passage(text, "e"), language=known):
        last = out[-1] if out else None
        day = last is not None and _DAY.search(text[max(last[0], last[1] - 8) : last[1]])
        if last and day and (language == "de" or _dated(text, span.start)):
            out[-1] = (last[0], span.end)
        else:
            out.append((span.start, span.end))
    return out


def _dated(text: str, at: int) -> bool:
    """A month begins there."""
    word = re.match(r"\w+", text[at : at + 20])
    return word is not None and word[0].casefold() in MONTHS


def unfolded(text: str) -> str:
    """The text with a blank for each line break inside a sentence, all places as they were."""
    if "\n" not in text:
        return text
    out = list(text)
    for i, c in enumerate(text):
        if c != "\n" or not 0 < i < len(text) - 1:
            continue
        before, after = text[i - 1], text[i + 1]
        if before in "-‐\u00ad" or ((before.isalpha() or before == ",") and after.islower()):
            out[i] = " "
    return "".join(out)


def _same_word(one: str, two: str) -> bool:
    shared = 0
    for a, b in zip(one, two, strict=False):
        if a != b:
            break
        shared += 1
    return (shared >= 4 and shared >= 0.7 * max(len(one), len(two))) or shared == len(min(one, two, key=len)) >= 5
