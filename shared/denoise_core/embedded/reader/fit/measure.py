"""Figures of a reader on questions: how often its answer is right, and how well it tells right answers from wrong.

Wrong answers are what noise makes of them: a name or number from a passage that is no evidence, a span of the
same kind from there, another span of the right passage.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from denoise_core.embedded.reader.calibration import Calibration
from denoise_core.embedded.reader.closest import overlap
from denoise_core.embedded.reader.features import Row
from denoise_core.embedded.reader.fit.cloze import kind_of, spans
from denoise_core.embedded.reader.span_reader import Fit, Reads, SpanReader
from denoise_core.embedded.reader.spans import Logits
from denoise_core.embedded.reader.windows import windows
from denoise_core.evaluate.metrics import bootstrap
from denoise_core.question import Question
from denoise_core.text.words import content_words, without_articles, words
from denoise_core.types import Passage

FLOORS = (0.2, 0.35, 0.5)
Rule = Callable[[Fit], float]
RULES: dict[str, Rule] = {
    "own": lambda f: f.own,
    "ahead": lambda f: f.ahead,
    "ahead and own": lambda f: f.ahead + 0.5 * f.own,
    "own and holds": lambda f: f.own + f.holds,
    "ahead and holds": lambda f: f.ahead + f.holds,
}


class Kept:
    """A network that keeps what it said of the rows of one question: figures ask for most of them many times."""

    def __init__(self, network: Reads) -> None:
        self._network = network
        self._known: dict[tuple[int, ...], Logits] = {}

    def forget(self) -> None:
        self._known.clear()

    def logits(self, rows: Sequence[Row]) -> list[Logits]:
        new = list({r.ids: r for r in rows if r.ids not in self._known}.values())
        self._known.update(zip((r.ids for r in new), self._network.logits(new), strict=True))
        return [self._known[r.ids] for r in rows]


@dataclass(frozen=True, slots=True)
class Case:
    """One candidate for a question: what it is, and how it fits; ``kind`` is "right" or the way it is wrong."""

    question: int
    kind: str
    candidate: str
    fit: Fit


def usable(questions: Iterable[Question]) -> list[Question]:
    """Those whose answer stands in a gold passage."""
    out = []
    for q in questions:
        gold = [p for p in q.passages if p.id in q.gold]
        asks = bool(q.answers) and q.answers[0].strip().lower() not in ("yes", "no")
        if asks and any(_stands(p.text, a) for p in gold for a in q.answers):
            out.append(q)
    return out


class Figures:
    """Figures over questions, one question at a time."""

    def __init__(self, seed: int = 0) -> None:
        self.cases: list[Case] = []
        self.rows: dict[str, list[float]] = {}
        self._rng = random.Random(seed)
        self._count = 0

    def add(self, reader: SpanReader, q: Question, other: Question) -> None:
        """Answers from gold passages alone, from all, and from those that hold none; candidates judged with the
        question, and as a control with ``other``."""
        gold = tuple(p for p in q.passages if p.id in q.gold)
        rest = tuple(
            p for p in q.passages if p.id not in q.gold and not any(_stands(p.text, a) for a in q.answers)
        )
        for name, passages in (("gold", gold), ("all", q.passages), ("no gold", rest)):
            if passages:
                found = reader.answers(q.text, passages, 1)
                text = found[0].text if found else ""
                if name != "no gold":
                    self._note(f"{name}, exact", exact(text, q.answers))
                    self._note(f"{name}, exact or contained", contained(text, q.answers))
                self._note(f"{name}, holds", found[0].holds if found else 0.0)
        made = candidates(reader, q, self._rng)
        plain = [(k, c) for k, c in made if "sentence" not in k]
        for lead, asked, tried in (("", q, made), ("control: ", other, plain)):
            fits = reader.fits(asked.text, [c for _, c in tried], q.passages)
            self.cases += [Case(self._count, lead + k, c, f) for (k, c), f in zip(tried, fits, strict=True)]
        self._count += 1

    def summary(self, calibration: Calibration) -> dict[str, Any]:
        """Shares with 95 % intervals, `curves`, and what share of each kind of candidate the threshold passes."""
        out: dict[str, Any] = {"questions": self._count}
        for name, values in self.rows.items():
            if name.endswith("holds"):
                out[name] = {f"above {x}": round(float(np.mean(np.array(values) > x)), 3) for x in FLOORS}
            else:
                low, high = bootstrap(np.array(values))
                out[name] = f"{np.mean(values):.3f} ({low:.3f} to {high:.3f})"
        passed: dict[str, list[bool]] = {}
        for c in self.cases:
            p = calibration.probability(c.fit.own, c.fit.holds)
            passed.setdefault(c.kind, []).append(p >= calibration.threshold)
        out["passed at the threshold"] = {k: round(float(np.mean(v)), 3) for k, v in sorted(passed.items())}
        return {**out, "right against wrong, AUC": curves(self.cases)}

    def _note(self, name: str, value: float) -> None:
        self.rows.setdefault(name, []).append(float(value))


def candidates(reader: SpanReader, q: Question, rng: random.Random) -> list[tuple[str, str]]:
    """Kinds and candidates: the right answer, wrong ones, and both as sentences."""
    gold = [p for p in q.passages if p.id in q.gold]
    right = next(a for a in q.answers if any(_stands(p.text, a) for p in gold))
    rest = [p for p in q.passages if p.id not in q.gold and not any(_stands(p.text, a) for a in q.answers)]
    made = [("right", right)]
    texts = _closest(reader, q, rest)
    kind = kind_of(right)
    if name := _pick(_spans(texts, "name") + _spans(texts, "number"), q, rng):
        made.append(("wrong name", name))
    alike = _spans(texts, kind)
    if same := _pick(alike, q, rng):
        made.append(("wrong, same kind", same))
    if balanced := _pick([s for s in alike if abs(len(s.split()) - len(right.split())) <= 1], q, rng):
        made.append(("wrong, same kind and length", balanced))
    holding = [p.text for p in gold if any(_stands(p.text, a) for a in q.answers)]
    if other := _pick(_spans(holding, kind) or _spans(holding, "name"), q, rng):
        made.append(("other span of the passage", other))
    said = [(k, c) for k, c in made if k in ("right", "wrong name", "wrong, same kind")]
    return made + [(f"{k}, as a sentence", sentence(q.text, c, rng)) for k, c in said]


def curves(found: Sequence[Case]) -> dict[str, dict[str, Any]]:
    """For each way to be wrong the AUC of right against wrong by each of `RULES`, right and wrong ones counted."""
    out: dict[str, dict[str, Any]] = {}
    for kind in sorted({c.kind for c in found}):
        if kind.endswith("right") or kind.startswith("right"):
            continue
        lead = "control: " if kind.startswith("control: ") else ""
        right = f"{lead}right" + (", as a sentence" if kind.endswith("as a sentence") else "")
        wrong = [c for c in found if c.kind == kind]
        asked = {c.question for c in wrong}
        rights = [c for c in found if c.kind == right and c.question in asked]
        out[kind] = {"pairs": len(wrong)} | {
            name: round(auc([rule(c.fit) for c in rights], [rule(c.fit) for c in wrong]), 3)
            for name, rule in RULES.items()
        }
    return out


def auc(right: Sequence[float], wrong: Sequence[float]) -> float:
    """Chance that a right one scores above a wrong one, ties half."""
    a, b = (np.nan_to_num(np.array(x), nan=-1e9, neginf=-1e9, posinf=1e9) for x in (right, wrong))
    if not len(a) or not len(b):
        return float("nan")
    return float((a[:, None] > b[None, :]).mean() + 0.5 * (a[:, None] == b[None, :]).mean())


def exact(text: str, answers: Sequence[str]) -> bool:
    """Whether the text is an answer, but for case, punctuation and articles."""
    return any(_plain(text) == _plain(a) for a in answers if _plain(a))


def contained(text: str, answers: Sequence[str]) -> bool:
    """Whether an answer stands in the text, in whole words."""
    return any(_stands(text, a) for a in answers)


def sentence(question: str, answer: str, rng: random.Random) -> str:
    """The answer said as a sentence, in one of a few ways."""
    asked = re.sub(r"(?i)^(?:who|what|when|where|which|how many|how much|how|in which|in what)\s+", "", question)
    asked = asked.rstrip(" ?.")
    return rng.choice(
        (
            f"The answer is {answer}.",
            f"It was {answer}.",
            f"{answer} {asked}.",
            f"According to the text, {answer}.",
        )
    )


def _closest(reader: SpanReader, q: Question, passages: Sequence[Passage], count: int = 4) -> list[str]:
    """Texts of the windows of ``passages`` that share most with the question."""
    cut = [(p, w) for p in passages for w in windows(p, reader.tokens)]
    score = overlap(reader.tokens.pieces(q.text).ids, [w for _, w in cut], reader.tokens)
    best = sorted(range(len(cut)), key=lambda i: -score[i])[:count]
    return [cut[i][0].text[cut[i][1].start : cut[i][1].end] for i in best]


def _spans(texts: Iterable[str], kind: str) -> list[str]:
    return [t[a:b] for t in texts for a, b in spans(t, kind)]


def _pick(found: Sequence[str], q: Question, rng: random.Random) -> str | None:
    """One that shares no content word with an answer and says something that the question does not."""
    answers = {w for a in q.answers for w in content_words(a)}
    asked = set(content_words(q.text))
    usable = [
        s for s in dict.fromkeys(found) if (w := set(content_words(s))) and not w & answers and not w <= asked
    ]
    return rng.choice(usable) if usable else None


def _plain(text: str) -> list[str]:
    return without_articles(words(text))


def _stands(text: str, answer: str) -> bool:
    wanted = " ".join(_plain(answer))
    return bool(wanted) and f" {wanted} " in f" {' '.join(_plain(text))} "
