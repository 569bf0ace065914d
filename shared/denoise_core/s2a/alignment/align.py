"""Find the source text that a written sentence stands for, and say what differs.

Exact first, then the closest sentences by common words, alone and with their neighbours. A written sentence is
*copied* (the source's own words, whole sentences), *edited* (shortened, joined or reworded) or *added*: what it
says is not what the source says. What a text says is `denoise_core.text.facts`; on top of that stand the parts of
a sentence that must not be cut off (a condition, who says so) and words that the source does not have.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from rapidfuzz import fuzz, process
from rapidfuzz.distance import LCSseq

from denoise_core.s2a.alignment.qualifiers import another_subject, causes, crossed_clauses, lost_qualifier, turned
from denoise_core.s2a.alignment.synonyms import alike
from denoise_core.s2a.companions import points_back
from denoise_core.s2a.result import Kind
from denoise_core.s2a.units import ITEM
from denoise_core.text.facts import Difference, differences
from denoise_core.text.tokens import Token, is_content, tokens
from denoise_core.types import Span

_CANDIDATES = 6  # sentences compared closely; the rest share too few words to be meant
_JOINED = 3  # of these, so many are also tried together
_ITEMS = 12  # of a list that are joined
_LONGEST = 1500  # words; a longer "sentence" is either verbatim or no sentence
_LONG = 4000  # characters of source sentences that are compared with one written sentence
_HOPELESS = 0.7  # share of unknown words from which a sentence is not compared any further
_SAME_WORD = 75.0  # rapidfuzz ratio from which a word is another form of the same word
_CASELESS = 0.2  # share of new words in a sentence of a script without capitals
_CASED = re.compile(r"[A-Za-zÀ-ɏͰ-ϿЀ-ԯ]")
_CUT_OUT = re.compile(
    r",\s(?:(?:which|who|whose|where|qui|dont|der|die|das)|(?:\w{2,15}ly\s)?\w{2,20}ed)\s[^,;.]{3,160},"
    r"|\s\([^()]{3,200}\)|\s[–—]\s[^–—.;]{3,160}\s[–—](?=\s)",
    re.IGNORECASE,
)
"""A relative clause or an aside between marks."""
_OF_A_CLAUSE = ("attribution", "negation", "modality")
_PART = re.compile(r"[,;.!?:]")
_SHORT = 2  # words of content up to which none may be new
_RUN = 3  # new words of content in a row that are a statement of their own


@dataclass(frozen=True, slots=True)
class Match:
    """What a written sentence stands for. ``similarity`` in 0..1 by common words in order.

    ``reasons`` say why it counts as added, or name every word of an edited one that the source does not have.
    """

    kind: Kind
    spans: tuple[Span, ...]
    similarity: float
    reasons: tuple[str, ...] = ()


class Source:
    """A text cut into sentences, ready to have written sentences aligned to it."""

    def __init__(
        self, text: str, spans: Sequence[Span], *, max_new_words: float = 0.5, language: str = ""
    ) -> None:
        self.text = text
        self.spans = tuple(spans)
        self.max_new_words = max_new_words
        self.language = language
        self.sentences = [tokens(text[s.start : s.end]) for s in self.spans]
        self._having: dict[str, list[int]] = defaultdict(list)
        for n, sentence in enumerate(self.sentences):
            for norm in {t.norm for t in sentence}:
                self._having[norm].append(n)
        self._joined, self._ends, self._begins = _joined(self.sentences)

    def align(self, written: str) -> Match:
        """The match of one written sentence; one without any word counts as copied from nowhere."""
        own = tokens(written)
        if not own:
            return Match("copied", (), 1.0)
        run = self._verbatim(own)
        if run is not None:
            return Match("copied", self.spans[run[0] : run[1]], 1.0)
        close = self._closest(own)
        if len(own) > _LONGEST or self._is_strange(own):
            spans = (self.spans[close[0]],) if close else ()
            return Match("added", spans, 0.0, ("most of its words are not in the text",))
        best = Match("added", (), 0.0, ("no sentence of the text is like it",))
        covered = False  # by one sentence, whose words it has and whose meaning not: no others make it true
        for chosen in self._choices(close):
            if covered and len(chosen) > 1:
                break
            match = self._compare(written, own, chosen)
            new = _new_words(own, [t for n in chosen for t in self.sentences[n]])
            covered = covered or all(t.kind == "negation" for t in new)
            if match.kind == "edited":
                return match
            if not best.spans or (len(match.reasons), -match.similarity) < (len(best.reasons), -best.similarity):
                best = match
        return best

    def _is_strange(self, own: Sequence[Token]) -> bool:
        """Whether so many words are unknown that no closer look could help; keeps nonsense cheap."""
        content = [t.norm for t in own if is_content(t)]
        return sum(norm not in self._having for norm in content) > _HOPELESS * len(content) + 1

    def _verbatim(self, own: Sequence[Token]) -> tuple[int, int] | None:
        """The run of whole sentences whose words these are, as ``(first, last + 1)``."""
        wanted = "\0" + "\0".join(t.norm for t in own) + "\0"
        at = self._joined.find(wanted)
        while at >= 0:
            first, last = self._begins.get(at), self._ends.get(at + len(wanted) - 1)
            if first is not None and last is not None:
                return first, last
            at = self._joined.find(wanted, at + 1)
        return None

    def _closest(self, own: Sequence[Token]) -> list[int]:
        shared: Counter[int] = Counter()
        total = len(self.sentences)
        for norm in {t.norm for t in own}:
            where = self._having.get(norm, ())
            if len(where) <= max(50, total // 4):  # a word that is everywhere tells nothing
                for n in where:
                    shared[n] += 1000 // len(where) + 1
        return [n for n, _ in shared.most_common(_CANDIDATES)]

    def _choices(self, close: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Which sentences to hold it against: one, two, then the closest one with those before it."""
        yield from ((n,) for n in close[:_JOINED])
        found = [tuple(sorted(pair)) for pair in combinations(close[:_JOINED], 2)]
        found += [(n - 1, n) for n in close[:2] if n]
        found += [tuple(sorted(close[:_JOINED]))] if len(close) >= _JOINED else []
        found += [(n - 2, n - 1, n) for n in close[:1] if n > 1]
        found += self._lists(close)
        yield from dict.fromkeys(found)

    def _lists(self, close: Sequence[int]) -> list[tuple[int, ...]]:
        """A list with the line that opens it, which a rewrite may say in one sentence."""
        for n in close[:1]:
            first = last = n
            while first > 0 and last - first < _ITEMS and self._is_item(first):
                first -= 1
            while last + 1 < len(self.spans) and last - first < _ITEMS and self._is_item(last + 1):
                last += 1
            if last - first >= _JOINED:
                return [tuple(range(first, last + 1))]
        return []

    def _is_item(self, n: int) -> bool:
        return ITEM.match(self.text, self.spans[n].start) is not None

    def _compare(self, written: str, own: Sequence[Token], chosen: tuple[int, ...]) -> Match:
        spans = tuple(self.spans[n] for n in chosen)
        source = [t for n in chosen for t in self.sentences[n]]
        similarity = float(LCSseq.normalized_similarity([t.norm for t in source], [t.norm for t in own]))
        text = "\n".join(self.text[s.start : s.end].strip() for s in spans)
        new = _new_words(own, source)
        content = [t for t in own if is_content(t)] or list(own)
        reasons: list[str] = []
        # Without capitals a name cannot be told from a word: then few words may be new.
        share = self.max_new_words if _CASED.search(written) else min(self.max_new_words, _CASELESS)
        if len(new) > (share if len(content) > _SHORT else 0) * len(content):
            reasons.append(f"new words: {', '.join(t.norm for t in new[:5])}")
        elif run := _run_of(new, content):
            reasons.append(f"words of a statement of their own: {' '.join(t.norm for t in run[:5])}")
        if len(chosen) > 1:
            reasons += self._subjects_lost(own, chosen)
        if len(text) > _LONG:
            reasons.append("its sentence is too long to be compared")
        elif len(reasons) < 2:
            reasons += [str(d) for d in self._differences(written, text) if _means(d, text)]
            reasons += turned(own, source, similarity, written, text)
            reasons += causes(written, text)
            reasons += another_subject(own, source, new) + crossed_clauses(own, text)
            reasons += [q for s in spans if (q := lost_qualifier(written, self.text[s.start : s.end]))]
        if reasons:
            return Match("added", spans, similarity, tuple(reasons))
        known = {t.norm for t in source}
        wording = dict.fromkeys(t.norm for t in own if t.norm not in known)
        return Match("edited", spans, similarity, (f"other wording: {', '.join(wording)}",) if wording else ())

    def _differences(self, written: str, text: str) -> list[Difference]:
        """What differs; who says or denies it in a part that was cut out whole says nothing of the rest."""
        found = [d for d in differences(written, text, language=self.language) if not _denied_too(d, written)]
        if any(d.kind in _OF_A_CLAUSE for d in found):
            have = {t.norm for t in tokens(written) if is_content(t)}
            cut = _CUT_OUT.sub(lambda m: " " if not have & {t.norm for t in tokens(m[0])} else m[0], text)
            if cut != text:
                again = differences(written, cut, language=self.language)
                said = {d.kind for d in again}
                found = [d for d in found if d.kind not in _OF_A_CLAUSE or d.kind in said]
        return found

    def _subjects_lost(self, own: Sequence[Token], chosen: tuple[int, ...]) -> list[str]:
        """Of joined sentences each has to be there with what it is about; a pronoun may go."""
        have = {t.norm for t in own}
        for n in chosen:
            first = [t.norm for t in self.sentences[n] if is_content(t)][:1]
            used = have & {t.norm for t in self.sentences[n] if is_content(t)}
            follows = n + 1 in chosen and self._points_back(n + 1) and bool(have & self._own_words(n + 1, n))
            if self._points_back(n) or follows:
                continue  # a pronoun stands for what the other sentence names
            if used and first and not have & set(first):
                return [f"it says this of something else than {first[0]}"]
        return []

    def _own_words(self, n: int, beside: int) -> set[str]:
        """What sentence ``n`` says and the one ``beside`` it does not."""
        content = [{t.norm for t in self.sentences[i] if is_content(t)} for i in (n, beside)]
        return content[0] - content[1]

    def _points_back(self, n: int) -> bool:
        return points_back(self.text[self.spans[n].start : self.spans[n].end])


