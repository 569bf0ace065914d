"""The judge that the checker took the place of, for comparison: words, numbers, names and negations of a sentence
held against single passages."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from denoise_core.text.chunk import sentences
from denoise_core.text.wordlists import STOPWORDS
from denoise_core.text.words import words
from denoise_core.types import Passage

_NEGATIONS = frozenset(
    words(
        """
        not no never none nobody nothing neither nor without cannot isnt arent wasnt werent dont doesnt didnt wont
        wouldnt cant couldnt shouldnt hasnt havent hadnt unable fail failed fails refuse refused
        """
    )
)
_NUMBER_WORDS = {
    word: str(value)
    for value, word in enumerate(
        words(
            """
            zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
            seventeen eighteen nineteen twenty
            """
        )
    )
}
_ASKED_WEIGHT = 0.4  # of a word that the question already says: repeating it proves little
_LONGEST_WORD = 64  # characters; what is longer is no word
_KEPT = 10_000  # characters of a passage that is kept prepared
_PENALTY = 0.35  # for each rule broken
_SAME = 0.7  # share of a claim's words that makes a sentence say the same, negation aside
_REACH = 3  # content words that a negation reaches
_ORDER = 0.25  # weight of word order against words
_NAME = re.compile(r"(?<![\w.])[A-Z][\w’'-]+")


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence of the candidate: its content stems with their weights and the words they stand for, its
    neighbouring stems, numbers, names, and the stems that stand under a negation."""

    text: str
    weights: dict[str, float]
    written: dict[str, str]
    pairs: frozenset[tuple[str, str]]
    numbers: frozenset[str]
    names: tuple[str, ...]
    negated: frozenset[str]


@dataclass(frozen=True, slots=True)
class Source:
    """One passage, prepared to hold claims against; ``sentences`` are (stems, stems under a negation)."""

    passage_id: str
    tokens: tuple[str, ...]
    stems: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    numbers: frozenset[str]
    sentences: tuple[tuple[frozenset[str], frozenset[str]], ...]

    @staticmethod
    def of(passage_id: str, text: str) -> Source:
        """Prepared passages are kept, because every attempt meets the same ones; long ones are not."""
        return _kept(passage_id, text) if len(text) <= _KEPT else _source(passage_id, text)

    def longest_run(self, said: Sequence[str]) -> int:
        """Words of the longest stretch of ``said`` that stands here word for word; greedy, linear in use."""
        starts: dict[str, list[int]] = {}
        for i, w in enumerate(self.tokens):
            starts.setdefault(w, []).append(i)
        longest = at = 0
        while at < len(said):
            run = 0
            for start in starts.get(said[at], ())[:50]:
                n = 0
                while (
                    at + n < len(said) and start + n < len(self.tokens) and said[at + n] == self.tokens[start + n]
                ):
                    n += 1
                run = max(run, n)
            longest = max(longest, run)
            at += max(run, 1)
        return longest


@dataclass(frozen=True, slots=True)
class Support:
    """How far ``source`` supports ``claim``: score in [0, 1]; ``broken`` names the rules it breaks."""

    claim: Claim
    source: Source
    score: float
    missing: tuple[str, ...]
    broken: tuple[str, ...]


def claims_of(text: str, question: str) -> list[Claim]:
    """The sentences that say something; the whole text if none does."""
    asked = {stem(w) for w in tokens_of(question)}
    spans = [text[s.start : s.end].strip() for s in sentences(Passage(text, "candidate"))]
    found = [_claim(s, asked) for s in spans]
    return [c for c in found if c.weights] or [_claim(text, asked)]


