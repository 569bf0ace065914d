"""Find the source text that a written sentence stands for, and say what differs.

Exact first, then equal after normalisation, then the most similar sentence or pair of sentences (rapidfuzz).
A sentence is *copied* (the source's own words, whole sentences), *edited* (shortened, joined or lightly
reworded) or *added*: the source does not bear it out. A number, date, name or negation that differs makes it
*added* whatever its similarity.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, groupby

from rapidfuzz import fuzz, process
from rapidfuzz.distance import Indel, LCSseq

from denoise_core.s2a.result import Kind
from denoise_core.text.tokens import Token, is_content, tokens
from denoise_core.text.wordlists import NEGATING_PREFIXES
from denoise_core.types import Span

_CANDIDATES = 8  # sentences compared closely; the rest share too few words to be meant
_PAIRED = 4  # of these, so many are also tried two by two
_LONGEST = 1500  # words; a longer "sentence" is either verbatim or no sentence
_HOPELESS = 0.7  # share of unknown words from which a sentence is not compared any further
_SAME_WORD = 80.0  # rapidfuzz ratio from which a word is another form of the same word


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

    def __init__(self, text: str, spans: Sequence[Span], *, max_new_words: float = 0.25) -> None:
        self.text = text
        self.spans = tuple(spans)
        self.max_new_words = max_new_words
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
        found = [self._compare(own, (n,)) for n in close]
        if not any(match.kind == "edited" for match in found):
            found += [
                self._compare(own, pair) for a, b in combinations(close[:_PAIRED], 2) for pair in ((a, b), (b, a))
            ]
        nothing = Match("added", (), 0.0, ("no sentence of the text is like it",))
        return max(found, key=_rank, default=nothing)

    def _is_strange(self, own: Sequence[Token]) -> bool:
        """Whether so many words are unknown that no closer look could help; keeps nonsense cheap."""
        content = [t.norm for t in own if is_content(t)]
        return sum(norm not in self._having for norm in content) > _HOPELESS * len(content)

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

    def _compare(self, own: Sequence[Token], chosen: tuple[int, ...]) -> Match:
        source = [t for n in chosen for t in self.sentences[n]]
        spans = tuple(self.spans[n] for n in sorted(chosen))
        diff = _Diff(source, own)
        reasons = diff.changed_facts() + self._lost_negation(diff, chosen)
        reasons += [f"words of another sentence: {run}" for run in self._borrowed(diff)]
        content = [t for t in own if is_content(t)] or list(own)
        new = [t for t in diff.new_words() if is_content(t)]
        if len(new) > self.max_new_words * len(content):
            reasons.append(f"new words: {', '.join(t.norm for t in new[:5])}")
        if len(chosen) > 1 and not diff.covers_each([len(self.sentences[n]) for n in chosen]):
            reasons.append("parts of two sentences were joined into one claim")
        if reasons:
            return Match("added", spans, diff.similarity, tuple(reasons))
        known = {t.norm for t in source}
        wording = dict.fromkeys(own[k].norm for k in diff.inserted if own[k].norm not in known)
        notes = (f"other wording: {', '.join(wording)}",) if wording else ()
        return Match("edited", spans, diff.similarity, notes)

    def _borrowed(self, diff: _Diff) -> list[str]:
        """Runs of new words, two of content or more, that stand so elsewhere in the text."""
        found: list[str] = []
        for _, group in groupby(enumerate(diff.inserted), lambda pair: pair[1] - pair[0]):
            run = [diff.own[k] for _, k in group]
            if sum(map(is_content, run)) >= 2 and "\0" + "\0".join(t.norm for t in run) + "\0" in self._joined:
                found.append(" ".join(t.norm for t in run))
        return found

    def _lost_negation(self, diff: _Diff, chosen: tuple[int, ...]) -> list[str]:
        """Negations left out while what they negate stays."""
        bounds: list[tuple[int, int]] = []  # of each source token: its sentence's number, its place in there
        for n in chosen:
            bounds += [(n, k) for k in range(len(self.sentences[n]))]
        lost: list[str] = []
        for start, end, replaced in diff.deleted:
            for i in range(start, end):
                if diff.source[i].kind != "negation":
                    continue
                if replaced or not self._clause_ends(bounds, i, end):
                    lost.append(f"negation left out: {diff.source[i].norm}")
        return lost

    def _clause_ends(self, bounds: list[tuple[int, int]], negation: int, end: int) -> bool:
        """Whether the deleted words go on, after the negation and what it negates, to the end of its clause."""
        n, k = bounds[negation]
        sentence = self.sentences[n]
        last = k + end - negation  # the first word that stays, if it belongs to the same sentence
        if not any(is_content(t) for t in sentence[k + 1 : last]):
            return False
        if last >= len(sentence):
            return True
        base = self.spans[n].start
        between = self.text[base + sentence[k].end : base + sentence[last].start]
        return any(c in ",;:.()—–、，；。،؛" for c in between)


class _Diff:
    """Word by word: what of ``source`` is gone and what of ``own`` is new."""

    def __init__(self, source: Sequence[Token], own: Sequence[Token]) -> None:
        self.source = source
        self.own = own
        self.deleted: list[tuple[int, int, bool]] = []
        self.inserted: list[int] = []
        self._instead_of: dict[int, range] = {}  # of an inserted word: the source words gone from its place
        self._kept: set[int] = set()
        a, b = [t.norm for t in source], [t.norm for t in own]
        self.similarity = float(LCSseq.normalized_similarity(a, b))
        codes = list(Indel.opcodes(a, b))
        for i, code in enumerate(codes):
            if code.tag == "equal":
                self._kept.update(range(code.src_start, code.src_end))
            elif code.tag == "delete":
                beside = codes[i + 1 : i + 2] + codes[max(0, i - 1) : i]
                replaced = any(c.tag == "insert" and c.dest_end > c.dest_start for c in beside)
                self.deleted.append((code.src_start, code.src_end, replaced))
            else:
                beside = [c for c in codes[max(0, i - 1) : i] + codes[i + 1 : i + 2] if c.tag == "delete"]
                gone = beside[0] if beside else code
                for k in range(code.dest_start, code.dest_end):
                    self.inserted.append(k)
                    self._instead_of[k] = range(gone.src_start, gone.src_end)
                if code.tag == "replace":
                    self.deleted.append((code.src_start, code.src_end, True))
        self._gone = {a[k] for start, end, _ in self.deleted for k in range(start, end)}
        same = next((c for c in codes if c.tag == "equal"), None)
        self._opening = (same.src_start, same.dest_start) if same else (len(a), len(b))

    def changed_facts(self) -> list[str]:
        """Numbers, dates, names and negations that the source does not have, or has in another order."""
        had = Counter(t.norm for t in self.source)
        has = Counter(t.norm for t in self.own)
        reasons: list[str] = []
        for i in self.inserted:
            token = self.own[i]
            new = has[token.norm] > had[token.norm]
            if token.kind in ("number", "negation") and new:
                reasons.append(f"{token.kind} not in the text: {token.norm}")
            elif token.kind == "negation":
                reasons.append(f"negation moved: {token.norm}")
            elif token.kind == "name" and new and not self._opens_with_known_form(i):
                reasons.append(f"name not in the text: {token.norm}")
            elif token.kind == "name" and self._replaces_a_name(i, has):
                reasons.append(f"name in the place of another: {token.norm}")
            elif new and self._negates_a_lost_word(token.norm):
                reasons.append(f"negation by prefix: {token.norm}")
            elif new and i and self.own[i - 1].kind == "number" and is_content(token):
                reasons.append(f"number of something else: {self.own[i - 1].norm} {token.norm}")
        for kind in ("name", "number"):
            order = [t.norm for t in self.own if t.kind == kind]
            if not _in_order(order, [t.norm for t in self.source]):
                reasons.append(f"{kind}s in another order")
        if self._opens_otherwise():
            reasons.append("it says this of something else")
        return list(dict.fromkeys(reasons))

    def _opens_otherwise(self) -> bool:
        """Whether the words before the first common one were exchanged: mostly that is the subject."""
        gone, come = self.source[: self._opening[0]], self.own[: self._opening[1]]
        forms = [
            t for t in come if is_content(t) and not any(fuzz.ratio(t.norm, g.norm) >= _SAME_WORD for g in gone)
        ]
        return bool(forms) and any(is_content(t) for t in gone)

    def new_words(self) -> list[Token]:
        """Words of ``own`` that are no form of a word of the source."""
        known = {t.norm for t in self.source}
        new: list[Token] = []
        for i in self.inserted:
            norm = self.own[i].norm
            if norm not in known and not process.extractOne(
                norm, known, scorer=fuzz.ratio, score_cutoff=_SAME_WORD
            ):
                new.append(self.own[i])
        return new

    def covers_each(self, lengths: Sequence[int], share: float = 0.7) -> bool:
        """Whether each of the joined source sentences is there with most of its words.

        Where they meet, the end of the one and the beginning of the other must be there: a claim that takes its
        subject from one and its predicate from the other lacks both.
        """
        at = 0
        for n, length in enumerate(lengths):
            words = [i for i in range(at, at + length) if is_content(self.source[i])]
            if sum(i in self._kept for i in words) < share * len(words) or not words:
                return False
            inner = words[:1] if n else words[-1:]
            if not self._kept.issuperset(inner):
                return False
            at += length
        return True

    def _opens_with_known_form(self, i: int) -> bool:
        """The first word of a sentence is capitalised in any case; another form of a source word is no name."""
        if i:
            return False
        return any(t.kind == "word" and fuzz.ratio(self.own[i].norm, t.norm) >= _SAME_WORD for t in self.source)

    def _replaces_a_name(self, i: int, has: Counter[str]) -> bool:
        return any(self.source[k].kind == "name" and not has[self.source[k].norm] for k in self._instead_of[i])

    def _negates_a_lost_word(self, norm: str) -> bool:
        """Whether ``norm`` is a word that is gone with a negating prefix more, or less."""
        return any(
            prefix + norm in self._gone or (norm.startswith(prefix) and norm.removeprefix(prefix) in self._gone)
            for prefix in NEGATING_PREFIXES
        )


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


def _in_order(wanted: Sequence[str], source: Sequence[str]) -> bool:
    """Whether ``wanted``, without what the source lacks, is a subsequence of ``source``."""
    known = set(source)
    rest = iter(source)
    return all(any(s == w for s in rest) for w in wanted if w in known)


def _rank(match: Match) -> tuple[bool, bool, float]:
    return match.kind == "edited", len(match.reasons) < 2, match.similarity