def _denied_too(difference: Difference, written: str) -> bool:
    """Whether what the source denies is denied here as well, before the "not": "parking is not permitted"."""
    if difference.kind != "negation" or not difference.stands:
        return False
    ends = [m.start() for m in _PART.finditer(written)] + [len(written)]
    end = next(e for e in ends if e >= difference.end)
    start = max((e for e in ends if e < difference.start), default=0)
    return any(t.kind == "negation" for t in tokens(written[start:end]))


def _means(difference: Difference, source: str) -> bool:
    """Whether a difference is one of names: a word in small letters is none, nor one that opens both sentences."""
    said = difference.said
    if difference.kind == "name" and not said[:1].isupper():
        return False
    opens = difference.start == 0 and any(line.startswith(f"{said} ") for line in source.split("\n"))
    return not (difference.kind == "crossed" and opens)


def _new_words(own: Sequence[Token], source: Sequence[Token]) -> list[Token]:
    """Words of content that are no form of a word of the source."""
    known = {t.norm for t in source}
    return [
        t
        for t in own
        if is_content(t)
        and t.norm not in known
        and not alike(t.norm, known)
        and not (len(t.norm) > 3 and process.extractOne(t.norm, known, scorer=fuzz.ratio, score_cutoff=_SAME_WORD))
    ]


def _run_of(new: Sequence[Token], content: Sequence[Token]) -> list[Token]:
    """The first run of new words in a row, numbers left out; empty when there is none."""
    fresh = {t.start for t in new if t.kind != "number"}
    run: list[Token] = []
    for token in content:
        run = [*run, token] if token.start in fresh else []
        if len(run) >= _RUN:
            return run
    return []


def _joined(sentences: Sequence[Sequence[Token]]) -> tuple[str, dict[int, int], dict[int, int]]:
    """All words joined, with where each sentence begins (-> its number) and ends (-> the next number).

    >>> from denoise_core.text.tokens import tokens
    >>> _joined([tokens("ab c"), tokens("d")])[0].replace(chr(0), "|")
    '|ab|c|d|'
    """
    out: list[str] = ["\0"]
    length = 1
    begins: dict[int, int] = {}
    ends: dict[int, int] = {}
    for n, sentence in enumerate(sentences):
        begins.setdefault(length - 1, n)
        for token in sentence:
            out.append(token.norm + "\0")
            length += len(token.norm) + 1
        ends[length - 1] = n + 1
    return "".join(out), ends, begins