def support(claim: Claim, sources: Sequence[Source]) -> Support:
    """The source that supports the claim best, and what is wrong even there."""
    best = max(sources, key=lambda s: _grip(claim, s))
    everywhere: frozenset[str] = frozenset().union(*(s.stems for s in sources))
    numbers = sorted(n for n in claim.numbers if not any(n in s.numbers for s in sources))
    names = [n for n in claim.names if stem(n.casefold()) not in everywhere]
    broken = []
    if numbers:
        broken.append("number")
    if names:
        broken.append("entity")
    if _opposed(claim, best):
        broken.append("negation")
    named = {n.casefold() for n in names}
    absent = [claim.written[s] for s in claim.weights if s not in best.stems]
    missing = (*numbers, *names, *(w for w in absent if w not in named))
    return Support(claim, best, max(0.0, _grip(claim, best) - _PENALTY * len(broken)), missing, tuple(broken))


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """A light English stem: enough for plural and tense, never across the whole word."""
    for ending in ("ingly", "edly", "ing", "ied", "ies", "ed", "es", "ly", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)] + ("y" if ending in ("ied", "ies") else "")
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def _claim(text: str, asked: set[str]) -> Claim:
    tokens = tokens_of(text)
    weights: dict[str, float] = {}
    written: dict[str, str] = {}
    for w in tokens:
        if w not in STOPWORDS and not w[0].isdigit():
            s = stem(w)
            written.setdefault(s, w)
            weights[s] = _ASKED_WEIGHT if s in asked else 1.0
    names = tuple(dict.fromkeys(n for n in _names(text) if stem(n.casefold()) not in asked))
    pairs = frozenset(itertools.pairwise(map(stem, tokens)))
    return Claim(text, weights, written, pairs, frozenset(_numbers(tokens)), names, _under_negation(tokens))


@lru_cache(maxsize=256)
def _kept(passage_id: str, text: str) -> Source:
    return _source(passage_id, text)


def _source(passage_id: str, text: str) -> Source:
    passage = Passage(text, passage_id)
    tokens = tuple(tokens_of(text))
    parts = [tokens_of(text[s.start : s.end]) for s in sentences(passage)]
    split = tuple((frozenset(map(stem, part)), _under_negation(part)) for part in parts)
    stems = [stem(t) for t in tokens]
    pairs = frozenset(itertools.pairwise(stems))
    return Source(passage_id, tokens, frozenset(stems), pairs, frozenset(_numbers(tokens)), split)


def _grip(claim: Claim, source: Source) -> float:
    """Share of the claim's words that the source has, and of its neighbouring pairs: the same words in
    another order say something else."""
    precision = _precision(claim, source.stems)
    order = len(claim.pairs & source.pairs) / len(claim.pairs) if claim.pairs else precision
    return (1 - _ORDER) * precision + _ORDER * order


def _precision(claim: Claim, stems: frozenset[str]) -> float:
    total = sum(claim.weights.values())
    if not total:
        return 1.0 if claim.numbers else 0.0
    return sum(w for s, w in claim.weights.items() if s in stems) / total


def _opposed(claim: Claim, source: Source) -> bool:
    """The sentence nearest to the claim says nearly the same, but a word both share is negated in one only."""
    total = sum(claim.weights.values())
    if not source.sentences or not total:
        return False
    shared = [sum(w for t, w in claim.weights.items() if t in stems) for stems, _ in source.sentences]
    nearest = max(range(len(shared)), key=shared.__getitem__)
    stems, negated = source.sentences[nearest]
    differ = (negated ^ claim.negated) & stems & claim.weights.keys()
    return bool(differ) and shared[nearest] >= _SAME * total


def _under_negation(tokens: Sequence[str]) -> frozenset[str]:
    """Stems of the few content words after each "not", "never" and the like."""
    found = set()
    left = 0
    for token in tokens:
        if token in _NEGATIONS:
            left = _REACH
        elif left and token not in STOPWORDS:
            found.add(stem(token))
            left -= 1
    return frozenset(found)


def tokens_of(text: str) -> list[str]:
    """Words with "n't" kept in one piece and numbers in one form: "5,300" and "five" are "5300" and "5"."""
    joined = text.replace("n't", "nt").replace("n’t", "nt")
    return [_NUMBER_WORDS.get(w, w.replace(",", "")[:_LONGEST_WORD]) for w in words(joined)]


def _numbers(tokens: Sequence[str]) -> set[str]:
    return {t for t in tokens if t[0].isdigit()}


def _names(text: str) -> list[str]:
    """Capitalised words that do not merely begin the sentence."""
    return [m.group() for m in _NAME.finditer(text) if m.start() and m.group().casefold() not in STOPWORDS]


def score(question: str, answer: str, passages: Sequence[Passage]) -> float:
    """Mean support of the claims, 0 to 1."""
    sources = [Source.of(p.id, p.headed) for p in passages if p.text.strip()]
    found = [support(claim, sources) for claim in claims_of(answer, question)]
    return sum(f.score for f in found) / len(found)
