"""Questions made from passages: a name, date, number or phrase is taken out of a sentence and asked for.

The sentence may be one of *another* passage that says something similar about the same name, so that question
and window do not share all their words.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from denoise_core.text.chunk import sentences
from denoise_core.text.stems import stem
from denoise_core.text.wordlists import STOPWORDS
from denoise_core.text.words import content_words, words
from denoise_core.types import Passage

_NAME = re.compile(r"\b[A-Z][\w’'.-]*(?:\s+(?:(?:of|the|de|la|and|von|van)\s+)?[A-Z][\w’'-]*)*")
_NUMBER = re.compile(
    r"(?<![\w.])\$?\d[\d,.]*\d(?:%|st|nd|rd|th)?|(?<![\w.])\d(?:%|st|nd|rd|th)?\b"
    r"|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|hundred|thousand|million)\b"
)
_MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_DATE = re.compile(rf"\b(?:\d{{1,2}} )?{_MONTH}(?: \d{{1,2}})?(?:,? \d{{4}})?|\b1[0-9]{{3}}\b|\b20[0-2]\d\b")
_PHRASES = re.compile(r"[,;.:()\"]| (?:and|or|but|which|that|is|was|were|are|of|in|on|at|by|for|with|to|as|from) ")
_PLACE_BEFORE = re.compile(r"(?i)\b(?:in|at|near|from|of|to|into|across)\s+(?:the\s+)?$")
_PERSON_BEFORE = re.compile(r"(?i)\b(?:by|with|president|king|queen|sir|captain|mr\.?|dr\.?|son of|named)\s+$")
_PERSON_AFTER = re.compile(
    r"^,?\s+(?:was born|who|said|wrote|played|plays|directed|won|became|died|sang|married|and his|and her|"
    r"is an? \w+ (?:actor|actress|singer|writer|politician|player|director|musician|author|footballer))"
)
_NOUN_BEFORE = re.compile(r"\b(?:the|a|an|his|her)\s+(?:\w+\s+)?([a-z]{3,12})\s+$")
_NOUN_AFTER = re.compile(r"^\s+([a-z]{4,14})\b")
ASKING = {
    "date": ("when", "what year", "in what year", "when did", "when was", "in which year", "what date"),
    "number": ("how many", "how much", "what number", "how many"),
    "name": ("who", "which", "what", "where", "what", "who was", "what is"),
    "other": ("what", "which", "how", "what", "why", "what kind of"),
}


@dataclass(frozen=True, slots=True)
class Cloze:
    """A question, its answer, and the passage that the answer is to be found in."""

    question: str
    answer: str
    passage: Passage


def spans(text: str, kind: str) -> list[tuple[int, int]]:
    """Where names, dates, numbers or other phrases stand, half-open."""
    if kind in ("date", "number"):
        return [m.span() for m in (_DATE if kind == "date" else _NUMBER).finditer(text)]
    if kind == "name":
        out = []
        for m in _NAME.finditer(text):
            found = m.group().strip(" .-'’")
            if len(found) > 2 and content_words(found) and (m.start() or " " in found):
                out.append((m.start(), m.start() + len(found)))
        return out
    out, at = [], 0
    for part in _PHRASES.split(text):
        start = text.index(part, at)
        at = start + len(part)
        found = part.strip()
        if 1 <= len(found.split()) <= 6 and content_words(found) and not _NUMBER.search(found):
            start += part.index(found)
            out.append((start, start + len(found)))
    return out


def kind_of(answer: str) -> str:
    """date, number, name or other."""
    if _DATE.search(answer):
        return "date"
    if _NUMBER.search(answer):
        return "number"
    upper = sum(w[:1].isupper() for w in answer.split())
    return "name" if answer[:1].isupper() or 2 * upper >= max(1, len(answer.split())) else "other"


class Clozes:
    """Draws questions from a pool of passages."""

    def __init__(self, passages: Sequence[Passage], rng: random.Random) -> None:
        self.passages = passages
        self.rng = rng
        self.pairs = _alike(passages, rng)

    def draw(self, across: float = 0.35) -> Cloze:
        """A cloze, from two passages in ``across`` of the cases."""
        while True:
            found = self._across() if self.pairs and self.rng.random() < across else self._within()
            if found is not None:
                return found

    def _across(self) -> Cloze | None:
        sentence, span, passage = self.rng.choice(self.pairs)
        question = self._ask(sentence, span)
        return Cloze(question, sentence[span[0] : span[1]], passage) if question else None

    def _within(self) -> Cloze | None:
        rng = self.rng
        passage = rng.choice(self.passages)
        usable = [s for s in _sentences(passage) if 7 <= len(s.split()) <= 40]
        if not usable:
            return None
        sentence = rng.choice(usable)
        found = spans(sentence, rng.choice(("name", "name", "date", "number", "other"))) or spans(sentence, "name")
        if not found:
            return None
        span = rng.choice(found)
        question = self._ask(sentence, span)
        return Cloze(question, sentence[span[0] : span[1]], passage) if question else None

    def _ask(self, sentence: str, span: tuple[int, int]) -> str | None:
        """A question for what stands at ``span``: wh-word, and the words around in one order or the other."""
        rng = self.rng
        answer = sentence[span[0] : span[1]]
        before, after = sentence[: span[0]], sentence[span[1] :]
        asking = self._asking(answer, before, after)
        left = before.split()[-rng.randint(3, 14) :]
        right = after.strip(" .,;").split()[: rng.randint(3, 14)]
        left, right = self._thinned(left), self._thinned(right)
        around = right + left if rng.random() < 0.6 else left + right
        question = " ".join([asking, *around] if rng.random() < 0.85 else [*left, asking, *right])
        question = re.sub(r"[(),;\"]", "", question).strip()
        if rng.random() < 0.5:
            question = question.lower()
        if len(content_words(question)) < 3 or set(content_words(answer)) <= set(content_words(question)):
            return None
        return question + ("?" if rng.random() < 0.6 else "")

    def _thinned(self, given: Sequence[str]) -> list[str]:
        lost = self.rng.choice((0.05, 0.2, 0.35))
        return [w for w in given if self.rng.random() > (lost / 2 if w.lower() in STOPWORDS else lost)]

    def _asking(self, answer: str, before: str, after: str) -> str:
        kind, rng = kind_of(answer), self.rng
        if kind == "number" and (noun := _NOUN_AFTER.match(after)) and rng.random() < 0.7:
            return f"how many {noun.group(1)}"
        if kind == "name":
            if (noun := _NOUN_BEFORE.search(before)) and rng.random() < 0.7:
                return f"{rng.choice(('which', 'what'))} {noun.group(1)}"
            if _PERSON_AFTER.match(after) or _PERSON_BEFORE.search(before):
                return "who"
            if _PLACE_BEFORE.search(before) and rng.random() < 0.5:
                return rng.choice(("where", "where", "which city", "which country", "what place"))
        return rng.choice(ASKING[kind])


def _sentences(passage: Passage) -> list[str]:
    return [passage.text[s.start : s.end].strip() for s in sentences(passage)]


def _alike(
    passages: Sequence[Passage], rng: random.Random, most: int = 12
) -> list[tuple[str, tuple[int, int], Passage]]:
    """Sentences, a span of each, and another passage that holds the same words and speaks of like things."""
    where: dict[str, list[tuple[str, tuple[int, int], int]]] = defaultdict(list)
    for i, p in enumerate(passages):
        for sentence in _sentences(p):
            if 7 <= len(sentence.split()) <= 40:
                for kind in ("name", "date"):
                    for start, end in spans(sentence, kind):
                        where[sentence[start:end]].append((sentence, (start, end), i))
    kept: dict[int, frozenset[str]] = {}

    def stems(i: int) -> frozenset[str]:
        if i not in kept:
            kept[i] = frozenset(map(stem, content_words(passages[i].text)))
        return kept[i]

    out = []
    for answer, found in where.items():
        if len({i for *_, i in found}) < 2:
            continue
        own = set(map(stem, words(answer)))
        for sentence, span, i in rng.sample(found, min(most, len(found))):
            said = set(map(stem, content_words(sentence))) - own
            for j in (
                rng.sample(sorted({k for *_, k in found} - {i}), 1) if len({k for *_, k in found}) > 1 else ()
            ):
                shared = said & (stems(j) - own)
                if 3 <= len(shared) <= 0.8 * len(said):
                    out.append((sentence, span, passages[j]))
    return out
