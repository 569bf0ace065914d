"""Which source sentences cover what was written: words by stem, weighted by rarity, sentences added while they
help.

Nothing is judged here: a sentence that turns the source's meaning round has a cover, too. What is shown is the
cover."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rapidfuzz.distance import JaroWinkler

from denoise_core.s2a.options import Options
from denoise_core.s2a.pieces import split_pieces
from denoise_core.s2a.replies import SliceOutcome
from denoise_core.support import check
from denoise_core.text.lexemes import tokenize_text
from denoise_core.text.stems import stem_word
from denoise_core.text.wordlists import FUNCTION_WORDS
from denoise_core.types import Passage, Span

NOT_COVERED = "nothing that was written stands for it"
LEAST = (
    0.3  # share of what was written, by weight, that the best sentence alone must cover
)
GAIN = 0.13  # share that a further sentence must add
MOST = 6  # sentences that cover one written sentence
_ALIKE = 0.92  # Jaro-Winkler similarity of two forms of a word
_UNKNOWN = 0.7  # weight of a word that no sentence has
_RUN = 4  # words in a row that nobody writes twice by chance
_SHORT = 4  # characters up to which a word has one form only
_GROUPED = re.compile(r"[,'’\u00a0\u202f ](?=\d{3})")
_LONGEST = 400  # words of a written sentence that are looked up


@dataclass(frozen=True, slots=True)
class WrittenSentence:
    """One sentence that a model wrote.

    ``start`` and ``end`` are characters of the model's own text (half-open). ``spans`` are the source sentences
    that cover it, none when nothing does; ``share`` in 0..1 is how much of its words they cover, by weight.
    ``supported`` and ``why`` are the checker's word on it, where it was asked: None is unknown."""

    text: str
    start: int
    end: int
    spans: tuple[Span, ...] = ()
    covered_fraction: float = 0.0
    supported: bool | None = None
    reason: str = ""


def align_outcome(
    outcome: SliceOutcome, options: Options, question: str, *, offset: int = 0
) -> tuple[SliceOutcome, list[WrittenSentence]]:
    """A written outcome with the pieces to keep: the source sentences that cover it; and its own sentences.

    One that only repeats ``question`` is left out. ``offset`` is where the text begins in all that was written.
    """
    passage, pieces, text = (
        outcome.part.passage,
        outcome.part.pieces,
        outcome.written_text or "",
    )
    source = SourceIndex(outcome.part.texts, options.language)
    is_checked = options.check_sentences or options.shown_text == "written"
    sentences: list[WrittenSentence] = []
    kept: dict[int, int] = {}
    for span in split_pieces(Passage(text, passage.id), language=options.language):
        sentence = text[span.start : span.end].strip()
        if not sentence or sentence.casefold().split() == question.casefold().split():
            continue
        cover = source.align(sentence)
        kept.update(dict.fromkeys(cover.sentence_indices, 0))
        supported, why = None, ""
        if is_checked:
            verdict = check("", sentence, [Passage(outcome.part.text, passage.id)])
            missing_facts = [
                str(d) for claim in verdict.claims for d in claim.differences
            ]
            supported = False if missing_facts else None
            why = "; ".join(missing_facts) or verdict.reason
        start, end = offset + span.start, offset + span.end
        spans = tuple(pieces[index] for index in cover.sentence_indices)
        sentences.append(
            WrittenSentence(
                sentence, start, end, spans, cover.covered_fraction, supported, why
            )
        )
    problem = None
    if sentences and not kept and options.shown_text == "source":
        problem = "no sentence of the text covers anything that was written"
    reasons = dict.fromkeys(range(len(pieces)), NOT_COVERED)
    return replace(
        outcome, kept_places=kept, problem=problem, drop_reasons=reasons
    ), sentences


@dataclass(frozen=True, slots=True)
class SourceAlignment:
    """``chosen`` are positions of source sentences, in order; ``share`` in 0..1 is what they cover of the
    words."""

    sentence_indices: tuple[int, ...]
    covered_fraction: float


class SourceIndex:
    """Sentences, ready to be looked up in."""

    def __init__(self, sentences: Sequence[str], language: str = "en") -> None:
        self.language = language
        self.terms = [frozenset(_terms(s, language)) for s in sentences]
        self.runs = [
            {tuple(w[i : i + _RUN]) for i in range(len(w) - _RUN + 1)}
            for w in map(_words, sentences)
        ]
        self._known = frozenset().union(*self.terms)
        self._alike: dict[str, frozenset[str]] = {}

    def align(self, written: str) -> SourceAlignment:
        """The sentences that cover ``written``: none when the best of them covers too little of it."""
        wanted = list(dict.fromkeys(_terms(written, self.language)))[:_LONGEST]
        having = [[t for t in wanted if self._forms(t) & given] for given in self.terms]
        weight = {t: _weight(t, sum(t in h for h in having)) for t in wanted}
        chosen, covered, share = _greedy(having, weight)
        chosen += (
            [n for n in self._copied(written, covered) if n not in chosen]
            if chosen
            else []
        )
        return SourceAlignment(tuple(sorted(chosen)), min(1.0, share))

    def _copied(self, written: str, covered: set[str]) -> list[int]:
        """Sentences of which a run of words stands in ``written`` that says something not covered yet."""
        own = _words(written)
        runs = {tuple(own[i : i + _RUN]) for i in range(len(own) - _RUN + 1)}
        runs = {
            r
            for r in runs
            if any(t not in covered for w in r for t in _terms(w, self.language))
        }
        return [n for n, s in enumerate(self.runs) if not runs.isdisjoint(s)]

    def _forms(self, term: str) -> frozenset[str]:
        """The words of the source that are ``term`` in some form."""
        if term not in self._alike:
            found = {term} & self._known
            if len(term) > _SHORT and not term[0].isdigit():
                near = (k for k in self._known if len(k) > 2 and not k[0].isdigit())
                found |= {
                    k
                    for k in near
                    if JaroWinkler.similarity(term, k, score_cutoff=_ALIKE) >= _ALIKE
                }
            self._alike[term] = frozenset(found)
        return self._alike[term]


def _greedy(
    having: list[list[str]], weight: dict[str, float]
) -> tuple[list[int], set[str], float]:
    """Positions that cover most of the weight, best first, while each adds enough; what they cover; its share."""
    total = sum(weight.values())
    chosen: list[int] = []
    covered: set[str] = set()
    got = 0.0
    while total and having and len(chosen) < MOST:
        gains = [sum(weight[t] for t in h if t not in covered) / total for h in having]
        best = max(range(len(gains)), key=gains.__getitem__)
        if gains[best] < (GAIN if chosen else LEAST):
            break
        chosen.append(best)
        covered.update(having[best])
        got += gains[best]
    return chosen, covered, got


def _weight(term: str, having: int) -> float:
    """A number counts whole, a word the more the fewer sentences have it; one that none has may be another's
    form."""
    return 1.0 if term[0].isdigit() else 1.0 / (1 + having) if having else _UNKNOWN


def _words(text: str) -> list[str]:
    return [x.folded_text for x in tokenize_text(text) if x.kind != "mark"]


def _terms(text: str, language: str) -> Iterator[str]:
    """Words of content by stem, ideographs one by one, numbers without what groups their digits."""
    for x in tokenize_text(text):
        if x.kind == "number":
            yield _GROUPED.sub("", x.text)
        elif x.kind == "ideograph":
            yield x.text
        elif x.kind == "word":
            for part in x.folded_text.removesuffix("'s").split("-"):
                if part and part not in FUNCTION_WORDS:
                    yield stem_word(part, language)
