"""Wrong answers as noise makes them: facts of the right answer's own type, from passages that do not hold it."""

from __future__ import annotations

import random

from denoise_core.question import Question
from denoise_core.text.facts import Fact, facts
from denoise_core.text.words import words

TYPES = ("date", "number", "name")


def from_distractor(question: Question, rng: random.Random) -> str:
    """A fact of a passage that is not gold, of the right answer's type; '' where there is none."""
    own = type_of(question.answers[0])
    if own is None:
        return ""
    found = {
        t
        for p in question.passages
        if p.id not in question.gold
        for t in typed(p.text, own)
        if differs(t, question)
    }
    return rng.choice(sorted(found)) if found else ""


def other_span(question: Question, rng: random.Random) -> str:
    """Another span of the right passage, of the right answer's type where there is one; '' where there is none."""
    gold = next(p for p in question.passages if p.id in question.gold)
    own = type_of(question.answers[0])
    for kinds in ((own,) if own else (), TYPES):
        found = {t for kind in kinds for t in typed(gold.text, kind) if differs(t, question)}
        if found:
            return rng.choice(sorted(found))
    return ""


def typed(text: str, kind: str) -> list[str]:
    """The facts of one kind in a text, as they stand there."""
    return [text[f.start : f.end].strip() for f in facts(text, language="en") if f.kind == kind and not f.doubtful]


def type_of(answer: str) -> str | None:
    """The kind of fact that makes up most of an answer."""
    found = [f for f in facts(f"It is {answer}", language="en") if f.kind in TYPES]
    best: Fact | None = max(found, key=lambda f: f.end - f.start, default=None)
    return best.kind if best and 2 * (best.end - best.start) >= len(answer) else None


def differs(text: str, question: Question) -> bool:
    """It shares no word with a right answer, and is not in the question."""
    own = set(words(text))
    right = {w for a in question.answers for w in words(a)}
    return bool(own) and not own & right and not own <= set(words(question.text))
